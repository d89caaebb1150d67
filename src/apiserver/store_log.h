/*
 * The durable half of the store: one SQLite table of revisions, the thread that appends to it, and one that moves what
 * was appended from the write-ahead log into the database meanwhile.
 *
 * The loop hands over batches; the thread commits all that waits as one transaction and reports on an eventfd, which
 * makes `done` run on the loop. Batches, and the texts they point to, belong to the caller and come back through done.
 * After a failure the log refuses everything that was queued behind it (the state it builds on is gone) until
 * the loop has seen the failure.
 *
 * Table log: revision, resource, key, deleted, object (a BLOB where it is sealed, seal.h). A row leaves when its
 * successor has left the history, so the table holds the current state and the history, and nothing else. Table meta:
 * the revision the history is complete from.
 */
#pragma once

#include "apiserver/seal.h"
#include "apiserver/store.h"

struct store_log;

struct log_record {
    int64_t revision;
    const char *resource, *key;
    const char *text;
    size_t len;
    bool deleted;
    void *owner; /* the submitter's */
};

/* Writes of one loop turn. Zero-initialised is empty. */
struct log_batch {
    struct log_record *records;
    size_t count, capacity;
    int64_t *drop; /* revisions that are superseded for good */
    size_t drop_count, drop_capacity;
    int64_t compacted; /* the history starts behind it */
    struct log_batch *next;
};
void log_batch_free(struct log_batch *b);

struct log_callbacks {
    /* Each row in order of revision, while opening. text is only valid during the call. */
    int (*row)(void *arg, const struct log_record *record, struct error *err);
    /* Batches in order of submission; err NULL: on disk. Runs on the loop; the receiver frees the batch. */
    void (*done)(void *arg, struct log_batch *batch, const struct error *err);
};

/* sealer: borrowed; NULL = nothing is sealed. *ret_compacted: as last stored. */
struct store_log *store_log_open(struct event_base *base, const char *path, enum store_durability durability,
                                 const struct sealer *sealer, const struct log_callbacks *cb, void *arg,
                                 int64_t *ret_compacted, struct error *err);
void store_log_submit(struct store_log *log, struct log_batch *batch);
/* Waits for the thread to finish what is queued, reports it through done, and closes. */
void store_log_close(struct store_log *log);
