/*
 * The inside of the API server: what one call is, and the parts that handle it. One path for all kinds:
 *
 *   HTTP (server.c) or a controller (inproc.c)
 *     → struct api_call: who, verb, resource, name, options, body
 *     → crud.c / patch.c / delete.c / list.c, with strategy.h for what is special about a kind
 *     → struct api_result: the answer, and the revision that must be on disk before it may leave the process
 *
 * Everything here runs on the loop's thread and returns at once; nothing calls back.
 */
#pragma once

#include "apiserver/api_error.h"
#include "apiserver/authn.h"
#include "apiserver/field_errors.h"
#include "apiserver/request_info.h"
#include "apiserver/resource.h"
#include "apiserver/server.h"
#include "apiserver/store.h"
#include "base/hashmap.h"
#include "base/timeutil.h"

struct object_schemas;
struct sealer;
struct garbage_collector;
struct terminations;
struct redefaults;
struct event_expiry;
struct service_addresses;
struct quotas;
struct static_paths;
struct fair_queue;
struct statistics;
struct rbac;
struct permits;
struct jwt_keys;

struct apiserver {
    struct event_base *base;
    const struct clock *clock;
    struct sealer *sealer; /* NULL = none */
    struct store *store;
    struct resource_table *resources;
    struct object_schemas *schemas;
    struct authenticator *authenticator;
    struct jwt_keys *token_keys; /* sign tokens of ServiceAccounts; NULL = there are none */
    struct rbac *rbac;
    struct permits *permits; /* of requests that go on */
    bool aggregating;        /* rules of composed roles are being written */
    struct static_paths *paths;
    struct audit *audit;      /* NULL = none */
    struct fair_queue *queue; /* requests whose user is known */
    struct statistics *statistics;
    char *node_name; /* the one node of the embedded mode; NULL = pods are bound by someone else */
    struct stream_backend streams;
    struct service_addresses *addresses;
    struct event_expiry *event_expiry;
    struct garbage_collector *gc;
    struct terminations *terminations;
    struct redefaults *redefaults;
    struct quotas *quotas;
    struct watch_stream *streams_open; /* watches of HTTP clients */
    bool draining;
};

enum field_validation { FIELDS_WARN, FIELDS_STRICT, FIELDS_IGNORE };
enum patch_type { PATCH_JSON, PATCH_MERGE, PATCH_STRATEGIC, PATCH_APPLY };

/* Strings are borrowed from the request; NULL = not given. */
struct api_options {
    const char *field_manager;
    enum field_validation field_validation;
    bool dry_run;
    bool force, force_given;
    /* get, list, watch */
    const char *label_selector, *field_selector, *continue_token;
    const char *resource_version, *resource_version_match;
    int64_t limit, timeout_seconds; /* 0 = none */
    bool bookmarks;
    bool send_initial_events, send_initial_given;
    /* delete, when the body does not say it */
    int64_t grace_seconds; /* -1 = not given */
    const char *propagation;
    bool orphan_dependents, orphan_given;
};
#define API_OPTIONS_INIT                                                                                               \
    {                                                                                                                  \
        .grace_seconds = -1                                                                                            \
    }

struct api_result {
    int code;
    struct json *object;   /* owned: the answer, or the Status of a failure (code >= 400) */
    struct stored *stored; /* owned: where object is, when it is shown just as it is stored */
    struct stored **items; /* owned: the items of a list, as stored */
    size_t item_count;
    char *continue_token;
    int64_t remaining;     /* further items behind this page; -1 = unknown */
    int64_t list_revision; /* what a list shows, > 0 for lists */
    int64_t revision;      /* the newest write the answer tells about */
    char **warnings;
    char *name; /* holds the call's name when the server chose it */
};
void api_result_clear(struct api_result *r);

struct api_call {
    struct apiserver *server;
    const struct user_info *user;
    bool internal; /* a controller of this process: trusted, not tracked by field ownership */
    enum api_verb verb;
    const struct resource *resource;
    const char *ns, *name, *subresource; /* "" = none */
    struct api_options options;
    enum patch_type patch;
    struct json *body;       /* borrowed, never changed */
    char *const *duplicates; /* paths of duplicate keys the parser saw */
    bool fields_tracked;     /* managedFields are final: an apply has made them */
    struct api_result result;
};

struct api_subject api_subject(const struct api_call *c);
void api_set_name(struct api_call *c, const char *name);
/* Sets the answer and returns 0. object is taken; c->result.revision is the caller's business. */
int api_answer(struct api_call *c, int code, struct json *object);
/* Sets a stored object as the answer, and its revision. */
int api_answer_stored(struct api_call *c, int code, struct stored *stored);
/* Sets a failure (status is taken) and returns -1. */
int api_fail(struct api_call *c, struct json *status);
int api_fail_store(struct api_call *c, const struct error *err);
/* 422 for the errors collected. */
int api_fail_invalid(struct api_call *c, struct field_errors *errors);
void PRINTF_LIKE(2, 3) api_warn(struct api_call *c, const char *fmt, ...);
/* A call by the server itself; fill in the rest. name and ns are borrowed; "" = none. */
struct api_call api_internal_call(struct apiserver *s, enum api_verb verb, const struct resource *r, const char *ns,
                                  const char *name);
/* The answer to any call for a kind that is known and not served (resource.h); needs no body. */
struct json *api_refused(const struct api_call *c);
/* The handler for c->verb (all but watch); subresources included. */
void api_execute(struct api_call *c);

/* crud.c; list.c; patch.c; delete.c */
void api_get(struct api_call *c);
void api_create(struct api_call *c);
void api_update(struct api_call *c);
void api_list(struct api_call *c);
void api_patch(struct api_call *c);
void api_delete(struct api_call *c);
void api_delete_collection(struct api_call *c);
/* A copy of a body that c may change down to metadata, without unknown fields; NULL: refused. */
struct json *api_decode(struct api_call *c, const struct json *body);
/* The common ends of all writes: new_object is taken, is c's own down to metadata, and comes from a decoded body. */
int api_store_new(struct api_call *c, struct json *new_object);
int api_store_change(struct api_call *c, struct stored *old, struct json *new_object);
/* The current state of c->ns/c->name, or NULL and a 404 in c. */
struct stored *api_current(struct api_call *c);
/* Finalizers besides those in metadata: a namespace's. */
size_t object_spec_finalizers(const struct resource *r, const struct json *object);
/* After any change of a stored object; old or new may be NULL. In storage form. */
void api_after_change(struct apiserver *s, const struct resource *r, const struct json *old, const struct json *new);

/*
 * Forms: objects lie in the store in one version, and are shown in that of the resource asked for.
 */
/* A new reference to the object as r shows it; the stored value itself when the forms are the same. */
struct json *object_shown(const struct resource *r, const struct json *stored);
/* Takes an object of r's form, returns the one to store; changes at most the top level, which must be the caller's. */
struct json *object_to_store(const struct resource *r, struct json *object);

/* Copy on write: puts a one-level copy of the member in its place and returns it (an empty object when missing). */
struct json *json_own(struct json *parent, const char *key);
struct json *json_own_item(struct json *array, size_t index);
/* Now, as metadata writes it. */
void api_time_text(const struct apiserver *s, char out[TIME_RFC3339_MAX]);
