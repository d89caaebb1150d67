/*
 * What to do next about a Pod. Pure: facts in, one action out; asked again after each action and whenever a fact
 * changes. The worker (pod.c) carries the actions out and keeps the facts.
 *
 * The sandbox of a Pod goes NONE → STARTING → RUNNING → (STOPPING →) ENDED → CLEANING → NONE, once for each init
 * container and each run of the main one.
 */
#pragma once

#include "node/pod_spec.h"

enum sandbox_state {
    SANDBOX_NONE,
    SANDBOX_STARTING, /* made; its process has not been confirmed by the guest */
    SANDBOX_RUNNING,
    SANDBOX_STOPPING, /* was asked to end */
    SANDBOX_ENDED,    /* the guest is gone or told the end; cgroup and the like are still there */
    SANDBOX_CLEANING, /* a job removes these */
};

struct pod_facts {
    int64_t now_ns;
    bool gone;           /* there is no such object any more */
    bool deleting;       /* it has a deletionTimestamp */
    int64_t grace_s;     /* for ending it: of the deletion, else of the spec */
    bool refused;        /* it can never run here: a field is not supported */
    bool finished;       /* Succeeded or Failed: nothing runs again */
    bool replace;        /* its image changed: to be ended, and started again whatever the policy */
    bool failed_outside; /* evicted, or past activeDeadlineSeconds: to be ended as Failed */
    int64_t deadline_ns; /* activeDeadlineSeconds; 0 = none */
    enum restart_policy restart_policy;
    enum sandbox_state sandbox;
    int64_t stop_deadline_ns; /* STOPPING: when patience ends */
    bool killed;              /* SIGKILL was sent to it already */
    /* The container whose turn it is. */
    bool is_init;
    bool has_exited; /* it ran, and the end was not yet acted upon */
    int exit_code;
    bool inputs_ready;     /* ConfigMaps and Secrets are here, */
    bool inputs_pending;   /* or asked for */
    int64_t not_before_ns; /* back-off of restarts, pulls, and other retries; 0 = at once */
};

enum pod_action {
    POD_WAIT,  /* until a fact changes or wake_ns */
    POD_FETCH, /* ask for ConfigMaps and Secrets */
    POD_START, /* make the sandbox of the current container */
    POD_STOP,  /* ask it to end within grace_s */
    POD_KILL,
    POD_CLEAN,   /* remove what is left of the sandbox */
    POD_NEXT,    /* an init container succeeded: go on to the following container */
    POD_RESTART, /* the current container is to run again: note the restart and its back-off */
    POD_FINISH,  /* phase Succeeded or Failed, from the last exit */
    POD_FAIL,    /* phase Failed, for the reason that was noted (failed_outside) */
    POD_DELETE,  /* delete the object for good: nothing of it is here */
    POD_FORGET,  /* drop the worker: object and sandbox are gone */
};

struct pod_decision {
    enum pod_action action;
    int64_t wake_ns; /* POD_WAIT: look again then; 0 = when something changes */
};
struct pod_decision pod_decide(const struct pod_facts *f);
/* As POD_..., for logs and tests. */
const char *pod_action_name(enum pod_action a);

/* After the n-th end in a row (n >= 1) a container starts again after 0, 10, 20, ... 300 s. */
int64_t restart_delay_ns(int64_t ends_in_a_row);
/* A run at least this long makes the next end the first in a row. */
#define RESTART_RESET_S 600
