/*
 * A cache of one resource, kept by a watch, with indexes. Objects in it are shared and immutable.
 *
 *     informer_owned(pods, sandbox_uid, cb...)   objects whose controller reference has that uid
 *     informer_labelled(pods, "agents.x-k8s.io/sandbox-name-hash", value...)  needs the label in index_labels
 */
#pragma once

#include "kube/kube.h"

struct informer;
/* old is NULL for an addition, new is NULL for a deletion; both are NULL when the cache has become complete. */
typedef void (*informer_changed)(void *arg, const struct kube_resource *r, struct json *old, struct json *new);

struct informer *informer_new(struct kube *k, const struct kube_resource *r, const char *ns, const char *field_selector,
                              const char *const *index_labels);
void informer_free(struct informer *i);
void informer_subscribe(struct informer *i, informer_changed changed, void *arg);
bool informer_synced(const struct informer *i);
/* The newest revision seen. A writer waits until this reaches what it wrote. */
int64_t informer_revision(const struct informer *i);
const struct kube_resource *informer_resource(const struct informer *i);

struct json *informer_get(const struct informer *i, const char *ns, const char *name); /* borrowed; NULL */
/* Arrays (new; the items are shared). */
struct json *informer_list(const struct informer *i, const char *ns);
struct json *informer_owned(const struct informer *i, const char *owner_uid);
struct json *informer_labelled(const struct informer *i, const char *key, const char *value);
size_t informer_count(const struct informer *i);
