/*
 * The store: every object of every resource, in memory, behind an append-only log of revisions in SQLite (WAL).
 *
 * One counter, the revision, grows by one with each write of any object and is its resourceVersion. Writes take effect
 * in memory at once and are seen by in-process readers and watchers immediately; a writer thread commits all that has
 * gathered as one transaction (group commit), and store_when_durable() tells when a revision is safe. What leaves the
 * process (answers, watch events to clients) waits for that; controllers inside do not.
 *
 * After kill -9 or power loss everything ever reported durable is there, and the event history since the compaction
 * point is too: watches continue from their last revision. A full disk makes writes fail (ENOSPC → 507/500 to the
 * client) and leaves memory as it was on disk: the failed revisions are rolled back, in-process watchers included (they
 * are told to start over); the store recovers by itself when there is room again.
 */
#pragma once

#include "base/error.h"
#include "wire/json.h"

#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct sealer;
struct store;

enum store_event_type { STORE_ADDED, STORE_MODIFIED, STORE_DELETED };
enum store_durability { STORE_DURABILITY_FULL, STORE_DURABILITY_NORMAL };

/* An object at a revision; immutable, reference-counted. */
struct stored {
    unsigned refs;
    int64_t revision;
    struct json *value; /* with metadata.resourceVersion set */
    const char *key;    /* "ns/name" or "name", borrowed */
};
struct stored *stored_ref(struct stored *s);
void stored_unref(struct stored *s);
/* Compact JSON text of the value, made once and kept while it is hot. Valid until the next call for any object. */
const char *stored_text(struct stored *s, size_t *ret_len);
/* Appends the same text without making the object hot: for lists. */
void stored_write(struct stored *s, struct strbuf *out);

/* sealer (seal.h): borrowed, outlives the store; NULL = nothing is encrypted on disk. */
struct store *store_open(struct event_base *base, const char *path, enum store_durability durability,
                         const struct sealer *sealer, struct error *err);
/* Commits what is pending and closes. */
void store_close(struct store *s);
int64_t store_revision(const struct store *s);

/* resource: "group/plural" ("/pods" for core). Borrowed results. */
struct stored *store_get(struct store *s, const char *resource, const char *key);
/* Sorted by key; ns NULL = all. The array holds references: free with store_list_free. */
struct stored **store_list(struct store *s, const char *resource, const char *ns, size_t *ret_count);
void store_list_free(struct stored **list, size_t count);
/*
 * As store_list, but the state right after a past revision, from the history. NULL with err set: EOVERFLOW when it is
 * compacted, ERANGE when it is in the future.
 */
struct stored **store_list_at(struct store *s, const char *resource, const char *ns, int64_t revision,
                              size_t *ret_count, struct error *err);
/*
 * The last state (borrowed) of an object of this key that was deleted within the last window_ns, whether another is
 * there now or not, and in *ret_before the revision before the deletion. NULL: there is none in the history.
 */
struct stored *store_deleted_lately(struct store *s, const char *resource, const char *key, int64_t window_ns,
                                    int64_t *ret_before);
size_t store_count(struct store *s, const char *resource);

/*
 * Writes. value is taken; its top level and its metadata must be the caller's own (the rest may be shared), for
 * metadata.resourceVersion is set to the new revision. expect: the revision the caller saw
 * (0 = must not exist, -1 = any); mismatch is EEXIST / ENOENT / ESTALE. Returns the new state (borrowed).
 */
struct stored *store_put(struct store *s, const char *resource, const char *key, struct json *value, int64_t expect,
                         struct error *err);
/* last: what the DELETED event carries (its resourceVersion becomes the deletion's). Taken. */
int store_delete(struct store *s, const char *resource, const char *key, struct json *last, int64_t expect,
                 struct error *err);

/*
 * Undoes every write behind revision, which must be one that store_revision() gave in this turn of the loop: nobody
 * else has seen them yet. undone runs for each, newest first; previous is NULL when the object was new, value the last
 * state of one that was deleted.
 */
void store_undo(struct store *s, int64_t revision,
                void (*undone)(void *arg, enum store_event_type type, const struct json *value,
                               const struct json *previous),
                void *arg);

/* What is kept up with the store's writes besides watches must be made anew when told runs: the disk has refused, and
 * writes that were seen are undone. One at most; NULL = none. */
void store_on_rollback(struct store *s, void (*told)(void *arg), void *arg);

/* done runs on the loop when revision is on disk (err NULL) or could not be written (err set). May run at once in a
 * later turn, never inside the call. */
void store_when_durable(struct store *s, int64_t revision, void (*done)(void *arg, const struct error *err), void *arg);
bool store_is_durable(const struct store *s, int64_t revision);
/* Everything up to here is on disk, and durable watches have been told. */
int64_t store_durable_revision(const struct store *s);

struct store_event {
    enum store_event_type type;
    int64_t revision;
    struct stored *object;   /* state after; for DELETED the last state */
    struct stored *previous; /* NULL for ADDED */
};
struct store_watch;
struct store_watch_callbacks {
    void (*event)(void *arg, const struct store_event *e);
    /* The watch cannot go on (rolled back, too slow): its owner must list again. The watch is stopped. */
    void (*lost)(void *arg);
};
/*
 * Events after revision `from` in order: first those of the history (delivered from the loop), then live ones. durable:
 * hold each back until it is on disk. NULL and EOVERFLOW (compacted: 410) or ERANGE (in the future) on error.
 */
struct store_watch *store_watch(struct store *s, const char *resource, int64_t from, bool durable,
                                const struct store_watch_callbacks *cb, void *arg, struct error *err);
void store_unwatch(struct store_watch *w);
/* Oldest revision a watch may start from. */
int64_t store_compacted(const struct store *s);
/* How much history is kept for watches and past lists; whichever is reached first. 0 = the default. */
void store_set_history_limits(struct store *s, size_t events, size_t bytes);
