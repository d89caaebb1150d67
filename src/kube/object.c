#include "kube/object.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"

static const char *text(const struct json *v)
{
    return json_str_or(v, "");
}

static const struct json *meta(const struct json *o, const char *key)
{
    return json_get(json_get(o, "metadata"), key);
}

const char *object_kind(const struct json *o)
{
    return text(json_get(o, "kind"));
}

const char *object_api_version(const struct json *o)
{
    return text(json_get(o, "apiVersion"));
}

const char *object_name(const struct json *o)
{
    return text(meta(o, "name"));
}

const char *object_namespace(const struct json *o)
{
    return text(meta(o, "namespace"));
}

const char *object_uid(const struct json *o)
{
    return text(meta(o, "uid"));
}

int64_t object_revision(const struct json *o)
{
    int64_t revision = 0;

    return parse_i64(text(meta(o, "resourceVersion")), &revision) ? revision : 0;
}

int64_t object_generation(const struct json *o)
{
    return json_int_or(meta(o, "generation"), 0);
}

bool object_deleting(const struct json *o)
{
    return json_str(meta(o, "deletionTimestamp")) != NULL;
}

const char *object_label(const struct json *o, const char *key)
{
    return json_str(json_get(meta(o, "labels"), key));
}

const char *object_annotation(const struct json *o, const char *key)
{
    return json_str(json_get(meta(o, "annotations"), key));
}

char *key_make(const char *ns, const char *name)
{
    return ns && *ns ? xasprintf("%s/%s", ns, name) : xstrdup(name);
}

char *object_key(const struct json *o)
{
    return key_make(object_namespace(o), object_name(o));
}

const struct json *object_controller(const struct json *o)
{
    const struct json *refs = meta(o, "ownerReferences");

    for (size_t i = 0; i < json_size(refs); i++) {
        const struct json *ref = json_item(refs, i);
        if (json_bool_or(json_get(ref, "controller"), false))
            return ref;
    }
    return NULL;
}

bool object_controlled_by(const struct json *o, const char *uid)
{
    const char *controller = json_str(json_get(object_controller(o), "uid"));

    return controller && streq(controller, uid);
}

struct json *owner_reference(const struct json *owner)
{
    return json_build("{s:s, s:s, s:s, s:s, s:b, s:b}", "apiVersion", object_api_version(owner), "kind",
                      object_kind(owner), "name", object_name(owner), "uid", object_uid(owner), "controller", 1,
                      "blockOwnerDeletion", 1);
}

static size_t condition_index(const struct json *conditions, const char *type)
{
    size_t i;

    for (i = 0; i < json_size(conditions); i++)
        if (streq(text(json_get(json_item(conditions, i), "type")), type))
            break;
    return i;
}

const struct json *condition_find(const struct json *conditions, const char *type)
{
    return json_item(conditions, condition_index(conditions, type));
}

bool condition_true(const struct json *object, const char *type)
{
    const struct json *c = condition_find(json_at(object, "status", "conditions", NULL), type);

    return streq(text(json_get(c, "status")), "True");
}

bool condition_set(struct json *conditions, const char *type, const char *status, const char *reason,
                   const char *message, int64_t observed_generation, int64_t now_ns)
{
    size_t i = condition_index(conditions, type);
    const struct json *old = json_item(conditions, i);
    bool same_status = old && streq(text(json_get(old, "status")), status);

    if (same_status && streq(text(json_get(old, "reason")), reason ? reason : "") &&
        streq(text(json_get(old, "message")), message ? message : "") &&
        (observed_generation < 0 || json_int_or(json_get(old, "observedGeneration"), -1) == observed_generation))
        return false;
    char now[TIME_RFC3339_MAX];
    time_format_rfc3339(now_ns, 0, now);
    const char *since = same_status ? json_str(json_get(old, "lastTransitionTime")) : NULL;
    struct json *c = json_build("{s:s, s:s, s:o, s:s, s:s, s:s}", "type", type, "status", status, "observedGeneration",
                                observed_generation < 0 ? NULL : json_int(observed_generation), "lastTransitionTime",
                                since ? since : now, "reason", reason, "message", message);
    if (old)
        json_set_item(conditions, i, c);
    else
        json_push(conditions, c);
    return true;
}

bool condition_remove(struct json *conditions, const char *type)
{
    size_t i = condition_index(conditions, type);

    if (i >= json_size(conditions))
        return false;
    json_remove_item(conditions, i);
    return true;
}
