/* The small ones: secrets, config maps, namespaces, events, claims, nodes. */
#include "apiserver/event_expiry.h"
#include "apiserver/scheduling.h"
#include "apiserver/service_token.h"
#include "apiserver/strategy.h"
#include "apiserver/termination.h"

#include "base/base64.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "kube/quantity.h"

/* --- secrets and config maps --- */

static int prepare_secret(struct api_call *c, struct json *o, const struct json *old)
{
    const struct json *plain = json_get(o, "stringData");

    (void)c;
    (void)old;
    if (json_size(plain) > 0) {
        struct json *data = json_own(o, "data");
        for (struct json_iter it = {0}; json_each(plain, &it);) {
            if (!json_str(it.value))
                continue; /* the schema has refused it */
            _cleanup_free_ char *encoded = base64_encode(json_str(it.value), json_string_len(it.value));
            json_set_str(data, it.key, encoded);
        }
    }
    json_remove(o, "stringData");
    if (!json_str(json_get(o, "type")))
        json_set_str(o, "type", "Opaque");
    return 0;
}

static void check_immutable(const struct json *o, const struct json *old, const char *const *keys,
                            struct field_errors *errors)
{
    if (!json_bool_or(json_get(old, "immutable"), false))
        return;
    if (!json_bool_or(json_get(o, "immutable"), false))
        field_forbidden(errors, "immutable", "field is immutable when `immutable` is set");
    for (; *keys; keys++)
        if (!json_equal(json_get(o, *keys), json_get(old, *keys)))
            field_forbidden(errors, *keys, "field is immutable when `immutable` is set");
}

static void check_data_keys(const struct json *o, const char *field, struct field_errors *errors)
{
    for (struct json_iter it = {0}; json_each(json_get(o, field), &it);) {
        _cleanup_free_ char *path = xasprintf("%s[%s]", field, it.key);
        const char *wrong = name_check_data_key(it.key);
        if (wrong)
            field_invalid_str(errors, path, it.key, "%s", wrong);
    }
}

/* What a Secret of a known type must hold, or one of them where any is set. */
static void check_secret_type(const struct json *o, struct field_errors *errors)
{
    static const struct {
        const char *type, *keys[2];
        bool any; /* one of them is enough */
    } types[] = {
        {"kubernetes.io/tls", {"tls.crt", "tls.key"}, false},
        {"kubernetes.io/basic-auth", {"username", "password"}, true},
        {"kubernetes.io/ssh-auth", {"ssh-privatekey"}, false},
        {"kubernetes.io/dockerconfigjson", {".dockerconfigjson"}, false},
        {"kubernetes.io/dockercfg", {".dockercfg"}, false},
    };
    const char *type = json_str_or(json_get(o, "type"), "");
    const struct json *data = json_get(o, "data");

    if (streq(type, "kubernetes.io/service-account-token") &&
        !object_annotation(o, "kubernetes.io/service-account.name"))
        field_required(errors, "metadata.annotations[kubernetes.io/service-account.name]", NULL);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        const char *const *keys = types[i].keys;
        if (!streq(type, types[i].type) ||
            (types[i].any && (json_has(data, keys[0]) || (keys[1] && json_has(data, keys[1])))))
            continue;
        for (size_t k = 0; k < 2 && keys[k]; k++) {
            _cleanup_free_ char *field = xasprintf("data[%s]", keys[k]);
            if (!json_has(data, keys[k]))
                field_required(errors, field, NULL);
        }
    }
}

static void validate_secret(const struct api_call *c, const struct json *o, const struct json *old,
                            struct field_errors *errors)
{
    static const char *const keys[] = {"data", NULL};

    (void)c;
    check_data_keys(o, "data", errors);
    check_secret_type(o, errors);
    for (struct json_iter it = {0}; json_each(json_get(o, "data"), &it);) {
        const char *text = json_str(it.value);
        _cleanup_free_ char *decoded = text ? base64_decode(text, json_string_len(it.value), NULL) : NULL;
        _cleanup_free_ char *field = xasprintf("data[%s]", it.key);
        if (text && !decoded)
            field_invalid_str(errors, field, "<secret contents redacted>", "must be base64");
    }
    if (!old)
        return;
    if (!json_equal(json_get(o, "type"), json_get(old, "type")))
        field_invalid(errors, "type", json_get(o, "type"), "field is immutable");
    check_immutable(o, old, keys, errors);
}

static void validate_config_map(const struct api_call *c, const struct json *o, const struct json *old,
                                struct field_errors *errors)
{
    static const char *const keys[] = {"data", "binaryData", NULL};

    (void)c;
    check_data_keys(o, "data", errors);
    check_data_keys(o, "binaryData", errors);
    if (old)
        check_immutable(o, old, keys, errors);
}

const struct strategy strategy_secrets = {
    .group = "", .plural = "secrets", .prepare = prepare_secret, .validate = validate_secret};
const struct strategy strategy_config_maps = {.group = "", .plural = "configmaps", .validate = validate_config_map};

/* --- namespaces --- */

static int prepare_namespace(struct api_call *c, struct json *o, const struct json *old)
{
    struct json *metadata = json_get(o, "metadata");
    const char *name = json_str(json_get(metadata, "name"));

    if (name)
        json_set_str(json_own(metadata, "labels"), "kubernetes.io/metadata.name", name);
    if (!old) {
        json_set(json_own(o, "spec"), "finalizers", json_build("[s]", "kubernetes"));
        json_set(o, "status", json_build("{s:s}", "phase", "Active"));
    } else if (!streq(c->subresource, "finalize")) {
        struct json *spec = json_own(o, "spec"), *kept = json_at(old, "spec", "finalizers", NULL);
        if (kept)
            json_set(spec, "finalizers", json_ref(kept));
        else
            json_remove(spec, "finalizers");
    }
    return 0;
}

static struct json *merge_namespace(struct api_call *c, struct json *object, const struct json *old)
{
    struct json *merged = json_copy_shallow(old), *finalizers = json_at(object, "spec", "finalizers", NULL);

    (void)c;
    (void)json_own(merged, "metadata");
    struct json *spec = json_own(merged, "spec");
    json_remove(spec, "finalizers");
    if (json_size(finalizers) > 0)
        json_set(spec, "finalizers", json_ref(finalizers));
    json_unref(object);
    return merged;
}

static int check_delete_namespace(struct api_call *c, const struct json *object)
{
    static const char *const kept[] = {"default", "kube-system", "kube-public"};
    struct api_subject s = api_subject(c);

    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (streq(object_name(object), kept[i]))
            return api_fail(c, status_forbidden(&s, "this namespace may not be deleted", NULL));
    return 0;
}

static void mark_namespace(struct json *object)
{
    json_set_str(json_own(object, "status"), "phase", "Terminating");
}

static void after_namespace(struct apiserver *s, const struct json *old, const struct json *new)
{
    if (!old)
        service_account_make_default(s, object_name(new));
    if (new)
        terminations_check_namespace(s->terminations, new);
}

const struct strategy strategy_namespaces = {
    .group = "",
    .plural = "namespaces",
    .check_name = name_check_label,
    .prepare = prepare_namespace,
    .merge = merge_namespace,
    .check_delete = check_delete_namespace,
    .mark_deleted = mark_namespace,
    .after = after_namespace,
};

/* --- events --- */

static void validate_event(const struct api_call *c, const struct json *o, const struct json *old,
                           struct field_errors *errors)
{
    bool core = !*c->resource->group;
    const char *object = core ? "involvedObject" : "regarding";
    const char *ns = json_str_or(json_at(o, object, "namespace", NULL), "");
    _cleanup_free_ char *field = xasprintf("%s.namespace", object);

    if (old)
        return;
    if (*ns ? !streq(ns, c->ns) : !streq(c->ns, "default") && !streq(c->ns, "kube-system"))
        field_invalid_str(errors, field, ns, "does not match event.namespace");
    if (!core || json_str(json_get(o, "eventTime"))) {
        static const char *const needed[] = {"reportingInstance", "action", "reason"};
        const char *controller = core ? "reportingComponent" : "reportingController";
        if (!*json_str_or(json_get(o, controller), ""))
            field_required(errors, "reportingController", NULL);
        for (size_t i = 0; i < ARRAY_LEN(needed); i++)
            if (!*json_str_or(json_get(o, needed[i]), ""))
                field_required(errors, needed[i], NULL);
    }
}

static void after_event(struct apiserver *s, const struct json *old, const struct json *new)
{
    (void)old;
    if (new)
        event_expiry_note(s->event_expiry, new);
}

const struct strategy strategy_events = {
    .group = "", .plural = "events", .validate = validate_event, .after = after_event};
const struct strategy strategy_events_v1 = {
    .group = "events.k8s.io", .plural = "events", .validate = validate_event, .after = after_event};

/* --- claims --- */

#define DEFAULT_CLASS "storageclass.kubernetes.io/is-default-class"

/* A claim that names no class ("" is a name) gets the default one; of several the newest. */
static void set_default_class(struct api_call *c, struct json *spec)
{
    size_t count;
    struct stored **list = store_list(c->server->store, "storage.k8s.io/storageclasses", NULL, &count);
    const struct json *found = NULL;

    for (size_t i = 0; i < count; i++) {
        const struct json *class = list[i]->value;
        if (streq_null(object_annotation(class, DEFAULT_CLASS), "true") &&
            (!found || strcmp(json_str_or(json_at(class, "metadata", "creationTimestamp", NULL), ""),
                              json_str_or(json_at(found, "metadata", "creationTimestamp", NULL), "")) > 0))
            found = class;
    }
    if (found)
        json_set_str(spec, "storageClassName", object_name(found));
    store_list_free(list, count);
}

static int prepare_claim(struct api_call *c, struct json *o, const struct json *old)
{
    if (old)
        return 0;
    json_set(o, "status", json_build("{s:s}", "phase", "Pending"));
    if (json_is(json_get(o, "spec"), JSON_OBJECT) && !json_get(json_get(o, "spec"), "storageClassName") &&
        !object_annotation(o, "volume.beta.kubernetes.io/storage-class"))
        set_default_class(c, json_own(o, "spec"));
    return 0;
}

static struct json *claim_size(const struct json *claim)
{
    return json_at(claim, "spec", "resources", "requests", "storage", NULL);
}

/* More than the other; false when one is no quantity, which the schema tells. */
static bool is_larger(const struct json *size, const struct json *than)
{
    struct quantity a, b;

    return quantity_of_json(size, &a) == 0 && quantity_of_json(than, &b) == 0 && quantity_compare(&a, &b) > 0;
}

/* The volume is chosen once; a claim that has one may ask for more room. */
static void validate_claim_update(const struct json *o, const struct json *old, struct field_errors *errors)
{
    const struct json *spec = json_get(o, "spec"), *old_spec = json_get(old, "spec");
    bool bound = streq(json_str_or(json_at(old, "status", "phase", NULL), ""), "Bound");
    _cleanup_json_ struct json *allowed = json_copy_shallow(old_spec);

    if (!*json_str_or(json_get(old_spec, "volumeName"), "") && json_has(spec, "volumeName"))
        json_set(allowed, "volumeName", json_ref(json_get(spec, "volumeName")));
    if (bound && claim_size(o)) {
        json_set(json_own(json_own(allowed, "resources"), "requests"), "storage", json_ref(claim_size(o)));
        if (is_larger(claim_size(old), claim_size(o)))
            field_forbidden(errors, "spec.resources.requests.storage", "field can not be less than status.capacity");
    }
    if (!json_equal(allowed, spec))
        field_forbidden(errors, "spec",
                        "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
                        "bound claims");
}

static void validate_claim(const struct api_call *c UNUSED, const struct json *o, const struct json *old,
                           struct field_errors *errors)
{
    _cleanup_json_ struct json *zero = json_int(0);

    if (old) {
        validate_claim_update(o, old, errors);
        return;
    }
    if (!json_size(json_at(o, "spec", "accessModes", NULL)))
        field_required(errors, "spec.accessModes", "at least 1 access mode is required");
    if (!claim_size(o))
        field_required(errors, "spec.resources[storage]", NULL);
    else if (!is_larger(claim_size(o), zero))
        field_invalid(errors, "spec.resources[storage]", claim_size(o), "must be greater than zero");
}

const struct strategy strategy_claims = {
    .group = "", .plural = "persistentvolumeclaims", .prepare = prepare_claim, .validate = validate_claim};

/* --- nodes --- */

const struct strategy strategy_nodes = {.group = "", .plural = "nodes", .after = scheduling_node_changed};
