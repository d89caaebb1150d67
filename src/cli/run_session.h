/*
 * One sandbox from start to end, connected with the standard input and output of this process: streams or a terminal,
 * signals, the exit status. One poll loop over the guest protocol (wire/guest_frame.h).
 */
#pragma once

#include "node/native/native.h"
#include "node/user.h"

struct run_session {
    char *const *argv, *const *env;
    const char *workdir; /* NULL = "/" */
    const struct image_user *user;
    bool tty, use_stdin;
    uint64_t timeout_ms; /* 0 = none */
    uint64_t memory_limit;
    int range; /* the descriptor that holds the user ids; borrowed */
};

#define RUN_STATUS_TIMEOUT 124
#define RUN_STATUS_CANNOT_EXECUTE 126
#define RUN_STATUS_NOT_FOUND 127

/*
 * Starts the sandbox of spec (guest_socket is set here), serves it and removes it. Returns the status for the shell:
 * that of the command, 128 + signal, or one of the above; -errno when holt failed. Messages about the command's end
 * (out of memory, time) go to standard error.
 */
int run_session(const struct run_session *session, struct native_spec *spec, struct error *err);
