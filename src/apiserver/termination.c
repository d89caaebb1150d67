#include "apiserver/termination.h"

#include "apiserver/leftovers.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <event2/event.h>

/* Objects deleted before the loop looks at others. */
#define DELETIONS_PER_TURN 500
/* Only after a failed write. */
#define RETRY_SECONDS 1

#define CRD_FINALIZER "customresourcecleanup.apiextensions.k8s.io"

struct terminations {
    struct apiserver *server;
    struct hashmap namespaces, crds; /* name → t when it is to be looked at, else a token */
    struct event *turn;
};
static char waiting; /* the token */

static void on_turn(evutil_socket_t fd, short what, void *arg);

static void schedule(struct terminations *t, int seconds)
{
    if (!evtimer_pending(t->turn, NULL))
        (void)evtimer_add(t->turn, &(struct timeval){.tv_sec = seconds}); /* fails only without memory */
}

static void look_at(struct terminations *t, struct hashmap *m, const char *name)
{
    (void)hashmap_put(m, name, t);
    schedule(t, 0);
}

struct terminations *terminations_new(struct apiserver *s)
{
    struct terminations *t = xcalloc(1, sizeof(*t));

    t->server = s;
    t->turn = evtimer_new(s->base, on_turn, t);
    if (!t->turn)
        abort(); /* out of memory */
    return t;
}

void terminations_free(struct terminations *t)
{
    if (!t)
        return;
    event_free(t->turn);
    hashmap_free(&t->namespaces, NULL);
    hashmap_free(&t->crds, NULL);
    free(t);
}

void terminations_check_namespace(struct terminations *t, const struct json *ns)
{
    if (object_deleting(ns))
        look_at(t, &t->namespaces, object_name(ns));
}

void terminations_check_crd(struct terminations *t, const struct json *crd)
{
    if (object_deleting(crd))
        look_at(t, &t->crds, object_name(crd));
}

static char *crd_store_name(const struct json *crd)
{
    return xasprintf("%s/%s", json_str_or(json_at(crd, "spec", "group", NULL), ""),
                     json_str_or(json_at(crd, "spec", "names", "plural", NULL), ""));
}

void terminations_object_gone(struct terminations *t, const char *store_name, const struct json *object)
{
    const char *ns = object_namespace(object), *slash = strchr(store_name, '/');

    if (*ns && hashmap_get(&t->namespaces, ns))
        look_at(t, &t->namespaces, ns);
    if (t->crds.count == 0 || !slash)
        return;
    _cleanup_free_ char *crd = xasprintf("%s.%.*s", slash + 1, (int)(slash - store_name), store_name);
    if (hashmap_get(&t->crds, crd))
        look_at(t, &t->crds, crd);
}

static void each(struct terminations *t, const char *store_name,
                 void (*check)(struct terminations *, const struct json *))
{
    size_t count;
    struct stored **list = store_list(t->server->store, store_name, NULL, &count);

    for (size_t i = 0; i < count; i++)
        check(t, list[i]->value);
    store_list_free(list, count);
}

void terminations_scan(struct terminations *t)
{
    each(t, "/namespaces", terminations_check_namespace);
    each(t, "apiextensions.k8s.io/customresourcedefinitions", terminations_check_crd);
}

/* Deletes up to *budget objects of r and notes what is left, objects with finalizers or grace included. */
static void empty(struct terminations *t, const struct resource *r, const char *ns, size_t *budget, struct leftovers *l)
{
    size_t count, left = 0;
    struct stored **list = store_list(t->server->store, r->store_name, ns, &count);

    for (size_t i = 0; i < count; i++) {
        const struct json *o = list[i]->value;
        if (!object_deleting(o) && *budget > 0) {
            struct api_call c = api_internal_call(t->server, VERB_DELETE, r, object_namespace(o), object_name(o));
            (*budget)--;
            api_delete(&c);
            if (c.result.code >= 400 && c.result.code != 404 && c.result.code != 409)
                leftovers_add_failure(l, json_str_or(json_get(c.result.object, "message"), "refused"));
            api_result_clear(&c.result);
        }
        const struct stored *current = store_get(t->server->store, r->store_name, list[i]->key);
        if (!current)
            continue;
        left++;
        leftovers_add_finalizers(l, current->value);
    }
    leftovers_add(l, r, left);
    store_list_free(list, count);
}

/* Stores the object; without its last finalizers, the update is the deletion. */
static bool put(struct terminations *t, const struct resource *r, const char *name, const char *subresource,
                struct json *object)
{
    struct api_call c = api_internal_call(t->server, VERB_UPDATE, r, "", name);
    struct stored *current = store_get(t->server->store, r->store_name, name);

    c.subresource = subresource;
    bool done = current && api_store_change(&c, current, object) == 0;
    if (!current)
        json_unref(object);
    api_result_clear(&c.result);
    return done;
}

static bool without_finalizers(struct terminations *t, const struct resource *r, const char *name)
{
    struct stored *current = store_get(t->server->store, r->store_name, name);

    if (!current)
        return true;
    struct json *object = json_copy_shallow(current->value);
    (void)json_own(object, "metadata");
    json_remove(json_own(object, "spec"), "finalizers");
    return put(t, r, name, "finalize", object);
}

/* Says in the status what is waited for. */
static void tell(struct terminations *t, const struct resource *r, const char *name, const struct leftovers *l,
                 void (*conditions_of)(const struct leftovers *, struct json *, int64_t))
{
    struct stored *current = store_get(t->server->store, r->store_name, name);
    struct json *conditions = json_array_make();

    if (!current) {
        json_unref(conditions);
        return;
    }
    const struct json *before = json_at(current->value, "status", "conditions", NULL);
    for (size_t i = 0; i < json_size(before); i++)
        json_push(conditions, json_copy(json_item(before, i)));
    conditions_of(l, conditions, clock_now(t->server->clock));
    struct json *object = json_copy_shallow(current->value);
    (void)json_own(object, "metadata");
    json_set(json_own(object, "status"), "conditions", conditions);
    (void)put(t, r, name, "status", object); /* only a report: the next one may get through */
}

/* Several versions of a kind share their objects. */
static bool seen_before(const struct resource *const *all, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (streq(all[k]->store_name, all[i]->store_name))
            return true;
    return false;
}

/* Returns whether there is more to do without waiting for anything. */
static bool end_namespace(struct terminations *t, const char *name, bool *failed)
{
    size_t n, budget = DELETIONS_PER_TURN;
    _cleanup_(leftovers_clear) struct leftovers left = {0};
    const struct resource *namespaces = resource_by_plural(t->server->resources, "", "v1", "namespaces");
    const struct resource *const *all = resource_table_list(t->server->resources, &n);

    for (size_t i = 0; i < n; i++)
        if (all[i]->stored && all[i]->namespaced && !seen_before(all, i))
            empty(t, all[i], name, &budget, &left);
    *failed = left.failures > 0;
    if (left.objects > 0 && budget > 0)
        tell(t, namespaces, name, &left, leftovers_namespace_conditions);
    else if (left.objects == 0 && !without_finalizers(t, namespaces, name))
        *failed = true;
    return budget == 0;
}

static bool end_crd(struct terminations *t, const char *name, bool *failed)
{
    const struct resource *crds =
        resource_by_plural(t->server->resources, "apiextensions.k8s.io", "v1", "customresourcedefinitions");
    struct stored *crd = store_get(t->server->store, crds->store_name, name);
    size_t n, budget = DELETIONS_PER_TURN;
    _cleanup_(leftovers_clear) struct leftovers left = {0};

    if (!crd)
        return false;
    _cleanup_free_ char *store_name = crd_store_name(crd->value);
    const struct resource *const *all = resource_table_list(t->server->resources, &n);
    for (size_t i = 0; i < n; i++)
        if (all[i]->is_custom && streq(all[i]->store_name, store_name)) {
            empty(t, all[i], NULL, &budget, &left);
            break; /* the versions share their objects */
        }
    *failed = left.failures > 0;
    if (left.objects > 0 && budget > 0)
        tell(t, crds, name, &left, leftovers_definition_condition);
    if (left.objects > 0 || budget == 0)
        return budget == 0;
    struct json *object = json_copy_shallow(crd->value), *metadata = json_own(object, "metadata");
    struct json *kept = json_array_make();
    const struct json *finalizers = json_get(metadata, "finalizers");
    for (size_t i = 0; i < json_size(finalizers); i++)
        if (!streq(json_str_or(json_item(finalizers, i), ""), CRD_FINALIZER))
            json_push(kept, json_ref(json_item(finalizers, i)));
    json_set(metadata, "finalizers", kept);
    if (!put(t, crds, name, "", object))
        *failed = true;
    return false;
}

static void work(struct terminations *t, struct hashmap *m, const char *store_name,
                 bool (*end)(struct terminations *, const char *, bool *), bool *more, bool *failed)
{
    char **names = NULL;

    for (struct hashmap_iter it = {0}; hashmap_next(m, &it);)
        if (it.value == t)
            names = strv_append(names, xstrdup(it.key));
    for (size_t i = 0; names && names[i]; i++) {
        bool this_failed = false;
        (void)hashmap_put(m, names[i], &waiting);
        bool again = end(t, names[i], &this_failed) || this_failed;
        /* Not because of what was just written about it. */
        (void)hashmap_put(m, names[i], again ? (void *)t : &waiting);
        *more |= again;
        *failed |= this_failed;
        if (!store_get(t->server->store, store_name, names[i]))
            (void)hashmap_remove(m, names[i]);
    }
    strv_free(names);
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct terminations *t = arg;
    bool more = false, failed = false;

    (void)fd;
    (void)what;
    work(t, &t->namespaces, "/namespaces", end_namespace, &more, &failed);
    work(t, &t->crds, "apiextensions.k8s.io/customresourcedefinitions", end_crd, &more, &failed);
    if (more)
        schedule(t, failed ? RETRY_SECONDS : 0);
}
