#include "apiserver/event_expiry.h"

#include "base/memory.h"
#include "kube/object.h"

#include <event2/event.h>

#define STORE_NAME "/events"
#define LIFE_SECONDS 3600
/* Looks are this far apart at least: events go in bunches. */
#define GRAIN_SECONDS 30
#define DELETIONS_PER_TURN 500

/* In the order in which they end. One that was written again stands here twice; its revision tells. */
struct entry {
    int64_t revision, end_ns;
    char *key;
};

struct event_expiry {
    struct apiserver *server;
    struct entry *entries; /* a ring */
    size_t head, count, capacity;
    struct event *timer;
};

static void schedule(struct event_expiry *x, int64_t seconds)
{
    if (x->count > 0 && !evtimer_pending(x->timer, NULL))
        (void)evtimer_add(x->timer, &(struct timeval){.tv_sec = seconds}); /* fails only without memory */
}

static void push(struct event_expiry *x, struct entry e)
{
    if (x->count == x->capacity) {
        size_t capacity = x->capacity ? x->capacity * 2 : 16;
        struct entry *entries = xcalloc(capacity, sizeof(*entries));
        for (size_t i = 0; i < x->count; i++)
            entries[i] = x->entries[(x->head + i) % x->capacity];
        free(x->entries);
        x->entries = entries;
        x->capacity = capacity;
        x->head = 0;
    }
    x->entries[(x->head + x->count++) % x->capacity] = e;
}

void event_expiry_note(struct event_expiry *x, const struct json *event)
{
    int64_t end = clock_now(x->server->clock) + LIFE_SECONDS * NSEC_PER_SEC;

    push(x, (struct entry){.revision = object_revision(event), .end_ns = end, .key = object_key(event)});
    schedule(x, LIFE_SECONDS);
}

static void expire(struct event_expiry *x, const struct entry *e)
{
    struct stored *o = store_get(x->server->store, STORE_NAME, e->key);

    if (!o || o->revision != e->revision)
        return;
    struct json *last = json_copy_shallow(o->value);
    (void)json_own(last, "metadata");
    struct stored *before = stored_ref(o);
    /* A full disk: it stays until the next start. */
    if (store_delete(x->server->store, STORE_NAME, e->key, last, e->revision, NULL) == 0)
        api_after_change(x->server, resource_by_plural(x->server->resources, "", "v1", "events"), before->value, NULL);
    stored_unref(before);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct event_expiry *x = arg;
    int64_t now = clock_now(x->server->clock);
    int budget = DELETIONS_PER_TURN;

    (void)fd;
    (void)what;
    while (x->count > 0 && x->entries[x->head].end_ns <= now && budget-- > 0) {
        struct entry e = x->entries[x->head];
        x->head = (x->head + 1) % x->capacity;
        x->count--;
        expire(x, &e);
        free(e.key);
    }
    if (x->count > 0)
        schedule(x, budget <= 0 ? 0 : MAX((x->entries[x->head].end_ns - now) / NSEC_PER_SEC, GRAIN_SECONDS));
}

struct event_expiry *event_expiry_new(struct apiserver *s)
{
    struct event_expiry *x = xcalloc(1, sizeof(*x));
    size_t count;
    struct stored **events = store_list(s->store, STORE_NAME, NULL, &count);

    x->server = s;
    x->timer = evtimer_new(s->base, on_timer, x);
    if (!x->timer)
        abort(); /* out of memory */
    for (size_t i = 0; i < count; i++)
        event_expiry_note(x, events[i]->value);
    store_list_free(events, count);
    return x;
}

void event_expiry_free(struct event_expiry *x)
{
    if (!x)
        return;
    for (size_t i = 0; i < x->count; i++)
        free(x->entries[(x->head + i) % x->capacity].key);
    free(x->entries);
    event_free(x->timer);
    free(x);
}
