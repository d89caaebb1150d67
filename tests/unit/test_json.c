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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse), cmocka_unit_test(test_duplicates), cmocka_unit_test(test_depth),
        cmocka_unit_test(test_build), cmocka_unit_test(test_edit),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
