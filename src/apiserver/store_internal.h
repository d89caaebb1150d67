/* What store.c (state), store_history.c (events) and store_watch.c share. Nobody else includes it. */
#pragma once

#include "apiserver/store.h"
#include "apiserver/store_log.h"
#include "base/hashmap.h"

struct event;

/* Objects whose text could be made again, oldest first. Outlives the store while objects do. */
struct hot_texts {
    unsigned refs;
    struct stored_impl *oldest, *newest;
    size_t bytes;
};

/* A stored with what the store alone may know. The text is made once, for the log, and kept while it is hot. */
struct stored_impl {
    struct stored pub;
    unsigned history_refs; /* how many of pub.refs the history holds */
    unsigned pins;         /* the log's thread is reading the text */
    bool cold;             /* to keep no value once only the history holds it */
    bool is_hot;           /* on the list */
    struct hot_texts *hot; /* a reference */
    struct stored_impl *hot_prev, *hot_next;
    char *text;
    size_t text_len;
    char key[];
};
static inline struct stored_impl *stored_impl(struct stored *s)
{
    return container_of(s, struct stored_impl, pub);
}

/* One write. Refs: the history, and whoever is delivering it. */
struct history_entry {
    unsigned refs;
    int64_t revision;
    int64_t at_ns; /* monotonic: when it was recorded here */
    struct store_resource *resource;
    enum store_event_type type;
    struct stored_impl *object, *previous;
    size_t bytes;
};

/* A double-ended queue of entries in order of revision. */
struct history {
    struct history_entry **items;
    size_t head, count, capacity; /* capacity: a power of two */
};
static inline struct history_entry *history_at(const struct history *h, size_t i)
{
    return h->items[(h->head + i) & (h->capacity - 1)];
}
void history_push(struct history *h, struct history_entry *e);
struct history_entry *history_pop_oldest(struct history *h);
struct history_entry *history_pop_newest(struct history *h);
/* Index of the first entry behind revision. */
size_t history_after(const struct history *h, int64_t revision);

struct store_resource {
    char *name;
    struct stored **sorted; /* current objects by key */
    size_t count, capacity;
    struct history history; /* this resource's entries of the store's history */
    int64_t evicted;        /* newest revision of this resource that has left the history */
    struct store_watch *watches;
    bool dirty; /* has watches to serve */
    struct store_resource *next;
};

struct waiter {
    int64_t revision;
    void (*done)(void *arg, const struct error *err);
    void *arg;
    struct waiter *next;
};

struct store {
    struct event_base *base;
    struct store_log *log;
    struct hashmap resources;
    struct store_resource *first_resource; /* the same as a list: it may grow while it is walked */
    int64_t revision, durable, compacted;

    struct history history;
    size_t history_bytes, max_events, max_bytes;
    size_t cooled; /* entries at the old end that have been looked at by cool() */

    struct hot_texts *hot;

    struct log_batch *staged; /* writes of this turn of the loop */
    int64_t full_until_ns;    /* after a failed write: no new try before (monotonic) */
    struct error failure;

    struct waiter *waiters, **waiters_tail;
    struct event *turn; /* end of the loop's turn: submit, deliver, fire waiters */
    bool turn_pending, closing;
    unsigned delivering;
    void (*rollback_told)(void *arg); /* store_on_rollback() */
    void *rollback_arg;
    bool watch_died;
};

struct store_resource *store_resource(struct store *s, const char *name);
void store_schedule(struct store *s);
/* Index of key, or where it would go. */
size_t resource_find(const struct store_resource *r, const char *key, bool *ret_found);
void resource_place(struct store_resource *r, struct stored *s); /* adds or replaces; takes the reference */
void resource_drop(struct store_resource *r, const char *key);

/* A new object with one reference. Takes value; text may be NULL, or is taken. */
struct stored_impl *stored_make(struct hot_texts *hot, const char *key, int64_t revision, struct json *value,
                                char *text, size_t text_len);
/* To be called when a text is there and the object may drop it again. */
void hot_add(struct stored_impl *o);
/* Parses the value of a cold object again. */
void stored_warm(struct stored_impl *o);
/* From now on the object keeps its text alone whenever only the history holds it. */
void stored_cool(struct stored_impl *o);

/* Records a write that has happened; takes the references. */
void history_record(struct store *s, struct store_resource *r, enum store_event_type type, int64_t revision,
                    struct stored_impl *object, struct stored_impl *previous);
void history_trim(struct store *s);
void history_entry_unref(struct history_entry *e);
/* Takes back the newest entry; the caller owns it. */
struct history_entry *history_undo(struct store *s);
/* Takes back everything behind revision. */
void history_roll_back(struct store *s, int64_t revision);
void history_free(struct store *s);

/* Serves the watches of dirty resources. */
void watches_deliver(struct store *s);
void watches_mark_durable(struct store *s); /* durable has advanced */
void watches_rolled_back(struct store *s);
void watches_free(struct store *s);
