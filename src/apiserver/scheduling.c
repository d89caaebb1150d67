#include "apiserver/scheduling.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#define PODS "/pods"
#define NODES "/nodes"
#define DEFAULT_SCHEDULER "default-scheduler"

bool scheduling_node_exists(const struct apiserver *s, const char *name)
{
    return streq_null(s->node_name, name) || store_get(s->store, NODES, name);
}

static bool contains(const struct json *values, const char *value)
{
    for (size_t i = 0; i < json_size(values); i++)
        if (streq_null(json_str(json_item(values, i)), value))
            return true;
    return false;
}

/* One of matchExpressions or matchFields; value NULL: the node has no such label. */
static bool requirement_met(const struct json *requirement, const char *value)
{
    const char *operator= json_str_or(json_get(requirement, "operator"), "");
    const struct json *values = json_get(requirement, "values");
    const char *first = json_str_or(json_item(values, 0), "");
    int64_t has, wanted;

    if (streq(operator, "In"))
        return value && contains(values, value);
    if (streq(operator, "NotIn"))
        return !value || !contains(values, value);
    if (streq(operator, "Exists"))
        return value != NULL;
    if (streq(operator, "DoesNotExist"))
        return value == NULL;
    if (!value || !parse_i64(value, &has) || !parse_i64(first, &wanted))
        return false;
    return streq(operator, "Gt") ? has > wanted : streq(operator, "Lt") && has < wanted;
}

static bool term_met(const struct json *term, const struct json *node)
{
    const struct json *expressions = json_get(term, "matchExpressions"), *fields = json_get(term, "matchFields");

    for (size_t i = 0; i < json_size(expressions); i++) {
        const struct json *e = json_item(expressions, i);
        if (!requirement_met(e, object_label(node, json_str_or(json_get(e, "key"), ""))))
            return false;
    }
    for (size_t i = 0; i < json_size(fields); i++) {
        const struct json *e = json_item(fields, i);
        bool is_name = streq(json_str_or(json_get(e, "key"), ""), "metadata.name");
        if (!requirement_met(e, is_name ? object_name(node) : NULL))
            return false;
    }
    return json_size(expressions) + json_size(fields) > 0; /* an empty term fits nothing */
}

static bool affinity_met(const struct json *spec, const struct json *node)
{
    const struct json *terms = json_at(spec, "affinity", "nodeAffinity",
                                       "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", NULL);

    for (size_t i = 0; i < json_size(terms); i++)
        if (term_met(json_item(terms, i), node))
            return true;
    return json_size(terms) == 0;
}

static bool selector_met(const struct json *spec, const struct json *node)
{
    for (struct json_iter it = {0}; json_each(json_get(spec, "nodeSelector"), &it);)
        if (!streq_null(object_label(node, it.key), json_str(it.value)))
            return false;
    return true;
}

char *scheduling_obstacle(const struct apiserver *s, const struct json *spec)
{
    const char *scheduler = json_str_or(json_get(spec, "schedulerName"), DEFAULT_SCHEDULER);
    const struct stored *stored = store_get(s->store, NODES, s->node_name);
    /* Before the node has introduced itself nothing is known of it but the name. */
    _cleanup_json_ struct json *unknown = json_build("{s:{s:s}}", "metadata", "name", s->node_name);
    const struct json *node = stored ? stored->value : unknown;

    if (!streq(scheduler, DEFAULT_SCHEDULER))
        return xasprintf("there is no scheduler named \"%s\": leave spec.schedulerName out", scheduler);
    if (!selector_met(spec, node) || !affinity_met(spec, node))
        return xstrdup("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.");
    if (json_bool_or(json_at(node, "spec", "unschedulable", NULL), false))
        return xstrdup("0/1 nodes are available: 1 node(s) were unschedulable.");
    return NULL;
}

/* Unbound because of an obstacle; gates are lifted by their owners. */
static bool waits(const struct json *pod)
{
    const struct json *c = condition_find(json_at(pod, "status", "conditions", NULL), "PodScheduled");

    return !*json_str_or(json_at(pod, "spec", "nodeName", NULL), "") && !object_deleting(pod) &&
           streq(json_str_or(json_get(c, "reason"), ""), "Unschedulable");
}

static void bind_to_node(struct apiserver *s, const struct json *pod)
{
    const struct resource *r = resource_by_plural(s->resources, "", "v1", "pods");
    _cleanup_json_ struct json *body = json_build("{s:{s:s}}", "target", "name", s->node_name);
    struct api_call c = api_internal_call(s, VERB_CREATE, r, object_namespace(pod), object_name(pod));

    c.subresource = "binding";
    c.body = body;
    api_execute(&c); /* a refusal means that it has gone or changed: then it is looked at again by itself */
    api_result_clear(&c.result);
}

void scheduling_node_changed(struct apiserver *s, const struct json *old, const struct json *new)
{
    size_t count;

    if (!new || !streq_null(s->node_name, object_name(new)) ||
        (old && json_equal(json_get(old, "spec"), json_get(new, "spec")) &&
         json_equal(json_at(old, "metadata", "labels", NULL), json_at(new, "metadata", "labels", NULL))))
        return;
    struct stored **pods = store_list(s->store, PODS, NULL, &count);
    for (size_t i = 0; i < count; i++) {
        _cleanup_free_ char *obstacle =
            waits(pods[i]->value) ? scheduling_obstacle(s, json_get(pods[i]->value, "spec")) : NULL;
        if (!obstacle && waits(pods[i]->value))
            bind_to_node(s, pods[i]->value);
    }
    store_list_free(pods, count);
}
