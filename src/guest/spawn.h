/* Making a process: fork, and what the child does until exec. Failures of the child come back over a pipe. */
#pragma once

#include "wire/guest_frame.h"

#include <sys/resource.h>
#include <sys/types.h>

/* A request that cannot be carried out: what the client is told. */
struct failure {
    int code;   /* errno value; 0 = none */
    char *text; /* owned; NULL when there was no memory for it */
};

/* Joins the texts, up to NULL, into the failure's, which is empty before. */
void failure_set(struct failure *f, int code, ...) __attribute__((sentinel));
void failure_clear(struct failure *f);

struct spawn {
    char **argv; /* both owned, each one block of memory */
    char **env;
    char *cwd; /* owned; NULL = "/" */
    gid_t *groups;
    size_t group_count;
    bool set_uid, set_gid;
    uid_t uid;
    gid_t gid;
    bool tty; /* stdio[0] becomes the controlling terminal */
    int stdio[3];
    uint64_t mark;
};

/* From the fields of GUEST_START. Checks all but what only the kernel can tell. */
bool spawn_read(struct spawn *s, const struct guest_frame *frame, const struct guest_fields *fields,
                struct failure *why);
void spawn_clear(struct spawn *s);
/* Gives s what it was not told from another start: environment (names it has stay), directory, user, groups. */
bool spawn_inherit(struct spawn *s, const struct spawn *from);

/* The soft limit of open files of the guest is raised at its start; children get the former one back. */
void spawn_raise_files(void);

/* Children get at most these capabilities: fewer than the guest needs to set users and to kill. */
void spawn_limit_caps(uint64_t keep);

/* What the child writes to the status pipe when it cannot exec; the pipe just ends when it can. */
struct spawn_status {
    int step; /* enum step */
    int code;
};

/* Returns the pid, or -errno. status is the writing end of a close-on-exec pipe. */
pid_t spawn_process(const struct spawn *s, int status);
void spawn_explain(const struct spawn *s, const struct spawn_status *status, struct failure *why);
