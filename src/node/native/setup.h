/*
 * The steps of a start, in two halves.
 *
 * Host side (setup_host.c): everything that needs the host's paths. Lowers and volumes become detached, idmapped
 * mounts; the user namespace and the control groups are made. The result is a struct setup: one block of memory
 * without pointers and a list of descriptors, which can be used at once or sent to the zygote.
 *
 * Child side (setup_child.c, root.c, mounts.c): runs in the sandbox's first process, in the new namespaces but still
 * as the host's root: control groups, root, mounts, network, limits, Landlock, and last the user namespace,
 * capabilities, system call filter and the guest. Being last, the user namespace owns none of the other namespaces: the
 * sandbox's root has no power over its mounts, network, host name or ids.
 */
#pragma once

#include "node/native/native.h"

#include <signal.h>

enum setup_mount_kind {
    SETUP_MOUNT_ATTACH, /* fd: a detached mount */
    SETUP_MOUNT_TMPFS,
    SETUP_MOUNT_OVERLAY, /* lowers: detached mounts; the upper is in the sandbox's upper */
};

struct setup_mount {
    uint32_t kind;
    uint32_t target; /* offset of the string */
    uint32_t fd;     /* index of the first descriptor */
    uint32_t fd_count;
    uint64_t size_bytes;
    uint32_t mode;
    uint32_t attributes; /* MOUNT_ATTR_* of a tmpfs */
    uint32_t is_file;    /* the target is a file */
    uint32_t writable;
};

struct setup {
    uint32_t size; /* of the whole block */
    uint32_t fd_count;
    uint32_t hostname;
    uint32_t uid_base;
    uint32_t guest_exe, guest_socket, user_ns; /* indices of descriptors */
    int32_t net_ns, upper, cgroup_dir;         /* the same; -1 = none */
    int32_t ahead_pidfd, ahead_done;           /* the same */
    uint32_t net_sysctls;                      /* net_ns lacks netns_sysctls() */
    uint32_t cgroup_procs, cgroup_procs_count;
    uint32_t lowers, lower_count;
    uint64_t upper_bytes;
    uint64_t capabilities;
    uint64_t nofile;
    uint32_t read_only_root;
    uint32_t strict;
    uint32_t mount_count;
    struct setup_mount mounts[];
    /* strings follow */
};

static inline const char *setup_string(const struct setup *s, uint32_t offset)
{
    return (const char *)s + offset;
}

/* A prepared start. Descriptors below owned_count are closed by setup_plan_done(); the others are borrowed. */
struct setup_plan {
    struct setup *setup;
    int *fds;
    bool *owned;
};

int setup_prepare(const struct native_spec *spec, struct setup_plan *ret, struct error *err);
void setup_plan_done(struct setup_plan *plan);
/* Whether a block that came over a socket is whole. */
int setup_check(const struct setup *s, size_t len, size_t nfds, struct error *err);

/*
 * Makes the first process. in_empty_root: the caller has pivoted into an empty root already (zygote). as_sibling: the
 * child's parent is the caller's parent. On failure *ret_pidfd may still be >= 0: a child that wants to be reaped.
 */
pid_t setup_clone(const struct setup *s, const int *fds, bool in_empty_root, bool as_sibling, int *ret_pidfd,
                  struct error *err);

/* The directories and mounts of the root; the caller is in its own mount namespace. All return 0 or -errno. */

/* Leaves the host's root for an empty one, for good. */
int root_leave_host(struct error *err);
/*
 * Makes a scratch tmpfs the root and, in it, the overlay at ROOT_DIR, with the working directory in the scratch.
 * in_empty_root: root_leave_host() was called in an outer mount namespace; else the host's root is left now.
 */
int root_make_overlay(const struct setup *s, const int *fds, bool in_empty_root, struct error *err);
/* ROOT_DIR becomes the root. */
int root_enter(struct error *err);
#define ROOT_DIR "root"

/* One more overlay; index >= 1 names its directories. Returns a detached mount. */
int root_make_layer(const struct setup *s, const int *fds, const struct setup_mount *m, unsigned index,
                    struct error *err);

/* /proc, /dev, /sys, /tmp and the mounts of the spec, below root (ROOT_DIR). */
int mounts_make(const struct setup *s, const int *fds, int root, struct error *err);
