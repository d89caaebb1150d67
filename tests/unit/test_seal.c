/* Encryption at rest: what is in the file of the store, and what comes back from it. */
#include "test.h"

#include "apiserver/seal.h"
#include "apiserver/store.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <event2/event.h>
#include <fcntl.h>

#define KEY_A "a 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define KEY_B "b 1f1e1d1c1b1a191817161514131211100f0e0d0c0b0a09080706050403020100\n"
#define SECRETS "/secrets"
#define MARK "the-word-nobody-may-read"

struct fixture {
    char dir[32];
    char *keys, *path;
    struct event_base *base;
};

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/holt-seal-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->keys = xasprintf("%s/keys", f->dir);
    f->path = xasprintf("%s/store.db", f->dir);
    f->base = event_base_new();
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    event_base_free(f->base);
    assert_int_equal(remove_tree_at(AT_FDCWD, f->dir, NULL), 0);
    free(f->keys);
    free(f->path);
    free(f);
    return 0;
}

static struct sealer *sealer_of(struct fixture *f, const char *keys)
{
    struct error err = ERROR_INIT;

    assert_int_equal(file_write_atomic_at(AT_FDCWD, f->keys, keys, strlen(keys), 0600, NULL), 0);
    struct sealer *s = sealer_open(f->keys, &err);
    if (!s)
        fail_msg("%s", error_text(&err));
    return s;
}

static void test_key_files(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *why; /* why NULL: good */
    } cases[] = {
        {KEY_A, NULL},
        {"# a comment\n\n" KEY_A KEY_B, NULL},
        {"", "no key"},
        {"# a\n", "no key"},
        {"a 00\n", "line 1"},
        {KEY_A "b\n", "line 2"},
        {" " KEY_A, "line 1"},
        {KEY_A KEY_A, "already"},
        {"a:b 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n", "line 1"},
        {"a 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eXX\n", "line 1"},
        {"abcdefghijabcdefghijabcdefghijabc 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
         "line 1"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = ERROR_INIT;
        assert_int_equal(file_write_atomic_at(AT_FDCWD, f->keys, cases[i].text, strlen(cases[i].text), 0600, NULL), 0);
        struct sealer *s = sealer_open(f->keys, &err);
        if (!s != (cases[i].why != NULL) || (cases[i].why && !strstr(error_text(&err), cases[i].why)))
            fail_msg("%s: %s", cases[i].text, error_text(&err));
        /* A key itself is never in a message. */
        assert_null(strstr(error_text(&err), "0102030405"));
        sealer_free(s);
        error_clear(&err);
    }
}

static void test_key_file_is_made(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    struct sealer *s = sealer_open(f->keys, NULL);

    assert_non_null(s);
    assert_int_equal(stat(f->keys, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    _cleanup_(strbuf_free) struct strbuf sealed = {0}, plain = {0};
    const struct seal_place place = {SECRETS, "a/b", 1};
    assert_int_equal(seal(s, &place, MARK, strlen(MARK), &sealed, NULL), 0);
    sealer_free(s);
    s = sealer_open(f->keys, NULL); /* the same key */
    assert_int_equal(unseal(s, &place, sealed.data, sealed.len, &plain, NULL), 0);
    assert_string_equal(strbuf_str(&plain), MARK);
    sealer_free(s);
}

static void test_seal(void **state)
{
    struct fixture *f = *state;
    struct sealer *s = sealer_of(f, KEY_A KEY_B);
    const struct seal_place place = {SECRETS, "ns/name", 7};
    _cleanup_(strbuf_free) struct strbuf sealed = {0}, again = {0}, plain = {0};

    assert_int_equal(seal(s, &place, MARK, strlen(MARK), &sealed, NULL), 0);
    assert_int_equal(seal(s, &place, MARK, strlen(MARK), &again, NULL), 0);
    assert_null(memmem(sealed.data, sealed.len, MARK, strlen(MARK)));
    assert_int_equal(sealed.len, again.len);
    assert_memory_not_equal(sealed.data, again.data, sealed.len);
    assert_true(is_sealed_freshly(s, sealed.data, sealed.len));
    /* Nothing but the whole of it, in its place. */
    for (size_t i = 0; i < sealed.len; i++) {
        sealed.data[i] ^= 1;
        assert_true(unseal(s, &place, sealed.data, sealed.len, &plain, NULL) < 0);
        sealed.data[i] ^= 1;
        assert_true(unseal(s, &place, sealed.data, i, &plain, NULL) < 0);
    }
    const struct seal_place others[] = {
        {"/configmaps", "ns/name", 7}, {SECRETS, "ns/other", 7}, {SECRETS, "ns/name", 8}};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_true(unseal(s, &others[i], sealed.data, sealed.len, &plain, NULL) < 0);
    assert_int_equal(plain.len, 0);
    assert_int_equal(unseal(s, &place, sealed.data, sealed.len, &plain, NULL), 0);
    assert_string_equal(strbuf_str(&plain), MARK);
    strbuf_truncate(&sealed, 0);
    strbuf_truncate(&plain, 0);
    assert_int_equal(seal(s, &place, "", 0, &sealed, NULL), 0);
    assert_int_equal(unseal(s, &place, sealed.data, sealed.len, &plain, NULL), 0);
    assert_int_equal(plain.len, 0);
    sealer_free(s);
}

static struct store *open_store(struct fixture *f, const struct sealer *sealer)
{
    struct error err = ERROR_INIT;
    struct store *s = store_open(f->base, f->path, STORE_DURABILITY_FULL, sealer, &err);

    if (!s)
        fail_msg("%s", error_text(&err));
    return s;
}

static void put(struct store *s, const char *resource)
{
    assert_non_null(store_put(s, resource, "ns/name",
                              json_build("{s:{s:s}, s:s}", "metadata", "name", "name", "data", MARK), -1, NULL));
}

static void expect_readable(struct store *s)
{
    struct stored *o = store_get(s, SECRETS, "ns/name");

    assert_non_null(o);
    assert_string_equal(json_str(json_get(o->value, "data")), MARK);
}

static bool is_in_files(struct fixture *f)
{
    static const char *const names[] = {"store.db", "store.db-wal"};
    int dir = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool found = false;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char *text = NULL;
        size_t len = 0;
        if (file_read_at(dir, names[i], 1 << 24, &text, &len, NULL) == 0)
            found |= memmem(text, len, MARK, strlen(MARK)) != NULL;
        free(text);
    }
    close(dir);
    return found;
}

static void test_store(void **state)
{
    struct fixture *f = *state;
    struct sealer *a = sealer_of(f, KEY_A);
    struct store *s = open_store(f, a);

    put(s, SECRETS);
    put(s, SECRETS); /* the history has a former one */
    assert_int_equal(store_delete(s, SECRETS, "ns/name",
                                  json_build("{s:{s:s}, s:s}", "metadata", "name", "name", "data", MARK), -1, NULL),
                     0);
    put(s, SECRETS);
    store_close(s);
    assert_false(is_in_files(f));
    s = open_store(f, a);
    expect_readable(s);
    put(s, "/configmaps"); /* the check itself can see */
    store_close(s);
    assert_true(is_in_files(f));
    sealer_free(a);
}

/* Plain rows from before are sealed, and nothing of them stays in the file. */
static void test_store_from_before(void **state)
{
    struct fixture *f = *state;
    struct store *s = open_store(f, NULL);

    put(s, SECRETS);
    put(s, SECRETS);
    store_close(s);
    assert_true(is_in_files(f));
    struct sealer *a = sealer_of(f, KEY_A);
    s = open_store(f, a);
    assert_false(is_in_files(f));
    expect_readable(s);
    store_close(s);
    sealer_free(a);
}

static void test_another_key(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct sealer *k = sealer_of(f, KEY_A);
    struct store *s = open_store(f, k);

    put(s, SECRETS);
    store_close(s);
    sealer_free(k);
    /* Without the key nothing opens, and nothing is lost. */
    assert_null(store_open(f->base, f->path, STORE_DURABILITY_FULL, NULL, &err));
    assert_non_null(strstr(error_text(&err), "no file of keys"));
    error_clear(&err);
    k = sealer_of(f, KEY_B);
    assert_null(store_open(f->base, f->path, STORE_DURABILITY_FULL, k, &err));
    assert_non_null(strstr(error_text(&err), "\"a\", which is not in the file"));
    error_clear(&err);
    sealer_free(k);
    /* Both: the new one takes over, and the old one may go. */
    k = sealer_of(f, KEY_B KEY_A);
    s = open_store(f, k);
    expect_readable(s);
    store_close(s);
    sealer_free(k);
    k = sealer_of(f, KEY_B);
    s = open_store(f, k);
    expect_readable(s);
    store_close(s);
    sealer_free(k);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_key_files), CASE(test_key_file_is_made),  CASE(test_seal),
        CASE(test_store),     CASE(test_store_from_before), CASE(test_another_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
