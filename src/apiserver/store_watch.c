/* Watches: a cursor each into the history of their resource. */
#include "apiserver/store_internal.h"

#include "base/memory.h"

struct store_watch {
    struct store *store;
    struct store_resource *resource;
    int64_t cursor; /* everything up to here has been delivered */
    bool durable, dead;
    const struct store_watch_callbacks *cb;
    void *arg;
    struct store_watch *next;
};

struct store_watch *store_watch(struct store *s, const char *resource, int64_t from, bool durable,
                                const struct store_watch_callbacks *cb, void *arg, struct error *err)
{
    if (from > s->revision)
        return error_set(err, ERANGE, "revision %lld is in the future", (long long)from), NULL;
    if (from < s->compacted)
        return error_set(err, EOVERFLOW, "revision %lld is compacted", (long long)from), NULL;
    struct store_watch *w = xcalloc(1, sizeof(*w));
    struct store_resource *r = store_resource(s, resource);
    *w = (struct store_watch){.store = s, .resource = r, .cursor = from, .durable = durable, .cb = cb, .arg = arg};
    w->next = r->watches;
    r->watches = w;
    if (from < s->revision) {
        r->dirty = true;
        store_schedule(s);
    }
    return w;
}

static void sweep(struct store_resource *r)
{
    for (struct store_watch **at = &r->watches; *at;) {
        struct store_watch *w = *at;
        if (!w->dead) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        free(w);
    }
}

/* While callbacks run, dead watches stay on their list. */
static void kill(struct store_watch *w)
{
    struct store *s = w->store;

    w->dead = true;
    if (s->delivering == 0)
        sweep(w->resource);
    else
        s->watch_died = true;
}

void store_unwatch(struct store_watch *w)
{
    if (w)
        kill(w);
}

static void enter(struct store *s)
{
    s->delivering++;
}

static void leave(struct store *s)
{
    if (--s->delivering > 0 || !s->watch_died)
        return;
    s->watch_died = false;
    for (struct store_resource *r = s->first_resource; r; r = r->next)
        sweep(r);
}

static void lose(struct store_watch *w)
{
    w->dead = true;
    w->store->watch_died = true;
    w->cb->lost(w->arg);
}

static void deliver(struct store_watch *w, struct history_entry *e)
{
    struct store_event event = {.type = e->type, .revision = e->revision, .object = &e->object->pub};

    e->refs++;
    stored_warm(e->object);
    (void)stored_ref(&e->object->pub);
    if (e->previous) {
        stored_warm(e->previous);
        event.previous = stored_ref(&e->previous->pub);
    }
    w->cursor = e->revision;
    w->cb->event(w->arg, &event);
    stored_unref(event.previous);
    stored_unref(event.object);
    history_entry_unref(e);
}

/* The history may change under the callbacks: each step looks the next entry up again. */
static void serve(struct store_watch *w)
{
    struct history *h = &w->resource->history;

    while (!w->dead) {
        int64_t limit = w->durable ? w->store->durable : w->store->revision;
        if (w->cursor < w->resource->evicted) {
            lose(w);
            return;
        }
        size_t i = history_after(h, w->cursor);
        if (i == h->count || history_at(h, i)->revision > limit) {
            w->cursor = MAX(w->cursor, limit);
            return;
        }
        deliver(w, history_at(h, i));
    }
}

static void serve_resource(struct store_resource *r)
{
    r->dirty = false;
    for (struct store_watch *w = r->watches; w; w = w->next)
        serve(w);
}

void watches_deliver(struct store *s)
{
    enter(s);
    for (struct store_resource *r = s->first_resource; r; r = r->next)
        if (r->dirty)
            serve_resource(r);
    leave(s);
}

void watches_mark_durable(struct store *s)
{
    for (struct store_resource *r = s->first_resource; r; r = r->next) {
        if (r->watches)
            r->dirty = true;
    }
    watches_deliver(s);
}

void watches_rolled_back(struct store *s)
{
    enter(s);
    for (struct store_resource *r = s->first_resource; r; r = r->next) {
        for (struct store_watch *w = r->watches; w; w = w->next)
            if (!w->dead && w->cursor > s->durable)
                lose(w);
    }
    leave(s);
}

void watches_free(struct store *s)
{
    for (struct store_resource *r = s->first_resource; r; r = r->next) {
        for (struct store_watch *w = r->watches; w; w = w->next)
            w->dead = true;
        sweep(r);
    }
}
