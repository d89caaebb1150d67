/*
 * Control groups of sandboxes: PARENT/ID below the mount point of each controller (PARENT: native_set_cgroup_parent()).
 * The functions of native.h that take an id are implemented here; these are the steps of a start.
 */
#pragma once

#include "base/error.h"
#include "node/native/cgroup_layout.h"
#include "node/native/native.h"

#include <stdbool.h>

/* How a process gets in: descriptors owned by the holder, -1 = none. */
struct cgroup_entry {
    int procs[CGROUP_CONTROLLER_COUNT]; /* version 1: "0" written to each moves the writer */
    size_t procs_count;
    int dir; /* version 2: for CLONE_INTO_CGROUP */
};
#define CGROUP_ENTRY_INIT                                                                                              \
    {                                                                                                                  \
        .procs_count = 0, .dir = -1                                                                                    \
    }

/*
 * Makes the groups with their limits; one that exists already is emptied and used again. only_limits: join only
 * controllers that enforce one of the limits (and pids), without accounting and freezer. With strict a limit that
 * cannot be enforced is an error naming the controller.
 */
int cgroup_create(const char *id, const struct native_limits *limits, bool only_limits, bool strict,
                  struct cgroup_entry *ret, struct error *err);
void cgroup_entry_done(struct cgroup_entry *entry);
/* Moves the caller in (version 1). */
int cgroup_enter(const int *procs, size_t count, struct error *err);
/* Removes the groups; -EBUSY while a process is in. Not an error when there are none. */
int cgroup_remove(const char *id, struct error *err);

/* Borrowed descriptors of the directories in which the groups made so far are; returns how many. */
size_t cgroup_parents(int fds[CGROUP_CONTROLLER_COUNT]);

/* The layout in use; found at the first call. */
const struct cgroup_layout *cgroup_layout_get(void);
/* For tests: takes over *layout; NULL = to be found again. */
void cgroup_layout_set(struct cgroup_layout *layout);

/* An O_PATH descriptor of the sandbox's directory for a controller, or of any one (CGROUP_CONTROLLER_COUNT). */
int cgroup_open(const char *id, enum cgroup_controller c, struct error *err);
