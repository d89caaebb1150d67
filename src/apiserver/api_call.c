#include "apiserver/server_internal.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

void api_result_clear(struct api_result *r)
{
    json_unref(r->object);
    stored_unref(r->stored);
    store_list_free(r->items, r->item_count);
    free(r->continue_token);
    strv_free(r->warnings);
    free(r->name);
    *r = (struct api_result){0};
}

struct api_subject api_subject(const struct api_call *c)
{
    return (struct api_subject){
        .group = c->resource->group, .plural = c->resource->plural, .kind = c->resource->kind, .name = c->name};
}

void api_set_name(struct api_call *c, const char *name)
{
    char *copy = xstrdup(name);

    free(c->result.name);
    c->name = c->result.name = copy;
}

struct api_call api_internal_call(struct apiserver *s, enum api_verb verb, const struct resource *r, const char *ns,
                                  const char *name)
{
    return (struct api_call){.server = s,
                             .internal = true,
                             .verb = verb,
                             .resource = r,
                             .ns = ns,
                             .name = name,
                             .subresource = "",
                             .options = API_OPTIONS_INIT};
}

int api_answer(struct api_call *c, int code, struct json *object)
{
    json_unref(c->result.object);
    c->result.object = object;
    c->result.code = code;
    return 0;
}

int api_answer_stored(struct api_call *c, int code, struct stored *stored)
{
    struct json *shown = object_shown(c->resource, stored->value);

    if (shown == stored->value)
        c->result.stored = stored_ref(stored);
    c->result.revision = stored->revision;
    return api_answer(c, code, shown);
}

int api_fail(struct api_call *c, struct json *status)
{
    (void)api_answer(c, status_code(status), status);
    return -1;
}

int api_fail_store(struct api_call *c, const struct error *err)
{
    struct api_subject s = api_subject(c);

    switch (err->code) {
    case ESTALE:
        return api_fail(c, status_conflict(&s, NULL));
    case EEXIST:
        return api_fail(c, status_exists(&s));
    case ENOENT:
        return api_fail(c, status_not_found(&s));
    default:
        return api_fail(c, status_store_failed(err));
    }
}

int api_fail_invalid(struct api_call *c, struct field_errors *errors)
{
    const struct resource *r = c->resource;
    _cleanup_free_ char *summary = field_errors_summary(errors, r->group, r->kind, c->name);
    struct json *details =
        json_build("{s:s, s:s, s:s, s:o}", "name", *c->name ? c->name : NULL, "group", *r->group ? r->group : NULL,
                   "kind", r->kind, "causes", field_errors_causes(errors));

    return api_fail(c, status_failure(422, "Invalid", summary, details));
}

void api_warn(struct api_call *c, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    c->result.warnings = strv_append(c->result.warnings, xvasprintf(fmt, ap));
    va_end(ap);
}

struct stored *api_current(struct api_call *c)
{
    _cleanup_free_ char *key = key_make(c->resource->namespaced ? c->ns : "", c->name);
    struct stored *current = store_get(c->server->store, c->resource->store_name, key);
    struct api_subject s = api_subject(c);

    if (!current)
        (void)api_fail(c, status_not_found(&s));
    return current;
}

size_t object_spec_finalizers(const struct resource *r, const struct json *object)
{
    bool ns = streq(r->plural, "namespaces") && !*r->group;

    return ns ? json_size(json_at(object, "spec", "finalizers", NULL)) : 0;
}

struct json *json_own(struct json *parent, const char *key)
{
    struct json *member = json_get(parent, key);
    struct json *copy =
        json_is(member, JSON_OBJECT) || json_is(member, JSON_ARRAY) ? json_copy_shallow(member) : json_object_make();

    json_set(parent, key, copy);
    return copy;
}

struct json *json_own_item(struct json *array, size_t index)
{
    struct json *copy = json_copy_shallow(json_item(array, index));

    json_set_item(array, index, copy);
    return copy;
}

void api_time_text(const struct apiserver *s, char out[TIME_RFC3339_MAX])
{
    time_format_rfc3339(clock_now(s->clock), 0, out);
}
