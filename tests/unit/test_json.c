#include "test.h"

#include "base/strutil.h"
#include "wire/json.h"

static void test_parse(void **state UNUSED)
{
    static const struct {
        const char *text, *result; /* NULL: an error */
    } cases[] = {
        {"{\"a\":9223372036854775807,\"b\":[1,2.5,true,null,\"x\"]}",
         "{\"a\":9223372036854775807,\"b\":[1,2.5,true,null,\"x\"]}"},
        {"{\"a\":1,\"a\":2}", NULL},
        {"{\"a\":{\"b\":1},\"c\":[{\"b\":1},{\"b\":2}]}", "{\"a\":{\"b\":1},\"c\":[{\"b\":1},{\"b\":2}]}"},
        {"{\"a:b\":\"c:\\\"d\"}", "{\"a:b\":\"c:\\\"d\"}"},
        {"{\"a\":1} x", NULL},
        {"{'a':1}", NULL},
        {"[1,]", NULL},
        {"[01]", NULL},
        {"[1,/* x */2]", NULL},
        {"[\"a\tb\"]", NULL},
        {"\"abc", NULL},
        {"\"\\", NULL},
        {"\"\\ud83d\\ude00\"", "\"😀\""},
        {"{\"a\":", NULL},
        {"", NULL},
        {"NaN", NULL},
        {"[1e999]", NULL},
        {"\"\\u00e9\\n\"", "\"é\\n\""},
        {"\"\xff\"", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        _cleanup_json_ struct json *v = json_parse(cases[i].text, strlen(cases[i].text), &err);
        if (cases[i].result) {
            _cleanup_free_ char *text = json_text(v);
            assert_string_equal(text, cases[i].result);
            assert_int_equal(err.code, 0);
        } else {
            if (!err.code)
                print_error("accepted: %s\n", cases[i].text);
            assert_int_not_equal(err.code, 0);
        }
    }
}

static void note_duplicate(void *arg, const char *path)
{
    strbuf_addf(arg, "%s;", path);
}

static void test_duplicates(void **state UNUSED)
{
    static const char text[] =
        "{\"spec\":{\"c\":[{\"image\":\"a\"},{\"image\":\"b\",\"image\":\"c\"}]},\"x\":1,\"x\":2}";
    _cleanup_(strbuf_free) struct strbuf found = {0};
    struct json_parse_options options = {.duplicate = note_duplicate, .arg = &found};
    _cleanup_json_ struct json *v = json_parse_with(text, strlen(text), &options, NULL);

    assert_string_equal(strbuf_str(&found), "spec.c[1].image;x;");
    assert_int_equal(json_int_or(json_get(v, "x"), 0), 2);
}

static void test_depth(void **state UNUSED)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};

    for (int i = 0; i < 100000; i++)
        strbuf_addc(&b, '[');
    _cleanup_error_ struct error err = ERROR_INIT;
    assert_null(json_parse(b.data, b.len, &err));
    assert_int_equal(err.code, EINVAL);
}

static void test_build(void **state UNUSED)
{
    _cleanup_json_ struct json *shared = json_string("s");
    _cleanup_json_ struct json *v =
        json_build("{s:s, s:s, s:i, s:b, s:{s:[s, i]}, s:O, s:o}", "a", "1", "gone", NULL, "n", (int64_t)3, "t", 1, "o",
                   "l", "x", (int64_t)2, "r", shared, "none", NULL);
    _cleanup_free_ char *text = json_text(v);

    assert_string_equal(text, "{\"a\":\"1\",\"n\":3,\"t\":true,\"o\":{\"l\":[\"x\",2]},\"r\":\"s\"}");
}

static void test_edit(void **state UNUSED)
{
    _cleanup_json_ struct json *v = json_build("{s:[i,i], s:s}", "a", (int64_t)1, (int64_t)3, "b", "x");
    _cleanup_json_ struct json *copy = json_copy(v);

    json_insert_item(json_get(v, "a"), 1, json_int(2));
    json_remove_item(json_get(v, "a"), 0);
    json_set_str(v, "b", NULL);
    _cleanup_free_ char *text = json_text(v), *old = json_text(copy);
    assert_string_equal(text, "{\"a\":[2,3]}");
    assert_string_equal(old, "{\"a\":[1,3],\"b\":\"x\"}");
    assert_false(json_equal(v, copy));
}

/* Objects beyond a few members find keys by hash, and keep their order through removals. */
static void test_large_objects(void **state UNUSED)
{
    enum { COUNT = 5000 };
    _cleanup_json_ struct json *v = json_object_make();
    char key[32];

    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(key, sizeof(key), "key-%d", i);
        json_set_int(v, key, i);
    }
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(key, sizeof(key), "key-%d", i);
        if (i % 3 == 0)
            json_remove(v, key);
        else if (i % 3 == 1)
            json_set_int(v, key, -i);
    }
    for (int i = 0; i < COUNT; i += 6) {
        (void)snprintf(key, sizeof(key), "key-%d", i);
        json_set_int(v, key, i); /* back again, at the end */
    }
    _cleanup_json_ struct json *copy = json_copy_shallow(v);
    _cleanup_free_ char *text = json_text(v);
    _cleanup_json_ struct json *again = json_parse(text, strlen(text), NULL);
    int last = -1;
    for (struct json_iter it = {0}; json_each(copy, &it);) {
        int i = atoi(it.key + 4);
        assert_int_equal(json_int_or(it.value, 0), i % 3 == 1 ? -i : i);
        assert_true(i > last || i % 6 == 0);
        last = i % 6 == 0 ? -1 : i;
    }
    assert_int_equal(json_size(copy), COUNT - (COUNT + 2) / 3 + (COUNT + 5) / 6);
    assert_false(json_has(v, "key-3"));
    assert_true(json_has(v, "key-6"));
    assert_true(json_equal(v, copy));
    assert_true(json_equal(v, again));
    json_remove(v, "key-1");
    assert_false(json_equal(v, again));
}

static void test_numbers(void **state UNUSED)
{
    static const struct {
        const char *text, *written;
        enum json_kind kind;
    } cases[] = {
        {"0", "0", JSON_INT},
        {"-1", "-1", JSON_INT},
        {"255", "255", JSON_INT},
        {"-9223372036854775808", "-9223372036854775808", JSON_INT},
        {"9223372036854775808", "9.223372036854776e+18", JSON_DOUBLE},
        {"1.0", "1.0", JSON_DOUBLE},
        {"0.1", "0.1", JSON_DOUBLE},
        {"1e3", "1000.0", JSON_DOUBLE},
        {"1e300", "1e+300", JSON_DOUBLE},
        {"5e-324", "4.94065645841247e-324", JSON_DOUBLE},
    };
    static const char *const broken[] = {"-", "+1", "1.", ".5", "1e", "1e+", "00", "-01", "0x1", "1 2", "Infinity"};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ struct json *v = json_parse(cases[i].text, strlen(cases[i].text), NULL);
        _cleanup_free_ char *written = json_text(v);
        assert_int_equal(json_kind(v), cases[i].kind);
        assert_string_equal(written, cases[i].written);
    }
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        assert_null(json_parse(broken[i], strlen(broken[i]), &err));
        assert_int_equal(err.code, EINVAL);
    }
}

static void test_strings(void **state UNUSED)
{
    static const struct {
        const char *text, *written; /* NULL: an error */
    } cases[] = {
        {"\"\\ud800\"", "\"\xef\xbf\xbd\""}, /* half a pair */
        {"\"\\ud800\\u0041\"", "\"\xef\xbf\xbd"
                               "A\""},
        {"\"a\\u0000b\"", "\"a\\u0000b\""},
        {"\"\\/\\b\\f\"", "\"/\\u0008\\u000c\""},
        {"{\"a\\u0000\":1}", NULL},
        {"\"\\x\"", NULL},
        {"\"\\u12g4\"", NULL},
        {"\"\\u12", NULL},
        {"\"\xc0\x80\"", NULL},         /* overlong */
        {"\"\xed\xa0\x80\"", NULL},     /* surrogate */
        {"\"\xf4\x90\x80\x80\"", NULL}, /* beyond the last */
        {"\"\xe2\x82\"", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        _cleanup_json_ struct json *v = json_parse(cases[i].text, strlen(cases[i].text), &err);
        _cleanup_free_ char *written = json_text(v);
        assert_int_equal(err.code, cases[i].written ? 0 : EINVAL);
        if (cases[i].written)
            assert_string_equal(written, cases[i].written);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),   cmocka_unit_test(test_duplicates), cmocka_unit_test(test_depth),
        cmocka_unit_test(test_build),   cmocka_unit_test(test_edit),       cmocka_unit_test(test_large_objects),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_strings),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
