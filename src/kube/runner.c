#include "kube/runner.h"

#include "base/hashmap.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <event2/event.h>

#define BACKOFF_MIN_NS (5 * NSEC_PER_MSEC)
/* Conflicts and the like pass; what has failed so often in a row is told. */
#define FAILURES_TOLD 4
#define BACKOFF_MAX_NS (60 * NSEC_PER_SEC)

struct worker;

/* What one key waits for before it may run again: the cache of a resource reaching a revision. */
struct catch_up {
    struct informer *informer;
    int64_t revision;
};

struct entry {
    struct worker *worker;
    struct entry *next; /* in the queue */
    char *key, *ns, *name;
    bool queued;
    bool running;
    bool again; /* changed while running */
    unsigned failures;
    struct event *timer;
    int64_t timer_at_ns;
    struct catch_up *waits;
    size_t wait_count, wait_capacity;
    struct plan plan;
    size_t op; /* next operation of the plan */
};

struct worker {
    struct runner *runner;
    const struct controller *controller;
    struct hashmap entries;
    struct entry *head, **tail;
    size_t queued, running;
};

struct runner {
    struct event_base *base;
    struct kube *kube;
    const struct clock *clock;
    struct worker **workers;
    size_t worker_count, worker_capacity;
    struct informer **informers;
    size_t informer_count, informer_capacity;
    char **index_labels; /* union over the controllers; borrowed strings */
    size_t index_label_count;
    struct event *turn; /* runs the queues, outside of any callback */
    struct world world;
    bool started;
};

static struct informer *informer_of(const struct runner *r, const struct kube_resource *resource)
{
    for (size_t i = 0; i < r->informer_count; i++)
        if (informer_resource(r->informers[i]) == resource)
            return r->informers[i];
    return NULL;
}

/* The world: views of the caches. */

static struct json *world_get(const struct world *w, const struct kube_resource *r, const char *ns, const char *name)
{
    const struct informer *i = informer_of(w->data, r);

    return i ? informer_get(i, ns, name) : NULL;
}

static struct json *world_owned(const struct world *w, const struct kube_resource *r, const char *owner_uid)
{
    const struct informer *i = informer_of(w->data, r);

    return i ? informer_owned(i, owner_uid) : json_array_make();
}

static struct json *world_labelled(const struct world *w, const struct kube_resource *r, const char *ns,
                                   const char *key, const char *value)
{
    const struct informer *i = informer_of(w->data, r);
    _cleanup_json_ struct json *all = i ? informer_labelled(i, key, value) : NULL;
    struct json *list = json_array_make();

    for (size_t k = 0; k < json_size(all); k++)
        if (!ns || !*ns || streq(object_namespace(json_item(all, k)), ns))
            json_push(list, json_ref(json_item(all, k)));
    return list;
}

static struct json *world_list(const struct world *w, const struct kube_resource *r, const char *ns)
{
    const struct informer *i = informer_of(w->data, r);

    return i ? informer_list(i, ns) : json_array_make();
}

/* The queue. */

static void wake(struct runner *r)
{
    event_active(r->turn, EV_TIMEOUT, 0);
}

static struct entry *entry_get(struct worker *w, const char *ns, const char *name)
{
    _cleanup_free_ char *key = key_make(ns, name);
    struct entry *e = hashmap_get(&w->entries, key);

    if (!e) {
        e = xcalloc(1, sizeof(*e));
        e->worker = w;
        e->ns = ns && *ns ? xstrdup(ns) : NULL;
        e->name = xstrdup(name);
        e->key = take_ptr(key);
        (void)hashmap_put(&w->entries, e->key, e);
    }
    return e;
}

static void enqueue(struct entry *e)
{
    struct worker *w = e->worker;

    if (e->running) {
        e->again = true;
        return;
    }
    if (e->queued)
        return;
    e->queued = true;
    e->next = NULL;
    *w->tail = e;
    w->tail = &e->next;
    w->queued++;
    wake(w->runner);
}

static void on_timer(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct entry *e = arg;

    e->timer_at_ns = 0;
    enqueue(e);
}

static void arm(struct entry *e, int64_t delay_ns)
{
    int64_t at = time_monotonic_ns() + MAX(delay_ns, 0);

    if (e->timer_at_ns && e->timer_at_ns <= at)
        return;
    if (!e->timer) {
        e->timer = evtimer_new(e->worker->runner->base, on_timer, e);
        if (!e->timer)
            abort();
    }
    e->timer_at_ns = at;
    struct timeval tv = {.tv_sec = MAX(delay_ns, 0) / NSEC_PER_SEC,
                         .tv_usec = (MAX(delay_ns, 0) % NSEC_PER_SEC + 999) / 1000};
    (void)evtimer_add(e->timer, &tv);
}

static void entry_free(void *value)
{
    struct entry *e = value;

    if (e->timer)
        event_free(e->timer);
    plan_free(&e->plan);
    free(e->waits);
    free(e->key);
    free(e->ns);
    free(e->name);
    free(e);
}

/* Running a plan. */

static void must_see(struct entry *e, const struct kube_resource *resource, int64_t revision)
{
    struct informer *i = informer_of(e->worker->runner, resource);

    if (!i || revision <= informer_revision(i))
        return;
    for (size_t k = 0; k < e->wait_count; k++) {
        if (e->waits[k].informer == i) {
            e->waits[k].revision = MAX(e->waits[k].revision, revision);
            return;
        }
    }
    GROW(e->waits, e->wait_capacity, e->wait_count + 1);
    e->waits[e->wait_count++] = (struct catch_up){i, revision};
}

/* True when the caches show everything this key wrote. */
static bool caught_up(struct entry *e)
{
    for (size_t k = 0; k < e->wait_count;) {
        if (informer_revision(e->waits[k].informer) >= e->waits[k].revision)
            e->waits[k] = e->waits[--e->wait_count];
        else
            k++;
    }
    return e->wait_count == 0;
}

static void back_off(struct entry *e, const char *text)
{
    int64_t delay = BACKOFF_MIN_NS << MIN(e->failures, 20u);

    e->failures++;
    log_write(e->failures > 3 ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG, "reconcile failed", "controller",
              e->worker->controller->name, "key", e->key, "error", text, NULL);
    arm(e, MIN(delay, BACKOFF_MAX_NS));
}

static bool is_event(const struct plan_op *op)
{
    return op->resource == &KUBE_EVENTS;
}

static struct kube_request request_of(const struct entry *e, const struct plan_op *op)
{
    return (struct kube_request){.verb = op->verb,
                                 .resource = op->resource,
                                 .ns = op->ns,
                                 .name = op->name,
                                 .subresource = op->subresource,
                                 .field_manager = e->plan.field_manager,
                                 .body = op->body};
}

/* For what is not worth a retry of its own: events, and what tells of a failure, which is retried itself. */
static void on_told(void *arg UNUSED, int status UNUSED, struct json *object UNUSED, const struct error *err)
{
    if (err)
        log_debug("not recorded", "error", error_text(err), NULL);
}

/* Events tell people what happened; that one cannot be written (a namespace that ends) must not stop the work. */
static void send_events(struct entry *e)
{
    for (size_t i = 0; i < e->plan.count; i++) {
        if (!is_event(&e->plan.ops[i]))
            continue;
        struct kube_request request = request_of(e, &e->plan.ops[i]);
        kube_do(e->worker->runner->kube, &request, on_told, NULL);
    }
}

/* What was asked for cannot be, or has failed again and again: its owner should know. */
static void tell_refusal(struct entry *e, const struct error *err)
{
    const struct controller *c = e->worker->controller;
    struct runner *r = e->worker->runner;
    bool for_good = err->code == EINVAL || err->code == EACCES;

    if (!c->refused || (!for_good && e->failures < FAILURES_TOLD))
        return;
    plan_free(&e->plan);
    e->plan.field_manager = c->name;
    c->refused(&r->world, e->ns, e->name, err, &e->plan);
    if (e->plan.permanent && e->timer) {
        (void)evtimer_del(e->timer);
        e->timer_at_ns = 0;
    }
    for (size_t i = 0; i < e->plan.count; i++) {
        struct kube_request request = request_of(e, &e->plan.ops[i]);
        kube_do(r->kube, &request, on_told, NULL);
    }
}

/* A key whose object is gone and that waits for nothing is forgotten. */
static void forget_if_gone(struct entry *e)
{
    struct worker *w = e->worker;

    if (e->queued || e->timer_at_ns || informer_get(informer_of(w->runner, w->controller->primary), e->ns, e->name))
        return;
    (void)hashmap_remove(&w->entries, e->key);
    entry_free(e);
}

static void finish(struct entry *e, const struct error *err)
{
    struct worker *w = e->worker;
    struct runner *r = w->runner;
    int64_t requeue_at = e->plan.requeue_at_ns;

    e->running = false;
    w->running--;
    if (err) {
        back_off(e, error_text(err));
        tell_refusal(e, err);
    } else {
        send_events(e);
        if (e->plan.failure.code && !e->plan.permanent)
            back_off(e, error_text(&e->plan.failure));
        else
            e->failures = 0;
    }
    if (requeue_at)
        arm(e, requeue_at - clock_now(r->clock));
    plan_free(&e->plan);
    if (e->again) {
        e->again = false;
        enqueue(e);
    }
    forget_if_gone(e);
    wake(r);
}

static void run_next(struct entry *e);

static void on_done(void *arg, int status UNUSED, struct json *object, const struct error *err)
{
    struct entry *e = arg;
    const struct plan_op *op = &e->plan.ops[e->op];

    if (err && !(op->may_be_gone && err->code == ENOENT)) {
        finish(e, err);
        return;
    }
    if (!err && object && !streq(object_kind(object), "Status"))
        must_see(e, op->resource, object_revision(object));
    e->op++;
    run_next(e);
}

static void run_next(struct entry *e)
{
    while (e->op < e->plan.count && is_event(&e->plan.ops[e->op]))
        e->op++;
    if (e->op == e->plan.count) {
        finish(e, NULL);
        return;
    }
    struct kube_request request = request_of(e, &e->plan.ops[e->op]);

    kube_do(e->worker->runner->kube, &request, on_done, e);
}

static void on_transaction(void *arg, size_t completed UNUSED, const int64_t *revisions, const struct error *err)
{
    struct entry *e = arg;

    for (size_t i = 0, op = 0; !err && op < e->plan.count; op++) {
        if (is_event(&e->plan.ops[op]))
            continue;
        if (revisions[i])
            must_see(e, e->plan.ops[op].resource, revisions[i]);
        i++;
    }
    finish(e, err);
}

static void run_plan(struct entry *e)
{
    struct kube *k = e->worker->runner->kube;
    _cleanup_free_ struct kube_request *requests = NULL;
    size_t count = 0;

    e->op = 0;
    if (k->ops->transaction && e->plan.count > 1) {
        requests = xcalloc(e->plan.count, sizeof(*requests));
        for (size_t i = 0; i < e->plan.count; i++)
            if (!is_event(&e->plan.ops[i]))
                requests[count++] = request_of(e, &e->plan.ops[i]);
    }
    if (count > 1)
        k->ops->transaction(k, requests, count, on_transaction, e);
    else
        run_next(e);
}

static void run(struct entry *e)
{
    struct worker *w = e->worker;

    e->running = true;
    w->running++;
    e->plan.field_manager = w->controller->name;
    w->runner->world.now_ns = clock_now(w->runner->clock);
    w->controller->reconcile(&w->runner->world, e->ns, e->name, &e->plan);
    run_plan(e);
}

static bool synced(const struct worker *w)
{
    const struct controller *c = w->controller;

    if (!informer_synced(informer_of(w->runner, c->primary)))
        return false;
    for (size_t i = 0; c->owned && c->owned[i]; i++)
        if (!informer_synced(informer_of(w->runner, c->owned[i])))
            return false;
    for (size_t i = 0; c->watched && c->watched[i]; i++)
        if (!informer_synced(informer_of(w->runner, c->watched[i])))
            return false;
    return true;
}

/* Takes the queue as it is and puts back what has to wait for the caches. */
static void run_worker(struct worker *w)
{
    if (!w->head || !synced(w))
        return;
    struct entry *e = w->head, *next;

    w->head = NULL;
    w->tail = &w->head;
    for (; e; e = next) {
        next = e->next;
        e->queued = false;
        w->queued--;
        if (caught_up(e)) {
            run(e);
        } else {
            e->queued = true;
            w->queued++;
            e->next = NULL;
            *w->tail = e;
            w->tail = &e->next;
        }
    }
}

static void on_turn(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct runner *r = arg;

    for (size_t i = 0; i < r->worker_count; i++)
        run_worker(r->workers[i]);
}

/* Waking keys. */

static void wake_owner(struct worker *w, const struct json *object)
{
    const struct json *ref = object_controller(object);
    const char *kind = json_str_or(json_get(ref, "kind"), ""), *name = json_str(json_get(ref, "name"));
    const char *version = json_str_or(json_get(ref, "apiVersion"), "");
    const struct kube_resource *p = w->controller->primary;

    /* Any version of the group will do: an owner may have been written by a client of an older one. */
    const char *slash = strchr(version, '/');
    size_t group_len = slash ? (size_t)(slash - version) : 0;
    if (name && streq(kind, p->kind) && strlen(p->group) == group_len && strncmp(version, p->group, group_len) == 0)
        enqueue(entry_get(w, object_namespace(object), name));
}

static void wake_mapped(struct worker *w, const struct kube_resource *resource, const struct json *object)
{
    char **keys = w->controller->map(&w->runner->world, resource, object);

    for (size_t i = 0; keys && keys[i]; i++) {
        char *slash = strchr(keys[i], '/');
        if (slash)
            *slash = '\0';
        enqueue(slash ? entry_get(w, keys[i], slash + 1) : entry_get(w, NULL, keys[i]));
    }
    strv_free(keys);
}

static bool listed(const struct kube_resource *const *list, const struct kube_resource *resource)
{
    for (size_t i = 0; list && list[i]; i++)
        if (list[i] == resource)
            return true;
    return false;
}

static void changed(void *arg, const struct kube_resource *resource, struct json *old, struct json *new)
{
    struct runner *r = arg;

    for (size_t i = 0; i < r->worker_count; i++) {
        struct worker *w = r->workers[i];
        const struct controller *c = w->controller;
        struct json *seen[] = {old, new};

        for (size_t k = 0; k < ARRAY_LEN(seen); k++) {
            if (!seen[k])
                continue;
            if (c->primary == resource)
                enqueue(entry_get(w, object_namespace(seen[k]), object_name(seen[k])));
            if (listed(c->owned, resource))
                wake_owner(w, seen[k]);
            if (c->map && listed(c->watched, resource))
                wake_mapped(w, resource, seen[k]);
        }
    }
    wake(r); /* caches moved on: somebody may have waited for that */
}

/* Life. */

struct runner *runner_new(struct event_base *base, struct kube *k, const struct clock *clock)
{
    struct runner *r = xcalloc(1, sizeof(*r));

    r->base = base;
    r->kube = k;
    r->clock = clock;
    r->turn = event_new(base, -1, 0, on_turn, r);
    if (!r->turn)
        abort();
    r->world = (struct world){
        .get = world_get, .owned = world_owned, .labelled = world_labelled, .list = world_list, .data = r};
    return r;
}

void runner_add(struct runner *r, const struct controller *c)
{
    struct worker *w = xcalloc(1, sizeof(*w));

    w->runner = r;
    w->controller = c;
    w->tail = &w->head;
    GROW(r->workers, r->worker_capacity, r->worker_count + 1);
    r->workers[r->worker_count++] = w;
    for (size_t i = 0; c->index_labels && c->index_labels[i]; i++) {
        r->index_labels = xreallocarray(r->index_labels, r->index_label_count + 2, sizeof(*r->index_labels));
        r->index_labels[r->index_label_count++] = (char *)c->index_labels[i];
        r->index_labels[r->index_label_count] = NULL;
    }
}

static void need(struct runner *r, const struct kube_resource *resource)
{
    if (informer_of(r, resource))
        return;
    struct informer *i = informer_new(r->kube, resource, NULL, NULL, (const char *const *)r->index_labels);

    informer_subscribe(i, changed, r);
    GROW(r->informers, r->informer_capacity, r->informer_count + 1);
    r->informers[r->informer_count++] = i;
}

void runner_start(struct runner *r)
{
    r->started = true;
    for (size_t i = 0; i < r->worker_count; i++) {
        const struct controller *c = r->workers[i]->controller;

        need(r, c->primary);
        for (size_t k = 0; c->owned && c->owned[k]; k++)
            need(r, c->owned[k]);
        for (size_t k = 0; c->watched && c->watched[k]; k++)
            need(r, c->watched[k]);
    }
}

void runner_enqueue(struct runner *r, const struct controller *c, const char *ns, const char *name)
{
    for (size_t i = 0; i < r->worker_count; i++)
        if (r->workers[i]->controller == c)
            enqueue(entry_get(r->workers[i], ns, name));
}

bool runner_idle(const struct runner *r)
{
    for (size_t i = 0; i < r->worker_count; i++)
        if (r->workers[i]->queued || r->workers[i]->running)
            return false;
    return true;
}

void runner_free(struct runner *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->informer_count; i++)
        informer_free(r->informers[i]);
    for (size_t i = 0; i < r->worker_count; i++) {
        hashmap_free(&r->workers[i]->entries, entry_free);
        free(r->workers[i]);
    }
    event_free(r->turn);
    free(r->informers);
    free(r->workers);
    free(r->index_labels);
    free(r);
}
