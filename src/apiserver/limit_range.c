#include "apiserver/limit_range.h"

#include "apiserver/pod_resources.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#define STORE_NAME "/limitranges"
#define ANNOTATION "kubernetes.io/limit-ranger"
/* Ratios of amounts below this are compared in thousandths, so that a ratio of 1.5 can be told. */
#define MILLI_MAX (INT64_MAX / 1000)

/* --- defaults --- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *join(char **v, const char *separator)
{
    struct strbuf out = {0};

    for (size_t i = 0; v && v[i]; i++)
        strbuf_addf(&out, "%s%s", i ? separator : "", v[i]);
    return strbuf_detach(&out);
}

/* Puts the defaults that list has not into it; names them. */
static char *fill(struct json *container, const char *list, const struct json *defaults)
{
    _cleanup_strv_ char **names = NULL;

    for (struct json_iter it = {0}; json_each(defaults, &it);) {
        if (json_has(json_at(container, "resources", list, NULL), it.key))
            continue;
        json_set(json_own(json_own(container, "resources"), list), it.key, json_ref(it.value));
        names = strv_append(names, xstrdup(it.key));
    }
    if (!names)
        return NULL;
    qsort(names, strv_len(names), sizeof(*names), by_text);
    return join(names, ", ");
}

char **limit_default_container(const struct json *item, struct json *container, const char *what, char **given)
{
    const char *name = json_str_or(json_get(container, "name"), "");
    _cleanup_free_ char *limits = fill(container, "limits", json_get(item, "default"));
    _cleanup_free_ char *requests = fill(container, "requests", json_get(item, "defaultRequest"));

    if (requests)
        given = strv_append(given, xasprintf("%s request for %s %s", requests, what, name));
    if (limits)
        given = strv_append(given, xasprintf("%s limit for %s %s", limits, what, name));
    return given;
}

static bool item_is(const struct json *item, const char *type)
{
    return streq(json_str_or(json_get(item, "type"), ""), type);
}

static char **default_list(const struct json *item, struct json *spec, const char *list, const char *what, char **given)
{
    if (json_size(json_get(spec, list)) == 0 || !json_is(json_get(spec, list), JSON_ARRAY))
        return given;
    struct json *containers = json_own(spec, list);
    for (size_t i = 0; i < json_size(containers); i++)
        if (json_is(json_item(containers, i), JSON_OBJECT))
            given = limit_default_container(item, json_own_item(containers, i), what, given);
    return given;
}

void limit_ranges_default(struct apiserver *s, const char *ns, struct json *metadata, struct json *spec)
{
    _cleanup_strv_ char **given = NULL;
    size_t count;
    struct stored **ranges = store_list(s->store, STORE_NAME, ns, &count);

    for (size_t i = 0; i < count; i++) {
        const struct json *items = json_at(ranges[i]->value, "spec", "limits", NULL);
        for (size_t k = 0; k < json_size(items); k++) {
            if (!item_is(json_item(items, k), "Container"))
                continue;
            given = default_list(json_item(items, k), spec, "containers", "container", given);
            given = default_list(json_item(items, k), spec, "initContainers", "init container", given);
        }
    }
    store_list_free(ranges, count);
    if (!given)
        return;
    _cleanup_free_ char *all = join(given, "; "), *text = xasprintf("LimitRanger plugin set: %s", all);
    json_set_str(json_own(metadata, "annotations"), ANNOTATION, text);
}

void limit_default_item(struct json *item)
{
    const struct json *max = json_get(item, "max"), *min = json_get(item, "min");

    if (!item_is(item, "Container"))
        return;
    for (struct json_iter it = {0}; json_each(max, &it);)
        if (!json_has(json_get(item, "default"), it.key))
            json_set(json_own(item, "default"), it.key, json_ref(it.value));
    _cleanup_json_ struct json *limits = json_ref(json_get(item, "default"));
    for (struct json_iter it = {0}; json_each(limits, &it);)
        if (!json_has(json_get(item, "defaultRequest"), it.key))
            json_set(json_own(item, "defaultRequest"), it.key, json_ref(it.value));
    for (struct json_iter it = {0}; json_each(min, &it);)
        if (!json_has(json_get(item, "defaultRequest"), it.key))
            json_set(json_own(item, "defaultRequest"), it.key, json_ref(it.value));
}

/* --- bounds --- */

/* What something asks for of one resource. */
struct wish {
    const char *type, *name;
    bool has_request, has_limit;
    struct quantity request, limit;
};

static char *text_of(const struct json *list, const char *name)
{
    struct quantity q = {0};

    (void)resource_amount(list, name, &q); /* validated when it was stored */
    return quantity_format(&q);
}

static char *amount(struct quantity q)
{
    return quantity_format(&q);
}

static char **check_min(const struct json *min, const struct wish *w, char **problems)
{
    _cleanup_free_ char *bound = text_of(min, w->name), *request = amount(w->request), *limit = amount(w->limit);
    struct quantity q = {0};

    (void)resource_amount(min, w->name, &q); /* as above */
    if (!w->has_request)
        return strv_append(
            problems, xasprintf("minimum %s usage per %s is %s.  No request is specified", w->name, w->type, bound));
    if (quantity_compare(&w->request, &q) < 0)
        return strv_append(
            problems, xasprintf("minimum %s usage per %s is %s, but request is %s", w->name, w->type, bound, request));
    if (w->has_limit && quantity_compare(&w->limit, &q) < 0)
        return strv_append(problems,
                           xasprintf("minimum %s usage per %s is %s, but limit is %s", w->name, w->type, bound, limit));
    return problems;
}

/* A claim has a request alone. */
static char **check_max(const struct json *max, const struct wish *w, bool limits, char **problems)
{
    _cleanup_free_ char *bound = text_of(max, w->name), *request = amount(w->request), *limit = amount(w->limit);
    struct quantity q = {0};

    (void)resource_amount(max, w->name, &q); /* as above */
    if (limits ? !w->has_limit : !w->has_request)
        return strv_append(problems, xasprintf("maximum %s usage per %s is %s.  No %s is specified", w->name, w->type,
                                               bound, limits ? "limit" : "request"));
    if (limits && quantity_compare(&w->limit, &q) > 0)
        return strv_append(problems,
                           xasprintf("maximum %s usage per %s is %s, but limit is %s", w->name, w->type, bound, limit));
    if (w->has_request && quantity_compare(&w->request, &q) > 0)
        return strv_append(
            problems, xasprintf("maximum %s usage per %s is %s, but request is %s", w->name, w->type, bound, request));
    return problems;
}

static char **check_ratio(const struct json *ratios, const struct wish *w, char **problems)
{
    _cleanup_free_ char *bound = text_of(ratios, w->name);
    struct quantity q = {0};

    (void)resource_amount(ratios, w->name, &q); /* as above */
    if (!w->has_request || w->request.nano == 0)
        return strv_append(problems, xasprintf("%s max limit to request ratio per %s is %s, but no request is "
                                               "specified or request is 0",
                                               w->name, w->type, bound));
    if (!w->has_limit || w->limit.nano == 0)
        return strv_append(problems, xasprintf("%s max limit to request ratio per %s is %s, but no limit is specified "
                                               "or limit is 0",
                                               w->name, w->type, bound));
    double ratio = (double)w->limit.nano / (double)w->request.nano;
    double most = quantity_value(&q) <= MILLI_MAX ? (double)quantity_milli(&q) / 1000 : (double)quantity_value(&q);
    if (ratio > most)
        return strv_append(problems, xasprintf("%s max limit to request ratio per %s is %s, but provided ratio is %f",
                                               w->name, w->type, bound, ratio));
    return problems;
}

typedef void (*wish_reader)(const struct json *from, const char *name, struct wish *ret);

static char **check_all(const struct json *item, const struct json *from, const char *type, wish_reader read,
                        bool limits, char **problems)
{
    const struct json *min = json_get(item, "min"), *max = json_get(item, "max");
    const struct json *ratios = json_get(item, "maxLimitRequestRatio");
    struct wish w = {.type = type};

    for (struct json_iter it = {0}; json_each(min, &it);) {
        w.name = it.key;
        read(from, it.key, &w);
        problems = check_min(min, &w, problems);
    }
    for (struct json_iter it = {0}; json_each(max, &it);) {
        w.name = it.key;
        read(from, it.key, &w);
        problems = check_max(max, &w, limits, problems);
    }
    for (struct json_iter it = {0}; limits && json_each(ratios, &it);) {
        w.name = it.key;
        read(from, it.key, &w);
        problems = check_ratio(ratios, &w, problems);
    }
    return problems;
}

static void read_container(const struct json *container, const char *name, struct wish *w)
{
    w->has_request = resource_amount(json_at(container, "resources", "requests", NULL), name, &w->request);
    w->has_limit = resource_amount(json_at(container, "resources", "limits", NULL), name, &w->limit);
}

static void read_pod(const struct json *spec, const char *name, struct wish *w)
{
    w->has_request = pod_resource(spec, "requests", name, &w->request);
    w->has_limit = pod_resource(spec, "limits", name, &w->limit);
}

static void read_claim(const struct json *claim, const char *name, struct wish *w)
{
    w->has_request = resource_amount(json_at(claim, "spec", "resources", "requests", NULL), name, &w->request);
    w->has_limit = false;
}

char **limit_check_pod(const struct json *item, const struct json *spec, char **problems)
{
    static const char *const lists[] = {"containers", "initContainers"};

    if (item_is(item, "Pod"))
        return check_all(item, spec, "Pod", read_pod, true, problems);
    for (size_t l = 0; item_is(item, "Container") && l < ARRAY_LEN(lists); l++) {
        const struct json *containers = json_get(spec, lists[l]);
        for (size_t i = 0; i < json_size(containers); i++)
            problems = check_all(item, json_item(containers, i), "Container", read_container, true, problems);
    }
    return problems;
}

char **limit_check_claim(const struct json *item, const struct json *claim, char **problems)
{
    if (!item_is(item, "PersistentVolumeClaim"))
        return problems;
    return check_all(item, claim, "PersistentVolumeClaim", read_claim, false, problems);
}

int limit_ranges_admit(struct api_call *c, const struct json *object, const struct json *old)
{
    bool pod = !*c->resource->group && streq(c->resource->plural, "pods");
    bool claim = !*c->resource->group && streq(c->resource->plural, "persistentvolumeclaims");
    struct api_subject s = api_subject(c);
    _cleanup_strv_ char **problems = NULL;
    size_t count;

    if ((!pod && !claim) || streq(c->subresource, "status") || (old && pod && !streq(c->subresource, "resize")) ||
        (old && json_equal(json_get(object, "spec"), json_get(old, "spec"))))
        return 0;
    struct stored **ranges = store_list(c->server->store, STORE_NAME, c->ns, &count);
    for (size_t i = 0; i < count; i++) {
        const struct json *items = json_at(ranges[i]->value, "spec", "limits", NULL);
        for (size_t k = 0; k < json_size(items); k++)
            problems = pod ? limit_check_pod(json_item(items, k), json_get(object, "spec"), problems)
                           : limit_check_claim(json_item(items, k), object, problems);
    }
    store_list_free(ranges, count);
    if (!problems)
        return 0;
    _cleanup_free_ char *all = join(problems, ", ");
    _cleanup_free_ char *text = problems[1] ? xasprintf("[%s]", all) : xstrdup(all);
    return api_fail(c, status_forbidden(&s, text, NULL));
}
