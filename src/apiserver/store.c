#include "apiserver/store_internal.h"

#include "base/loop.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "base/timeutil.h"

#include <event2/event.h>
#include <inttypes.h>

#define HOT_TEXT_BYTES (8u << 20)
/* How long writes are refused at once after one could not reach the disk; then the next one tries again. */
#define FULL_RETRY_NS (250 * NSEC_PER_MSEC)
#define REVISION_TEXT_MAX 24

/* --- objects --- */

struct stored_impl *stored_make(struct hot_texts *hot, const char *key, int64_t revision, struct json *value,
                                char *text, size_t text_len)
{
    size_t len = strlen(key) + 1;
    struct stored_impl *o = xcalloc(1, sizeof(*o) + len);

    memcpy(o->key, key, len);
    o->pub = (struct stored){.refs = 1, .revision = revision, .value = value, .key = o->key};
    o->text = text;
    o->text_len = text_len;
    o->hot = hot;
    hot->refs++;
    return o;
}

static void hot_unref(struct hot_texts *h)
{
    if (--h->refs == 0)
        free(h);
}

static void hot_remove(struct stored_impl *o)
{
    struct hot_texts *h = o->hot;

    if (!o->is_hot)
        return;
    *(o->hot_prev ? &o->hot_prev->hot_next : &h->oldest) = o->hot_next;
    *(o->hot_next ? &o->hot_next->hot_prev : &h->newest) = o->hot_prev;
    h->bytes -= o->text_len;
    o->hot_prev = o->hot_next = NULL;
    o->is_hot = false;
}

void hot_add(struct stored_impl *o)
{
    struct hot_texts *h = o->hot;

    if (o->is_hot || !o->text || !o->pub.value)
        return;
    o->is_hot = true;
    o->hot_prev = h->newest;
    *(h->newest ? &h->newest->hot_next : &h->oldest) = o;
    h->newest = o;
    h->bytes += o->text_len;
}

/* keep: whose text is about to be used. */
static void hot_trim(struct hot_texts *h, const struct stored_impl *keep)
{
    while (h->bytes > HOT_TEXT_BYTES && h->oldest && h->oldest != keep && h->oldest->pins == 0) {
        struct stored_impl *o = h->oldest;
        hot_remove(o);
        free(take_ptr(o->text));
    }
}

struct stored *stored_ref(struct stored *s)
{
    if (s)
        s->refs++;
    return s;
}

static void text_make(struct stored_impl *o)
{
    struct strbuf text = {0};

    if (o->text)
        return;
    json_write(o->pub.value, &text);
    o->text_len = text.len;
    o->text = strbuf_detach(&text);
}

static void drop_value(struct stored_impl *o)
{
    text_make(o);
    hot_remove(o); /* the text is what stays: no longer the cache's to drop */
    json_unref(take_ptr(o->pub.value));
}

void stored_unref(struct stored *s)
{
    if (!s)
        return;
    struct stored_impl *o = stored_impl(s);
    if (--s->refs > 0) {
        if (o->cold && s->refs == o->history_refs && s->value)
            drop_value(o);
        return;
    }
    hot_remove(o);
    hot_unref(o->hot);
    json_unref(s->value);
    free(o->text);
    free(o);
}

void stored_cool(struct stored_impl *o)
{
    o->cold = true;
    if (o->pub.refs == o->history_refs && o->pub.value)
        drop_value(o);
}

void stored_warm(struct stored_impl *o)
{
    if (!o->pub.value)
        o->pub.value = json_parse(o->text, o->text_len, NULL); /* our own text: it was parsed or written by us */
}

const char *stored_text(struct stored *s, size_t *ret_len)
{
    struct stored_impl *o = stored_impl(s);

    text_make(o);
    hot_add(o);
    hot_trim(o->hot, o);
    if (ret_len)
        *ret_len = o->text_len;
    return o->text;
}

void stored_write(struct stored *s, struct strbuf *out)
{
    struct stored_impl *o = stored_impl(s);

    if (o->text)
        strbuf_add(out, o->text, o->text_len);
    else
        json_write(s->value, out);
}

/* --- resources --- */

struct store_resource *store_resource(struct store *s, const char *name)
{
    struct store_resource *r = hashmap_get(&s->resources, name);

    if (!r) {
        r = xcalloc(1, sizeof(*r));
        r->name = xstrdup(name);
        r->evicted = s->compacted;
        r->next = s->first_resource;
        s->first_resource = r;
        (void)hashmap_put(&s->resources, name, r); /* it was not there */
    }
    return r;
}

size_t resource_find(const struct store_resource *r, const char *key, bool *ret_found)
{
    size_t low = 0, high = r->count;

    *ret_found = false;
    while (low < high) {
        size_t mid = (low + high) / 2;
        int c = strcmp(r->sorted[mid]->key, key);
        if (c == 0) {
            *ret_found = true;
            return mid;
        }
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void resource_place(struct store_resource *r, struct stored *o)
{
    bool found;
    size_t i = resource_find(r, o->key, &found);

    if (found) {
        stored_unref(r->sorted[i]);
        r->sorted[i] = o;
        return;
    }
    GROW(r->sorted, r->capacity, r->count + 1);
    memmove(&r->sorted[i + 1], &r->sorted[i], (r->count - i) * sizeof(struct stored *));
    r->sorted[i] = o;
    r->count++;
}

void resource_drop(struct store_resource *r, const char *key)
{
    bool found;
    size_t i = resource_find(r, key, &found);

    if (!found)
        return;
    stored_unref(r->sorted[i]);
    r->count--;
    memmove(&r->sorted[i], &r->sorted[i + 1], (r->count - i) * sizeof(struct stored *));
}

static void resource_free(void *value)
{
    struct store_resource *r = value;

    for (size_t i = 0; i < r->count; i++)
        stored_unref(r->sorted[i]);
    free(r->sorted);
    free(r->history.items);
    free(r->name);
    free(r);
}

/* --- reading --- */

int64_t store_revision(const struct store *s)
{
    return s->revision;
}

int64_t store_compacted(const struct store *s)
{
    return s->compacted;
}

void store_set_history_limits(struct store *s, size_t events, size_t bytes)
{
    s->max_events = events;
    s->max_bytes = bytes;
    history_trim(s);
}

struct stored *store_get(struct store *s, const char *resource, const char *key)
{
    struct store_resource *r = hashmap_get(&s->resources, resource);
    bool found;

    if (!r)
        return NULL;
    size_t i = resource_find(r, key, &found);
    return found ? r->sorted[i] : NULL;
}

size_t store_count(struct store *s, const char *resource)
{
    struct store_resource *r = hashmap_get(&s->resources, resource);

    return r ? r->count : 0;
}

struct stored **store_list(struct store *s, const char *resource, const char *ns, size_t *ret_count)
{
    struct store_resource *r = hashmap_get(&s->resources, resource);
    size_t from = 0, to = r ? r->count : 0;

    if (r && ns) {
        bool found;
        _cleanup_free_ char *first = xasprintf("%s/", ns);
        _cleanup_free_ char *behind = xasprintf("%s%c", ns, '/' + 1);
        from = resource_find(r, first, &found);
        to = resource_find(r, behind, &found);
    }
    struct stored **list = xcalloc(to - from + 1, sizeof(struct stored *));
    for (size_t i = from; i < to; i++)
        list[i - from] = stored_ref(r->sorted[i]);
    *ret_count = to - from;
    return list;
}

void store_list_free(struct stored **list, size_t count)
{
    for (size_t i = 0; list && i < count; i++)
        stored_unref(list[i]);
    free(list);
}

/* --- writing --- */

static void set_revision(struct json *value, int64_t revision)
{
    char text[REVISION_TEXT_MAX];

    (void)snprintf(text, sizeof(text), "%" PRId64, revision);
    json_set_str(json_ensure_object(value, "metadata"), "resourceVersion", text);
}

static int check_expected(struct store *s, const char *resource, const char *key, int64_t expect, struct error *err)
{
    struct stored *old = store_get(s, resource, key);

    if (s->full_until_ns > time_monotonic_ns())
        return error_set(err, s->failure.code, "%s", error_text(&s->failure));
    if (expect == 0 && old)
        return error_set(err, EEXIST, "%s %s exists", resource, key);
    if (expect != 0 && expect != -1 && !old)
        return error_set(err, ENOENT, "%s %s does not exist", resource, key);
    if (expect > 0 && old->revision != expect)
        return error_set(err, ESTALE, "%s %s is at revision %lld", resource, key, (long long)old->revision);
    return 0;
}

static void stage(struct store *s, struct store_resource *r, struct stored_impl *o, bool deleted)
{
    if (!s->staged)
        s->staged = xcalloc(1, sizeof(*s->staged));
    struct log_batch *b = s->staged;
    text_make(o);
    hot_add(o);
    o->pins++;
    (void)stored_ref(&o->pub); /* given back when the batch comes back */
    GROW(b->records, b->capacity, b->count + 1);
    b->records[b->count++] = (struct log_record){.revision = o->pub.revision,
                                                 .resource = r->name,
                                                 .key = o->key,
                                                 .text = o->text,
                                                 .len = o->text_len,
                                                 .deleted = deleted,
                                                 .owner = o};
}

static void record(struct store *s, struct store_resource *r, enum store_event_type type, struct stored_impl *o,
                   struct stored *old)
{
    stage(s, r, o, type == STORE_DELETED);
    history_record(s, r, type, o->pub.revision, o, old ? stored_impl(stored_ref(old)) : NULL);
    r->dirty = true;
    store_schedule(s);
}

struct stored *store_put(struct store *s, const char *resource, const char *key, struct json *value, int64_t expect,
                         struct error *err)
{
    if (check_expected(s, resource, key, expect, err) < 0) {
        json_unref(value);
        return NULL;
    }
    struct store_resource *r = store_resource(s, resource);
    struct stored *old = store_get(s, resource, key);
    set_revision(value, ++s->revision);
    struct stored_impl *o = stored_make(s->hot, key, s->revision, value, NULL, 0);
    record(s, r, old ? STORE_MODIFIED : STORE_ADDED, o, old);
    resource_place(r, stored_ref(&o->pub));
    return &o->pub;
}

int store_delete(struct store *s, const char *resource, const char *key, struct json *last, int64_t expect,
                 struct error *err)
{
    struct stored *old = store_get(s, resource, key);
    int r = check_expected(s, resource, key, expect, err);

    if (r == 0 && !old)
        r = error_set(err, ENOENT, "%s %s does not exist", resource, key);
    if (r < 0) {
        json_unref(last);
        return r;
    }
    struct store_resource *res = store_resource(s, resource);
    set_revision(last, ++s->revision);
    record(s, res, STORE_DELETED, stored_make(s->hot, key, s->revision, last, NULL, 0), old);
    resource_drop(res, key);
    return 0;
}

/* --- durability --- */

void store_when_durable(struct store *s, int64_t revision, void (*done)(void *arg, const struct error *err), void *arg)
{
    struct waiter *w = xcalloc(1, sizeof(*w));

    *w = (struct waiter){.revision = revision, .done = done, .arg = arg};
    *s->waiters_tail = w;
    s->waiters_tail = &w->next;
    if (store_is_durable(s, revision))
        store_schedule(s);
}

bool store_is_durable(const struct store *s, int64_t revision)
{
    return revision <= s->durable;
}

int64_t store_durable_revision(const struct store *s)
{
    return s->durable;
}

/* Takes the waiters that can be answered off the list first: their callbacks may add new ones. */
static void fire_waiters(struct store *s, const struct error *err)
{
    struct waiter *ready = NULL, **ready_tail = &ready, **at = &s->waiters;

    while (*at) {
        struct waiter *w = *at;
        if (!err && w->revision > s->durable) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = NULL;
        *ready_tail = w;
        ready_tail = &w->next;
    }
    s->waiters_tail = at;
    for (struct waiter *next; ready; ready = next) {
        next = ready->next;
        ready->done(ready->arg, ready->revision > s->durable ? err : NULL);
        free(ready);
    }
}

static void unpin(struct log_batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        struct stored_impl *o = b->records[i].owner;
        o->pins--;
        stored_unref(&o->pub);
    }
    b->count = 0;
}

/* Rows that were to leave leave with the next commit: in the end they must, and never a later one before an earlier. */
static void keep_drops(struct store *s, const struct log_batch *b)
{
    if (!s->staged)
        s->staged = xcalloc(1, sizeof(*s->staged));
    struct log_batch *to = s->staged;
    GROW(to->drop, to->drop_capacity, to->drop_count + b->drop_count);
    for (size_t i = 0; i < b->drop_count; i++)
        to->drop[to->drop_count++] = b->drop[i];
    to->compacted = MAX(to->compacted, b->compacted);
}

/* The disk refused: memory goes back to what is there. Revisions that were given out are not given out again. */
static void roll_back(struct store *s, const struct error *err)
{
    error_clear(&s->failure);
    (void)error_set(&s->failure, err->code, "%s", error_text(err));
    s->full_until_ns = time_monotonic_ns() + FULL_RETRY_NS;
    if (s->staged)
        unpin(s->staged);
    history_roll_back(s, s->durable);
    watches_rolled_back(s);
    if (s->rollback_told)
        s->rollback_told(s->rollback_arg);
    fire_waiters(s, &s->failure);
    s->durable = s->revision;
}

void store_on_rollback(struct store *s, void (*told)(void *arg), void *arg)
{
    s->rollback_told = told;
    s->rollback_arg = arg;
}

void store_undo(struct store *s, int64_t revision,
                void (*undone)(void *arg, enum store_event_type type, const struct json *value,
                               const struct json *previous),
                void *arg)
{
    struct log_batch *b = s->staged;

    while (s->revision > revision && s->history.count > 0 &&
           history_at(&s->history, s->history.count - 1)->revision > revision) {
        struct history_entry *e = history_undo(s);
        undone(arg, e->type, e->object->pub.value, e->previous ? e->previous->pub.value : NULL);
        history_entry_unref(e);
    }
    while (b && b->count > 0 && b->records[b->count - 1].revision > revision) {
        struct stored_impl *o = b->records[--b->count].owner;
        o->pins--;
        stored_unref(&o->pub);
    }
    s->revision = revision;
}

static void on_batch(void *arg, struct log_batch *b, const struct error *err)
{
    struct store *s = arg;
    int64_t last = b->count > 0 ? b->records[b->count - 1].revision : 0;

    unpin(b);
    if (err) {
        keep_drops(s, b);
        if (last > s->durable)
            roll_back(s, err);
    } else {
        s->full_until_ns = 0;
        s->durable = MAX(s->durable, last);
        hot_trim(s->hot, NULL);
        watches_mark_durable(s);
        history_trim(s);
        fire_waiters(s, NULL);
    }
    log_batch_free(b);
}

static void submit(struct store *s)
{
    if (!s->staged)
        return;
    /* Compaction alone is not worth a commit of its own. */
    if (s->staged->count == 0 && !s->closing)
        return;
    store_log_submit(s->log, take_ptr(s->staged));
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct store *s = arg;

    (void)fd;
    (void)what;
    s->turn_pending = false;
    submit(s);
    watches_deliver(s);
    fire_waiters(s, NULL);
}

/* The turn's callback runs when the loop has handled what is ready now, so that all of it shares one commit. */
void store_schedule(struct store *s)
{
    if (s->turn_pending || s->closing)
        return;
    s->turn_pending = true;
    (void)event_add(s->turn, &(struct timeval){0}); /* fails only without memory, which xmalloc does not survive */
}

/* --- opening and closing --- */

static int on_row(void *arg, const struct log_record *rec, struct error *err)
{
    struct store *s = arg;
    struct store_resource *r = store_resource(s, rec->resource);
    struct stored *old = store_get(s, rec->resource, rec->key);

    if (rec->revision <= s->revision)
        return error_set(err, EUCLEAN, "store: revision %lld is out of order", (long long)rec->revision);
    s->revision = s->durable = rec->revision;
    struct stored_impl *o = stored_make(s->hot, rec->key, rec->revision, NULL, xstrndup(rec->text, rec->len), rec->len);
    if (rec->revision > s->compacted) {
        enum store_event_type type = rec->deleted ? STORE_DELETED : old ? STORE_MODIFIED : STORE_ADDED;
        history_record(s, r, type, rec->revision, stored_impl(stored_ref(&o->pub)),
                       old ? stored_impl(stored_ref(old)) : NULL);
        o->cold = true;
    }
    if (rec->deleted)
        resource_drop(r, rec->key);
    else
        resource_place(r, stored_ref(&o->pub));
    stored_unref(&o->pub);
    return 0;
}

/* Only now, so that superseded rows are never parsed. */
static int parse_current(struct store *s, struct error *err)
{
    for (struct store_resource *r = s->first_resource; r; r = r->next) {
        for (size_t i = 0; i < r->count; i++) {
            struct stored_impl *o = stored_impl(r->sorted[i]);
            o->pub.value = json_parse(o->text, o->text_len, err);
            if (!o->pub.value) {
                (void)error_set(err, EUCLEAN, "store: %s %s is no object", r->name, o->key);
                return -EUCLEAN;
            }
            if (!o->history_refs)
                free(take_ptr(o->text));
        }
    }
    return 0;
}

struct store *store_open(struct event_base *base, const char *path, enum store_durability durability,
                         const struct sealer *sealer, struct error *err)
{
    static const struct log_callbacks callbacks = {.row = on_row, .done = on_batch};
    struct store *s = xcalloc(1, sizeof(*s));

    s->base = base;
    s->waiters_tail = &s->waiters;
    s->hot = xcalloc(1, sizeof(*s->hot));
    s->hot->refs = 1;
    s->turn = event_new(base, -1, 0, on_turn, s);
    if (!s->turn || event_priority_set(s->turn, LOOP_HIGH) < 0) {
        store_close(s);
        return error_set(err, ENOMEM, "store: no event"), NULL;
    }
    s->log = store_log_open(base, path, durability, sealer, &callbacks, s, &s->compacted, err);
    if (!s->log || parse_current(s, err) < 0) {
        store_close(s);
        return NULL;
    }
    s->revision = s->durable = MAX(s->revision, s->compacted);
    history_trim(s);
    return s;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    s->closing = true;
    if (s->log)
        submit(s);
    store_log_close(s->log);
    watches_free(s);
    static const struct error closed = {.code = ECANCELED, .message = (char *)(uintptr_t) "the store is closed"};
    fire_waiters(s, &closed);
    if (s->staged)
        unpin(s->staged);
    log_batch_free(s->staged);
    history_free(s);
    hashmap_free(&s->resources, resource_free);
    hot_unref(s->hot);
    if (s->turn)
        event_free(s->turn);
    error_clear(&s->failure);
    free(s);
}
