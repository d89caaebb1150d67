#include "apiserver/gc.h"

#include "apiserver/termination.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <event2/event.h>

#define WORK_PER_TURN 500
#define RETRY_SECONDS 1 /* only after a failed write */

/* An object, or one that is only known as an owner. */
struct gc_node {
    char *uid;
    char *store_name, *key; /* NULL: not seen, or gone */
    struct gc_node **owners, **dependents;
    size_t owner_count, dependent_count, dependent_capacity;
    bool queued;
    struct gc_node *next; /* in the queue */
};

struct gc_watch {
    struct garbage_collector *gc;
    char *store_name;
    struct store_watch *watch;
    struct gc_watch *next;
};

struct garbage_collector {
    struct apiserver *server;
    struct hashmap nodes; /* uid → struct gc_node */
    struct gc_watch *watches;
    struct gc_node *queue, **queue_tail;
    struct event *turn;
    bool rebuild; /* the store rolled back: the graph is no longer true */
};

static void schedule(struct garbage_collector *gc, int seconds)
{
    if (!evtimer_pending(gc->turn, NULL))
        (void)evtimer_add(gc->turn, &(struct timeval){.tv_sec = seconds}); /* fails only without memory */
}

static void enqueue(struct garbage_collector *gc, struct gc_node *n)
{
    if (n->queued || !n->key)
        return;
    n->queued = true;
    n->next = NULL;
    *gc->queue_tail = n;
    gc->queue_tail = &n->next;
    schedule(gc, 0);
}

/* --- the graph --- */

static struct gc_node *node_get(struct garbage_collector *gc, const char *uid)
{
    struct gc_node *n = hashmap_get(&gc->nodes, uid);

    if (!n) {
        n = xcalloc(1, sizeof(*n));
        n->uid = xstrdup(uid);
        (void)hashmap_put(&gc->nodes, uid, n); /* it was not there */
    }
    return n;
}

static void node_free(void *value)
{
    struct gc_node *n = value;

    free(n->uid);
    free(n->store_name);
    free(n->key);
    free(n->owners);
    free(n->dependents);
    free(n);
}

/* Nodes that nothing refers to go; a queued one goes when its turn comes. */
static void node_drop_unused(struct garbage_collector *gc, struct gc_node *n)
{
    if (n->key || n->dependent_count > 0 || n->owner_count > 0 || n->queued)
        return;
    (void)hashmap_remove(&gc->nodes, n->uid);
    node_free(n);
}

static void unlink_owners(struct garbage_collector *gc, struct gc_node *n)
{
    size_t count = n->owner_count;
    struct gc_node **owners = take_ptr(n->owners);

    n->owner_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct gc_node *o = owners[i];
        for (size_t k = 0; k < o->dependent_count; k++)
            if (o->dependents[k] == n) {
                o->dependents[k] = o->dependents[--o->dependent_count];
                break;
            }
        node_drop_unused(gc, o);
    }
    free(owners);
}

static void link_owners(struct garbage_collector *gc, struct gc_node *n, const struct json *references)
{
    n->owners = xcalloc(json_size(references) + 1, sizeof(struct gc_node *));
    for (size_t i = 0; i < json_size(references); i++) {
        struct gc_node *o = node_get(gc, json_str_or(json_get(json_item(references, i), "uid"), ""));
        n->owners[n->owner_count++] = o;
        GROW(o->dependents, o->dependent_capacity, o->dependent_count + 1);
        o->dependents[o->dependent_count++] = n;
    }
}

static const struct json *references_of(const struct json *o)
{
    return json_at(o, "metadata", "ownerReferences", NULL);
}

static bool has_finalizer(const struct json *o, const char *name)
{
    const struct json *finalizers = json_at(o, "metadata", "finalizers", NULL);

    for (size_t i = 0; i < json_size(finalizers); i++)
        if (streq(json_str_or(json_item(finalizers, i), ""), name))
            return true;
    return false;
}

static bool is_held(const struct json *o)
{
    return object_deleting(o) && (has_finalizer(o, "orphan") || has_finalizer(o, "foregroundDeletion"));
}

static void object_seen(struct garbage_collector *gc, const char *store_name, const struct stored *s)
{
    const struct json *references = references_of(s->value);
    struct gc_node *n = node_get(gc, object_uid(s->value));

    if (!n->key) {
        n->key = xstrdup(s->key);
        n->store_name = xstrdup(store_name);
    }
    unlink_owners(gc, n);
    link_owners(gc, n, references);
    if (n->owner_count > 0 || is_held(s->value))
        enqueue(gc, n);
    /* One that was thought absent may have dependents that wait for nothing else. */
    for (size_t i = 0; is_held(s->value) && i < n->dependent_count; i++)
        enqueue(gc, n->dependents[i]);
}

static void object_gone(struct garbage_collector *gc, const char *uid)
{
    struct gc_node *n = hashmap_get(&gc->nodes, uid);

    if (!n)
        return;
    free(take_ptr(n->key));
    free(take_ptr(n->store_name));
    for (size_t i = 0; i < n->dependent_count; i++)
        enqueue(gc, n->dependents[i]);
    for (size_t i = 0; i < n->owner_count; i++)
        enqueue(gc, n->owners[i]); /* may wait for this one */
    unlink_owners(gc, n);
    node_drop_unused(gc, n);
}

static void on_event(void *arg, const struct store_event *e)
{
    struct gc_watch *w = arg;
    struct garbage_collector *gc = w->gc;
    const struct json *now = e->object->value, *before = e->previous ? e->previous->value : NULL;

    if (e->type == STORE_DELETED) {
        object_gone(gc, object_uid(now));
        terminations_object_gone(gc->server->terminations, w->store_name, now);
        return;
    }
    if (before && !streq(object_uid(before), object_uid(now)))
        object_gone(gc, object_uid(before));
    else if (before && json_equal(references_of(before), references_of(now)) && !object_deleting(now))
        return;
    object_seen(gc, w->store_name, e->object);
}

static void on_lost(void *arg)
{
    struct gc_watch *w = arg;

    w->watch = NULL; /* stopped by the store */
    w->gc->rebuild = true;
    schedule(w->gc, 0);
}

/* --- work --- */

static const struct resource *resource_of(struct garbage_collector *gc, const struct json *o)
{
    const char *api_version = object_api_version(o), *slash = strrchr(api_version, '/');
    _cleanup_free_ char *group = slash ? xstrndup(api_version, (size_t)(slash - api_version)) : xstrdup("");

    return resource_by_kind(gc->server->resources, group, slash ? slash + 1 : api_version, object_kind(o));
}

/* The kind an owner reference names, whatever the version. */
static const struct resource *owner_resource(struct garbage_collector *gc, const struct json *reference)
{
    const char *api_version = json_str_or(json_get(reference, "apiVersion"), ""), *slash = strrchr(api_version, '/');
    const char *kind = json_str_or(json_get(reference, "kind"), "");
    size_t len = slash ? (size_t)(slash - api_version) : 0, n;
    const struct resource *const *all = resource_table_list(gc->server->resources, &n);

    for (size_t i = 0; i < n; i++)
        if (all[i]->stored && streq(all[i]->kind, kind) && strlen(all[i]->group) == len &&
            strncmp(all[i]->group, api_version, len) == 0)
            return all[i];
    return NULL;
}

enum owner_state { OWNER_SOLID, OWNER_WAITING, OWNER_ABSENT };

static enum owner_state owner_state(struct garbage_collector *gc, const struct json *dependent,
                                    const struct json *reference)
{
    const struct gc_node *n = hashmap_get(&gc->nodes, json_str_or(json_get(reference, "uid"), ""));
    const struct resource *r = owner_resource(gc, reference);

    if (!r)
        return OWNER_SOLID; /* a kind of somewhere else: not ours to judge */
    const struct stored *owner = n && n->key ? store_get(gc->server->store, n->store_name, n->key) : NULL;
    if (!owner || !streq(object_uid(owner->value), n->uid))
        return OWNER_ABSENT;
    if (r->namespaced && !streq(object_namespace(owner->value), object_namespace(dependent)))
        return OWNER_ABSENT;
    return object_deleting(owner->value) && has_finalizer(owner->value, "foregroundDeletion") ? OWNER_WAITING
                                                                                              : OWNER_SOLID;
}

/* Stores a changed copy; false: try again later. */
static bool change(struct garbage_collector *gc, struct stored *current, const char *member, struct json *array)
{
    const struct resource *r = resource_of(gc, current->value);
    struct json *object = json_copy_shallow(current->value), *metadata = json_own(object, "metadata");

    if (json_size(array) > 0) {
        json_set(metadata, member, array);
    } else {
        json_unref(array);
        json_remove(metadata, member);
    }
    struct api_call c =
        api_internal_call(gc->server, VERB_UPDATE, r, object_namespace(current->value), object_name(current->value));
    bool done = api_store_change(&c, current, object) == 0;
    api_result_clear(&c.result);
    return done;
}

static bool drop_finalizer(struct garbage_collector *gc, struct stored *current, const char *name)
{
    const struct json *finalizers = json_at(current->value, "metadata", "finalizers", NULL);
    struct json *kept = json_array_make();

    for (size_t i = 0; i < json_size(finalizers); i++)
        if (!streq(json_str_or(json_item(finalizers, i), ""), name))
            json_push(kept, json_ref(json_item(finalizers, i)));
    return change(gc, current, "finalizers", kept);
}

static bool remove_dependent(struct garbage_collector *gc, struct stored *current, const char *propagation)
{
    _cleanup_json_ struct json *body = json_build("{s:s, s:{s:s}}", "propagationPolicy", propagation, "preconditions",
                                                  "uid", object_uid(current->value));
    struct api_call c = api_internal_call(gc->server, VERB_DELETE, resource_of(gc, current->value),
                                          object_namespace(current->value), object_name(current->value));
    c.body = body;
    api_delete(&c);
    bool done = c.result.code < 400 || c.result.code == 404 || c.result.code == 409;
    api_result_clear(&c.result);
    return done;
}

static bool blocks(const struct json *dependent, const char *owner_uid)
{
    const struct json *references = references_of(dependent);

    for (size_t i = 0; i < json_size(references); i++)
        if (streq(json_str_or(json_get(json_item(references, i), "uid"), ""), owner_uid))
            return json_bool_or(json_get(json_item(references, i), "blockOwnerDeletion"), false);
    return false;
}

static struct stored *node_object(struct garbage_collector *gc, const struct gc_node *n)
{
    struct stored *s = n->key ? store_get(gc->server->store, n->store_name, n->key) : NULL;

    return s && streq(object_uid(s->value), n->uid) ? s : NULL;
}

/* Owners first lose their dependents, one way or the other. */
static bool release_owner(struct garbage_collector *gc, struct gc_node *n, struct stored *current)
{
    bool orphan = has_finalizer(current->value, "orphan"), done = true, blocked = false;

    for (size_t i = 0; i < n->dependent_count; i++) {
        struct stored *d = node_object(gc, n->dependents[i]);
        if (!d)
            continue;
        if (!orphan) {
            blocked |= blocks(d->value, n->uid);
            continue;
        }
        const struct json *references = references_of(d->value);
        struct json *kept = json_array_make();
        for (size_t k = 0; k < json_size(references); k++)
            if (!streq(json_str_or(json_get(json_item(references, k), "uid"), ""), n->uid))
                json_push(kept, json_ref(json_item(references, k)));
        done &= change(gc, d, "ownerReferences", kept);
    }
    if (!done || blocked)
        return done;
    return drop_finalizer(gc, current, orphan ? "orphan" : "foregroundDeletion");
}

static bool collect_dependent(struct garbage_collector *gc, struct gc_node *n, struct stored *current)
{
    const struct json *references = references_of(current->value);
    size_t solid = 0, waiting = 0, absent = 0;
    struct json *kept = json_array_make();

    for (size_t i = 0; i < json_size(references); i++) {
        enum owner_state state = owner_state(gc, current->value, json_item(references, i));
        solid += state == OWNER_SOLID;
        waiting += state == OWNER_WAITING;
        absent += state == OWNER_ABSENT;
        if (state == OWNER_SOLID)
            json_push(kept, json_ref(json_item(references, i)));
    }
    if (waiting + absent > 0 && solid > 0)
        return change(gc, current, "ownerReferences", kept);
    json_unref(kept);
    if (waiting + absent == 0 || object_deleting(current->value))
        return true;
    const char *propagation = has_finalizer(current->value, "orphan")               ? "Orphan"
                              : has_finalizer(current->value, "foregroundDeletion") ? "Foreground"
                              : waiting > 0 && n->dependent_count > 0               ? "Foreground"
                                                                                    : "Background";
    return remove_dependent(gc, current, propagation);
}

static bool work_on(struct garbage_collector *gc, struct gc_node *n)
{
    struct stored *current = stored_ref(node_object(gc, n));
    bool done = true;

    if (current && !resource_of(gc, current->value)) {
        stored_unref(current); /* its definition is gone: it goes with it */
        return true;
    }
    if (current && is_held(current->value))
        done = release_owner(gc, n, current);
    else if (current)
        done = collect_dependent(gc, n, current);
    stored_unref(current);
    return done;
}

static void build(struct garbage_collector *gc);

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct garbage_collector *gc = arg;

    (void)fd;
    (void)what;
    if (gc->rebuild)
        build(gc);
    for (int i = 0; i < WORK_PER_TURN && gc->queue; i++) {
        struct gc_node *n = gc->queue;
        gc->queue = n->next;
        if (!gc->queue)
            gc->queue_tail = &gc->queue;
        n->queued = false;
        if (!work_on(gc, n)) {
            enqueue(gc, n);
            (void)evtimer_del(gc->turn);
            schedule(gc, RETRY_SECONDS);
            return;
        }
        node_drop_unused(gc, n);
    }
    if (gc->queue)
        schedule(gc, 0);
}

/* --- watching --- */

static const struct store_watch_callbacks callbacks = {on_event, on_lost};

static void watch_one(struct garbage_collector *gc, const char *store_name)
{
    struct gc_watch *w = xcalloc(1, sizeof(*w));
    struct store *s = gc->server->store;
    size_t count;
    struct stored **list = store_list(s, store_name, NULL, &count);

    w->gc = gc;
    w->store_name = xstrdup(store_name);
    w->next = gc->watches;
    gc->watches = w;
    for (size_t i = 0; i < count; i++)
        object_seen(gc, store_name, list[i]);
    store_list_free(list, count);
    w->watch = store_watch(s, store_name, store_revision(s), false, &callbacks, w, NULL);
}

void gc_track_resources(struct garbage_collector *gc)
{
    size_t n;
    const struct resource *const *all = resource_table_list(gc->server->resources, &n);

    for (size_t i = 0; i < n; i++) {
        const struct gc_watch *w = gc->watches;
        while (w && !streq(w->store_name, all[i]->store_name))
            w = w->next;
        if (!w && all[i]->stored)
            watch_one(gc, all[i]->store_name);
    }
}

static void clear(struct garbage_collector *gc)
{
    for (struct gc_watch *w = take_ptr(gc->watches), *next; w; w = next) {
        next = w->next;
        store_unwatch(w->watch);
        free(w->store_name);
        free(w);
    }
    hashmap_free(&gc->nodes, node_free);
    gc->nodes = (struct hashmap){0};
    gc->queue = NULL;
    gc->queue_tail = &gc->queue;
}

static void build(struct garbage_collector *gc)
{
    clear(gc);
    gc->rebuild = false;
    gc_track_resources(gc);
}

struct garbage_collector *gc_new(struct apiserver *s)
{
    struct garbage_collector *gc = xcalloc(1, sizeof(*gc));

    gc->server = s;
    gc->queue_tail = &gc->queue;
    gc->turn = evtimer_new(s->base, on_turn, gc);
    if (!gc->turn)
        abort(); /* out of memory */
    build(gc);
    return gc;
}

void gc_free(struct garbage_collector *gc)
{
    if (!gc)
        return;
    clear(gc);
    event_free(gc->turn);
    free(gc);
}
