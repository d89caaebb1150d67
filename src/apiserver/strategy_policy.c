/* What namespaces are held to: quotas, limit ranges, disruption budgets. */
#include "apiserver/limit_range.h"
#include "apiserver/pod_resources.h"
#include "apiserver/strategy.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

/* --- quotas --- */

static const char *const scopes[] = {
    "BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating", NULL};

static void check_hard(const struct json *hard, struct field_errors *errors)
{
    for (struct json_iter it = {0}; json_each(hard, &it);) {
        _cleanup_free_ char *field = xasprintf("spec.hard[%s]", it.key);
        const char *problem = quota_name_problem(it.key);
        struct quantity q;
        if (problem)
            field_invalid_str(errors, field, it.key, "%s", problem);
        if (!resource_amount(hard, it.key, &q))
            continue; /* the schema has said so */
        if (q.nano < 0)
            field_invalid(errors, field, it.value, "must be greater than or equal to 0");
        else if (quota_name_is_count(it.key) && quantity_milli(&q) % 1000 != 0)
            field_invalid(errors, field, it.value, "must be an integer");
    }
}

static bool scope_known(const char *scope)
{
    for (size_t i = 0; scopes[i]; i++)
        if (streq(scopes[i], scope))
            return true;
    return false;
}

static bool has(const struct json *array, const char *text)
{
    for (size_t i = 0; i < json_size(array); i++)
        if (streq(json_str_or(json_item(array, i), ""), text))
            return true;
    return false;
}

/* Scopes choose pods: a bound of anything else would never count. */
static void check_scopes(const struct json *spec, struct field_errors *errors)
{
    const struct json *list = json_get(spec, "scopes"),
                      *terms = json_at(spec, "scopeSelector", "matchExpressions", NULL);

    for (size_t i = 0; i < json_size(list); i++)
        if (!scope_known(json_str_or(json_item(list, i), "")))
            field_invalid(errors, "spec.scopes", list, "unsupported scope");
    if ((has(list, "BestEffort") && has(list, "NotBestEffort")) ||
        (has(list, "Terminating") && has(list, "NotTerminating")))
        field_invalid(errors, "spec.scopes", list, "conflicting scopes");
    for (size_t i = 0; i < json_size(terms); i++) {
        const struct json *t = json_item(terms, i);
        const char *scope = json_str_or(json_get(t, "scopeName"), ""), *op = json_str_or(json_get(t, "operator"), "");
        bool values = streq(op, "In") || streq(op, "NotIn");
        _cleanup_free_ char *field = xasprintf("spec.scopeSelector.matchExpressions[%zu]", i);
        _cleanup_free_ char *name_field = xasprintf("%s.scopeName", field), *op_field = xasprintf("%s.operator", field);
        if (!scope_known(scope))
            field_invalid_str(errors, name_field, scope, "unsupported scope");
        if (!values && !streq(op, "Exists") && !streq(op, "DoesNotExist"))
            field_invalid_str(errors, op_field, op, "not a valid selector operator");
        else if (!streq(scope, "PriorityClass") && !streq(op, "Exists"))
            field_invalid_str(errors, op_field, op,
                              "must be 'Exists' when scope is any of Terminating, "
                              "NotTerminating, BestEffort, NotBestEffort and "
                              "CrossNamespacePodAffinity");
        else if (values && json_size(json_get(t, "values")) == 0)
            field_required(errors, field,
                           "must be at least one value when `operator` is 'In' or 'NotIn' for scope "
                           "selector");
    }
    if (json_size(list) == 0 && json_size(terms) == 0)
        return;
    for (struct json_iter it = {0}; json_each(json_get(spec, "hard"), &it);)
        if (!quota_counts(it.key, "", "pods"))
            field_invalid(errors, "spec.scopes", list, "unsupported scope applied to resource");
}

static void validate_quota(const struct api_call *c, const struct json *o, const struct json *old,
                           struct field_errors *errors)
{
    const struct json *spec = json_get(o, "spec"), *old_spec = json_get(old, "spec");

    (void)c;
    check_hard(json_get(spec, "hard"), errors);
    check_scopes(spec, errors);
    if (old && !json_equal(json_get(spec, "scopes"), json_get(old_spec, "scopes")))
        field_invalid(errors, "spec.scopes", json_get(spec, "scopes"), "field is immutable");
}

const struct strategy strategy_quotas = {.group = "", .plural = "resourcequotas", .validate = validate_quota};

/* --- limit ranges --- */

static int prepare_limits(struct api_call *c, struct json *o, const struct json *old)
{
    (void)c;
    (void)old;
    if (json_size(json_at(o, "spec", "limits", NULL)) == 0 || !json_is(json_at(o, "spec", "limits", NULL), JSON_ARRAY))
        return 0;
    struct json *limits = json_own(json_own(o, "spec"), "limits");
    for (size_t i = 0; i < json_size(limits); i++)
        if (json_is(json_item(limits, i), JSON_OBJECT))
            limit_default_item(json_own_item(limits, i));
    return 0;
}

/* Where one list of an item has more than another. */
static void check_order(const struct json *item, const char *low, const char *low_text, const char *high,
                        const char *high_text, const char *field, struct field_errors *errors)
{
    const struct json *lows = json_get(item, low), *highs = json_get(item, high);
    struct quantity a, b;

    for (struct json_iter it = {0}; json_each(lows, &it);) {
        if (!resource_amount(lows, it.key, &a) || !resource_amount(highs, it.key, &b) || quantity_compare(&a, &b) <= 0)
            continue;
        _cleanup_free_ char *path = xasprintf("%s.%s[%s]", field, low, it.key);
        _cleanup_free_ char *a_text = quantity_format(&a), *b_text = quantity_format(&b);
        field_invalid_str(errors, path, a_text, "%s value %s is greater than %s value %s", low_text, a_text, high_text,
                          b_text);
    }
}

static void check_limit_item(const struct json *item, const char *field, struct field_errors *errors)
{
    static const char *const defaults[] = {"default", "defaultRequest"};
    const char *type = json_str_or(json_get(item, "type"), "");
    struct quantity q;

    for (size_t i = 0; streq(type, "Pod") && i < ARRAY_LEN(defaults); i++)
        if (json_size(json_get(item, defaults[i])) > 0) {
            _cleanup_free_ char *path = xasprintf("%s.%s", field, defaults[i]);
            field_forbidden(errors, path, "may not be specified when `type` is 'Pod'");
        }
    if (streq(type, "PersistentVolumeClaim") && !json_has(json_get(item, "min"), "storage") &&
        !json_has(json_get(item, "max"), "storage"))
        field_required(errors, field, "either minimum or maximum storage value is required, but neither was provided");
    check_order(item, "min", "min", "max", "max", field, errors);
    check_order(item, "min", "min", "defaultRequest", "default request", field, errors);
    check_order(item, "defaultRequest", "default request", "max", "max", field, errors);
    check_order(item, "defaultRequest", "default request", "default", "default limit", field, errors);
    check_order(item, "min", "min", "default", "default", field, errors);
    check_order(item, "default", "default", "max", "max", field, errors);
    const struct json *ratios = json_get(item, "maxLimitRequestRatio");
    for (struct json_iter it = {0}; json_each(ratios, &it);)
        if (resource_amount(ratios, it.key, &q) && quantity_milli(&q) < 1000) {
            _cleanup_free_ char *path = xasprintf("%s.maxLimitRequestRatio[%s]", field, it.key);
            field_invalid(errors, path, it.value, "ratio %s is less than 1", json_str_or(it.value, ""));
        }
}

static void validate_limits(const struct api_call *c, const struct json *o, const struct json *old,
                            struct field_errors *errors)
{
    const struct json *limits = json_at(o, "spec", "limits", NULL);

    (void)c;
    (void)old;
    for (size_t i = 0; i < json_size(limits); i++) {
        _cleanup_free_ char *field = xasprintf("spec.limits[%zu]", i), *type_field = xasprintf("%s.type", field);
        const char *type = json_str_or(json_get(json_item(limits, i), "type"), "");
        for (size_t k = 0; k < i; k++)
            if (streq(type, json_str_or(json_get(json_item(limits, k), "type"), "")))
                field_duplicate_str(errors, type_field, type);
        if (!streq(type, "Pod") && !streq(type, "Container") && !streq(type, "PersistentVolumeClaim") &&
            !strchr(type, '/'))
            field_invalid_str(errors, type_field, type, "must be a standard limit type or fully qualified");
        check_limit_item(json_item(limits, i), field, errors);
    }
}

const struct strategy strategy_limit_ranges = {
    .group = "", .plural = "limitranges", .prepare = prepare_limits, .validate = validate_limits};

/* --- disruption budgets --- */

static void check_amount(const struct json *v, const char *field, struct field_errors *errors)
{
    const char *text = json_str(v);

    if (!v)
        return;
    if (!text) {
        if (json_int_or(v, 0) < 0)
            field_invalid(errors, field, v, "must be greater than or equal to 0");
        return;
    }
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || !streq(text + digits, "%"))
        field_invalid_str(errors, field, text,
                          "a valid percent string must be a numeric string followed by an ending '%%' (e.g. '1%%',  or "
                          "'93%%', regex used for validation is '[0-9]+%%')");
    else if (digits > 3 || (digits == 3 && strcmp(text, "100%") > 0))
        field_invalid_str(errors, field, text, "must not be greater than 100%%");
}

static void validate_budget(const struct api_call *c, const struct json *o, const struct json *old,
                            struct field_errors *errors)
{
    const struct json *spec = json_get(o, "spec");
    struct error err = ERROR_INIT;

    (void)c;
    (void)old;
    if (json_get(spec, "minAvailable") && json_get(spec, "maxUnavailable"))
        field_invalid(errors, "spec", spec, "minAvailable and maxUnavailable cannot be both set");
    check_amount(json_get(spec, "minAvailable"), "spec.minAvailable", errors);
    check_amount(json_get(spec, "maxUnavailable"), "spec.maxUnavailable", errors);
    struct selector *s = selector_from_object(json_get(spec, "selector"), &err);
    if (!s)
        field_invalid(errors, "spec.selector", json_get(spec, "selector"), "%s", error_text(&err));
    selector_free(s);
    error_clear(&err);
}

const struct strategy strategy_budgets = {
    .group = "policy", .plural = "poddisruptionbudgets", .validate = validate_budget};
