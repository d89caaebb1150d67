/*
 * `holt node`: runs the Pods that are bound to this machine, each in a sandbox of the native backend.
 *
 * One thread and one event loop; what may block runs as a job (jobs.h). The node watches its Pods, and for each keeps a
 * worker (pod.h) that follows the state machine (pod_machine.h). It registers a Node object and renews a Lease, binds
 * PersistentVolumeClaims to local directories (claims.h), and removes what belongs to nobody (sweep.h).
 *
 * kill -9 at any time leaves the sandboxes as they are. At the next start a Pod's worker finds its state.json and its
 * guest and goes on; what has no Pod any more is removed.
 */
#pragma once

#include "base/hashmap.h"
#include "base/timeutil.h"
#include "kube/kube.h"
#include "node/address_pool.h"
#include "node/image/store.h"
#include "node/jobs.h"
#include "node/native/host_image.h"
#include "node/native/native.h"
#include "node/pod_spec.h"

#include <sys/types.h>

struct event_base;
struct event;
struct blanks;
struct claims;
struct usage_server;

struct node_options {
    const char *name;
    const char *data_dir, *run_dir; /* made when missing */
    const char *ip;                 /* NULL = the first address that is not loopback */
    const char *cgroup_parent;
    gid_t gid; /* may connect to guests and read logs; (gid_t)-1 = root alone */
    bool allow_dir_images;
    char *const *host_path_prefixes;
    void (*ready)(void *arg); /* the node is registered and its Pods are known */
    void *arg;
};

/* Shared by the files of the node; nobody else looks inside. */
struct node {
    struct event_base *base;
    struct kube *kube; /* borrowed */
    struct node_options options;
    char *data_dir, *run_dir; /* absolute, without links */
    char *ip;
    int64_t cpu_millis, memory_bytes;
    struct zygote *zygote;
    struct jobs *jobs;
    struct image_store *images;
    struct host_image host_image;
    struct address_pool addresses;
    struct pod_spec_options pod_options;
    struct hashmap pods; /* uid → struct pod */
    struct kube_watch *pod_watch;
    struct claims *claims;
    struct blanks *blanks;
    struct usage_server *usage;
    bool pods_known; /* the first list of Pods has been seen */
    bool registered; /* the Node object is there */
    bool ready, stopping;
    bool same_cluster; /* the data directory belongs to the API server we talk to: sweep.c */
    struct event *lease_timer, *child_event, *images_event, *sweep_timer, *storage_timer;
    int images_notify;
};

/* zygote: forked before anything else; owned by the node from here on. */
struct node *node_new(struct event_base *base, struct kube *k, struct zygote *zygote,
                      const struct node_options *options, struct error *err);
/* Leaves the sandboxes running. */
void node_free(struct node *n);
/* Ends every sandbox gracefully, then leaves the event loop. */
void node_stop_sandboxes(struct node *n);

/* An Event about a Pod, at most one of a kind in a row. type: "Normal" or "Warning". */
void node_event(struct node *n, const struct json *object, const char *type, const char *reason, const char *message);
/* Starts a sandbox through the zygote, which is started anew when it has died. */
int node_spawn(struct node *n, const struct native_spec *spec, struct native_sandbox *ret, struct error *err);
/* Under what the node claims ranges of user ids; the caller frees. */
char *node_owner(const struct node *n);
/* Moves a directory out of the way and removes it as a job; a missing one is no error. */
void node_trash(struct node *n, const char *path);

/* Tells options.ready when all is there for the first time. */
void node_check_ready(struct node *n);

/* node_object.c */
int node_object_start(struct node *n, struct error *err);
void node_object_stop(struct node *n);
/* sweep.c: removes what was left by Pods that are gone. At start, once the Pods are known, and then now and again. */
void node_sweep(struct node *n);
