#include "test.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/fdio.h"
#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "base/timeutil.h"

#include <fcntl.h>
#include <sys/resource.h>

static void test_error(void **state UNUSED)
{
    _cleanup_error_ struct error err = ERROR_INIT;

    assert_int_equal(error_set_errno(&err, ENOSPC, "mount overlay"), -ENOSPC);
    assert_int_equal(error_wrap(&err, "cannot start sandbox %s", "demo/a"), -ENOSPC);
    assert_string_equal(error_text(&err), "cannot start sandbox demo/a: mount overlay: No space left on device");
    assert_int_equal(error_set(NULL, EINVAL, "nobody listens"), -EINVAL);
}

static void test_numbers(void **state UNUSED)
{
    static const struct {
        const char *text;
        bool ok;
        int64_t value;
    } cases[] = {{"0", true, 0},
                 {"-0", true, 0},
                 {"9223372036854775807", true, INT64_MAX},
                 {"-9223372036854775808", true, INT64_MIN},
                 {"9223372036854775808", false, 0},
                 {"-9223372036854775809", false, 0},
                 {"", false, 0},
                 {"-", false, 0},
                 {"1x", false, 0},
                 {" 1", false, 0}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t v = 0;
        assert_int_equal(parse_i64(cases[i].text, &v), cases[i].ok);
        if (cases[i].ok)
            assert_true(v == cases[i].value);
    }
    int64_t ns;
    assert_true(parse_duration("1h30m", &ns) && ns == 5400 * NSEC_PER_SEC);
    assert_true(parse_duration("250ms", &ns) && ns == 250 * NSEC_PER_MSEC);
    assert_true(parse_duration("7", &ns) && ns == 7 * NSEC_PER_SEC);
    assert_false(parse_duration("10x", &ns));
    assert_false(parse_duration("", &ns));
}

static void test_time(void **state UNUSED)
{
    static const struct {
        const char *text, *utc;
    } cases[] = {{"2026-11-30T22:52:40Z", "2026-11-30T22:52:40.000000Z"},
                 {"2026-11-30T22:52:40.123456789Z", "2026-11-30T22:52:40.123456Z"},
                 {"2026-11-30T23:52:40.5+01:00", "2026-11-30T22:52:40.500000Z"},
                 {"2024-02-29T00:00:00-00:30", "2024-02-29T00:30:00.000000Z"},
                 {"2025-02-29T00:00:00Z", NULL},
                 {"2026-11-30 22:52:40Z", NULL},
                 {"2026-11-30T22:52:40", NULL},
                 {"2026-11-30T22:52:40Zx", NULL},
                 {"2026-11-30T22:52:40.Z", NULL}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t ns;
        bool ok = time_parse_rfc3339(cases[i].text, &ns);
        assert_int_equal(ok, cases[i].utc != NULL);
        if (ok) {
            char text[TIME_RFC3339_MAX];
            time_format_rfc3339(ns, 6, text);
            assert_string_equal(text, cases[i].utc);
        }
    }
}

static void test_hashmap(void **state UNUSED)
{
    struct hashmap m = {0};
    static int values[1000];

    for (int i = 0; i < 1000; i++) {
        _cleanup_free_ char *key = xasprintf("key-%d", i);
        assert_null(hashmap_put(&m, key, &values[i]));
    }
    assert_ptr_equal(hashmap_get(&m, "key-500"), &values[500]);
    assert_ptr_equal(hashmap_put(&m, "key-500", &values[0]), &values[500]);
    assert_ptr_equal(hashmap_remove(&m, "key-7"), &values[7]);
    assert_null(hashmap_get(&m, "key-7"));
    size_t seen = 0;
    for (struct hashmap_iter it = {0}; hashmap_next(&m, &it);) {
        seen++;
        hashmap_remove(&m, it.key);
    }
    assert_int_equal(seen, 999);
    assert_int_equal(m.count, 0);
    hashmap_free(&m, NULL);
}

static void test_files(void **state UNUSED)
{
    char dir[] = "/tmp/holt-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    _cleanup_close_ int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int deep = mkdirs_at(fd, "a/b/c", 0700, NULL);
    assert_true(deep >= 0);
    assert_int_equal(file_write_atomic_at(deep, "f", "hello", 5, 0600, NULL), 0);
    _cleanup_free_ char *text = NULL;
    assert_int_equal(file_read_at(fd, "a/b/c/f", 5, &text, NULL, NULL), 0);
    assert_string_equal(text, "hello");
    char *none;
    assert_int_equal(file_read_at(fd, "a/b/c/f", 4, &none, NULL, NULL), -EFBIG);
    assert_int_equal(symlinkat("f", deep, "link"), 0);
    assert_int_equal(file_read_at(deep, "link", 5, &none, NULL, NULL), -ELOOP);
    /* A link to a directory is removed, not followed. */
    assert_int_equal(symlinkat("/tmp", deep, "dirlink"), 0);
    assert_int_equal(remove_tree_at(AT_FDCWD, dir, NULL), 0);
    assert_int_equal(access(dir, F_OK), -1);
    assert_int_equal(access("/tmp", F_OK), 0);
}

/* Deeper than any stack or table of descriptors, with names that the removal itself would choose. */
static void test_remove_deep(void **state UNUSED)
{
    char dir[] = "/tmp/holt-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    _cleanup_close_ int top = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct rlimit limit, few;

    for (int i = 0; i < 5000; i++) {
        _cleanup_free_ char *name = xasprintf("removed-%d", i % 7);
        assert_int_equal(mkdirat(at, name, 0700), 0);
        assert_int_equal(mkdirat(at, "empty", 0700), 0);
        assert_int_equal(symlinkat("/", at, "link"), 0);
        int next = openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(at);
        at = next;
    }
    close(at);
    assert_int_equal(mkdirat(top, "removed-3", 0700), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = (struct rlimit){.rlim_cur = 32, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(remove_tree_at(AT_FDCWD, dir, NULL), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(access(dir, F_OK), -1);
}

static void test_arena(void **state UNUSED)
{
    _cleanup_(arena_free) struct arena a = {0};
    const char *texts[2000];

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        texts[i] = arena_concat(&a, "item-", i % 2 ? "odd" : "even");
        uint64_t *zero = arena_alloc(&a, sizeof(*zero) * (i % 5));
        assert_int_equal((uintptr_t)zero % sizeof(uint64_t), 0);
        for (size_t j = 0; j < i % 5; j++)
            assert_int_equal(zero[j]++, 0);
    }
    memset(arena_alloc(&a, 1 << 20), 1, 1 << 20); /* larger than any chunk */
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_string_equal(texts[i], i % 2 ? "item-odd" : "item-even");
    assert_string_equal(arena_strndup(&a, "abc", 2), "ab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena),       cmocka_unit_test(test_error),   cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_time),        cmocka_unit_test(test_hashmap), cmocka_unit_test(test_files),
        cmocka_unit_test(test_remove_deep),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
