/* GET of one object, create and update: the one path all kinds take. */
#include "apiserver/authz.h"
#include "apiserver/limit_range.h"
#include "apiserver/metadata.h"
#include "apiserver/object_fields.h"
#include "apiserver/object_schemas.h"
#include "apiserver/quota.h"
#include "apiserver/strategy.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/strutil.h"
#include "kube/object.h"

/* New names tried when a generated one is taken. */
#define GENERATE_TRIES 8

void api_get(struct api_call *c)
{
    struct stored *current = api_current(c);

    if (current)
        (void)api_answer_stored(c, 200, current);
}

/* --- what comes in --- */

static int check_type(struct api_call *c, struct json *object)
{
    const char *version = object_api_version(object), *kind = object_kind(object);
    const struct resource *r = c->resource;

    if (*version && !streq(version, r->api_version))
        return api_fail(c, status_bad_request("the API version in the data (%s) does not match the expected API "
                                              "version (%s)",
                                              version, r->api_version));
    if (*kind && !streq(kind, r->kind))
        return api_fail(c, status_bad_request("%s in version \"%s\" cannot be handled as a %s: no kind \"%s\" is "
                                              "registered for this resource",
                                              kind, r->version, r->kind, kind));
    json_set_str(object, "apiVersion", r->api_version);
    json_set_str(object, "kind", r->kind);
    return 0;
}

static int check_place(struct api_call *c, struct json *metadata)
{
    const char *ns = json_str_or(json_get(metadata, "namespace"), ""),
               *name = json_str_or(json_get(metadata, "name"), "");

    if (c->resource->namespaced && *ns && !streq(ns, c->ns))
        return api_fail(c, status_bad_request("the namespace of the provided object does not match the namespace sent "
                                              "on the request"));
    if (*c->name && *name && !streq(name, c->name))
        return api_fail(c, status_bad_request("the name of the object (%s) does not match the name on the URL (%s)",
                                              name, c->name));
    json_set_str(metadata, "namespace", c->resource->namespaced ? c->ns : NULL);
    if (*c->name)
        json_set_str(metadata, "name", c->name);
    return 0;
}

struct json *api_decode(struct api_call *c, const struct json *body)
{
    if (!json_is(body, JSON_OBJECT))
        return (void)api_fail(c, status_bad_request("the body of the request is not an object")), NULL;
    _cleanup_json_ struct json *object = json_copy_shallow(body);
    if (json_has(object, "metadata") && json_get(object, "metadata") &&
        !json_is(json_get(object, "metadata"), JSON_OBJECT))
        return (void)api_fail(c, status_bad_request("metadata must be an object")), NULL;
    struct json *metadata = json_own(object, "metadata");
    if (check_type(c, object) < 0 || check_place(c, metadata) < 0)
        return NULL;
    struct json *known = object_known_fields(c, object);
    if (known && known != object)
        (void)json_own(known, "metadata");
    return known;
}

/* --- create --- */

static int check_namespace(struct api_call *c)
{
    static const struct api_subject none = {.group = "", .plural = "namespaces", .kind = "Namespace"};
    struct api_subject s = none;
    struct stored *ns = c->resource->namespaced ? store_get(c->server->store, "/namespaces", c->ns) : NULL;

    if (!c->resource->namespaced)
        return 0;
    s.name = c->ns;
    if (!ns)
        return api_fail(c, status_not_found(&s));
    if (!object_deleting(ns->value))
        return 0;
    _cleanup_free_ char *text =
        xasprintf("unable to create new content in namespace %s because it is being terminated", c->ns);
    _cleanup_free_ char *cause = xasprintf("namespace %s is being terminated", c->ns);
    s = api_subject(c);
    return api_fail(c, status_forbidden(&s, text,
                                        json_build("{s:s, s:s, s:s}", "reason", "NamespaceTerminating", "message",
                                                   cause, "field", "metadata.namespace")));
}

/* What a definition is about to take away may not grow any more. */
static int check_definition(struct api_call *c)
{
    _cleanup_free_ char *name = xasprintf("%s.%s", c->resource->plural, c->resource->group);
    struct stored *crd = c->resource->is_custom
                             ? store_get(c->server->store, "apiextensions.k8s.io/customresourcedefinitions", name)
                             : NULL;

    if (!crd || !object_deleting(crd->value))
        return 0;
    return api_fail(c, status_failure(405, "MethodNotAllowed",
                                      "create not allowed while custom resource definition is terminating", NULL));
}

static int run_strategy(struct api_call *c, struct json *object, const struct json *old)
{
    const struct strategy *strategy = strategy_for(c->resource);

    return strategy->prepare && !streq(c->subresource, "status") ? strategy->prepare(c, object, old) : 0;
}

static int validate(struct api_call *c, const struct json *object, const struct json *old)
{
    _cleanup_(field_errors_clear) struct field_errors errors = {0};
    const struct strategy *strategy = strategy_for(c->resource);

    metadata_check(c->resource, object, old, &errors);
    object_validate(c, object, old, &errors);
    if (strategy->validate && !*c->subresource)
        strategy->validate(c, object, old, &errors);
    if (strategy->validate_status && streq(c->subresource, "status"))
        strategy->validate_status(c, object, old, &errors);
    return field_errors_empty(&errors) ? 0 : api_fail_invalid(c, &errors);
}

/* What the namespace allows. */
static int admit(struct api_call *c, const struct json *object, const struct json *old)
{
    return limit_ranges_admit(c, object, old) < 0 ? -1 : quotas_admit(c, object, old);
}

static int put_new(struct api_call *c, struct json *object)
{
    _cleanup_free_ char *key = object_key(object);
    struct error err = ERROR_INIT;
    struct stored *stored = store_put(c->server->store, c->resource->store_name, key, object, 0, &err);

    if (!stored) {
        (void)api_fail_store(c, &err);
        error_clear(&err);
        return -1;
    }
    (void)stored_ref(stored); /* what follows may change it again */
    api_after_change(c->server, c->resource, NULL, stored->value);
    (void)api_answer_stored(c, 201, stored);
    stored_unref(stored);
    return 0;
}

static bool name_taken(const struct api_call *c, const char *name)
{
    _cleanup_free_ char *key = key_make(c->resource->namespaced ? c->ns : "", name);

    return store_get(c->server->store, c->resource->store_name, key) != NULL;
}

static int generate_name(struct api_call *c, struct json *metadata)
{
    for (int i = 0; i < GENERATE_TRIES; i++) {
        _cleanup_free_ char *name = metadata_generate_name(json_str_at(metadata, "generateName", NULL));
        if (!name_taken(c, name)) {
            json_set_str(metadata, "name", name);
            return 0;
        }
    }
    struct api_subject s = api_subject(c);
    struct json *status = status_exists(&s);
    json_set_str(status, "message",
                 "the server was not able to generate a unique name for the object, try again in a moment");
    json_set_int(json_ensure_object(status, "details"), "retryAfterSeconds", 1);
    return api_fail(c, status);
}

static int name_new(struct api_call *c, struct json *metadata)
{
    const char *name = json_str_or(json_get(metadata, "name"), "");
    struct api_subject s = api_subject(c);

    s.name = name;
    if (*name)
        return name_taken(c, name) ? api_fail(c, status_exists(&s)) : 0;
    if (*json_str_or(json_get(metadata, "generateName"), ""))
        return generate_name(c, metadata);
    return 0; /* validation says that a name is required */
}

/* Updates and patches that would create need the right to. */
static int may_create(struct api_call *c)
{
    const struct resource *r = c->resource;
    const struct access a = {
        .verb = "create", .group = r->group, .plural = r->plural, .subresource = "", .ns = c->ns, .name = c->name};
    _cleanup_free_ char *reason = NULL;

    if (c->internal || c->verb == VERB_CREATE || authorize(c->server->rbac, c->user, &a, &reason))
        return 0;
    return api_fail(c, authz_refusal(c->user, &a, reason));
}

int api_store_new(struct api_call *c, struct json *new_object)
{
    _cleanup_json_ struct json *object = new_object;
    struct json *metadata = json_get(object, "metadata");

    if (*json_str_or(json_get(metadata, "resourceVersion"), ""))
        return api_fail(c, status_bad_request("resourceVersion should not be set on objects to be created"));
    if (may_create(c) < 0 || check_namespace(c) < 0 || check_definition(c) < 0 || name_new(c, metadata) < 0)
        return -1;
    metadata_make_new(c, metadata);
    api_set_name(c, json_str_or(json_get(metadata, "name"), ""));
    if (c->resource->has_status)
        json_remove(object, "status");
    object_default(c, &object);
    if (run_strategy(c, object, NULL) < 0 || validate(c, object, NULL) < 0 || admit(c, object, NULL) < 0)
        return -1;
    object_track_fields(c, object, NULL);
    if (c->options.dry_run)
        return api_answer(c, 201, json_ref(object));
    return put_new(c, object_to_store(c->resource, take_ptr(object)));
}

void api_create(struct api_call *c)
{
    struct json *object = api_decode(c, c->body);

    if (object)
        (void)api_store_new(c, object);
}

/* --- update --- */

static int check_versions(struct api_call *c, struct stored *old, const struct json *metadata)
{
    const char *version = json_str_or(json_get(metadata, "resourceVersion"), "");
    const char *uid = json_str_or(json_get(metadata, "uid"), ""), *old_uid = object_uid(old->value);
    struct api_subject s = api_subject(c);

    if (*version && !streq(version, "0") &&
        !streq(version, json_str_or(json_at(old->value, "metadata", "resourceVersion", NULL), "")))
        return api_fail(c, status_conflict(&s, NULL));
    if (!*version && c->verb == VERB_UPDATE && !c->resource->unconditional_update && !c->internal) {
        s.kind = s.plural;
        return api_fail(
            c, status_invalid(&s, "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update",
                              json_build("[{s:s, s:s, s:s}]", "reason", "FieldValueInvalid", "message",
                                         "Invalid value: 0x0: must be specified for an update", "field",
                                         "metadata.resourceVersion")));
    }
    if (!*uid || streq(uid, old_uid))
        return 0;
    _cleanup_free_ char *text = xasprintf("StorageError: invalid object, Code: 4, Key: /%s/%s, ResourceVersion: 0, "
                                          "AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in "
                                          "object meta: %s",
                                          c->resource->store_name, old->key, uid, old_uid);
    return api_fail(c, status_conflict(&s, text));
}

/* Only the part of the object that the (sub)resource writes comes from the client. */
static struct json *merge_parts(struct api_call *c, struct json *object, const struct json *old)
{
    if (streq(c->subresource, "status")) {
        struct json *merged = json_copy_shallow(old);
        json_set(merged, "status", json_ref(json_get(object, "status")));
        if (!json_get(object, "status"))
            json_remove(merged, "status");
        struct json *fields = json_at(object, "metadata", "managedFields", NULL);
        struct json *metadata = json_own(merged, "metadata");
        if (c->fields_tracked && fields)
            json_set(metadata, "managedFields", json_ref(fields));
        json_unref(object);
        return merged;
    }
    if (*c->subresource && strategy_for(c->resource)->merge)
        return strategy_for(c->resource)->merge(c, object, old);
    if (c->resource->has_status) {
        json_remove(object, "status");
        if (json_has(old, "status"))
            json_set(object, "status", json_ref(json_get(old, "status")));
    }
    return object;
}

/* Whether anything that generation counts differs. */
static bool wanted_changed(const struct resource *r, const struct json *a, const struct json *b)
{
    for (struct json_iter it = {0}; json_each(a, &it);)
        if (!streq(it.key, "metadata") && !(r->has_status && streq(it.key, "status")) &&
            !json_equal(it.value, json_get(b, it.key)))
            return true;
    return false;
}

static void count_generation(const struct resource *r, struct json *object, const struct json *old)
{
    if (!r->has_generation)
        return;
    int64_t generation = object_generation(old);
    if (wanted_changed(r, object, old) || wanted_changed(r, old, object))
        generation++;
    json_set_int(json_get(object, "metadata"), "generation", MAX(generation, 1));
}

/* Deletion waits for finalizers and, for pods, for the node. When both are done the update is the deletion. */
static bool deletion_complete(const struct resource *r, const struct json *object)
{
    const struct json *metadata = json_get(object, "metadata");

    return object_deleting(object) && json_size(json_get(metadata, "finalizers")) == 0 &&
           json_int_or(json_get(metadata, "deletionGracePeriodSeconds"), 0) == 0 &&
           object_spec_finalizers(r, object) == 0;
}

static int put_change(struct api_call *c, struct stored *old, struct json *object)
{
    struct apiserver *s = c->server;
    const char *store_name = c->resource->store_name;
    struct error err = ERROR_INIT;
    struct stored *before = stored_ref(old);
    int r = 0;

    object = object_to_store(c->resource, object);
    if (deletion_complete(c->resource, object)) {
        struct json *last = json_ref(object);
        r = store_delete(s->store, store_name, before->key, object, before->revision, &err);
        if (r == 0) {
            c->result.revision = store_revision(s->store);
            (void)api_answer(c, 200, object_shown(c->resource, last));
            api_after_change(s, c->resource, before->value, NULL);
        }
        json_unref(last);
    } else {
        struct stored *stored =
            stored_ref(store_put(s->store, store_name, before->key, object, before->revision, &err));
        r = stored ? 0 : -1;
        if (stored) {
            api_after_change(s, c->resource, before->value, stored->value);
            (void)api_answer_stored(c, 200, stored);
        }
        stored_unref(stored);
    }
    if (r < 0)
        (void)api_fail_store(c, &err);
    error_clear(&err);
    stored_unref(before);
    return r < 0 ? -1 : 0;
}

int api_store_change(struct api_call *c, struct stored *old, struct json *new_object)
{
    _cleanup_json_ struct json *object = new_object;
    _cleanup_json_ struct json *before = object_shown(c->resource, old->value);

    if (check_versions(c, old, json_get(object, "metadata")) < 0)
        return -1;
    object = merge_parts(c, take_ptr(object), before);
    metadata_keep_old(json_get(object, "metadata"), before);
    object_default(c, &object);
    if (run_strategy(c, object, before) < 0 || validate(c, object, before) < 0 || admit(c, object, before) < 0)
        return -1;
    count_generation(c->resource, object, before);
    object_track_fields(c, object, before);
    json_set_str(json_get(object, "metadata"), "resourceVersion",
                 json_str_at(before, "metadata", "resourceVersion", NULL));
    if (json_equal(object, before) || managed_fields_only_times_differ(object, before))
        return api_answer_stored(c, 200, old);
    if (c->options.dry_run)
        return api_answer(c, 200, json_ref(object));
    return put_change(c, old, take_ptr(object));
}

void api_update(struct api_call *c)
{
    _cleanup_free_ char *key = key_make(c->resource->namespaced ? c->ns : "", c->name);
    struct stored *old = store_get(c->server->store, c->resource->store_name, key);

    if (!old && !(c->resource->create_on_update && !*c->subresource)) {
        (void)api_current(c); /* says 404 */
        return;
    }
    struct json *object = api_decode(c, c->body);
    if (!object)
        return;
    if (old)
        (void)api_store_change(c, old, object);
    else
        (void)api_store_new(c, object);
}
