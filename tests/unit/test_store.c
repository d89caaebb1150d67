#include "test.h"

#include "apiserver/store.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/wait.h>

#define PODS "/pods"

struct fixture {
    char dir[32];
    char *path;
    struct event_base *base;
    struct store *store;
};

static void reopen(struct fixture *f)
{
    struct error err = ERROR_INIT;

    store_close(f->store);
    f->store = store_open(f->base, f->path, STORE_DURABILITY_FULL, NULL, &err);
    if (!f->store)
        fail_msg("%s", error_text(&err));
}

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/holt-store-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->path = xasprintf("%s/store.db", f->dir);
    f->base = event_base_new();
    reopen(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    store_close(f->store);
    event_base_free(f->base);
    assert_int_equal(remove_tree_at(AT_FDCWD, f->dir, NULL), 0);
    free(f->path);
    free(f);
    return 0;
}

static struct json *pod(const char *text)
{
    return json_build("{s:{s:s}, s:s}", "metadata", "name", "x", "text", text);
}

static int64_t put(struct store *s, const char *key, const char *text)
{
    struct stored *o = store_put(s, PODS, key, pod(text), -1, NULL);

    assert_non_null(o);
    return o->revision;
}

struct flag {
    bool done;
    int code;
};

static void raise_flag(void *arg, const struct error *err)
{
    *(struct flag *)arg = (struct flag){true, err ? err->code : 0};
}

/* Runs the loop until revision is settled; its errno, 0 when it is on disk. */
static int settle(struct fixture *f, int64_t revision)
{
    struct flag flag = {0};

    store_when_durable(f->store, revision, raise_flag, &flag);
    assert_false(flag.done);
    for (int i = 0; i < 100000 && !flag.done; i++)
        (void)event_base_loop(f->base, EVLOOP_ONCE);
    assert_true(flag.done);
    return flag.code;
}

static void spin(struct fixture *f)
{
    for (int i = 0; i < 5; i++)
        (void)event_base_loop(f->base, EVLOOP_NONBLOCK);
}

static void expect_keys(struct stored **list, size_t count, const char *expected)
{
    char got[512] = "";

    for (size_t i = 0; i < count; i++)
        (void)snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s=%s ", list[i]->key,
                       json_str_at(list[i]->value, "text", NULL));
    assert_string_equal(got, expected);
    store_list_free(list, count);
}

static void test_read_write(void **state)
{
    struct fixture *f = *state;
    struct store *s = f->store;
    struct error err = ERROR_INIT;
    size_t n;

    assert_int_equal(put(s, "a/2", "two"), 1);
    put(s, "a/1", "one");
    put(s, "b/1", "three");
    put(s, "a-b/1", "four");
    assert_string_equal(json_str_at(store_get(s, PODS, "b/1")->value, "metadata", "resourceVersion", NULL), "3");
    assert_null(store_get(s, PODS, "c/1"));
    assert_null(store_get(s, "/secrets", "b/1"));
    struct stored **list = store_list(s, PODS, NULL, &n);
    expect_keys(list, n, "a-b/1=four a/1=one a/2=two b/1=three ");
    list = store_list(s, PODS, "a", &n);
    expect_keys(list, n, "a/1=one a/2=two ");
    list = store_list(s, PODS, "x", &n);
    expect_keys(list, n, "");

    assert_null(store_put(s, PODS, "a/1", pod("x"), 0, &err));
    assert_int_equal(err.code, EEXIST);
    assert_null(store_put(s, PODS, "a/3", pod("x"), 5, &err));
    assert_int_equal(err.code, ENOENT);
    assert_null(store_put(s, PODS, "a/1", pod("x"), 1, &err));
    assert_int_equal(err.code, ESTALE);
    assert_int_equal(store_delete(s, PODS, "a/3", pod("x"), -1, &err), -ENOENT);
    assert_int_equal(store_delete(s, PODS, "a/1", pod("x"), 1, &err), -ESTALE);
    assert_int_equal(store_delete(s, PODS, "a/1", pod("x"), 2, &err), 0);
    assert_null(store_get(s, PODS, "a/1"));
    assert_int_equal(store_count(s, PODS), 3);
    assert_int_equal(store_revision(s), 5);
    assert_false(store_is_durable(s, 5));
    assert_int_equal(settle(f, 5), 0);
    assert_true(store_is_durable(s, 5));
    assert_int_equal(settle(f, 1), 0);
    error_clear(&err);
}

static void test_reload(void **state)
{
    struct fixture *f = *state;
    size_t n;

    put(f->store, "a/1", "old");
    put(f->store, "a/1", "new");
    put(f->store, "a/2", "gone");
    assert_int_equal(store_delete(f->store, PODS, "a/2", pod("gone"), -1, NULL), 0);
    for (int i = 0; i < 2; i++) {
        reopen(f);
        assert_int_equal(store_revision(f->store), 4);
        struct stored **list = store_list(f->store, PODS, NULL, &n);
        expect_keys(list, n, "a/1=new ");
        assert_string_equal(json_str_at(store_get(f->store, PODS, "a/1")->value, "metadata", "resourceVersion", NULL),
                            "2");
        list = store_list_at(f->store, PODS, NULL, 3, &n, NULL);
        expect_keys(list, n, "a/1=new a/2=gone ");
    }
}

struct recorder {
    char text[4096];
    bool lost;
    struct store_watch *watch;
    struct store *store;
    int64_t stop_at; /* unwatch from within the callback */
    bool write_back; /* write from within the callback */
};

static void record_event(void *arg, const struct store_event *e)
{
    struct recorder *r = arg;
    const char *const types[] = {"+", "~", "-"};

    (void)snprintf(r->text + strlen(r->text), sizeof(r->text) - strlen(r->text), "%s%s@%lld:%s", types[e->type],
                   e->object->key, (long long)e->revision, json_str_at(e->object->value, "text", NULL));
    if (e->previous)
        (void)snprintf(r->text + strlen(r->text), sizeof(r->text) - strlen(r->text), "<%s",
                       json_str_at(e->previous->value, "text", NULL));
    (void)snprintf(r->text + strlen(r->text), sizeof(r->text) - strlen(r->text), " ");
    if (r->stop_at == e->revision)
        store_unwatch(r->watch);
    if (r->write_back && !streq(e->object->key, "z/z")) {
        r->write_back = false;
        put(r->store, "z/z", "back");
    }
}

static void record_lost(void *arg)
{
    ((struct recorder *)arg)->lost = true;
}

static const struct store_watch_callbacks recording = {record_event, record_lost};

static void test_watch(void **state)
{
    struct fixture *f = *state;
    struct recorder all = {0}, late = {0}, durable = {0}, stops = {.stop_at = 2}, writes = {.write_back = true};
    struct error err = ERROR_INIT;

    writes.store = f->store;
    all.watch = store_watch(f->store, PODS, 0, false, &recording, &all, NULL);
    stops.watch = store_watch(f->store, PODS, 0, false, &recording, &stops, NULL);
    writes.watch = store_watch(f->store, PODS, 0, false, &recording, &writes, NULL);
    durable.watch = store_watch(f->store, PODS, 0, true, &recording, &durable, NULL);
    put(f->store, "a/1", "1");
    put(f->store, "a/1", "2");
    assert_non_null(store_put(f->store, "/secrets", "a/1", pod("s"), -1, NULL));
    assert_int_equal(store_delete(f->store, PODS, "a/1", pod("3"), -1, NULL), 0);
    assert_string_equal(all.text, ""); /* never from within the call */
    (void)event_base_loop(f->base, EVLOOP_ONCE);
    late.watch = store_watch(f->store, PODS, 1, false, &recording, &late, NULL);
    assert_int_equal(settle(f, 5), 0);
    spin(f);
    assert_string_equal(all.text, "+a/1@1:1 ~a/1@2:2<1 -a/1@4:3<2 +z/z@5:back ");
    assert_string_equal(writes.text, all.text);
    assert_string_equal(durable.text, all.text);
    assert_string_equal(late.text, "~a/1@2:2<1 -a/1@4:3<2 +z/z@5:back ");
    assert_string_equal(stops.text, "+a/1@1:1 ~a/1@2:2<1 ");
    assert_null(store_watch(f->store, PODS, 6, false, &recording, &late, &err));
    assert_int_equal(err.code, ERANGE);
    error_clear(&err);
    store_unwatch(all.watch);
    store_unwatch(late.watch);
    put(f->store, "a/1", "9");
    spin(f);
    assert_string_equal(late.text, "~a/1@2:2<1 -a/1@4:3<2 +z/z@5:back ");

    /* Over a restart the history is still there. */
    reopen(f);
    struct recorder again = {0};
    again.watch = store_watch(f->store, PODS, 1, true, &recording, &again, NULL);
    spin(f);
    assert_string_equal(again.text, "~a/1@2:2<1 -a/1@4:3<2 +z/z@5:back +a/1@6:9 ");
}

static int count_rows(const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *stmt;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM log", -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int n = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return n;
}

static void test_compaction(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    size_t n;

    store_set_history_limits(f->store, 10, 0);
    put(f->store, "a/stays", "s");
    for (int i = 0; i < 50; i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "%d", i);
        put(f->store, "a/1", text);
        put(f->store, "a/2", text);
        assert_int_equal(store_delete(f->store, PODS, "a/2", pod("gone"), -1, NULL), 0);
        assert_int_equal(settle(f, store_revision(f->store)), 0);
    }
    assert_int_equal(store_compacted(f->store), 141);
    assert_null(store_watch(f->store, PODS, 140, false, &recording, NULL, &err));
    assert_int_equal(err.code, EOVERFLOW);
    assert_null(store_list_at(f->store, PODS, NULL, 140, &n, &err));
    assert_int_equal(err.code, EOVERFLOW);
    error_clear(&err);
    struct stored **list = store_list_at(f->store, PODS, NULL, 142, &n, NULL);
    expect_keys(list, n, "a/1=46 a/stays=s ");
    list = store_list_at(f->store, PODS, NULL, 150, &n, NULL);
    expect_keys(list, n, "a/1=49 a/2=49 a/stays=s ");

    store_close(f->store);
    f->store = NULL;
    /* The history, what was current when it began, and nothing else. */
    int rows = count_rows(f->path);
    assert_in_range(rows, 10, 13);
    reopen(f);
    assert_int_equal(store_revision(f->store), 151);
    assert_int_equal(store_compacted(f->store), 141);
    list = store_list(f->store, PODS, NULL, &n);
    expect_keys(list, n, "a/1=49 a/stays=s ");
    list = store_list_at(f->store, PODS, NULL, 142, &n, NULL);
    expect_keys(list, n, "a/1=46 a/stays=s ");
}

/* A revision counter must not go back when the last write was a deletion that has been compacted away. */
static void test_revision_survives_compaction(void **state)
{
    struct fixture *f = *state;

    put(f->store, "a/1", "1");
    assert_int_equal(store_delete(f->store, PODS, "a/1", pod("2"), -1, NULL), 0);
    assert_int_equal(settle(f, 2), 0);
    store_set_history_limits(f->store, 0, 1);
    spin(f);
    reopen(f);
    assert_int_equal(store_count(f->store, PODS), 0);
    assert_int_equal(store_revision(f->store), 2);
}

static void test_texts(void **state)
{
    struct fixture *f = *state;
    size_t len;
    _cleanup_free_ char *big = xcalloc(1, (1 << 20) + 1);
    struct stored *held[24];

    memset(big, 'x', 1 << 20);
    for (size_t i = 0; i < ARRAY_LEN(held); i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "a/%zu", i);
        put(f->store, key, big);
        held[i] = stored_ref(store_get(f->store, PODS, key));
        assert_int_equal(settle(f, store_revision(f->store)), 0);
    }
    store_set_history_limits(f->store, 4, 0);
    for (size_t i = 0; i < ARRAY_LEN(held); i++) {
        const char *text = stored_text(held[i], &len);
        assert_int_equal(len, strlen(text));
        assert_true(len > 1 << 20);
    }
    store_close(take_ptr(f->store));
    for (size_t i = 0; i < ARRAY_LEN(held); i++) {
        assert_non_null(held[i]->value);
        stored_unref(held[i]);
    }
}

/* Objects that only the history holds drop their values, and get them back. */
static void test_cold_history(void **state)
{
    struct fixture *f = *state;
    struct recorder r = {0};
    size_t n;

    for (int i = 0; i < 400; i++) {
        put(f->store, "a/1", i == 100 ? "hundred" : "x");
        if (i % 50 == 0)
            assert_int_equal(settle(f, store_revision(f->store)), 0);
    }
    assert_int_equal(settle(f, store_revision(f->store)), 0);
    struct stored **list = store_list_at(f->store, PODS, NULL, 101, &n, NULL);
    expect_keys(list, n, "a/1=hundred ");
    r.stop_at = 102;
    r.watch = store_watch(f->store, PODS, 100, false, &recording, &r, NULL);
    spin(f);
    assert_string_equal(r.text, "~a/1@101:hundred<x ~a/1@102:x<hundred ");
}

/* --- a full disk --- */

static void fill(const char *dir, bool full)
{
    _cleanup_free_ char *path = xasprintf("%s/ballast", dir);
    static char block[65536];

    if (!full) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    _cleanup_close_ int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    while (write(fd, block, sizeof(block)) > 0)
        ;
    while (write(fd, block, 1) > 0)
        ;
}

static void test_full_disk(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct recorder inside = {0}, outside = {0};
    size_t n;
    _cleanup_free_ char *big = xcalloc(1, 500001);

    store_close(take_ptr(f->store));
    if (mount("none", f->dir, "tmpfs", MS_NOSUID | MS_NODEV, "size=2m") < 0)
        skip();
    reopen(f);
    memset(big, 'x', 500000);
    put(f->store, "a/1", "before");
    put(f->store, "a/2", "before");
    assert_int_equal(settle(f, 2), 0);
    fill(f->dir, true);
    inside.watch = store_watch(f->store, PODS, 2, false, &recording, &inside, NULL);
    outside.watch = store_watch(f->store, PODS, 2, true, &recording, &outside, NULL);
    put(f->store, "a/1", big);
    put(f->store, "a/3", "new");
    assert_int_equal(store_delete(f->store, PODS, "a/2", pod("x"), -1, NULL), 0);
    assert_int_equal(settle(f, 5), ENOSPC);
    struct stored **list = store_list(f->store, PODS, NULL, &n);
    expect_keys(list, n, "a/1=before a/2=before ");
    assert_true(inside.lost);
    assert_false(outside.lost);
    assert_string_equal(outside.text, "");
    assert_null(store_put(f->store, PODS, "a/4", pod("x"), -1, &err));
    assert_int_equal(err.code, ENOSPC);
    error_clear(&err);

    fill(f->dir, false);
    assert_int_equal(usleep(300000), 0);
    int64_t revision = put(f->store, "a/4", "after");
    assert_true(revision > 5);
    assert_int_equal(settle(f, revision), 0);
    spin(f);
    assert_string_equal(outside.text, "+a/4@6:after ");
    reopen(f);
    list = store_list(f->store, PODS, NULL, &n);
    expect_keys(list, n, "a/1=before a/2=before a/4=after ");
    store_close(take_ptr(f->store));
    assert_int_equal(umount(f->dir), 0);
}

/* --- kill -9 --- */

struct writer {
    struct store *store;
    int pipe;
    int64_t revision;
};

static void write_next(struct writer *w);

static void report_durable(void *arg, const struct error *err)
{
    struct writer *w = arg;

    if (err || fd_write_all(w->pipe, &w->revision, sizeof(w->revision)) < 0)
        _exit(1);
    write_next(w);
}

/* Keys 0-9 in turn, each time holding the revision that wrote it; every seventh write deletes. */
static void write_next(struct writer *w)
{
    for (int i = 0; i < 5; i++) {
        int64_t next = store_revision(w->store) + 1;
        char key[32], text[32];
        (void)snprintf(key, sizeof(key), "a/%lld", (long long)next % 10);
        (void)snprintf(text, sizeof(text), "%lld", (long long)next);
        if (next % 7 == 0 && store_get(w->store, PODS, key)) {
            if (store_delete(w->store, PODS, key, pod(text), -1, NULL) < 0)
                _exit(1);
        } else if (!store_put(w->store, PODS, key, pod(text), -1, NULL)) {
            _exit(1);
        }
    }
    w->revision = store_revision(w->store);
    store_when_durable(w->store, w->revision, report_durable, w);
}

static void run_writer(const char *path, int fd)
{
    struct event_base *base = event_base_new();
    struct writer w = {.store = store_open(base, path, STORE_DURABILITY_FULL, NULL, NULL), .pipe = fd};

    if (!w.store)
        _exit(1);
    store_set_history_limits(w.store, 40, 0);
    write_next(&w);
    (void)event_base_dispatch(base);
    _exit(1);
}

/* What writing revisions 1..last leaves: computed, not remembered. */
static void expect_state(struct store *s, int64_t last)
{
    int64_t state[10] = {0};

    for (int64_t r = 1; r <= last; r++)
        state[r % 10] = r % 7 == 0 && state[r % 10] ? 0 : r;
    for (int k = 0; k < 10; k++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "a/%d", k);
        struct stored *o = store_get(s, PODS, key);
        assert_int_equal(o ? o->revision : 0, state[k]);
        if (o)
            assert_int_equal(strtoll(json_str_at(o->value, "text", NULL), NULL, 10), state[k]);
    }
}

static void test_kill(void **state)
{
    struct fixture *f = *state;
    int64_t reported = 0;

    store_close(take_ptr(f->store));
    for (int round = 0; round < 8; round++) {
        int fds[2];
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        pid_t pid = fork();
        if (pid == 0)
            run_writer(f->path, fds[1]);
        close(fds[1]);
        assert_int_equal(usleep(20000 + (useconds_t)round * 7001), 0);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        int64_t revision;
        while (fd_read_all(fds[0], &revision, sizeof(revision)) == 0)
            reported = revision;
        close(fds[0]);
        reopen(f);
        assert_true(store_revision(f->store) >= reported);
        assert_int_equal(store_revision(f->store) % 5, 0); /* the writes of one turn are there together or not at all */
        expect_state(f->store, store_revision(f->store));
        store_close(take_ptr(f->store));
    }
    assert_true(reported > 20);
}

static void test_single_owner(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;

    put(f->store, "a/1", "x");
    assert_int_equal(settle(f, 1), 0);
    assert_null(store_open(f->base, f->path, STORE_DURABILITY_FULL, NULL, &err));
    assert_int_equal(err.code, EBUSY);
    error_clear(&err);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_read_write), CASE(test_reload),       CASE(test_watch),     CASE(test_compaction),
        CASE(test_texts),      CASE(test_cold_history), CASE(test_full_disk), CASE(test_revision_survives_compaction),
        CASE(test_kill),       CASE(test_single_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
