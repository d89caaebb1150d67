/*
 * The started processes: their streams, their end, and the record that stays of them.
 *
 * Life of one: process_start forks; its status pipe tells whether exec succeeded; it is reaped; it is finished when its
 * output is read too; the end is told to the clients that are attached; later its record expires.
 */
#pragma once

#include "guest/loop.h"
#include "guest/ring.h"
#include "guest/spawn.h"

struct connection;
struct process;

struct stream {
    struct process *process;
    struct watch watch; /* the reading end; closed at the end of the output */
    struct ring ring;
    bool throttled;      /* not read because the lossless client is behind */
    uint32_t after_exit; /* bytes read since the process was reaped */
};

struct process {
    struct process *next;
    char id[GUEST_ID_MAX + 1];
    uint32_t flags; /* enum guest_flag, as asked; EXITED once reaped; TIMED_OUT */
    pid_t pid;
    uint64_t mark;
    int64_t started_ms;       /* since 1970 */
    int code, sig;            /* with GUEST_FLAG_EXITED */
    bool started;             /* exec succeeded */
    bool finished;            /* reaped and read: the end may be told */
    bool told;                /* the end was told to someone */
    bool expired;             /* its record goes as soon as nothing needs it */
    struct spawn spawn;       /* until it is started */
    struct guest_buffer args; /* argv as fields of GUEST_PROCESS */
    struct watch status;
    struct watch input;          /* the writing end of its stdin */
    struct guest_buffer pending; /* input it did not take yet */
    bool input_ends;             /* close the input when pending is empty */
    struct stream streams[GUEST_STREAM_COUNT];
    int64_t kill_again_ms;
    struct timer timeout; /* of timeout_ms; then for the repeated killing of its tree */
    struct timer hangup;
    struct timer settle; /* between the exit and the end of waiting for output; then until the record expires */
    struct connection *clients;
};

/* NULL: *why says it. The caller attaches itself; the answer comes by way of connection_started or connection_failed.
 */
struct process *process_start(const struct guest_frame *frame, const struct guest_fields *fields, struct failure *why);
struct process *process_find(const char *id, size_t len);
struct process *process_first(void);

/* true when there is nothing left to reap. */
bool process_reap_all(void);
bool process_all_finished(void);
/* The one started with GUEST_FLAG_MAIN, or NULL. */
struct process *process_main(void);
size_t process_count_running(void);

/* Clients come and go. Detaching may end the process or free the record. */
void process_attach(struct process *p, struct connection *c);
void process_detach(struct process *p, struct connection *c);
/* The clients of p have read on: what was held back for them may go on. */
void process_unthrottle(struct process *p);
/* The end was told to a client. */
void process_told(struct process *p);

/* Input. While process_input_waits, no more should be given. */
void process_input(struct process *p, const void *data, size_t len);
void process_input_end(struct process *p);
bool process_input_waits(const struct process *p);
void process_resize(struct process *p, uint32_t rows, uint32_t cols);
/* 0 or errno. */
int process_signal(struct process *p, int sig, enum guest_scope scope);
