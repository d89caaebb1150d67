/*
 * The API client. One interface, two transports: HTTPS to any Kubernetes API server (kube_http.h), and calls straight
 * into the embedded API server (apiserver/inproc.h). Whoever uses it cannot tell which.
 *
 * All callbacks run on the event loop, never from within the call that asked for them.
 */
#pragma once

#include "base/error.h"
#include "wire/json.h"

#include <stdbool.h>
#include <stdint.h>

struct kube;

/* A resource as the client names it; static tables, compared by pointer or by group and plural. */
struct kube_resource {
    const char *group; /* "" = core */
    const char *version;
    const char *plural;
    const char *kind;
    bool namespaced;
};
extern const struct kube_resource KUBE_PODS, KUBE_SERVICES, KUBE_PVCS, KUBE_PVS, KUBE_SECRETS, KUBE_CONFIGMAPS,
    KUBE_NAMESPACES, KUBE_NODES, KUBE_SERVICEACCOUNTS, KUBE_EVENTS, KUBE_LEASES, KUBE_CRDS, KUBE_SANDBOXES, KUBE_QUOTAS,
    KUBE_LIMIT_RANGES, KUBE_PDBS, KUBE_ENDPOINTS, KUBE_ENDPOINT_SLICES;
/* "pods", or "sandboxes.agents.x-k8s.io". */
char *kube_resource_name(const struct kube_resource *r);
const char *kube_api_version(const struct kube_resource *r, char *buf, size_t size);

enum kube_verb {
    KUBE_GET,
    KUBE_LIST,
    KUBE_CREATE,
    KUBE_UPDATE,
    KUBE_PATCH_MERGE,
    KUBE_PATCH_JSON,
    KUBE_APPLY,
    KUBE_DELETE
};

/*
 * One request. body: object (create, update), patch, or DeleteOptions (may be NULL); borrowed for the call only (a
 * transport that needs it longer takes a reference).
 */
struct kube_request {
    enum kube_verb verb;
    const struct kube_resource *resource;
    const char *ns;          /* NULL or "" for cluster-scoped objects and lists over all namespaces */
    const char *name;        /* NULL for create and list */
    const char *subresource; /* "status" or NULL */
    const char *label_selector, *field_selector;
    const char *field_manager;
    struct json *body;
};

/* status: HTTP code. object: the answer (for a failure: the Status object, or NULL). err: set for every failure. Both
 * are borrowed. */
typedef void (*kube_done)(void *arg, int status, struct json *object, const struct error *err);

void kube_do(struct kube *k, const struct kube_request *request, kube_done done, void *arg);

enum kube_event_type { KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED, KUBE_BOOKMARK };

/*
 * List, then watch, for ever: after a broken connection or an expired version it lists again and reports the
 * difference (deletions included) itself; an event is never delivered twice, none is lost.
 */
struct kube_watch_callbacks {
    /* object borrowed; for KUBE_DELETED the last known state. */
    void (*event)(void *arg, enum kube_event_type type, struct json *object);
    /* The first list (and each later re-list) is complete up to revision. */
    void (*synced)(void *arg, int64_t revision);
};
struct kube_watch;
struct kube_watch *kube_watch_start(struct kube *k, const struct kube_resource *r, const char *ns,
                                    const char *label_selector, const char *field_selector,
                                    const struct kube_watch_callbacks *cb, void *arg);
void kube_watch_stop(struct kube_watch *w); /* no callback afterwards */

void kube_free(struct kube *k);

/* For transports. */
/* What an answer of status >= 400 means, from its Status object (may be NULL). */
void kube_error_from_status(int status, const struct json *object, struct error *err);
struct kube_ops {
    void (*request)(struct kube *k, const struct kube_request *request, kube_done done, void *arg);
    struct kube_watch *(*watch)(struct kube *k, const struct kube_resource *r, const char *ns,
                                const char *label_selector, const char *field_selector,
                                const struct kube_watch_callbacks *cb, void *arg);
    void (*watch_stop)(struct kube_watch *w);
    void (*free)(struct kube *k);
    /*
     * Runs the writes of one plan as one transaction, in order; NULL: the runner sends them one by one. A deletion of
     * what is not there succeeds. done: on success the revision each write left its object at (0: nothing changed);
     * on failure completed is the index of the one that failed and nothing was written.
     */
    void (*transaction)(struct kube *k, const struct kube_request *requests, size_t count,
                        void (*done)(void *arg, size_t completed, const int64_t *revisions, const struct error *err),
                        void *arg);
};
struct kube {
    const struct kube_ops *ops;
};
struct kube_watch {
    struct kube *kube;
};
