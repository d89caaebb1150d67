/*
 * Forms of an object. Custom kinds differ between versions in apiVersion alone (conversion strategy None). Events are
 * the one built-in kind with two forms: core/v1, in which they lie in the store, and events.k8s.io/v1.
 */
#include "apiserver/server_internal.h"

#include "base/strutil.h"
#include "kube/object.h"

/* core name, events.k8s.io name */
static const char *const event_fields[][2] = {
    {"involvedObject", "regarding"},
    {"message", "note"},
    {"source", "deprecatedSource"},
    {"firstTimestamp", "deprecatedFirstTimestamp"},
    {"lastTimestamp", "deprecatedLastTimestamp"},
    {"count", "deprecatedCount"},
    {"reportingComponent", "reportingController"},
};

static const char *renamed(const char *key, bool to_core)
{
    for (size_t i = 0; i < ARRAY_LEN(event_fields); i++)
        if (streq(key, event_fields[i][to_core]))
            return event_fields[i][!to_core];
    return key;
}

static struct json *convert(const struct json *object, const char *api_version, bool event, bool to_core)
{
    struct json *converted = json_object_make();

    for (struct json_iter it = {0}; json_each(object, &it);)
        json_set(converted, event ? renamed(it.key, to_core) : it.key, json_ref(it.value));
    json_set_str(converted, "apiVersion", api_version);
    return converted;
}

static bool is_event(const struct resource *r)
{
    return streq(r->kind, "Event") && !r->is_custom;
}

struct json *object_shown(const struct resource *r, const struct json *stored)
{
    if (streq(object_api_version(stored), r->api_version))
        return json_ref((struct json *)stored);
    return convert(stored, r->api_version, is_event(r), false);
}

struct json *object_to_store(const struct resource *r, struct json *object)
{
    if (streq(r->group, r->storage_group) && streq(r->version, r->storage_version))
        return object;
    char api_version[512];
    (void)snprintf(api_version, sizeof(api_version), "%s%s%s", r->storage_group, *r->storage_group ? "/" : "",
                   r->storage_version);
    struct json *converted = convert(object, api_version, is_event(r), true);
    json_unref(object);
    return converted;
}
