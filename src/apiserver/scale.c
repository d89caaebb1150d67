#include "apiserver/scale.h"

#include "apiserver/patch.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

/* ".spec.replicas" in an object; NULL when it is not there. */
static struct json *at_path(const struct json *o, const char *path)
{
    const struct json *v = o;

    while (path && *path == '.') {
        size_t len = strcspn(path + 1, ".");
        _cleanup_free_ char *key = xstrndup(path + 1, len);
        v = json_get(v, key);
        path += len + 1;
    }
    return (struct json *)v;
}

static void set_path(struct json *o, const char *path, struct json *value)
{
    while (*path == '.') {
        size_t len = strcspn(path + 1, ".");
        _cleanup_free_ char *key = xstrndup(path + 1, len);
        path += len + 1;
        if (*path == '.')
            o = json_own(o, key);
        else
            json_set(o, key, value);
    }
}

static struct json *scale_of(const struct resource *r, const struct json *object)
{
    const struct json *m = json_get(object, "metadata");
    const struct json *selector = at_path(object, r->scale.selector_path);
    int64_t seen = json_int_or(at_path(object, r->scale.status_path), 0);

    return json_build("{s:s, s:s, s:{s:s, s:s, s:s, s:s, s:s}, s:{s:O}, s:{s:i, s:s}}", "kind", "Scale", "apiVersion",
                      "autoscaling/v1", "metadata", "name", json_str(json_get(m, "name")), "namespace",
                      json_str(json_get(m, "namespace")), "uid", json_str(json_get(m, "uid")), "resourceVersion",
                      json_str(json_get(m, "resourceVersion")), "creationTimestamp",
                      json_str(json_get(m, "creationTimestamp")), "spec", "replicas",
                      at_path(object, r->scale.spec_path), "status", "replicas", seen, "selector",
                      r->scale.selector_path ? json_str(selector) : NULL);
}

static int answer_scale(struct api_call *c, const struct json *object)
{
    if (!json_is(at_path(object, c->resource->scale.spec_path), JSON_INT))
        return api_fail(c,
                        status_internal("the spec replicas field \"%s\" does not exist", c->resource->scale.spec_path));
    return api_answer(c, 200, scale_of(c->resource, object));
}

/* The scale the client wants; NULL: refused. */
static struct json *wanted_scale(struct api_call *c, const struct json *current)
{
    if (c->verb == VERB_UPDATE)
        return json_ref(c->body);
    return patch_plain(c, current);
}

static int change(struct api_call *c, struct stored *current)
{
    _cleanup_json_ struct json *shown = object_shown(c->resource, current->value);
    _cleanup_json_ struct json *scale = scale_of(c->resource, shown), *wanted = wanted_scale(c, scale);
    const struct json *replicas = json_at(wanted, "spec", "replicas", NULL);
    const char *version = json_str(json_at(wanted, "metadata", "resourceVersion", NULL));
    struct api_subject s = {.group = "autoscaling", .kind = "Scale", .plural = c->resource->plural, .name = c->name};

    if (c->result.code >= 400)
        return -1;
    if (!json_is(replicas, JSON_INT))
        return api_fail(c, status_bad_request("spec.replicas must be an integer"));
    if (json_int_or(replicas, 0) < 0) {
        _cleanup_free_ char *text =
            xasprintf("Invalid value: %lld: must be greater than or equal to 0", (long long)json_int_or(replicas, 0));
        _cleanup_free_ char *summary = xasprintf("spec.replicas: %s", text);
        return api_fail(c, status_invalid(&s, summary,
                                          json_build("[{s:s, s:s, s:s}]", "reason", "FieldValueInvalid", "message",
                                                     text, "field", "spec.replicas")));
    }
    struct json *object = json_copy_shallow(shown);
    if (version)
        json_set_str(json_own(object, "metadata"), "resourceVersion", version);
    else
        (void)json_own(object, "metadata");
    set_path(object, c->resource->scale.spec_path, json_ref((struct json *)replicas));
    struct api_call main_call = *c; /* a change of the object itself */
    main_call.subresource = "";
    int r = api_store_change(&main_call, current, object);
    c->result = main_call.result;
    if (r < 0)
        return r;
    _cleanup_json_ struct json *now = json_ref(c->result.object);
    stored_unref(take_ptr(c->result.stored));
    return answer_scale(c, now);
}

void scale_execute(struct api_call *c)
{
    struct stored *current = api_current(c);

    if (!current)
        return;
    if (c->verb != VERB_GET) {
        (void)change(c, current);
        return;
    }
    _cleanup_json_ struct json *shown = object_shown(c->resource, current->value);
    c->result.revision = current->revision;
    (void)answer_scale(c, shown);
}
