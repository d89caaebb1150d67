#include "apiserver/quota.h"

#include "apiserver/pod_resources.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <event2/event.h>

#define STORE_NAME "/resourcequotas"
/* A store that could not take a status is asked again after this. */
#define RETRY_SECONDS 5

struct bound {
    const char *name; /* lives as long as the spec */
    struct quantity hard, used;
};

struct quota {
    struct quota *next; /* of the same namespace, by name */
    char *ns, *name;
    struct json *spec;
    struct bound *bounds; /* by name */
    size_t count;
    bool counted; /* used is right; otherwise it is counted when somebody asks */
    bool dirty;   /* the stored status may be behind */
};

struct quotas {
    struct apiserver *server;
    struct hashmap namespaces; /* name → first struct quota */
    bool rebuild;              /* the store has rolled back */
    struct event *turn;
};

static void schedule(struct quotas *q, int seconds)
{
    if (!evtimer_pending(q->turn, NULL))
        (void)evtimer_add(q->turn, &(struct timeval){.tv_sec = seconds}); /* fails only without memory */
}

static void mark_dirty(struct quotas *q, struct quota *one)
{
    one->dirty = true;
    schedule(q, 0);
}

/* --- the quotas there are --- */

static void quota_free(struct quota *one)
{
    free(one->ns);
    free(one->name);
    free(one->bounds);
    json_unref(one->spec);
    free(one);
}

static void quotas_of_namespace_free(void *value)
{
    for (struct quota *one = value, *next; one; one = next) {
        next = one->next;
        quota_free(one);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct bound *)a)->name, ((const struct bound *)b)->name);
}

static void read_spec(struct quota *one, const struct json *object)
{
    json_unref(one->spec);
    free(one->bounds);
    one->spec = json_ref(json_get(object, "spec"));
    const struct json *hard = json_get(one->spec, "hard");
    one->bounds = xcalloc(json_size(hard) + 1, sizeof(*one->bounds));
    one->count = 0;
    for (struct json_iter it = {0}; json_each(hard, &it);) {
        struct bound *b = &one->bounds[one->count];
        b->name = it.key;
        if (resource_amount(hard, it.key, &b->hard))
            one->count++;
    }
    qsort(one->bounds, one->count, sizeof(*one->bounds), by_name);
    one->counted = false;
}

static struct quota **find(struct quota **at, const char *name)
{
    while (*at && strcmp((*at)->name, name) < 0)
        at = &(*at)->next;
    return at;
}

/* A quota has come, changed or (now NULL) gone. */
static void quota_changed(struct quotas *q, const char *ns, const char *name, const struct json *now)
{
    struct quota *first = hashmap_get(&q->namespaces, ns), **at = find(&first, name), *one = *at;
    bool found = one && streq(one->name, name);

    if (!now && !found)
        return;
    if (!now) {
        *at = one->next;
        quota_free(one);
    } else if (!found) {
        one = xcalloc(1, sizeof(*one));
        one->ns = xstrdup(ns);
        one->name = xstrdup(name);
        one->next = *at;
        *at = one;
    }
    if (now && (!found || !json_equal(one->spec, json_get(now, "spec"))))
        read_spec(one, now);
    if (now)
        mark_dirty(q, one);
    if (first)
        (void)hashmap_put(&q->namespaces, ns, first);
    else
        (void)hashmap_remove(&q->namespaces, ns);
}

/* --- counting --- */

static void add_use(struct quota *one, const struct resource *r, const struct json *object, int sign)
{
    if (!quota_in_scope(one->spec, r->group, r->plural, object))
        return;
    for (size_t i = 0; i < one->count; i++) {
        struct bound *b = &one->bounds[i];
        struct quantity use = quota_use(b->name, r->group, r->plural, object);
        b->used = sign > 0 ? quantity_sum(b->used, use) : quantity_difference(b->used, use);
    }
}

static bool counts_any(const struct quota *one, const struct resource *r)
{
    for (size_t i = 0; i < one->count; i++)
        if (quota_counts(one->bounds[i].name, r->group, r->plural))
            return true;
    return false;
}

/* Several versions of a kind are views of the same objects. */
static bool seen_before(const struct resource *const *all, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (streq(all[k]->group, all[i]->group) && streq(all[k]->plural, all[i]->plural))
            return true;
    return false;
}

static void count(struct quotas *q, struct quota *one)
{
    size_t n;
    const struct resource *const *all = resource_table_list(q->server->resources, &n);

    if (one->counted)
        return;
    for (size_t i = 0; i < one->count; i++)
        one->bounds[i].used = (struct quantity){0};
    for (size_t i = 0; i < n; i++) {
        if (!all[i]->stored || !all[i]->namespaced || !counts_any(one, all[i]) || seen_before(all, i))
            continue;
        size_t items;
        struct stored **list = store_list(q->server->store, all[i]->store_name, one->ns, &items);
        for (size_t k = 0; k < items; k++)
            add_use(one, all[i], list[k]->value, 1);
        store_list_free(list, items);
    }
    one->counted = true;
}

void quotas_changed(struct quotas *q, const struct resource *r, const struct json *old, const struct json *new)
{
    const struct json *object = new ? new : old;
    bool is_quota = !*r->group && streq(r->plural, "resourcequotas");

    if (!q || !r->namespaced)
        return;
    const char *ns = object_namespace(object);
    if (is_quota)
        quota_changed(q, ns, object_name(object), new);
    for (struct quota *one = hashmap_get(&q->namespaces, ns); one; one = one->next) {
        if (!counts_any(one, r))
            continue;
        if (one->counted && old)
            add_use(one, r, old, -1);
        if (one->counted && new)
            add_use(one, r, new, 1);
        mark_dirty(q, one);
    }
}

/* --- admission --- */

static bool is_core(const struct resource *r, const char *plural)
{
    return !*r->group && streq(r->plural, plural);
}

struct excess {
    struct strbuf requested, used, limited;
};

static void add_amount(struct strbuf *to, const char *name, struct quantity amount)
{
    _cleanup_free_ char *text = quantity_format(&amount);

    strbuf_addf(to, "%s%s=%s", to->len ? "," : "", name, text);
}

static struct quantity scoped_use(const struct quota *one, const struct resource *r, const char *name,
                                  const struct json *object)
{
    return object && quota_in_scope(one->spec, r->group, r->plural, object)
               ? quota_use(name, r->group, r->plural, object)
               : (struct quantity){0};
}

static char *find_excess(struct quota *one, const struct resource *r, const struct json *object, const struct json *old)
{
    struct excess x = {0};
    char *text = NULL;

    for (size_t i = 0; i < one->count; i++) {
        const struct bound *b = &one->bounds[i];
        struct quantity more =
            quantity_difference(scoped_use(one, r, b->name, object), scoped_use(one, r, b->name, old));
        if (more.nano <= 0 || b->used.nano + more.nano <= b->hard.nano)
            continue;
        add_amount(&x.requested, b->name, more);
        add_amount(&x.used, b->name, b->used);
        add_amount(&x.limited, b->name, b->hard);
    }
    if (x.requested.len)
        text = xasprintf("exceeded quota: %s, requested: %s, used: %s, limited: %s", one->name, x.requested.data,
                         x.used.data, x.limited.data);
    strbuf_free(&x.requested);
    strbuf_free(&x.used);
    strbuf_free(&x.limited);
    return text;
}

static int admit(struct api_call *c, struct quota *one, const struct json *object, const struct json *old)
{
    const struct resource *r = c->resource;
    struct api_subject s = api_subject(c);
    _cleanup_free_ char *text = NULL;

    if (!counts_any(one, r))
        return 0;
    if (is_core(r, "pods") && quota_in_scope(one->spec, r->group, r->plural, object)) {
        _cleanup_free_ char *missing = quota_missing(json_get(one->spec, "hard"), json_get(object, "spec"));
        if (missing)
            text = xasprintf("failed quota: %s: must specify %s", one->name, missing);
    }
    if (!text) {
        count(c->server->quotas, one);
        text = find_excess(one, r, object, old);
    }
    return text ? api_fail(c, status_forbidden(&s, text, NULL)) : 0;
}

int quotas_admit(struct api_call *c, const struct json *object, const struct json *old)
{
    const struct resource *r = c->resource;

    /* What is already there keeps what it has: only what can grow is asked again. */
    if (!c->server->quotas || !r->namespaced || streq(c->subresource, "status") ||
        (old && !is_core(r, "pods") && !is_core(r, "services") && !is_core(r, "persistentvolumeclaims")) ||
        (old && is_core(r, "pods") && !streq(c->subresource, "resize")))
        return 0;
    for (struct quota *one = hashmap_get(&c->server->quotas->namespaces, c->ns); one; one = one->next)
        if (admit(c, one, object, old) < 0)
            return -1;
    return 0;
}

/* --- the status --- */

static struct json *make_status(const struct quota *one)
{
    struct json *hard = json_object_make(), *used = json_object_make();

    for (size_t i = 0; i < one->count; i++) {
        const struct bound *b = &one->bounds[i];
        _cleanup_free_ char *text = quantity_format(&b->used);
        json_set(hard, b->name, json_ref(json_get(json_get(one->spec, "hard"), b->name)));
        json_set_str(used, b->name, text);
    }
    return json_build("{s:o, s:o}", "hard", hard, "used", used);
}

static bool write_status(struct quotas *q, struct quota *one)
{
    const struct resource *r = resource_by_plural(q->server->resources, "", "v1", "resourcequotas");
    _cleanup_free_ char *key = key_make(one->ns, one->name);
    struct stored *current = store_get(q->server->store, STORE_NAME, key);

    count(q, one);
    one->dirty = false;
    _cleanup_json_ struct json *status = make_status(one);
    if (!current || json_equal(json_get(current->value, "status"), status))
        return true;
    /* The whole status takes the place of the old one: names of bounds may have gone. */
    _cleanup_json_ struct json *object = json_copy_shallow(current->value);
    json_set(object, "status", json_ref(status));
    struct api_call c = api_internal_call(q->server, VERB_UPDATE, r, one->ns, one->name);
    c.subresource = "status";
    c.body = object;
    api_execute(&c);
    bool ok = c.result.code < 400;
    api_result_clear(&c.result);
    return ok;
}

static void build(struct quotas *q);

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct quotas *q = arg;
    bool failed = false;

    (void)fd;
    (void)what;
    if (q->rebuild)
        build(q);
    for (struct hashmap_iter it = {0}; hashmap_next(&q->namespaces, &it);)
        for (struct quota *one = it.value; one; one = one->next)
            if (one->dirty && !write_status(q, one)) {
                one->dirty = true;
                failed = true;
            }
    if (failed) {
        (void)evtimer_del(q->turn);
        schedule(q, RETRY_SECONDS);
    }
}

/* --- start and rollback --- */

void quotas_forget(struct quotas *q)
{
    q->rebuild = true;
    for (struct hashmap_iter it = {0}; hashmap_next(&q->namespaces, &it);)
        for (struct quota *one = it.value; one; one = one->next)
            one->counted = false;
    (void)evtimer_del(q->turn);
    schedule(q, 0);
}

static void build(struct quotas *q)
{
    size_t n;
    struct stored **list = store_list(q->server->store, STORE_NAME, NULL, &n);

    hashmap_free(&q->namespaces, quotas_of_namespace_free);
    q->namespaces = (struct hashmap){0};
    for (size_t i = 0; i < n; i++)
        quota_changed(q, object_namespace(list[i]->value), object_name(list[i]->value), list[i]->value);
    store_list_free(list, n);
    q->rebuild = false;
}

struct quotas *quotas_new(struct apiserver *s)
{
    struct quotas *q = xcalloc(1, sizeof(*q));

    q->server = s;
    q->turn = evtimer_new(s->base, on_turn, q);
    if (!q->turn)
        abort(); /* out of memory */
    build(q);
    return q;
}

void quotas_free(struct quotas *q)
{
    if (!q)
        return;
    hashmap_free(&q->namespaces, quotas_of_namespace_free);
    event_free(q->turn);
    free(q);
}
