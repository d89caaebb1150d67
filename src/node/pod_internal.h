/* The insides of a Pod's worker, shared by its files: pod.c, pod_start.c, pod_end.c, pod_report.c,
 * pod_probe.c, pod_storage.c. */
#pragma once

#include "node/link.h"
#include "node/log_file.h"
#include "node/pod.h"
#include "node/pod_env.h"
#include "node/pod_machine.h"
#include "node/pod_status.h"

#include <event2/event.h>

struct probes;

struct pod {
    struct node *node;
    struct json *object; /* as the API has it */
    char *ns, *name, *uid;
    struct pod_spec spec;
    struct pod_state state;

    /* Facts that are not in the state (see struct pod_facts). */
    enum sandbox_state sandbox;
    bool gone, refused, replace, failed_outside, has_exited, killed, shutdown;
    bool adopted; /* the sandbox was made by an earlier run of the node */
    int64_t stop_deadline_ns, not_before_ns;
    int64_t failures; /* starts that failed in a row, for the delay of the next try */
    bool files_gone;  /* cleaned up; only the object is left */

    /* ConfigMaps and Secrets the Pod refers to, fetched before each start: "c:NAME" or "s:NAME" → object. */
    struct hashmap inputs;
    size_t inputs_pending;
    bool inputs_ready;

    bool measuring; /* a job looks at how much disk it uses */

    struct log_file *log;
    struct link *link;
    struct guest_client *stopper; /* carries SHUTDOWN */
    struct probes *probes;

    struct event *timer;
    bool stepping, step_again;

    int64_t start_told_ns; /* when a start that is not over yet is worth a report */

    /* Status: one PATCH at a time; what changes meanwhile goes out with the next. */
    bool patching, patch_again;
    int64_t patch_retry_ns; /* of the PATCH or the final DELETE */
    bool deleting_object;   /* the final DELETE is on its way */
    bool delete_again;      /* it failed; to be sent once more after patch_retry_ns */
    char *last_event;       /* so that the same is not told twice in a row */
};

/* Asks the state machine and does what it says, until it waits. The Pod may be gone afterwards. */
void pod_step(struct pod *p);
struct pod *pod_find(struct node *n, const char *uid);
static inline struct container_record *pod_record(struct pod *p)
{
    return &p->state.containers[p->state.current];
}
static inline const struct pod_container *pod_container(const struct pod *p)
{
    return &p->spec.containers[p->state.current];
}
/* Writes state.json. */
void pod_save(struct pod *p);
void pod_warn(struct pod *p, const char *reason, const char *message);

/* pod_start.c */
/* Makes and starts the sandbox of the current container; on failure the record says why, and when to try again. */
void pod_start(struct pod *p);
/* Attaches to a sandbox that an earlier run of the node left. */
void pod_adopt(struct pod *p);
/* Fetches what the Pod refers to; pod_step() follows when it is here. */
void pod_fetch_inputs(struct pod *p);
char *pod_socket(const struct pod *p);
/*
 * Whether the process of the current sandbox may have run. Noted before the guest is told, in a file of its own that is
 * quick to write: a container that may have run is never taken for one that has not, whenever the node was killed.
 */
bool pod_begun(const struct pod *p);
/* When the API was told the current run began; now when it was not. */
int64_t pod_told_start_ns(const struct pod *p);

/* pod_end.c */
void pod_ask_to_end(struct pod *p, int64_t grace_s);
void pod_kill(struct pod *p);
/* The main process ended; exit NULL: the guest went away without telling. */
void pod_ended(struct pod *p, const struct guest_exit *exit);
/* A start that never became a process: code as a shell would say. */
void pod_not_started(struct pod *p, int code, const char *message);
/* Removes cgroup and upper layer as a job; the sandbox is NONE afterwards. */
void pod_clean(struct pod *p);
/* Removes all files of the Pod. */
void pod_remove_files(struct pod *p);
void pod_drop_connections(struct pod *p);

/* Ends it as Failed, reason Evicted. */
void pod_evict(struct pod *p, const char *message);

/* pod_report.c */
void pod_report(struct pod *p);
void pod_delete_object(struct pod *p);

/* pod_resize.c */
/* The sandbox of the current container has what its spec asks for. */
void pod_note_resources(struct pod *p);
/* The spec was replaced, or an earlier run of the node left the sandbox; was: the limits before. */
void pod_follow_resources(struct pod *p, const struct native_limits *was);

/* pod_probe.c */
void probes_start(struct pod *p);
void probes_stop(struct pod *p);
/* The spec was replaced by a newer one. */
void probes_follow_spec(struct pod *p);
