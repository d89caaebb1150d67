#include "apiserver/store_log.h"

#include "base/loop.h"
#include "base/memory.h"
#include "base/timeutil.h"

#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/eventfd.h>
#include <sys/file.h>

/* Write-ahead log pages that may gather before they are moved into the database, which another thread does meanwhile.
 */
#define WAL_PAGES_MOVE 1024
/* With so many (256 MiB) the writer waits for the move: what is appended all the time is never used again. */
#define WAL_PAGES_MAX 65536
/* Quiet time after which they are moved in any case. */
#define CHECKPOINT_IDLE_MS 300
#define BUSY_TIMEOUT_MS 10000

struct result {
    struct log_batch *batches;
    struct error err;
    struct result *next;
};

struct store_log {
    struct event_base *base;
    const struct sealer *sealer; /* borrowed; NULL = none */
    const struct log_callbacks *cb;
    void *arg;
    sqlite3 *db, *mover_db;
    sqlite3_stmt *insert, *drop, *compact;
    int lock_fd; /* two processes must not have one store */
    int event_fd;
    struct event *event;
    pthread_t thread, mover;
    bool running, moving;
    bool sealed_anew; /* while opening: rows were rewritten */
    int pages;        /* in the write-ahead log, as the writer saw it last; its alone */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake, mover_wake;
    int wal_pages, moved_pages; /* in the write-ahead log; how many there were when they were moved last */
    bool wal_quiet;             /* all of them were looked at since the last write */
    int64_t wal_written_ns;
    struct log_batch *queue, **queue_tail;
    struct result *results, **results_tail;
    bool failed, stop;
};

static const char SCHEMA[] = "CREATE TABLE IF NOT EXISTS log(revision INTEGER PRIMARY KEY, resource TEXT NOT NULL,"
                             " key TEXT NOT NULL, deleted INTEGER NOT NULL, object TEXT NOT NULL);"
                             "CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL);";

void log_batch_free(struct log_batch *b)
{
    if (!b)
        return;
    free(b->records);
    free(b->drop);
    free(b);
}

static int db_code(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return ENOSPC;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return EBUSY;
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return EACCES;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return EUCLEAN;
    default:
        return EIO;
    }
}

static int db_error(struct store_log *log, int rc, struct error *err, const char *what)
{
    return error_set(err, db_code(rc), "%s: %s", what, log->db ? sqlite3_errmsg(log->db) : sqlite3_errstr(rc));
}

static int db_exec(struct store_log *log, const char *sql, struct error *err)
{
    int rc = sqlite3_exec(log->db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : db_error(log, rc, err, "store");
}

static int step_done(struct store_log *log, sqlite3_stmt *stmt, struct error *err, const char *what)
{
    int rc = sqlite3_step(stmt), r = 0;

    if (rc != SQLITE_DONE && rc != SQLITE_ROW)
        r = db_error(log, rc, err, what);
    (void)sqlite3_reset(stmt); /* repeats the error of step */
    return r;
}

static int write_record(struct store_log *log, const struct log_record *r, struct error *err)
{
    _cleanup_(strbuf_free) struct strbuf sealed = {0};
    const struct seal_place place = {.resource = r->resource, .key = r->key, .revision = r->revision};
    bool to_seal = log->sealer && is_sealed_resource(r->resource);
    sqlite3_stmt *s = log->insert;

    (void)sqlite3_bind_int64(s, 1, r->revision); /* binds fail only for an index out of range */
    (void)sqlite3_bind_text(s, 2, r->resource, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(s, 3, r->key, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int(s, 4, r->deleted);
    if (to_seal && seal(log->sealer, &place, r->text, r->len, &sealed, err) < 0)
        return -err->code;
    if (to_seal)
        (void)sqlite3_bind_blob(s, 5, sealed.data, (int)sealed.len, SQLITE_STATIC);
    else
        (void)sqlite3_bind_text(s, 5, r->text, (int)r->len, SQLITE_STATIC);
    return step_done(log, s, err, "write revision");
}

static int write_batch(struct store_log *log, const struct log_batch *b, struct error *err)
{
    for (size_t i = 0; i < b->count; i++)
        if (write_record(log, &b->records[i], err) < 0)
            return -err->code;
    for (size_t i = 0; i < b->drop_count; i++) {
        (void)sqlite3_bind_int64(log->drop, 1, b->drop[i]);
        if (step_done(log, log->drop, err, "drop revision") < 0)
            return -err->code;
    }
    if (b->compacted) {
        (void)sqlite3_bind_int64(log->compact, 1, b->compacted);
        return step_done(log, log->compact, err, "note compaction");
    }
    return 0;
}

static int write_all(struct store_log *log, const struct log_batch *batches, struct error *err)
{
    int r = db_exec(log, "BEGIN IMMEDIATE", err);

    for (const struct log_batch *b = batches; r == 0 && b; b = b->next)
        r = write_batch(log, b, err);
    if (r == 0)
        r = db_exec(log, "COMMIT", err);
    if (r < 0 && !sqlite3_get_autocommit(log->db))
        (void)sqlite3_exec(log->db, "ROLLBACK", NULL, NULL, NULL); /* err holds the cause */
    return r;
}

static int wal_hook(void *arg, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    ((struct store_log *)arg)->pages = pages;
    return SQLITE_OK;
}

/* Failure leaves the pages in the write-ahead log, where they are just as safe. */
static void checkpoint(sqlite3 *db)
{
    (void)sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

/* What the mover has to know about a commit. */
static void note_commit(struct store_log *log)
{
    (void)pthread_mutex_lock(&log->lock);
    log->wal_pages = log->pages;
    if (log->moved_pages > log->wal_pages)
        log->moved_pages = 0; /* it has begun from the start */
    log->wal_written_ns = time_monotonic_ns();
    if (log->wal_quiet || log->wal_pages - log->moved_pages > WAL_PAGES_MOVE)
        (void)pthread_cond_signal(&log->mover_wake);
    log->wal_quiet = false;
    (void)pthread_mutex_unlock(&log->lock);
    if (log->pages > WAL_PAGES_MAX)
        checkpoint(log->db);
}

/* Waits until there is something to move; false when it is time to end. The lock is held. */
static bool wait_for_pages(struct store_log *log)
{
    while (!log->stop) {
        if (log->wal_pages - log->moved_pages > WAL_PAGES_MOVE)
            return true;
        if (log->wal_quiet) {
            (void)pthread_cond_wait(&log->mover_wake, &log->lock);
            continue;
        }
        int64_t ns = log->wal_written_ns + CHECKPOINT_IDLE_MS * NSEC_PER_MSEC;
        if (time_monotonic_ns() >= ns)
            return true;
        struct timespec until = {.tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC};
        (void)pthread_cond_timedwait(&log->mover_wake, &log->lock, &until);
    }
    return false;
}

/* Moves pages into the database while the other thread goes on writing. */
static void *move(void *arg)
{
    struct store_log *log = arg;

    (void)pthread_mutex_lock(&log->lock);
    while (wait_for_pages(log)) {
        log->moved_pages = log->wal_pages;
        log->wal_quiet = true; /* until the next commit */
        (void)pthread_mutex_unlock(&log->lock);
        checkpoint(log->mover_db);
        (void)pthread_mutex_lock(&log->lock);
    }
    (void)pthread_mutex_unlock(&log->lock);
    return NULL;
}

/* Waits for work; NULL when it is time to end. */
static struct log_batch *next_work(struct store_log *log)
{
    struct log_batch *work = NULL;

    (void)pthread_mutex_lock(&log->lock);
    while (!log->stop && (!log->queue || log->failed))
        (void)pthread_cond_wait(&log->wake, &log->lock);
    if (!log->failed) {
        work = log->queue;
        log->queue = NULL;
        log->queue_tail = &log->queue;
    }
    (void)pthread_mutex_unlock(&log->lock);
    return work;
}

static void report(struct store_log *log, struct log_batch *work, struct error *err)
{
    struct result *result = xcalloc(1, sizeof(*result));
    uint64_t one = 1;

    result->batches = work;
    result->err = *err;
    (void)pthread_mutex_lock(&log->lock);
    log->failed = err->code != 0;
    *log->results_tail = result;
    log->results_tail = &result->next;
    (void)pthread_mutex_unlock(&log->lock);
    (void)!write(log->event_fd, &one, sizeof(one)); /* an eventfd is never full here */
}

static void *run(void *arg)
{
    struct store_log *log = arg;
    struct log_batch *work;

    while ((work = next_work(log))) {
        struct error err = ERROR_INIT;
        (void)write_all(log, work, &err); /* err tells */
        report(log, work, &err);
        note_commit(log);
    }
    return NULL;
}

static void finish(struct store_log *log, struct log_batch *batches, const struct error *err)
{
    for (struct log_batch *next; batches; batches = next) {
        next = batches->next;
        batches->next = NULL;
        log->cb->done(log->arg, batches, err);
    }
}

static void collect(struct store_log *log)
{
    (void)pthread_mutex_lock(&log->lock);
    struct result *results = log->results;
    log->results = NULL;
    log->results_tail = &log->results;
    (void)pthread_mutex_unlock(&log->lock);

    for (struct result *next; results; results = next) {
        next = results->next;
        finish(log, results->batches, results->err.code ? &results->err : NULL);
        if (results->err.code) {
            (void)pthread_mutex_lock(&log->lock);
            struct log_batch *behind = log->queue;
            log->queue = NULL;
            log->queue_tail = &log->queue;
            log->failed = false;
            (void)pthread_mutex_unlock(&log->lock);
            finish(log, behind, &results->err);
        }
        error_clear(&results->err);
        free(results);
    }
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    uint64_t count;

    (void)what;
    (void)!read(fd, &count, sizeof(count)); /* empty after a spurious wake: collect finds nothing */
    collect(arg);
}

void store_log_submit(struct store_log *log, struct log_batch *batch)
{
    batch->next = NULL;
    (void)pthread_mutex_lock(&log->lock);
    *log->queue_tail = batch;
    log->queue_tail = &batch->next;
    (void)pthread_cond_signal(&log->wake);
    (void)pthread_mutex_unlock(&log->lock);
}

void store_log_close(struct store_log *log)
{
    if (!log)
        return;
    if (log->running) {
        (void)pthread_mutex_lock(&log->lock);
        log->stop = true;
        (void)pthread_cond_signal(&log->wake);
        (void)pthread_cond_signal(&log->mover_wake);
        (void)pthread_mutex_unlock(&log->lock);
        (void)pthread_join(log->thread, NULL);
        if (log->moving)
            (void)pthread_join(log->mover, NULL);
        collect(log);
    }
    if (log->event)
        event_free(log->event);
    if (log->event_fd >= 0)
        (void)close(log->event_fd);
    (void)sqlite3_finalize(log->insert);
    (void)sqlite3_finalize(log->drop);
    (void)sqlite3_finalize(log->compact);
    (void)sqlite3_close(log->mover_db);
    (void)sqlite3_close(log->db); /* checkpoints; failure leaves a write-ahead log that the next open reads */
    if (log->lock_fd >= 0)
        (void)close(log->lock_fd);
    (void)pthread_cond_destroy(&log->wake);
    (void)pthread_cond_destroy(&log->mover_wake);
    (void)pthread_mutex_destroy(&log->lock);
    free(log);
}

/* The text of the row under stmt, plain; valid until the next step or, when it was sealed, as long as out. */
static int plain_text(struct store_log *log, sqlite3_stmt *stmt, struct log_record *r, struct strbuf *out,
                      struct error *err)
{
    const struct seal_place place = {.resource = r->resource, .key = r->key, .revision = r->revision};

    if (sqlite3_column_type(stmt, 4) != SQLITE_BLOB) {
        r->text = (const char *)sqlite3_column_text(stmt, 4);
        r->len = (size_t)sqlite3_column_bytes(stmt, 4);
        return 0;
    }
    if (!log->sealer)
        return error_set(err, EKEYREJECTED, "%s %s is sealed, and no file of keys was given", r->resource, r->key);
    const void *data = sqlite3_column_blob(stmt, 4);
    strbuf_truncate(out, 0);
    int rc = unseal(log->sealer, &place, data, (size_t)sqlite3_column_bytes(stmt, 4), out, err);
    r->text = strbuf_str(out);
    r->len = out->len;
    return rc;
}

#define SELECT_ROWS "SELECT revision, resource, key, deleted, object FROM log"

static struct log_record row_of(sqlite3_stmt *stmt)
{
    return (struct log_record){
        .revision = sqlite3_column_int64(stmt, 0),
        .resource = (const char *)sqlite3_column_text(stmt, 1),
        .key = (const char *)sqlite3_column_text(stmt, 2),
        .deleted = sqlite3_column_int(stmt, 3) != 0,
    };
}

static void clear_plain(struct strbuf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->capacity);
    strbuf_free(b);
}

static int each_row(struct store_log *log, const char *sql, const char *resource,
                    int (*fn)(struct store_log *log, sqlite3_stmt *stmt, struct log_record *r, struct error *err),
                    struct error *err)
{
    _cleanup_(clear_plain) struct strbuf plain = {0};
    sqlite3_stmt *stmt = NULL;
    int r = 0, rc = sqlite3_prepare_v2(log->db, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK && resource)
        rc = sqlite3_bind_text(stmt, 1, resource, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        while (r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
            struct log_record record = row_of(stmt);
            r = plain_text(log, stmt, &record, &plain, err);
            if (r == 0)
                r = fn(log, stmt, &record, err);
        }
    if (r == 0 && rc != SQLITE_DONE)
        r = db_error(log, rc, err, "read store");
    (void)sqlite3_finalize(stmt);
    return r < 0 ? error_wrap(err, "store") : 0;
}

static int seal_anew(struct store_log *log, sqlite3_stmt *stmt, struct log_record *r, struct error *err)
{
    if (sqlite3_column_type(stmt, 4) == SQLITE_BLOB &&
        is_sealed_freshly(log->sealer, sqlite3_column_blob(stmt, 4), (size_t)sqlite3_column_bytes(stmt, 4)))
        return 0;
    log->sealed_anew = true;
    return write_record(log, r, err);
}

/* Rows from before there was a key, or of a key that is to go. Nothing of their old form stays in the file. */
static int seal_all(struct store_log *log, struct error *err)
{
    int r = db_exec(log, "PRAGMA secure_delete=ON; BEGIN IMMEDIATE", err);

    for (const char *const *resource = sealed_resources; r == 0 && *resource; resource++)
        r = each_row(log, SELECT_ROWS " WHERE resource = ?", *resource, seal_anew, err);
    if (r == 0)
        r = db_exec(log, log->sealed_anew ? "COMMIT; PRAGMA wal_checkpoint(TRUNCATE)" : "ROLLBACK", err);
    return r < 0 ? r : db_exec(log, "PRAGMA secure_delete=OFF", err);
}

static int give_row(struct store_log *log, sqlite3_stmt *stmt UNUSED, struct log_record *r, struct error *err)
{
    return log->cb->row(log->arg, r, err);
}

static int load(struct store_log *log, int64_t *ret_compacted, struct error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(log->db, "SELECT value FROM meta WHERE name = 'compacted'", -1, &stmt, NULL);

    if (rc != SQLITE_OK)
        return db_error(log, rc, err, "read store");
    *ret_compacted = sqlite3_step(stmt) == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
    (void)sqlite3_finalize(stmt);
    int r = log->sealer ? seal_all(log, err) : 0;
    return r < 0 ? r : each_row(log, SELECT_ROWS " ORDER BY revision", NULL, give_row, err);
}

static int take_lock(struct store_log *log, const char *path, struct error *err)
{
    _cleanup_free_ char *lock = xasprintf("%s-lock", path);

    log->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log->lock_fd < 0)
        return error_set_errno(err, errno, "open %s", lock);
    if (flock(log->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? error_set(err, EBUSY, "%s is in use by another process", path)
                                    : error_set_errno(err, errno, "lock %s", lock);
    return 0;
}

/* Of the mover: it only ever moves pages. */
static int open_second(struct store_log *log, const char *path, struct error *err)
{
    int rc = sqlite3_open_v2(path, &log->mover_db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_exec(log->mover_db, "PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-64", NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return error_set(err, db_code(rc), "open store %s again: %s", path, sqlite3_errstr(rc));
    (void)sqlite3_busy_timeout(log->mover_db, BUSY_TIMEOUT_MS);
    return 0;
}

static int open_db(struct store_log *log, const char *path, enum store_durability durability, struct error *err)
{
    if (take_lock(log, path, err) < 0)
        return -err->code;
    int rc = sqlite3_open_v2(path, &log->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);

    if (rc != SQLITE_OK) {
        (void)db_error(log, rc, err, "open store");
        return error_wrap(err, "%s", path);
    }
    (void)sqlite3_busy_timeout(log->db, BUSY_TIMEOUT_MS);
    const char *pragmas[] = {
        "PRAGMA journal_mode=WAL",
        "PRAGMA wal_autocheckpoint=0",
        "PRAGMA journal_size_limit=8388608", /* of the write-ahead log when it begins anew */
        "PRAGMA cache_size=-1024",
        "PRAGMA temp_store=MEMORY",
        durability == STORE_DURABILITY_FULL ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL",
        SCHEMA,
    };
    for (size_t i = 0; i < ARRAY_LEN(pragmas); i++)
        if (db_exec(log, pragmas[i], err) < 0)
            return error_wrap(err, "%s", path);
    const struct {
        sqlite3_stmt **stmt;
        const char *sql;
    } statements[] = {
        {&log->insert, "INSERT OR REPLACE INTO log(revision, resource, key, deleted, object) VALUES(?,?,?,?,?)"},
        {&log->drop, "DELETE FROM log WHERE revision = ?"},
        {&log->compact, "INSERT OR REPLACE INTO meta(name, value) VALUES('compacted', ?)"},
    };
    for (size_t i = 0; i < ARRAY_LEN(statements); i++) {
        rc = sqlite3_prepare_v2(log->db, statements[i].sql, -1, statements[i].stmt, NULL);
        if (rc != SQLITE_OK)
            return db_error(log, rc, err, "prepare");
    }
    (void)sqlite3_wal_hook(log->db, wal_hook, log);
    return open_second(log, path, err);
}

static int start(struct store_log *log, struct error *err)
{
    log->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (log->event_fd < 0)
        return error_set_errno(err, errno, "eventfd");
    log->event = event_new(log->base, log->event_fd, EV_READ | EV_PERSIST, on_event, log);
    if (!log->event || event_priority_set(log->event, LOOP_HIGH) < 0 || event_add(log->event, NULL) < 0)
        return error_set(err, ENOMEM, "cannot watch the store's thread");
    sigset_t all, before; /* signals are the loop's */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&log->thread, NULL, run, log);
    log->running = r == 0;
    if (r == 0)
        r = pthread_create(&log->mover, NULL, move, log);
    log->moving = r == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0)
        return error_set_errno(err, r, "start the store's threads");
    return 0;
}

struct store_log *store_log_open(struct event_base *base, const char *path, enum store_durability durability,
                                 const struct sealer *sealer, const struct log_callbacks *cb, void *arg,
                                 int64_t *ret_compacted, struct error *err)
{
    struct store_log *log = xcalloc(1, sizeof(*log));
    pthread_condattr_t attr;

    log->base = base;
    log->sealer = sealer;
    log->cb = cb;
    log->arg = arg;
    log->event_fd = log->lock_fd = -1;
    log->wal_quiet = true;
    log->queue_tail = &log->queue;
    log->results_tail = &log->results;
    (void)pthread_mutex_init(&log->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&log->wake, &attr);
    (void)pthread_cond_init(&log->mover_wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    if (open_db(log, path, durability, err) < 0 || load(log, ret_compacted, err) < 0 || start(log, err) < 0) {
        store_log_close(log);
        return NULL;
    }
    return log;
}
