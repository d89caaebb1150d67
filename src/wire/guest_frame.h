/*
 * The guest protocol: how holt talks to holt-guest, the first process of every sandbox. This file is its manual, and
 * the codec both sides share; it needs libc alone, so that it also builds for the static guest.
 *
 * One connection carries one operation. The first frame, from the client, names it; the guest answers and closes.
 * A frame is
 *
 *     u32 length of the payload | u8 type | three zero bytes | payload
 *
 * with all numbers little endian. The payload of GUEST_STDIN is bytes; that of GUEST_STDOUT and GUEST_STDERR is the u64
 * offset of its first byte in the stream, then bytes. Every other payload is a list of fields
 *
 *     u16 tag | u32 length | value
 *
 * where a value is a u32, a u64 or text without NUL bytes, by tag. frame_rules in guest_frame.c says which fields a
 * frame may and must have. Anything else is an error that ends the connection: an unknown type or tag, a field twice
 * that may be there once, a wrong size, a length above the limit.
 *
 *  request         fields                                     answer
 *  GUEST_PING                                                 GUEST_PONG(version, count of running processes)
 *  GUEST_START     arg*, env*, id, cwd, uid, gid, group*,     GUEST_STARTED(id, pid) or GUEST_ERROR(code, text), then
 *                  rows, cols, flags, timeout_ms, ring_bytes  the connection is attached
 *  GUEST_ATTACH    id, stdout_offset, stderr_offset, flags    the same
 *  GUEST_LIST                                                 GUEST_PROCESS each, GUEST_DONE
 *  GUEST_SIGNAL    id ("*" is all), signal, scope             GUEST_DONE or GUEST_ERROR
 *  GUEST_SHUTDOWN  grace_ms                                   GUEST_DONE when nothing runs any more; the guest ends
 *  GUEST_CONNECT   port                                       GUEST_DONE or GUEST_ERROR
 *
 * On an attached connection the client sends GUEST_STDIN, GUEST_STDIN_EOF, GUEST_RESIZE(rows, cols) and
 * GUEST_SIGNAL(signal, scope); it gets GUEST_STDOUT, GUEST_STDERR, GUEST_DROPPED(stream, bytes) and, last,
 * GUEST_EXIT(code, signal, flags). The client's end of sending is the end of the connection.
 *
 * Output. The guest keeps the newest ring_bytes of each stream. A client that attaches at an offset gets what is kept
 * from there on, then what follows, and GUEST_DROPPED for what is gone. A slow client misses output; the process is
 * never held up, except for a sole client that asked for GUEST_FLAG_LOSSLESS: then the process waits while that client
 * is behind by a full ring. A terminal has one stream, stdout.
 *
 * Input. What a process does not read stays in the socket: the guest reads no further frame of a client whose input
 * waits. Input that is not yet taken when the client goes away is lost. Without GUEST_FLAG_STDIN it is /dev/null; the
 * end of the input of a terminal is its end-of-file character.
 *
 * End. GUEST_EXIT comes after all output that was written before the process ended. Descendants that keep the output
 * open are waited for during 100 ms and then read on without a listener, so that they neither block nor die. code is
 * the exit code, or 128 + signal. The record of an ended process stays for 60 s after its end was told, at most 256 of
 * them. A process with GUEST_FLAG_MAIN takes the sandbox with it: everything is killed, and the guest itself ends with
 * its code as soon as the end was told to someone, or after 10 s.
 *
 * Ports. After GUEST_DONE to GUEST_CONNECT there are no frames any more: the socket carries the bytes of a connection
 * to that port of the sandbox's own loopback, the end of each direction included.
 *
 * A start that fails gives GUEST_ERROR with an errno value and a sentence: ENOENT for a missing executable, ENOTDIR for
 * the working directory, EACCES, ENOEXEC, EEXIST for an id in use, EAGAIN at the limit of processes, EINVAL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GUEST_PROTOCOL_VERSION 1
#define GUEST_HEADER_SIZE 8
#define GUEST_PAYLOAD_MAX (1024 * 1024)   /* from the client */
#define GUEST_REPLY_MAX (128 * 1024)      /* from the guest */
#define GUEST_OUTPUT_CHUNK (64 * 1024)    /* bytes of output in one frame, at most */
#define GUEST_RING_DEFAULT (256 * 1024)   /* bytes kept of each stream */
#define GUEST_RING_MIN 4096               /* smaller wishes are raised */
#define GUEST_RING_MAX (16 * 1024 * 1024) /* larger ones are lowered */
#define GUEST_ID_MAX 63                   /* [A-Za-z0-9._-], not starting with a dot */
#define GUEST_OFFSET_END UINT64_MAX       /* attach to what comes from now on */
#define GUEST_ID_ALL "*"
#define GUEST_MAIN_ID "main" /* what the node calls the process of the container */

enum guest_frame_type {
    GUEST_PING = 1,
    GUEST_START,
    GUEST_ATTACH,
    GUEST_LIST,
    GUEST_SIGNAL,
    GUEST_SHUTDOWN,
    GUEST_STDIN,
    GUEST_STDIN_EOF,
    GUEST_RESIZE,
    GUEST_PONG,
    GUEST_STARTED,
    GUEST_ERROR,
    GUEST_STDOUT,
    GUEST_STDERR,
    GUEST_DROPPED,
    GUEST_EXIT,
    GUEST_PROCESS,
    GUEST_DONE,
    GUEST_CONNECT, /* behind the others: numbers stay as guests that run know them */
    GUEST_FRAME_TYPE_END
};

enum guest_tag {
    GUEST_TAG_ID = 1,
    GUEST_TAG_ARG,
    GUEST_TAG_ENV, /* NAME=value */
    GUEST_TAG_CWD,
    GUEST_TAG_UID,
    GUEST_TAG_GID,
    GUEST_TAG_GROUP, /* a supplementary group */
    GUEST_TAG_ROWS,
    GUEST_TAG_COLS,
    GUEST_TAG_FLAGS, /* enum guest_flag */
    GUEST_TAG_TIMEOUT_MS,
    GUEST_TAG_RING_BYTES,
    GUEST_TAG_STDOUT_OFFSET,
    GUEST_TAG_STDERR_OFFSET,
    GUEST_TAG_SIGNAL,
    GUEST_TAG_SCOPE, /* enum guest_scope */
    GUEST_TAG_GRACE_MS,
    GUEST_TAG_PID,
    GUEST_TAG_CODE,
    GUEST_TAG_TEXT,
    GUEST_TAG_STREAM, /* enum guest_stream */
    GUEST_TAG_BYTES,
    GUEST_TAG_STARTED_MS, /* since 1970 */
    GUEST_TAG_VERSION,
    GUEST_TAG_COUNT,
    GUEST_TAG_PORT,
    GUEST_TAG_END
};

enum guest_flag {
    GUEST_FLAG_TTY = 1 << 0,
    GUEST_FLAG_STDIN = 1 << 1,
    GUEST_FLAG_HUP_ON_CLOSE = 1 << 2, /* last client gone: SIGHUP to the process group, SIGKILL 2 s later */
    GUEST_FLAG_MAIN = 1 << 3,
    GUEST_FLAG_LOSSLESS = 1 << 4,
    GUEST_FLAG_TIMED_OUT = 1 << 5, /* ended by its timeout_ms */
    GUEST_FLAG_EXITED = 1 << 6,
    GUEST_FLAG_INHERIT = 1 << 7, /* environment, directory, user and groups as the main process, unless given */
};

enum guest_scope {
    GUEST_SCOPE_PROCESS,
    GUEST_SCOPE_GROUP, /* its process group */
    GUEST_SCOPE_TREE,  /* all it started, wherever that went */
};

enum guest_stream { GUEST_STREAM_STDOUT, GUEST_STREAM_STDERR, GUEST_STREAM_COUNT };

struct guest_frame {
    enum guest_frame_type type;
    const uint8_t *payload; /* borrowed */
    uint32_t len;
};

/*
 * Looks at the start of data. 1: *ret is a frame of *ret_size bytes. 0: more is needed, *ret_size in all as far as is
 * known. -EPROTO: not this protocol, or a payload above payload_max.
 */
int guest_frame_parse(const void *data, size_t len, size_t payload_max, struct guest_frame *ret, size_t *ret_size);

/* The payload of GUEST_STDOUT and GUEST_STDERR. false: no byte of output in it. */
bool guest_frame_output(const struct guest_frame *f, uint64_t *ret_offset, const uint8_t **ret_data, size_t *ret_len);

struct guest_value {
    const uint8_t *data; /* text, borrowed and not terminated; NULL for numbers */
    uint32_t len;
    uint64_t number;
};

/* The fields of a frame; of a repeated one, the first. */
struct guest_fields {
    struct guest_value value[GUEST_TAG_END];
    uint32_t present; /* 1 << tag */
};

/* Checks all of the frame against its rule. 0 or -EPROTO. */
int guest_fields_parse(const struct guest_frame *f, struct guest_fields *ret);

static inline bool guest_has(const struct guest_fields *f, enum guest_tag tag)
{
    return f->present & (1u << tag);
}

static inline uint64_t guest_number(const struct guest_fields *f, enum guest_tag tag, uint64_t fallback)
{
    return guest_has(f, tag) ? f->value[tag].number : fallback;
}

/* A malloc'd terminated copy; NULL when the field is not there (or memory is not). */
char *guest_text(const struct guest_fields *f, enum guest_tag tag);

/* The next field with this tag of a frame that guest_fields_parse accepted. *pos starts at 0. */
bool guest_field_next(const struct guest_frame *f, size_t *pos, enum guest_tag tag, struct guest_value *ret);

/* Bytes on their way in or out. Zero-initialised is empty; failed stays set once memory ran out or a frame was too
 * long. */
struct guest_buffer {
    uint8_t *data;
    size_t start; /* the content is data[start .. end) */
    size_t end;
    size_t size;
    size_t frame; /* where the frame being written begins */
    bool failed;
};

static inline size_t guest_buffer_len(const struct guest_buffer *b)
{
    return b->end - b->start;
}

/* Makes room for n more bytes at data + end. */
bool guest_buffer_reserve(struct guest_buffer *b, size_t n);
void guest_buffer_add(struct guest_buffer *b, const void *data, size_t n);
/* Removes n bytes from the front; gives the memory back when nothing is left. */
void guest_buffer_consume(struct guest_buffer *b, size_t n);
void guest_buffer_free(struct guest_buffer *b);
/* Gives back the memory beyond the content, for what stays. */
void guest_buffer_trim(struct guest_buffer *b);

/* Writing frames at the end of a buffer: begin, any number of put, end. */
void guest_frame_begin(struct guest_buffer *b, enum guest_frame_type type);
void guest_put_text(struct guest_buffer *b, enum guest_tag tag, const char *text);
void guest_put_text_n(struct guest_buffer *b, enum guest_tag tag, const void *text, size_t len);
/* As u32 or u64, whichever the tag has. */
void guest_put_number(struct guest_buffer *b, enum guest_tag tag, uint64_t number);
void guest_frame_end(struct guest_buffer *b);
/* A frame whose payload is bytes. */
void guest_frame_bytes(struct guest_buffer *b, enum guest_frame_type type, const void *data, size_t len);
/* The header of an output frame and its offset, for output that is written from where it lies. */
#define GUEST_OUTPUT_HEADER_SIZE (GUEST_HEADER_SIZE + 8)
void guest_output_header(uint8_t out[GUEST_OUTPUT_HEADER_SIZE], enum guest_stream stream, uint64_t offset, size_t len);

bool guest_id_valid(const char *id, size_t len);
