/*
 * Where the control groups of this machine are: found from /proc/self/mountinfo, never assumed.
 * Version 1 (also the hybrid form, where a version 2 tree without the controllers we need is mounted beside) and
 * version 2. Pure; the files are read by cgroup.c.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>

enum cgroup_controller {
    CGROUP_MEMORY,
    CGROUP_PIDS,
    CGROUP_CPU,
    CGROUP_CPUACCT, /* version 1 */
    CGROUP_FREEZER, /* version 1 */
    CGROUP_DEVICES, /* version 1 */
    CGROUP_IO,      /* version 2 */
    CGROUP_CONTROLLER_COUNT,
};

struct cgroup_layout {
    int version;                           /* 0 = no usable control groups */
    char *mounts[CGROUP_CONTROLLER_COUNT]; /* directories, NULL = not there; on version 2 all point to the same */
    char *unified;                         /* of version 2, also in the hybrid form; NULL = not mounted */
};

const char *cgroup_controller_name(enum cgroup_controller c);

/*
 * mountinfo: the text of /proc/self/mountinfo. v2_controllers: of the root's cgroup.controllers, NULL = none. Fills
 * *ret, which the caller frees by cgroup_layout_done().
 */
void cgroup_layout_parse(const char *mountinfo, const char *v2_controllers, struct cgroup_layout *ret);
/* The mount point of version 2, malloc'd, or NULL: to know which file to read for v2_controllers. */
char *cgroup_layout_find_unified(const char *mountinfo);
void cgroup_layout_done(struct cgroup_layout *l);
