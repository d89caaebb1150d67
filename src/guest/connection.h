/* Connections from the host: requests in, answers and output out. */
#pragma once

#include "guest/process.h"

struct connection {
    struct connection *next;
    struct connection *next_client; /* of the same process */
    struct watch watch;
    enum connection_state {
        CONNECTION_REQUEST,  /* its first frame is to come */
        CONNECTION_ATTACHED, /* to a process, which may still be starting */
        CONNECTION_SHUTDOWN, /* waits for the end of everything */
        CONNECTION_CLOSING,  /* closed when all is written */
        CONNECTION_LINGER,   /* told the end of the main process; closed when the client closes */
    } state;
    struct process *process;
    bool takes_input;
    bool lossless;
    bool announced;                      /* GUEST_STARTED is written */
    bool exit_given;                     /* GUEST_EXIT is written */
    uint64_t offset[GUEST_STREAM_COUNT]; /* the next byte to send */
    struct guest_buffer in, out;
};

/* Takes fd, a non-blocking stream socket. false when there is no memory. */
bool connection_open(int fd);
/* Writes what can be written: answers, output, the end. May close the connection. */
void connection_pump(struct connection *c);
/* Its process has room for input again. */
void connection_resume(struct connection *c);
/* The process could not be started; it is gone when this returns. */
void connection_failed(struct connection *c, const struct failure *why);
/* Whether anyone still is to be told something. */
bool connection_any_busy(void);
/* Tells those that wait for the end. */
void connection_finish_shutdown(void);
