/* The limits of the container that runs follow the Pod's spec (pods/resize), without a restart where that is possible.
 */
#include "node/pod_internal.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <inttypes.h>

static bool same_resources(const struct json *a, const struct json *b)
{
    return (json_size(a) == 0 && json_size(b) == 0) || json_equal(a, b);
}

/* Whether what differs is of a resource whose policy is RestartContainer. */
static bool must_restart(const struct json *container, const struct json *was, const struct json *is)
{
    static const char *const lists[] = {"requests", "limits"};
    const struct json *policies = json_get(container, "resizePolicy");

    for (size_t i = 0; i < json_size(policies); i++) {
        const char *name = json_str_or(json_get(json_item(policies, i), "resourceName"), "");
        if (!streq(json_str_or(json_get(json_item(policies, i), "restartPolicy"), ""), "RestartContainer"))
            continue;
        for (size_t l = 0; l < ARRAY_LEN(lists); l++)
            if (!json_equal(json_at(was, lists[l], name, NULL), json_at(is, lists[l], name, NULL)))
                return true;
    }
    return false;
}

/* A limit below what is in use would end the container instead of holding it. */
static int check_memory(const struct pod *p, uint64_t limit, struct error *err)
{
    struct native_usage usage = {0};

    if (!limit || native_usage(p->state.sandbox_id, &usage, NULL) < 0)
        return 0; /* the kernel has the last word */
    uint64_t used = usage.memory_now_bytes - MIN(usage.memory_cache_bytes, usage.memory_now_bytes);
    if (used <= limit)
        return 0;
    return error_set(err, EBUSY, "the container uses %" PRIu64 "Ki of memory, more than the new limit of %" PRIu64 "Ki",
                     used >> 10, limit >> 10);
}

static int apply(struct pod *p, const struct native_limits *was, struct error *err)
{
    const struct native_limits *is = &pod_container(p)->limits;
    int r = is->memory_bytes != was->memory_bytes ? check_memory(p, is->memory_bytes, err) : 0;

    if (r < 0)
        return r;
    r = native_set_limits(p->state.sandbox_id, is, err);
    if (r < 0)
        (void)native_set_limits(p->state.sandbox_id, was, NULL); /* all or nothing, as far as that goes */
    return r;
}

void pod_note_resources(struct pod *p)
{
    struct container_record *c = pod_record(p);
    const struct json *resources = json_get(pod_container(p)->object, "resources");

    json_unref(c->resources);
    c->resources = json_size(resources) ? json_ref((struct json *)resources) : NULL;
    p->state.resize = NULL;
}

void pod_follow_resources(struct pod *p, const struct native_limits *was)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    const struct pod_container *is = pod_container(p);
    const struct json *wanted = json_get(is->object, "resources");
    struct container_record *c = pod_record(p);

    if (same_resources(c->resources, wanted)) {
        p->state.resize = NULL;
        return;
    }
    if (must_restart(is->object, c->resources, wanted)) {
        node_event(p->node, p->object, "Normal", "Killing", "the container is resized; it is started again");
        p->replace = true;
        return;
    }
    if (apply(p, was, &err) < 0) {
        p->state.resize = "Infeasible";
        pod_warn(p, "ResizeFailed", error_text(&err));
        return;
    }
    pod_note_resources(p);
    pod_save(p);
}
