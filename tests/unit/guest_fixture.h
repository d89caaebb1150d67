/* A real holt-guest outside of any sandbox, and runs of processes in it by way of wire/guest_client.h. */
#pragma once

#include "test.h"

#include "base/strbuf.h"
#include "wire/guest_client.h"

struct guest_fixture {
    struct event_base *base;
    pid_t pid; /* of the guest */
    int dir;
    char path[64];
};

/* listening = false: the guest has one connection; *ret_fd is our end of it. */
void fixture_start(struct guest_fixture *f, bool listening, int *ret_fd);
/* Kills what is left. */
void fixture_stop(struct guest_fixture *f);
/* Waits for the guest to end by itself; its exit code, or -1 after timeout_ms. */
int fixture_wait_guest(struct guest_fixture *f, int timeout_ms);
/* As setup and teardown of cmocka. */
int fixture_setup(void **state);
int fixture_teardown(void **state);
int fixture_connect(struct guest_fixture *f);

/* All that came of one operation. */
struct run {
    struct guest_client *client;
    struct guest_fixture *f;
    struct strbuf out[GUEST_STREAM_COUNT];
    uint64_t next[GUEST_STREAM_COUNT]; /* the offset that has to follow */
    uint64_t bytes[GUEST_STREAM_COUNT];
    uint64_t dropped[GUEST_STREAM_COUNT];
    bool keep; /* the output, in out; else it is counted only */
    bool started, exited, done, failed;
    char id[GUEST_ID_MAX + 1];
    uint32_t pid;
    struct guest_exit exit;
    struct guest_pong pong;
    struct strbuf list; /* one line for each process: "id state argv0" */
    struct error error;
    int64_t ended_ns;
};

/* argv is "sh -c script". request may be NULL; its argv is set here. */
void run_sh(struct guest_fixture *f, struct run *r, const char *script, const struct guest_start_request *request);
void run_request(struct guest_fixture *f, struct run *r, const struct guest_start_request *request);
void run_attach(struct guest_fixture *f, struct run *r, const char *id, uint64_t out, uint64_t err, uint32_t flags);
void run_list(struct guest_fixture *f, struct run *r);
/* Turns the loop until the run has ended, or fails the test after timeout_ms. */
void run_wait(struct run *r, int timeout_ms);
/* Until *flag, or the text shows up in its output. */
void run_wait_flag(struct run *r, const bool *flag, int timeout_ms);
void run_wait_text(struct run *r, enum guest_stream stream, const char *text, int timeout_ms);
void run_free(struct run *r);
/* Turns the loop for a while. */
void fixture_turn(struct guest_fixture *f, int ms);
extern const struct guest_callbacks run_callbacks;
const char *run_out(const struct run *r);
/* Processes that carry the environment variable HOLT_TEST=value. */
int count_marked(const char *value);
