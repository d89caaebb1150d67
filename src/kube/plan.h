/*
 * A plan is what a reconcile wants done: writes, events, and when to look again. Building one does no I/O.
 * All functions take ownership of the values given to them.
 */
#pragma once

#include "kube/kube.h"

struct plan_op {
    enum kube_verb verb;
    const struct kube_resource *resource;
    char *ns, *name, *subresource;
    struct json *body;
    bool may_be_gone; /* 404 is success: deletions */
};

struct plan {
    struct plan_op *ops;
    size_t count, capacity;
    int64_t requeue_at_ns; /* wall clock; 0 = only when something changes */
    struct error failure;  /* set: the pass failed (after its ops); retried with back-off */
    bool permanent;        /* the failure will not go away by itself: no retry before a change */
    const char *field_manager;
};

void plan_create(struct plan *p, const struct kube_resource *r, struct json *object);
void plan_update(struct plan *p, const struct kube_resource *r, const char *subresource, struct json *object);
/* A merge patch; put metadata.resourceVersion into it to make it conditional. */
void plan_patch(struct plan *p, const struct kube_resource *r, const char *ns, const char *name,
                const char *subresource, struct json *patch);
/* uid: precondition (NULL = none). grace_seconds < 0: the object's own. propagation: NULL = Background. */
void plan_delete(struct plan *p, const struct kube_resource *r, const char *ns, const char *name, const char *uid,
                 int64_t grace_seconds, const char *propagation);
/* An Event (core/v1 in the store) about object. type: "Normal" or "Warning". */
void plan_event(struct plan *p, const struct json *object, const char *type, const char *reason, const char *action,
                const char *message, const char *component, int64_t now_ns);
/* The earlier of what is set and at_ns. */
void plan_requeue_at(struct plan *p, int64_t at_ns);
void plan_free(struct plan *p);
