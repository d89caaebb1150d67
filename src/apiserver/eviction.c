#include "apiserver/eviction.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <inttypes.h>

#define STORE_NAME "policy/poddisruptionbudgets"
/* What may be evicted while its budget's controller has not seen the last changes: a client asks again later. */
#define RETRY_SECONDS 10
/* A budget that has nothing left: the first retries of client-go come this fast, then those of kubectl drain. */
#define REFUSED_SECONDS 1
/* A budget whose evictions the controller has not yet seen the end of remembers at most so many. */
#define DISRUPTED_MAX 2000

static const char REFUSED[] = "Cannot evict pod as it would violate the pod's disruption budget.";

static int refuse(struct api_call *c, int64_t retry_seconds, const char *cause)
{
    struct json *details = json_build("{s:[{s:s, s:s}], s:i}", "causes", "reason", "DisruptionBudget", "message", cause,
                                      "retryAfterSeconds", retry_seconds);

    return api_fail(c, status_failure(429, "TooManyRequests", REFUSED, details));
}

/* The budgets that cover a pod; NULL with *ret_count 0 when none does. References. */
static struct stored **budgets_of(struct api_call *c, const struct json *pod, size_t *ret_count)
{
    size_t count, kept = 0;
    struct stored **list = store_list(c->server->store, STORE_NAME, c->ns, &count);

    for (size_t i = 0; i < count; i++) {
        const struct json *wanted = json_at(list[i]->value, "spec", "selector", NULL);
        struct error err = ERROR_INIT;
        struct selector *s = wanted ? selector_from_object(wanted, &err) : NULL;
        bool covers = s && selector_matches(s, json_at(pod, "metadata", "labels", NULL));
        selector_free(s);
        error_clear(&err);
        struct stored *one = list[i];
        if (covers)
            list[kept++] = one;
        else
            stored_unref(one);
    }
    *ret_count = kept;
    return list;
}

/* Pods that do not run yet, or no longer, disturb nobody when they go. */
static bool may_go_freely(const struct json *pod)
{
    const char *phase = json_str_or(json_at(pod, "status", "phase", NULL), "");

    return streq(phase, "Succeeded") || streq(phase, "Failed") || streq(phase, "Pending") || object_deleting(pod);
}

/* Takes one disruption from the budget. */
static int take_disruption(struct api_call *c, struct stored *budget, bool dry_run)
{
    const struct json *status = json_get(budget->value, "status");
    int64_t allowed = json_int_or(json_get(status, "disruptionsAllowed"), 0);
    const char *name = object_name(budget->value);

    if (json_int_or(json_get(status, "observedGeneration"), 0) < object_generation(budget->value)) {
        _cleanup_free_ char *text = xasprintf("The disruption budget %s is still being processed by the server.", name);
        return refuse(c, RETRY_SECONDS, text);
    }
    if (allowed <= 0) {
        _cleanup_free_ char *text = xasprintf(
            "The disruption budget %s needs %" PRId64 " healthy pods and has %" PRId64 " currently", name,
            json_int_or(json_get(status, "desiredHealthy"), 0), json_int_or(json_get(status, "currentHealthy"), 0));
        return refuse(c, REFUSED_SECONDS, text);
    }
    if (json_size(json_get(status, "disruptedPods")) >= DISRUPTED_MAX) {
        struct api_subject s = {.group = "policy", .plural = "poddisruptionbudgets", .name = name};
        return api_fail(c, status_forbidden(&s,
                                            "DisruptedPods map too big - too many evictions not confirmed by PDB "
                                            "controller",
                                            NULL));
    }
    if (dry_run)
        return 0;
    char now[TIME_RFC3339_MAX];
    api_time_text(c->server, now);
    _cleanup_json_ struct json *object = json_copy_shallow(budget->value);
    struct json *changed = json_own(object, "status");
    json_set_int(changed, "disruptionsAllowed", allowed - 1);
    json_set_str(json_own(changed, "disruptedPods"), c->name, now);
    const struct resource *r = resource_by_plural(c->server->resources, "policy", "v1", "poddisruptionbudgets");
    struct api_call write = api_internal_call(c->server, VERB_UPDATE, r, c->ns, name);
    write.subresource = "status";
    write.body = object;
    api_execute(&write);
    bool ok = write.result.code < 400;
    if (!ok)
        (void)api_fail(c, json_ref(write.result.object));
    api_result_clear(&write.result);
    return ok ? 0 : -1;
}

/* -1: the budgets say no. */
static int ask_budgets(struct api_call *c, const struct json *pod, bool dry_run)
{
    size_t count;
    int r = 0;

    if (may_go_freely(pod))
        return 0;
    struct stored **budgets = budgets_of(c, pod, &count);
    if (count > 1) {
        r = api_fail(c, status_failure(500, "InternalError",
                                       "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                                       "does not support.",
                                       json_object_make()));
    } else if (count == 1) {
        const struct json *b = budgets[0]->value, *status = json_get(b, "status");
        bool always = streq(json_str_or(json_at(b, "spec", "unhealthyPodEvictionPolicy", NULL), ""), "AlwaysAllow");
        int64_t desired = json_int_or(json_get(status, "desiredHealthy"), 0);
        bool enough = desired > 0 && json_int_or(json_get(status, "currentHealthy"), 0) >= desired;
        /* One that is not ready serves nobody: the budget loses nothing with it. */
        if (condition_true(pod, "Ready") || !(always || enough))
            r = take_disruption(c, budgets[0], dry_run);
    }
    store_list_free(budgets, count);
    return r;
}

static bool asks_dry_run(const struct api_call *c, const struct json *options)
{
    return c->options.dry_run || json_size(json_get(options, "dryRun")) > 0;
}

void eviction_execute(struct api_call *c)
{
    const char *named = json_str_or(json_at(c->body, "metadata", "name", NULL), "");
    const struct json *options = json_get(c->body, "deleteOptions");
    struct stored *pod = api_current(c);

    if (!pod)
        return;
    if (*named && !streq(named, c->name)) {
        (void)api_fail(c, status_bad_request("name in URL does not match name in Eviction object: %s", named));
        return;
    }
    if (ask_budgets(c, pod->value, asks_dry_run(c, options)) < 0)
        return;
    struct api_call deletion = *c;
    deletion.verb = VERB_DELETE;
    deletion.subresource = "";
    deletion.body = json_get(c->body, "deleteOptions");
    api_delete(&deletion);
    c->result = deletion.result;
    if (c->result.code < 400)
        (void)api_answer(c, 201,
                         json_build("{s:s, s:s, s:{}, s:s, s:i}", "kind", "Status", "apiVersion", "v1", "metadata",
                                    "status", "Success", "code", (int64_t)201));
}
