#include "controllers/disruption.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

/* An evicted Pod whose deletion is not seen by then counts as staying. */
#define EVICTION_SEEN_NS (2 * 60 * NSEC_PER_SEC)

static bool ended(const struct json *pod)
{
    const char *phase = json_str_or(json_at(pod, "status", "phase", NULL), "");

    return streq(phase, "Succeeded") || streq(phase, "Failed");
}

/* An integer, or "N%" of all, rounded up. */
static int64_t amount(const struct json *v, int64_t all)
{
    const char *text = json_str(v);

    if (!text)
        return json_int_or(v, 0);
    _cleanup_free_ char *digits = xstrndup(text, strspn(text, "0123456789"));
    int64_t percent = 0;
    if (!parse_i64(digits, &percent))
        return 0; /* refused when the budget was written */
    return (all * MIN(percent, (int64_t)100) + 99) / 100;
}

/* The evictions that are still to be seen. */
static struct json *still_disrupted(const struct json *budget, const struct json *pods, int64_t now_ns,
                                    int64_t *ret_again_ns)
{
    const struct json *noted = json_at(budget, "status", "disruptedPods", NULL);
    struct json *kept = json_object_make();

    for (size_t i = 0; i < json_size(pods); i++) {
        const struct json *pod = json_item(pods, i);
        const char *since = json_str(json_get(noted, object_name(pod)));
        int64_t at;
        if (!since || object_deleting(pod) || !time_parse_rfc3339(since, &at) || at + EVICTION_SEEN_NS <= now_ns)
            continue;
        json_set_str(kept, object_name(pod), since);
        if (!*ret_again_ns || at + EVICTION_SEEN_NS < *ret_again_ns)
            *ret_again_ns = at + EVICTION_SEEN_NS;
    }
    return kept;
}

static int64_t desired_healthy(const struct json *budget, int64_t *expected)
{
    const struct json *min = json_at(budget, "spec", "minAvailable", NULL);
    const struct json *max = json_at(budget, "spec", "maxUnavailable", NULL);

    if (max)
        return MAX(*expected - amount(max, *expected), (int64_t)0);
    if (min)
        return amount(min, *expected);
    *expected = 0; /* no budget: nothing may go */
    return 0;
}

struct json *disruption_status(const struct json *budget, const struct json *pods, int64_t now_ns,
                               int64_t *ret_again_ns)
{
    int64_t expected = 0, healthy = 0;

    *ret_again_ns = 0;
    _cleanup_json_ struct json *disrupted = still_disrupted(budget, pods, now_ns, ret_again_ns);
    for (size_t i = 0; i < json_size(pods); i++) {
        const struct json *pod = json_item(pods, i);
        if (ended(pod))
            continue;
        expected++;
        if (!object_deleting(pod) && condition_true(pod, "Ready") && !json_has(disrupted, object_name(pod)))
            healthy++;
    }
    int64_t desired = desired_healthy(budget, &expected);
    int64_t allowed = expected > 0 ? MAX(healthy - desired, (int64_t)0) : 0;
    struct json *conditions = json_copy(json_at(budget, "status", "conditions", NULL));
    if (!conditions)
        conditions = json_array_make();
    (void)condition_set(conditions, "DisruptionAllowed", allowed > 0 ? "True" : "False",
                        allowed > 0 ? "SufficientPods" : "InsufficientPods", "", object_generation(budget), now_ns);
    struct json *status = json_build("{s:i, s:i, s:i, s:i, s:i, s:o}", "observedGeneration", object_generation(budget),
                                     "disruptionsAllowed", allowed, "currentHealthy", healthy, "desiredHealthy",
                                     desired, "expectedPods", expected, "conditions", conditions);
    if (json_size(disrupted) > 0)
        json_set(status, "disruptedPods", json_ref(disrupted));
    return status;
}

/* No selector covers nothing, an empty one everything. */
static bool covers(const struct json *budget, const struct json *pod)
{
    const struct json *wanted = json_at(budget, "spec", "selector", NULL);
    struct error err = ERROR_INIT;
    struct selector *s = wanted ? selector_from_object(wanted, &err) : NULL;
    bool matches = s && selector_matches(s, json_at(pod, "metadata", "labels", NULL));

    selector_free(s);
    error_clear(&err); /* refused when the budget was written */
    return matches;
}

static void reconcile(const struct world *w, const char *ns, const char *name, struct plan *plan)
{
    const struct json *budget = w->get(w, &KUBE_PDBS, ns, name);
    int64_t again;

    if (!budget)
        return;
    _cleanup_json_ struct json *all = w->list(w, &KUBE_PODS, ns), *pods = json_array_make();
    for (size_t i = 0; i < json_size(all); i++)
        if (covers(budget, json_item(all, i)))
            json_push(pods, json_ref(json_item(all, i)));
    _cleanup_json_ struct json *status = disruption_status(budget, pods, w->now_ns, &again);
    if (again)
        plan_requeue_at(plan, again);
    if (json_equal(status, json_get(budget, "status")))
        return;
    /* With its resourceVersion: an eviction that has taken from the budget meanwhile is not lost. */
    struct json *object = json_copy_shallow(budget);
    json_set(object, "status", json_ref(status));
    plan_update(plan, &KUBE_PDBS, "status", object);
}

static char **budgets_of(const struct world *w, const struct kube_resource *r UNUSED, const struct json *pod)
{
    const char *ns = object_namespace(pod);
    _cleanup_json_ struct json *budgets = w->list(w, &KUBE_PDBS, ns);
    char **keys = NULL;

    for (size_t i = 0; i < json_size(budgets); i++)
        if (covers(json_item(budgets, i), pod))
            keys = strv_append(keys, key_make(ns, object_name(json_item(budgets, i))));
    return keys;
}

static const struct kube_resource *const watched[] = {&KUBE_PODS, NULL};

const struct controller disruption_controller = {
    .name = "disruption-controller",
    .primary = &KUBE_PDBS,
    .watched = watched,
    .map = budgets_of,
    .reconcile = reconcile,
};
