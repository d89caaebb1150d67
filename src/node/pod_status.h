/*
 * The status of a Pod: what the node knows about its containers, and the status object made of it. Pure.
 */
#pragma once

#include "node/pod_spec.h"
#include "wire/guest_frame.h"

enum container_phase { CONTAINER_WAITING, CONTAINER_RUNNING, CONTAINER_TERMINATED };

/* One finished run. Owned strings. */
struct container_exit {
    bool valid;
    int code, sig;
    char *reason;  /* Completed, Error, OOMKilled, ContainerCannotRun, ContainerStatusUnknown, ... */
    char *message; /* NULL = none */
    char *id;      /* container id of that run */
    int64_t started_ns, finished_ns;
};

struct container_record {
    enum container_phase phase;
    char *reason, *message; /* of WAITING */
    int64_t started_ns;     /* of RUNNING */
    bool started;           /* the startup probe, if there is one, has passed */
    bool ready;
    int64_t restarts;
    int64_t ends_in_a_row;      /* for the back-off */
    struct container_exit exit; /* of TERMINATED */
    struct container_exit last; /* the run before */
    char *id;                   /* "holt://...": of the current or latest run; NULL = none yet */
    char *image_id;             /* NULL = not known yet */
    struct json *resources;     /* in force; NULL = none, or not known */
    /* Where the log's current file begins. */
    uint64_t log_base[GUEST_STREAM_COUNT];
};

/* What of a Pod is kept in R/pods/<uid>/state.json over restarts of the node. */
struct pod_state {
    struct container_record *containers; /* as in pod_spec */
    size_t container_count;
    size_t current;   /* whose turn it is */
    int64_t start_ns; /* status.startTime */
    char *pod_ip;
    const char *phase;      /* "Succeeded", "Failed", or NULL while it is not over */
    char *reason, *message; /* of the Pod: Evicted, DeadlineExceeded */
    bool sandbox;           /* namespaces exist: PodReadyToStartContainers */
    char *sandbox_id;       /* of the backend; NULL = there is none */
    int stop_signal;        /* of the image that runs; 0 = SIGTERM */
    const char *resize;     /* "Infeasible", or NULL; not kept */
    uint32_t uid_base;      /* the Pod's range of user ids; 0 = none yet */
};
void pod_state_init(struct pod_state *s, size_t container_count);
void pod_state_clear(struct pod_state *s);
void container_exit_clear(struct container_exit *e);
void container_set_waiting(struct container_record *c, const char *reason, const char *message);

struct json *pod_state_to_json(const struct pod_state *s);
/*
 * What the API's status tells, for a Pod whose state.json is gone (the machine was restarted): restart counts and ended
 * runs are taken over; what ran is terminated with reason ContainerStatusUnknown.
 */
void pod_state_from_status(const struct json *pod, size_t container_count, int64_t now_ns, struct pod_state *ret);
/* Fails when v is not what the function above wrote for as many containers. */
int pod_state_from_json(const struct json *v, size_t container_count, struct pod_state *ret, struct error *err);

/*
 * The merge patch {"status": ...} for the Pod as it is in the API. Conditions of others are kept; transition times
 * stay when a condition keeps its status. NULL when nothing would change.
 */
struct json *pod_status_patch(const struct json *pod, const struct pod_state *s, const char *host_ip, int64_t now_ns);
/* "Pending", "Running", "Succeeded", "Failed". */
const char *pod_phase(const struct pod_state *s);
