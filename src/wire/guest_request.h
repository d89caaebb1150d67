/*
 * Guest operations as C values: encoding of requests, decoding of answers. No event loop: guest_client.h drives these
 * with libevent; a program that runs one process only may drive them itself.
 *
 * The guest is not trusted: every answer is checked, and a text from it is shown as it is, so escape it where it goes.
 */
#pragma once

#include "base/error.h"
#include "wire/guest_frame.h"

struct guest_start_request {
    const char *id;          /* NULL: the guest makes one */
    const char *const *argv; /* NULL-terminated, at least one */
    const char *const *env;  /* NULL-terminated "NAME=value"; NULL = empty. Without a PATH the usual one is searched. */
    const char *cwd;         /* NULL = "/" */
    bool set_uid, set_gid;
    uint32_t uid, gid;
    const uint32_t *groups; /* supplementary */
    size_t group_count;
    uint32_t flags;      /* enum guest_flag: TTY, STDIN, HUP_ON_CLOSE, MAIN, LOSSLESS */
    uint16_t rows, cols; /* of the terminal; 0 = 24 by 80 */
    uint64_t timeout_ms; /* 0 = none */
    uint32_t ring_bytes; /* 0 = GUEST_RING_DEFAULT */
};

/* A request above GUEST_PAYLOAD_MAX is E2BIG; out is empty then. */
int guest_request_start(struct guest_buffer *out, const struct guest_start_request *request, struct error *err);
/* flags: STDIN, LOSSLESS. An offset is where to go on: 0 = all that is kept, GUEST_OFFSET_END = only what is new. */
int guest_request_attach(struct guest_buffer *out, const char *id, uint64_t stdout_offset, uint64_t stderr_offset,
                         uint32_t flags, struct error *err);
int guest_request_signal(struct guest_buffer *out, const char *id, int sig, enum guest_scope scope, struct error *err);
int guest_request_shutdown(struct guest_buffer *out, uint64_t grace_ms, struct error *err);
int guest_request_connect(struct guest_buffer *out, uint16_t port, struct error *err);
/* GUEST_PING and GUEST_LIST. */
int guest_request_plain(struct guest_buffer *out, enum guest_frame_type type, struct error *err);

struct guest_exit {
    int code;       /* 0..255; 128 + signal */
    int sig;        /* 0 = it ended by itself */
    bool timed_out; /* killed by its timeout_ms */
};

struct guest_process_info {
    char *id;
    char **argv; /* NULL-terminated; long ones are cut */
    uint32_t pid;
    uint32_t flags; /* TTY, MAIN, EXITED, TIMED_OUT */
    int64_t started_ms;
    struct guest_exit exit; /* with GUEST_FLAG_EXITED */
};

struct guest_pong {
    uint32_t version;
    uint32_t count; /* processes that run */
};

/* A frame from the guest, taken apart. type says which member holds. */
struct guest_reply {
    enum guest_frame_type type; /* GUEST_PONG .. GUEST_DONE */
    union {
        struct guest_pong pong;
        struct {
            char *id;
            uint32_t pid;
        } started;
        struct {
            int code; /* errno value, always > 0 */
            char *text;
        } error;
        struct {
            enum guest_stream stream;
            uint64_t offset;
            const uint8_t *data; /* borrowed from the frame */
            size_t len;
        } output;
        struct {
            enum guest_stream stream;
            uint64_t bytes;
        } dropped;
        struct guest_exit exit;
        struct guest_process_info process;
    };
};

/* EPROTO for what a guest must not send. *ret is to be freed after success only. */
int guest_reply_parse(const struct guest_frame *frame, struct guest_reply *ret, struct error *err);
void guest_reply_free(struct guest_reply *reply);
