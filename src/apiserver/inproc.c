#include "apiserver/inproc.h"

#include "apiserver/filter.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <event2/event.h>
#include <inttypes.h>

struct completion;
struct watch;

struct inproc {
    struct kube kube;
    struct apiserver *server;
    struct completion *queue, **queue_tail;
    struct watch *watches;
    struct event *turn;
};

/* An answer that waits for the end of the turn. */
struct completion {
    kube_done done; /* of a request, or */
    void (*transaction)(void *arg, size_t completed, const int64_t *revisions, const struct error *err);
    void *arg;
    int status;
    struct json *object;
    struct error err;
    size_t completed;
    int64_t *revisions;
    struct completion *next;
};

struct watch {
    struct kube_watch watch;
    const struct kube_resource *kind;
    char *ns, *labels, *fields;
    const struct kube_watch_callbacks *cb;
    void *arg;
    struct resource *resource; /* NULL while nobody serves it */
    struct object_filter filter;
    struct store_watch *store_watch;
    struct hashmap known; /* key → last object reported, for what vanishes while the watch is broken */
    bool to_list, stopped;
    unsigned busy; /* callbacks on the stack */
    struct watch *next;
};

static void schedule(struct inproc *p)
{
    if (!evtimer_pending(p->turn, NULL))
        (void)evtimer_add(p->turn, &(struct timeval){0}); /* fails only without memory */
}

/* --- requests --- */

static const struct resource *find(struct inproc *p, const struct kube_resource *r)
{
    return resource_by_plural(p->server->resources, r->group, r->version, r->plural);
}

static enum api_verb verb_of(enum kube_verb verb)
{
    static const enum api_verb verbs[] = {
        [KUBE_GET] = VERB_GET,       [KUBE_LIST] = VERB_LIST,         [KUBE_CREATE] = VERB_CREATE,
        [KUBE_UPDATE] = VERB_UPDATE, [KUBE_PATCH_MERGE] = VERB_PATCH, [KUBE_PATCH_JSON] = VERB_PATCH,
        [KUBE_APPLY] = VERB_PATCH,   [KUBE_DELETE] = VERB_DELETE,
    };
    return verbs[verb];
}

static struct api_call make_call(struct inproc *p, const struct kube_request *q, const struct resource *r)
{
    struct api_call c =
        api_internal_call(p->server, verb_of(q->verb), r, q->ns && r->namespaced ? q->ns : "", q->name ? q->name : "");

    c.subresource = q->subresource ? q->subresource : "";
    c.options.label_selector = q->label_selector;
    c.options.field_selector = q->field_selector;
    c.options.field_manager = q->field_manager ? q->field_manager : "holt";
    c.options.force = c.options.force_given = q->verb == KUBE_APPLY;
    c.patch = q->verb == KUBE_PATCH_JSON ? PATCH_JSON : q->verb == KUBE_APPLY ? PATCH_APPLY : PATCH_MERGE;
    c.body = q->body;
    return c;
}

static struct json *list_object(const struct api_call *c)
{
    struct json *items = json_array_make();
    char version[32];

    for (size_t i = 0; i < c->result.item_count; i++)
        json_push(items, object_shown(c->resource, c->result.items[i]->value));
    (void)snprintf(version, sizeof(version), "%" PRId64, c->result.list_revision);
    return json_build("{s:s, s:s, s:{s:s}, s:o}", "kind", c->resource->list_kind, "apiVersion",
                      c->resource->api_version, "metadata", "resourceVersion", version, "items", items);
}

static struct completion *complete_later(struct inproc *p, void *arg)
{
    struct completion *d = xcalloc(1, sizeof(*d));

    d->arg = arg;
    *p->queue_tail = d;
    p->queue_tail = &d->next;
    schedule(p);
    return d;
}

/* Runs the request; the answer's object is the caller's. *ret_revision: what was written, 0 = nothing. */
static int execute(struct inproc *p, const struct kube_request *q, struct json **ret, int64_t *ret_revision,
                   struct error *err)
{
    const struct resource *r = find(p, q->resource);
    int64_t before = store_revision(p->server->store);

    *ret_revision = 0;
    if (!r) {
        *ret = status_no_resource();
        kube_error_from_status(404, *ret, err);
        return 404;
    }
    struct api_call c = make_call(p, q, r);
    api_execute(&c);
    int code = c.result.code;
    *ret = c.result.list_revision > 0 ? list_object(&c) : json_ref(c.result.object);
    if (code >= 400)
        kube_error_from_status(code, *ret, err);
    else if (store_revision(p->server->store) > before)
        *ret_revision = c.result.revision;
    api_result_clear(&c.result);
    return code;
}

static void inproc_request(struct kube *k, const struct kube_request *q, kube_done done, void *arg)
{
    struct inproc *p = container_of(k, struct inproc, kube);
    struct completion *d = complete_later(p, arg);
    int64_t revision;

    d->done = done;
    d->status = execute(p, q, &d->object, &revision, &d->err);
}

/* What the server remembers besides the store follows it back. */
static void on_undone(void *arg, enum store_event_type type, const struct json *value, const struct json *previous)
{
    struct inproc *p = arg;
    const char *api_version = object_api_version(value), *slash = strrchr(api_version, '/');
    _cleanup_free_ char *group = slash ? xstrndup(api_version, (size_t)(slash - api_version)) : xstrdup("");
    const struct resource *r =
        resource_by_kind(p->server->resources, group, slash ? slash + 1 : api_version, object_kind(value));

    if (r)
        api_after_change(p->server, r, type == STORE_DELETED ? NULL : value, previous);
}

static void inproc_transaction(struct kube *k, const struct kube_request *requests, size_t count,
                               void (*done)(void *arg, size_t completed, const int64_t *revisions,
                                            const struct error *err),
                               void *arg)
{
    struct inproc *p = container_of(k, struct inproc, kube);
    struct completion *d = complete_later(p, arg);
    int64_t before = store_revision(p->server->store);

    d->transaction = done;
    d->revisions = xcalloc(count + 1, sizeof(*d->revisions));
    for (; d->completed < count; d->completed++) {
        const struct kube_request *q = &requests[d->completed];
        _cleanup_json_ struct json *object = NULL;
        int code = execute(p, q, &object, &d->revisions[d->completed], &d->err);
        if (code < 400)
            continue;
        if (q->verb != KUBE_DELETE || code != 404) {
            store_undo(p->server->store, before, on_undone, p);
            return;
        }
        error_clear(&d->err);
    }
}

static void run_completions(struct inproc *p)
{
    struct completion *all = p->queue;

    p->queue = NULL;
    p->queue_tail = &p->queue;
    for (struct completion *next; all; all = next) {
        const struct error *err = all->err.code ? &all->err : NULL;
        next = all->next;
        if (all->transaction)
            all->transaction(all->arg, all->completed, all->revisions, err);
        else
            all->done(all->arg, all->status, all->object, err);
        json_unref(all->object);
        error_clear(&all->err);
        free(all->revisions);
        free(all);
    }
}

/* --- watches --- */

static void unref_value(void *value)
{
    json_unref(value);
}

static void watch_clear(struct watch *w)
{
    store_unwatch(take_ptr(w->store_watch));
    filter_clear(&w->filter);
    resource_unref(take_ptr(w->resource));
}

static void watch_destroy(struct watch *w)
{
    hashmap_free(&w->known, unref_value);
    free(w->ns);
    free(w->labels);
    free(w->fields);
    free(w);
}

static void report(struct watch *w, enum kube_event_type type, struct json *object)
{
    if (!w->stopped)
        w->cb->event(w->arg, type, object);
}

static void report_state(struct watch *w, const char *key, const struct json *value)
{
    struct json *shown = object_shown(w->resource, value);
    _cleanup_json_ struct json *old = hashmap_put(&w->known, key, shown);

    if (!old || object_revision(old) != object_revision(shown))
        report(w, old ? KUBE_MODIFIED : KUBE_ADDED, shown);
}

static void report_gone(struct watch *w, const char *key, const struct json *last)
{
    _cleanup_json_ struct json *old = hashmap_remove(&w->known, key);

    if (!old)
        return;
    _cleanup_json_ struct json *shown = object_shown(w->resource, last ? last : old);
    report(w, KUBE_DELETED, shown);
}

/* A callback may stop the watch: its memory stays until the stack is out of it. */
static void enter(struct watch *w)
{
    w->busy++;
}

static void leave(struct watch *w)
{
    if (--w->busy == 0 && w->stopped)
        watch_destroy(w);
}

static void on_event(void *arg, const struct store_event *e)
{
    struct watch *w = arg;

    enter(w);
    if (e->type != STORE_DELETED && filter_matches(&w->filter, e->object->key, e->object->value))
        report_state(w, e->object->key, e->object->value);
    else
        report_gone(w, e->object->key, e->object->value);
    leave(w);
}

static void on_lost(void *arg)
{
    struct watch *w = arg;

    w->store_watch = NULL; /* stopped by the store */
    w->to_list = true;
    schedule(container_of(w->watch.kube, struct inproc, kube));
}

static const struct store_watch_callbacks callbacks = {on_event, on_lost};

static bool watch_prepare(struct inproc *p, struct watch *w)
{
    const struct resource *r = find(p, w->kind);

    watch_clear(w);
    if (!r)
        return false;
    struct api_call c = api_internal_call(p->server, VERB_WATCH, r, r->namespaced && w->ns ? w->ns : "", "");
    c.options.label_selector = w->labels;
    c.options.field_selector = w->fields;
    bool ok = filter_read(&c, &w->filter) == 0;
    api_result_clear(&c.result);
    w->resource = ok ? resource_ref(r) : NULL;
    return ok;
}

static void watch_list(struct inproc *p, struct watch *w)
{
    struct store *s = p->server->store;
    size_t count;

    w->to_list = false;
    if (!watch_prepare(p, w))
        return; /* selectors are the program's own, and its kinds are always served */
    int64_t revision = store_revision(s);
    struct stored **items = store_list(s, w->resource->store_name, w->filter.ns, &count);
    struct hashmap seen = {0};
    char **gone = NULL;
    w->store_watch = store_watch(s, w->resource->store_name, revision, false, &callbacks, w, NULL);
    enter(w);
    for (size_t i = 0; i < count && !w->stopped; i++)
        if (filter_matches(&w->filter, items[i]->key, items[i]->value)) {
            (void)hashmap_put(&seen, items[i]->key, w);
            report_state(w, items[i]->key, items[i]->value);
        }
    for (struct hashmap_iter it = {0}; hashmap_next(&w->known, &it);)
        if (!hashmap_get(&seen, it.key))
            gone = strv_append(gone, xstrdup(it.key));
    for (size_t i = 0; gone && gone[i] && !w->stopped; i++)
        report_gone(w, gone[i], NULL);
    if (!w->stopped)
        w->cb->synced(w->arg, revision);
    leave(w);
    strv_free(gone);
    hashmap_free(&seen, NULL);
    store_list_free(items, count);
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct inproc *p = arg;

    (void)fd;
    (void)what;
    run_completions(p);
    /* Callbacks may start and stop watches: look again from the start after each. */
    for (struct watch *w = p->watches; w;) {
        if (w->to_list) {
            watch_list(p, w);
            w = p->watches;
        } else {
            w = w->next;
        }
    }
}

static struct kube_watch *inproc_watch(struct kube *k, const struct kube_resource *r, const char *ns,
                                       const char *label_selector, const char *field_selector,
                                       const struct kube_watch_callbacks *cb, void *arg)
{
    struct inproc *p = container_of(k, struct inproc, kube);
    struct watch *w = xcalloc(1, sizeof(*w));

    w->watch.kube = k;
    w->kind = r;
    w->ns = ns && *ns ? xstrdup(ns) : NULL;
    w->labels = label_selector ? xstrdup(label_selector) : NULL;
    w->fields = field_selector ? xstrdup(field_selector) : NULL;
    w->cb = cb;
    w->arg = arg;
    w->to_list = true;
    w->next = p->watches;
    p->watches = w;
    schedule(p);
    return &w->watch;
}

static void inproc_watch_stop(struct kube_watch *watch)
{
    struct watch *w = container_of(watch, struct watch, watch);
    struct inproc *p = container_of(watch->kube, struct inproc, kube);

    for (struct watch **at = &p->watches; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    w->stopped = true;
    watch_clear(w);
    if (w->busy == 0)
        watch_destroy(w);
}

static void inproc_free(struct kube *k)
{
    struct inproc *p = container_of(k, struct inproc, kube);

    run_completions(p);
    while (p->watches)
        inproc_watch_stop(&p->watches->watch);
    event_free(p->turn);
    free(p);
}

static const struct kube_ops ops = {
    .request = inproc_request,
    .watch = inproc_watch,
    .watch_stop = inproc_watch_stop,
    .free = inproc_free,
    .transaction = inproc_transaction,
};

struct kube *inproc_new(struct apiserver *server)
{
    struct inproc *p = xcalloc(1, sizeof(*p));

    p->kube.ops = &ops;
    p->server = server;
    p->queue_tail = &p->queue;
    p->turn = evtimer_new(server->base, on_turn, p);
    if (!p->turn)
        abort(); /* out of memory */
    return &p->kube;
}
