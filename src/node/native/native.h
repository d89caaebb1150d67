/*
 * The native backend: sandboxes made of namespaces, an overlay root, cgroups, seccomp and Landlock.
 *
 * A sandbox is holt-guest (guest/image.h) as pid 1 of new namespaces; processes of the Pod are started later over the
 * guest protocol (wire/guest_client.h). Two ways lead here, over one implementation of the steps (setup.h):
 *   - native_spawn(): straight from this process; `holt run`.
 *   - struct zygote: a small helper process forked early by `holt node`, already inside an empty root, that makes
 *     sandboxes without walking the host's processes and without copying the node's memory.
 * Either way the sandbox does not die with its maker; what is left of it is found again by its cgroup and its run
 * directory, and removed by native_destroy(), which may be called any number of times and after a crash.
 *
 * Layers, in the order in which a compromised payload would meet them: see docs/security.md.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* 65,536 ids each; ranges of living sandboxes are disjoint. */
#define NATIVE_UID_RANGE 65536u

struct ahead;

enum native_mount_kind {
    NATIVE_MOUNT_BIND,  /* source: directory or file on the host, opened without following links; idmapped when asked */
    NATIVE_MOUNT_TMPFS, /* size_bytes, 0 = half the memory limit, or NATIVE_DEFAULT_TMPFS */
    /* source: a directory of the host as the lower of an overlay, whose upper is in the sandbox's upper; idmapped */
    NATIVE_MOUNT_OVERLAY,
};

struct native_mount {
    enum native_mount_kind kind;
    const char *source;
    const char *target; /* absolute path inside; missing parents are made in the upper layer */
    uint64_t size_bytes;
    mode_t mode; /* of the tmpfs root; 0 = 0755 */
    bool read_only;
    bool no_exec;
    bool idmap;     /* host uid 0.. of the source appears as uid 0.. inside, and writes land as uid 0.. outside */
    uint32_t owner; /* with idmap: this uid and gid of the source is root inside, as idmap_open_owner() says */
};

struct native_limits {
    uint64_t memory_bytes; /* 0 = unlimited */
    uint64_t swap_bytes;
    uint64_t cpu_millis; /* 1000 = one core; 0 = unlimited */
    uint64_t cpu_weight; /* from requests; 0 = default */
    uint64_t pids;       /* 0 = the default, NATIVE_DEFAULT_PIDS */
    uint64_t nofile;     /* RLIMIT_NOFILE; 0 = default */
};
#define NATIVE_DEFAULT_PIDS 4096
#define NATIVE_DEFAULT_TMPFS (256ull * 1024 * 1024)
#define NATIVE_DEFAULT_UPPER (2048ull * 1024 * 1024)

struct native_spec {
    const char *id; /* [a-z0-9-], at most 63: names the cgroup and shows in errors */
    const char *hostname;
    uint32_t uid_base; /* first host uid of the range; 0 = no user namespace is never accepted */
    /*
     * Root: read-only lower directories, topmost first, then an upper. lowers may be directories of the host
     * (uid 0 owned: idmapped into the range). upper_dir holds "upper" and "work", made and owned by the backend;
     * NULL = the upper is a tmpfs of upper_bytes. /dev/shm (and /tmp of a read-only root) is memory of upper_bytes
     * too. 0 = half the memory limit, or NATIVE_DEFAULT_UPPER without one.
     */
    const char *const *lowers;
    size_t lower_count;
    const char *upper_dir;
    uint64_t upper_bytes;
    bool read_only_root;
    const struct native_mount *mounts;
    size_t mount_count;
    struct native_limits limits;
    /* A listening or connected unix socket: fd 3 of the guest. Borrowed. */
    int guest_socket;
    /* A network namespace prepared by netns_open() (netns.h). Borrowed. 0 = a fresh one with `lo` only. */
    int net_ns;
    struct ahead *ahead; /* its mount and network namespace, in the making (ahead.h); used up by native_spawn() */
    /* Join only control groups that enforce one of the limits: no accounting, no freezing. For `holt run`. */
    bool only_limits;
    /* capabilities of the range for the payload, bitmask; native_default_caps() unless the Pod drops some. The guest
     * keeps KILL, SETGID and SETUID besides, and gives its children no more than these. */
    uint64_t capabilities;
    bool strict; /* refuse to start when any layer is missing on this host (always on for the node) */
};

/* CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID: what a package manager needs inside its own user
 * namespace. */
uint64_t native_default_caps(void);

struct native_sandbox {
    pid_t pid; /* of the guest, as seen here; only for messages: use pidfd */
    int pidfd; /* owned by the caller; -1 when made by a zygote that could not pass it */
};

/* Starts a sandbox from this process. The caller reaps through pidfd. */
int native_spawn(const struct native_spec *spec, struct native_sandbox *ret, struct error *err);

/* What became of it, read from the cgroup before native_destroy(). */
struct native_usage {
    uint64_t memory_peak_bytes;
    uint64_t memory_now_bytes;
    uint64_t memory_cache_bytes; /* of these: files that are not in use and given up when memory is short */
    uint64_t cpu_usec;
    uint64_t oom_kills;
    uint64_t pids_now;
};
int native_usage(const char *id, struct native_usage *ret, struct error *err);
/* How many processes it has now, its first one included. */
int native_pids(const char *id, uint64_t *ret, struct error *err);

/* Stops every process of the sandbox at once (cgroup.kill, or freeze-kill-thaw). Not an error if there is none. */
int native_kill(const char *id, struct error *err);
/* native_kill, waits until the cgroup is empty (bounded by timeout_ms), removes the cgroup. */
int native_destroy(const char *id, int timeout_ms, struct error *err);
/* Ids of all sandboxes that have a cgroup of ours, malloc'd NULL-terminated. For adoption and clean-up. */
char **native_list(struct error *err);
/* Stops all processes where they are, or lets them go on. Returns when it is done; bounded by a second. */
int native_freeze(const char *id, bool frozen, struct error *err);
int native_set_limits(const char *id, const struct native_limits *limits, struct error *err);

/* The cgroup parent: several instances of holt side by side keep apart by it. Default "holt". Borrowed. */
void native_set_cgroup_parent(const char *name);
/* At the end of an instance: takes the parent away where no sandbox is left in it. */
void native_remove_cgroup_parent(void);

/* The zygote. */
struct zygote;
/* Forks the helper. Call before the process grows and before threads; the child closes all but what it needs. */
struct zygote *zygote_start(struct error *err);
/*
 * Makes a sandbox. Host-side steps that need paths (opening lowers, making the overlay, cgroups) are done by the
 * caller's process and passed as descriptors. Blocks for about a millisecond. When the zygote has died it is an
 * error ESRCH; the caller starts another.
 */
int zygote_spawn(struct zygote *z, const struct native_spec *spec, struct native_sandbox *ret, struct error *err);
void zygote_stop(struct zygote *z);
