/*
 * Runs controllers: keeps a queue of keys for each, calls the pure reconcile function with a view of the caches, and
 * carries out the plan it returns. A key runs again only when the caches have caught up with what it wrote, so a
 * reconcile always sees its own writes: no expectations, no sleeps. Failures back off from 5 ms to 60 s per key;
 * a conflict (409) retries at once with fresh caches.
 */
#pragma once

#include "base/timeutil.h"
#include "kube/informer.h"
#include "kube/plan.h"

struct event_base;
struct runner;

/* What a reconcile may look at. Tests fill it with a table of objects (world_from_objects in tests). */
struct world {
    int64_t now_ns;
    struct json *(*get)(const struct world *w, const struct kube_resource *r, const char *ns, const char *name);
    struct json *(*owned)(const struct world *w, const struct kube_resource *r, const char *owner_uid); /* new array */
    struct json *(*labelled)(const struct world *w, const struct kube_resource *r, const char *ns, const char *key,
                             const char *value);                                                /* new array */
    struct json *(*list)(const struct world *w, const struct kube_resource *r, const char *ns); /* new array */
    void *data;
};

struct controller {
    const char *name; /* also the field manager and event source */
    const struct kube_resource *primary;
    /* Changes of these objects wake the primary that controls them (owner reference), NULL-terminated. */
    const struct kube_resource *const *owned;
    /* Further resources the reconcile reads; a change wakes what map returns (array of key strings; may be NULL). */
    const struct kube_resource *const *watched;
    char **(*map)(const struct world *w, const struct kube_resource *r, const struct json *object);
    const char *const *index_labels; /* indexed on every owned resource */
    /* Fills *plan (zeroed). object may be NULL: it is gone. */
    void (*reconcile)(const struct world *w, const char *ns, const char *name, struct plan *plan);
    /*
     * The API server has refused the plan as invalid or forbidden, or the plan has failed several times in a row: fills
     * *plan (zeroed) with what tells the user, such as a condition. The key is tried again with back-off all the
     * same, unless this plan is permanent: then only when something changes. May be NULL.
     */
    void (*refused)(const struct world *w, const char *ns, const char *name, const struct error *err,
                    struct plan *plan);
};

struct runner *runner_new(struct event_base *base, struct kube *k, const struct clock *clock);
void runner_add(struct runner *r, const struct controller *c); /* c must outlive the runner */
/* Starts the informers; reconciles begin when all of a controller's caches are synced. */
void runner_start(struct runner *r);
void runner_enqueue(struct runner *r, const struct controller *c, const char *ns, const char *name);
bool runner_idle(const struct runner *r); /* nothing queued or in flight (later requeues may wait) */
void runner_free(struct runner *r);
