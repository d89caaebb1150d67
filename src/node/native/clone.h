/*
 * Children that borrow their parent's memory, as with vfork(): nothing is copied, so that the cost does not depend on
 * the size of the parent.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

struct clone_request {
    uint64_t flags;       /* CLONE_NEW*, CLONE_PARENT, CLONE_FILES, CLONE_INTO_CGROUP */
    int cgroup;           /* with CLONE_INTO_CGROUP */
    int (*fn)(void *arg); /* what it returns is the exit status */
    void *arg;
};

/*
 * Runs fn in a child; returns when the child has executed a program or has ended. fn runs on a stack of its own with
 * all signals blocked and with handlers reset; it may allocate and may leave results in the parent's memory. It must
 * change credentials by the raw calls of sys.h only.
 * Returns the pid or -errno; *ret_pidfd is owned by the caller, who reaps.
 */
pid_t clone_and_wait_exec(const struct clone_request *request, int *ret_pidfd, struct error *err);

/*
 * A child that sleeps until it is killed and dies with its parent: a holder of namespaces (flags: CLONE_NEW*).
 * clone_idle_end() kills it, takes pidfd over, and reaps in its own time.
 */
pid_t clone_idle(uint64_t flags, int *ret_pidfd, struct error *err);
void clone_idle_end(int pidfd);

/*
 * Runs fn in a process that shares this one's memory and runs beside it, with all signals blocked, also beyond its end.
 * flags: CLONE_FILES to share descriptors too. Both run at the same time: fn must know what it may touch; system calls
 * that succeed touch nothing. ret_pidfd: for clone_reap(); NULL = nobody reaps it but init.
 */
int clone_beside(uint64_t flags, int (*fn)(void *arg), void *arg, int *ret_pidfd, struct error *err);

/* Waits until the child has ended, reaps it and closes pidfd. */
void clone_reap(int pidfd);
