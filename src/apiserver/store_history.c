/* The history ring: which write came when, kept for watches and for lists of the past. */
#include "apiserver/store_internal.h"

#include "base/memory.h"
#include "base/timeutil.h"

#define HISTORY_EVENTS 10000u
#define HISTORY_BYTES (16u << 20) /* of text; a cold entry costs little more */
#define HISTORY_WARM 128u         /* the newest entries keep their parsed values */

void history_push(struct history *h, struct history_entry *e)
{
    if (h->count == h->capacity) {
        size_t capacity = h->capacity ? h->capacity * 2 : 16;
        struct history_entry **items = xcalloc(capacity, sizeof(*items));
        for (size_t i = 0; i < h->count; i++)
            items[i] = history_at(h, i);
        free(h->items);
        h->items = items;
        h->head = 0;
        h->capacity = capacity;
    }
    h->items[(h->head + h->count++) & (h->capacity - 1)] = e;
}

struct history_entry *history_pop_oldest(struct history *h)
{
    struct history_entry *e = history_at(h, 0);

    h->head = (h->head + 1) & (h->capacity - 1);
    h->count--;
    return e;
}

struct history_entry *history_pop_newest(struct history *h)
{
    return history_at(h, --h->count);
}

size_t history_after(const struct history *h, int64_t revision)
{
    size_t low = 0, high = h->count;

    while (low < high) {
        size_t mid = (low + high) / 2;
        if (history_at(h, mid)->revision > revision)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static struct stored_impl *hold(struct stored_impl *o)
{
    if (o)
        o->history_refs++;
    return o;
}

static void let_go(struct stored_impl *o)
{
    if (!o)
        return;
    if (--o->history_refs == 0)
        hot_add(o);
    stored_unref(&o->pub);
}

void history_entry_unref(struct history_entry *e)
{
    if (--e->refs > 0)
        return;
    let_go(e->object);
    let_go(e->previous);
    free(e);
}

void history_record(struct store *s, struct store_resource *r, enum store_event_type type, int64_t revision,
                    struct stored_impl *object, struct stored_impl *previous)
{
    struct history_entry *e = xcalloc(1, sizeof(*e));

    *e = (struct history_entry){
        .refs = 1, .revision = revision, .resource = r, .type = type, .at_ns = time_monotonic_ns()};
    e->object = hold(object);
    e->previous = hold(previous);
    if (previous)
        previous->cold = false; /* about to be delivered */
    history_push(&s->history, e);
    history_push(&r->history, e);
    e->bytes = object->text_len + sizeof(*object) + sizeof(*e);
    s->history_bytes += e->bytes;
}

static struct log_batch *staged(struct store *s)
{
    if (!s->staged)
        s->staged = xcalloc(1, sizeof(*s->staged));
    return s->staged;
}

static void drop_row(struct store *s, int64_t revision)
{
    struct log_batch *b = staged(s);

    GROW(b->drop, b->drop_capacity, b->drop_count + 1);
    b->drop[b->drop_count++] = revision;
}

static void evict_oldest(struct store *s)
{
    struct history_entry *e = history_pop_oldest(&s->history);

    (void)history_pop_oldest(&e->resource->history); /* the same entry: both are in order of revision */
    e->resource->evicted = e->revision;
    s->compacted = e->revision;
    s->history_bytes -= e->bytes;
    if (s->cooled > 0)
        s->cooled--;
    if (e->previous)
        drop_row(s, e->previous->pub.revision);
    if (e->type == STORE_DELETED)
        drop_row(s, e->revision);
    staged(s)->compacted = s->compacted;
    history_entry_unref(e);
}

/* Only durable entries leave: the others may have to be undone. */
void history_trim(struct store *s)
{
    size_t max_events = s->max_events ? s->max_events : HISTORY_EVENTS;
    size_t max_bytes = s->max_bytes ? s->max_bytes : HISTORY_BYTES;

    while (s->history.count > 0 && (s->history.count > max_events || s->history_bytes > max_bytes) &&
           history_at(&s->history, 0)->revision <= s->durable)
        evict_oldest(s);
    for (; s->cooled + HISTORY_WARM < s->history.count; s->cooled++) {
        struct history_entry *e = history_at(&s->history, s->cooled);
        if (e->previous)
            stored_cool(e->previous);
        stored_cool(e->object);
    }
}

struct history_entry *history_undo(struct store *s)
{
    struct history_entry *e = history_pop_newest(&s->history);

    (void)history_pop_newest(&e->resource->history); /* the same entry */
    s->history_bytes -= e->bytes;
    s->cooled = MIN(s->cooled, s->history.count);
    if (e->previous) {
        stored_warm(e->previous);
        resource_place(e->resource, stored_ref(&e->previous->pub));
    } else {
        resource_drop(e->resource, e->object->pub.key);
    }
    return e;
}

void history_roll_back(struct store *s, int64_t revision)
{
    while (s->history.count > 0 && history_at(&s->history, s->history.count - 1)->revision > revision)
        history_entry_unref(history_undo(s));
}

void history_free(struct store *s)
{
    while (s->history.count > 0) {
        struct history_entry *e = history_pop_oldest(&s->history);
        (void)history_pop_oldest(&e->resource->history); /* the same entry */
        history_entry_unref(e);
    }
    free(s->history.items);
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(struct stored *const *)a)->key, (*(struct stored *const *)b)->key);
}

static bool in_namespace(const char *key, const char *ns, size_t len)
{
    return !ns || (strncmp(key, ns, len) == 0 && key[len] == '/');
}

/* The present, with every key that was written later put back to its state before its first later write. */
struct stored **store_list_at(struct store *s, const char *resource, const char *ns, int64_t revision,
                              size_t *ret_count, struct error *err)
{
    struct store_resource *r = store_resource(s, resource);
    size_t len = ns ? strlen(ns) : 0;

    if (revision > s->revision)
        return error_set(err, ERANGE, "revision %lld is in the future", (long long)revision), NULL;
    if (revision < s->compacted)
        return error_set(err, EOVERFLOW, "revision %lld is compacted", (long long)revision), NULL;
    struct hashmap changed = {0}; /* key → first later entry */
    for (size_t i = r->history.count; i > 0 && history_at(&r->history, i - 1)->revision > revision; i--) {
        struct history_entry *e = history_at(&r->history, i - 1);
        (void)hashmap_put(&changed, e->object->pub.key, e); /* the earlier entry replaces the later one */
    }
    size_t present, count = 0;
    struct stored **list = store_list(s, resource, ns, &present);
    for (size_t i = 0; i < present; i++) {
        if (hashmap_get(&changed, list[i]->key))
            stored_unref(list[i]);
        else
            list[count++] = list[i];
    }
    size_t kept = count;
    list = xreallocarray(list, count + changed.count + 1, sizeof(struct stored *));
    for (struct hashmap_iter it = {0}; hashmap_next(&changed, &it);) {
        struct history_entry *e = it.value;
        if (!e->previous || !in_namespace(it.key, ns, len))
            continue;
        stored_warm(e->previous);
        list[count++] = stored_ref(&e->previous->pub);
    }
    if (count > kept)
        qsort(list, count, sizeof(struct stored *), by_key);
    hashmap_free(&changed, NULL);
    *ret_count = count;
    return list;
}

struct stored *store_deleted_lately(struct store *s, const char *resource, const char *key, int64_t window_ns,
                                    int64_t *ret_before)
{
    const struct history *h = &store_resource(s, resource)->history;
    int64_t since = time_monotonic_ns() - window_ns;

    for (size_t i = h->count; i > 0 && history_at(h, i - 1)->at_ns >= since; i--) {
        struct history_entry *e = history_at(h, i - 1);
        if (e->type != STORE_DELETED || strcmp(e->object->pub.key, key) != 0)
            continue;
        stored_warm(e->object);
        *ret_before = e->revision - 1;
        return &e->object->pub;
    }
    return NULL;
}
