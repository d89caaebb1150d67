#include "kube/plan.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/timeutil.h"
#include "kube/object.h"

static struct plan_op *add(struct plan *p, enum kube_verb verb, const struct kube_resource *r, const char *ns,
                           const char *name, const char *subresource, struct json *body)
{
    GROW(p->ops, p->capacity, p->count + 1);
    p->ops[p->count] = (struct plan_op){.verb = verb,
                                        .resource = r,
                                        .ns = ns && *ns ? xstrdup(ns) : NULL,
                                        .name = name ? xstrdup(name) : NULL,
                                        .subresource = subresource ? xstrdup(subresource) : NULL,
                                        .body = body};
    return &p->ops[p->count++];
}

void plan_create(struct plan *p, const struct kube_resource *r, struct json *object)
{
    (void)add(p, KUBE_CREATE, r, object_namespace(object), NULL, NULL, object);
}

void plan_update(struct plan *p, const struct kube_resource *r, const char *subresource, struct json *object)
{
    (void)add(p, KUBE_UPDATE, r, object_namespace(object), object_name(object), subresource, object);
}

void plan_patch(struct plan *p, const struct kube_resource *r, const char *ns, const char *name,
                const char *subresource, struct json *patch)
{
    (void)add(p, KUBE_PATCH_MERGE, r, ns, name, subresource, patch);
}

void plan_delete(struct plan *p, const struct kube_resource *r, const char *ns, const char *name, const char *uid,
                 int64_t grace_seconds, const char *propagation)
{
    struct json *options =
        json_build("{s:s, s:s, s:o, s:o, s:s}", "kind", "DeleteOptions", "apiVersion", "v1", "preconditions",
                   uid ? json_build("{s:s}", "uid", uid) : NULL, "gracePeriodSeconds",
                   grace_seconds >= 0 ? json_int(grace_seconds) : NULL, "propagationPolicy", propagation);

    add(p, KUBE_DELETE, r, ns, name, NULL, options)->may_be_gone = true;
}

void plan_event(struct plan *p, const struct json *object, const char *type, const char *reason, const char *action,
                const char *message, const char *component, int64_t now_ns)
{
    char micro[TIME_RFC3339_MAX], seconds[TIME_RFC3339_MAX];
    const char *ns = *object_namespace(object) ? object_namespace(object) : "default";
    _cleanup_free_ char *suffix = random_hex(8);
    _cleanup_free_ char *name = xasprintf("%.220s.%s", object_name(object), suffix);

    time_format_rfc3339(now_ns, 6, micro);
    time_format_rfc3339(now_ns, 0, seconds);
    struct json *involved =
        json_build("{s:s, s:s, s:s, s:s, s:s, s:s}", "kind", object_kind(object), "namespace", object_namespace(object),
                   "name", object_name(object), "uid", object_uid(object), "apiVersion", object_api_version(object),
                   "resourceVersion", json_str(json_at(object, "metadata", "resourceVersion", NULL)));
    struct json *event = json_build(
        "{s:s, s:s, s:{s:s, s:s}, s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:{s:s}, s:s, s:s, s:i}", "apiVersion", "v1",
        "kind", "Event", "metadata", "name", name, "namespace", ns, "involvedObject", involved, "type", type, "reason",
        reason, "action", action, "message", message, "reportingComponent", component, "reportingInstance", component,
        "source", "component", component, "firstTimestamp", seconds, "lastTimestamp", seconds, "count", (int64_t)1);
    json_set_str(event, "eventTime", micro);
    (void)add(p, KUBE_CREATE, &KUBE_EVENTS, ns, NULL, NULL, event);
}

void plan_requeue_at(struct plan *p, int64_t at_ns)
{
    if (!p->requeue_at_ns || at_ns < p->requeue_at_ns)
        p->requeue_at_ns = at_ns;
}

void plan_free(struct plan *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->ops[i].ns);
        free(p->ops[i].name);
        free(p->ops[i].subresource);
        json_unref(p->ops[i].body);
    }
    free(p->ops);
    error_clear(&p->failure);
    *p = (struct plan){0};
}
