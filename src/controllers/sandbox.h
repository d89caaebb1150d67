/* The Sandbox controller (agents.x-k8s.io/v1beta1): Pod, Service, PersistentVolumeClaims, suspend, expiry, status. */
#pragma once

#include "kube/runner.h"

extern const struct controller sandbox_controller;

/* Shared between sandbox.c and sandbox_status.c: what a pass has found out. */
struct sandbox_state {
    const struct world *world;
    const struct json *sandbox;
    struct plan *plan;
    const struct json *pod;     /* the owned Pod, or NULL */
    const struct json *service; /* the owned Service, or NULL */
    bool suspended;             /* wanted */
    bool service_wanted;
    const struct json *foreign_pod; /* one that is not ours is where ours should be, or NULL */
    bool multiple_pods;             /* more than one owned Pod */
    struct strbuf errors;           /* joined with "; " */
    bool permanent;                 /* retrying will not help */
};

/* Adds the status patch to the plan if anything in it changes. */
void sandbox_write_status(struct sandbox_state *s);
/* First pass after shutdownTime: says so and stops there. Second: true, the clean-up may go on. */
bool sandbox_write_expired(struct sandbox_state *s);
/* Retained after expiry: the conditions stay, the rest goes. */
void sandbox_reduce_status(struct sandbox_state *s);
