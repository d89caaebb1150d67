#include "test.h"

#include "base/strutil.h"
#include "base/timeutil.h"
#include "wire/yaml.h"

static void test_parse(void **state UNUSED)
{
    static const struct {
        const char *text, *json; /* NULL: an error */
    } cases[] = {
        {"a: 1\nb: [x, 'y', \"z\"]\nc:\n- d: true\n", "[{\"a\":1,\"b\":[\"x\",\"y\",\"z\"],\"c\":[{\"d\":true}]}]"},
        {"a: yes\nb: 'yes'\nc: off\nd: ~\ne:\n", "[{\"a\":true,\"b\":\"yes\",\"c\":false,\"d\":null,\"e\":null}]"},
        {"a: 0x10\nb: 0o17\nc: 017\nd: 1.5\ne: 1e3\nf: 9223372036854775807\ng: 1.2.3\nh: -5\n",
         "[{\"a\":16,\"b\":15,\"c\":15,\"d\":1.5,\"e\":1000,\"f\":9223372036854775807,\"g\":\"1.2.3\",\"h\":-5}]"},
        {"---\na: 1\n---\n---\nb: 2\n", "[{\"a\":1},{\"b\":2}]"},
        {"a: &x {k: 1}\nb: *x\nc:\n  <<: *x\n  m: 2\n", "[{\"a\":{\"k\":1},\"b\":{\"k\":1},\"c\":{\"m\":2,\"k\":1}}]"},
        {"a: |\n  line 1\n  line 2\nb: >-\n  folded\n  text\n",
         "[{\"a\":\"line 1\\nline 2\\n\",\"b\":\"folded text\"}]"},
        {"{\"json\": [1, {\"too\": null}]}", "[{\"json\":[1,{\"too\":null}]}]"},
        {"a: y\nb: \"y\"\nc: NO\nd: .5\ne: 1_000\nf: 0b101\ng: -0x10\nh: +5\ni: 08\n",
         "[{\"a\":true,\"b\":\"y\",\"c\":false,\"d\":0.5,\"e\":1000,\"f\":5,\"g\":-16,\"h\":5,\"i\":8}]"},
        {"a: -9223372036854775808\nb: 0x\nc: 1e\nd: .\ne: +\nf: 1:20\ng: 2026-12-01\nh: 1e999\ni: 0o8\n",
         "[{\"a\":-9223372036854775808,\"b\":\"0x\",\"c\":\"1e\",\"d\":\".\",\"e\":\"+\",\"f\":\"1:20\",\"g\":\"2026-"
         "12-"
         "01\",\"h\":\"1e999\",\"i\":\"0o8\"}]"},
        {"a: !!str 5\nb: !!int \"5\"\nc: !!float 2\nd: !mine text\ne: !!null ''\n",
         "[{\"a\":\"5\",\"b\":5,\"c\":2,\"d\":\"text\",\"e\":null}]"},
        {"on: 1\n0x10: 2\n'on': 3\n", "[{\"true\":1,\"16\":2,\"on\":3}]"},
        {"base: &b {x: 1, y1: 2}\nlist: &l [*b, {x: 9, z: 3}]\nm:\n  x: 0\n  <<: *l\n",
         "[{\"base\":{\"x\":1,\"y1\":2},\"list\":[{\"x\":1,\"y1\":2},{\"x\":9,\"z\":3}],\"m\":{\"x\":0,\"y1\":2,\"z\":"
         "3}}]"},
        {"a: 1\na: 2\n", NULL},
        {"on: 1\ntrue: 2\n", NULL},
        {"~: 1\n", NULL},
        {"a: .inf\n", NULL},
        {"a: !!int x\n", NULL},
        {"a: !!binary aGk=\n", NULL},
        {"m:\n  <<: 5\n", NULL},
        {"a: &a [*a]\n", NULL},
        {"a: \"x\\0y\"\n", NULL},
        {"\"x\\0y\": 1\n", NULL},
        {"a: &x 1\n---\nb: *x\n", NULL},
        {"a: \xff\n", NULL},
        {"a: *nobody\n", NULL},
        {"a: [1\n", NULL},
        {"a: b: c\n", NULL},
        {"[a]: b\n", NULL},
        {"\tx: 1\n", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        _cleanup_json_ struct json *v = NULL;
        int r = yaml_parse_all(cases[i].text, strlen(cases[i].text), NULL, &v, &err);
        if (!cases[i].json) {
            if (r == 0)
                print_error("accepted: %s\n", cases[i].text);
            assert_true(r < 0);
            assert_non_null(strstr(error_text(&err), "line"));
            continue;
        }
        if (r < 0)
            print_error("%s: %s\n", cases[i].text, error_text(&err));
        assert_int_equal(r, 0);
        _cleanup_free_ char *text = json_text(v);
        assert_string_equal(text, cases[i].json);
    }
}

static void test_billion_laughs(void **state UNUSED)
{
    static const char text[] =
        "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
        "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f "
        "[*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
        "g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\n";
    _cleanup_error_ struct error err = ERROR_INIT;

    int64_t start = time_monotonic_ns();
    assert_null(yaml_parse(text, strlen(text), NULL, &err));
    assert_true(time_monotonic_ns() - start < 50 * NSEC_PER_MSEC);
    assert_non_null(strstr(error_text(&err), "too many nodes"));
}

/* What small texts may not do: take long, or much memory. */
static void test_bombs(void **state UNUSED)
{
    struct strbuf text[5] = {0};
    static const char *const errors[5] = {"too much text", "nested too deeply", "nested too deeply",
                                          "nested too deeply", "too many nodes"};

    strbuf_adds(&text[0], "a: &a \"");
    for (int i = 0; i < 1 << 20; i++)
        strbuf_addc(&text[0], 'x');
    strbuf_adds(&text[0], "\"\nb: [");
    for (int i = 0; i < 3000; i++)
        strbuf_adds(&text[0], "*a,");
    strbuf_adds(&text[0], "]\n");
    for (int i = 0; i < 100000; i++)
        strbuf_addc(&text[1], '[');
    for (int i = 0; i < 100000; i++)
        strbuf_adds(&text[2], "- ");
    strbuf_adds(&text[3], "a0: &a0 [x]\n"); /* each level is shallow, together they are not */
    for (int i = 1; i < 200; i++)
        strbuf_addf(&text[3], "a%d: &a%d [*a%d]\n", i, i, i - 1);
    strbuf_adds(&text[4], "a: &a {");
    for (int i = 0; i < 1000; i++)
        strbuf_addf(&text[4], "k%d: x, ", i);
    strbuf_adds(&text[4], "}\nb:\n");
    for (int i = 0; i < 2000; i++)
        strbuf_adds(&text[4], "- <<: *a\n");
    for (size_t i = 0; i < ARRAY_LEN(text); i++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        int64_t start = time_monotonic_ns();
        assert_null(yaml_parse(text[i].data, text[i].len, NULL, &err));
        if (!strstr(error_text(&err), errors[i]) || time_monotonic_ns() - start > 200 * NSEC_PER_MSEC)
            print_error("%zu: %s after %lld ms\n", i, error_text(&err),
                        (long long)((time_monotonic_ns() - start) / NSEC_PER_MSEC));
        assert_non_null(strstr(error_text(&err), errors[i]));
    }
    for (size_t i = 0; i < ARRAY_LEN(text); i++)
        strbuf_free(&text[i]);
}

/* Aliases are values of their own: changing one leaves the others as they are. */
static void test_aliases_are_copies(void **state UNUSED)
{
    static const char text[] = "a: &a {k: {num: 1}}\nb: *a\nc:\n  <<: *a\n";
    _cleanup_json_ struct json *v = yaml_parse(text, strlen(text), NULL, NULL);

    json_set_int(json_at(v, "a", "k", NULL), "num", 2);
    assert_int_equal(json_int_or(json_at(v, "b", "k", "num", NULL), 0), 1);
    assert_int_equal(json_int_or(json_at(v, "c", "k", "num", NULL), 0), 1);
}

static void collect(void *arg, const char *path)
{
    strbuf_addf(arg, "%s;", path);
}

static void test_duplicates(void **state UNUSED)
{
    static const char text[] = "a: 1\nb:\n- c: 1\n  c: 2\na: 3\n";
    _cleanup_(strbuf_free) struct strbuf paths = {0};
    struct json_parse_options options = {.duplicate = collect, .arg = &paths};
    _cleanup_json_ struct json *v = yaml_parse(text, strlen(text), &options, NULL);

    assert_string_equal(strbuf_str(&paths), "b[0].c;a;");
    assert_int_equal(json_int_or(json_get(v, "a"), 0), 3);
}

static void test_text(void **state UNUSED)
{
    static const char text[] =
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"spec\":{\"l\":[{\"name\":\"a\",\"c\":[\"x\"]},[1,2],{}],"
        "\"s\":\"one\\ntwo\\n\",\"t\":\"2026-12-01T00:00:00Z\",\"v\":\"1.0\"}}";
    _cleanup_json_ struct json *v = json_parse(text, strlen(text), NULL);
    _cleanup_free_ char *yaml = yaml_text(v);

    assert_string_equal(yaml, "apiVersion: v1\nkind: Pod\nspec:\n  l:\n  - c:\n    - x\n    name: a\n  - - 1\n    - 2\n"
                              "  - {}\n  s: |\n    one\n    two\n  t: \"2026-12-01T00:00:00Z\"\n  v: \"1.0\"\n");
}

static void test_round_trip(void **state UNUSED)
{
    static const char *const strings[] = {
        "yes",
        "y",
        "",
        "12",
        "1_0",
        "0x1",
        ".inf",
        "~",
        "null",
        "#x",
        "a #b",
        "a: b",
        "a:",
        ":a",
        "- x",
        "-",
        "---",
        "...",
        "<<",
        "=",
        "1:20",
        "2026-12-01",
        " a",
        "a ",
        "\ta",
        "a\tb",
        "a\nb",
        "a\n",
        "a\n\n",
        "\n",
        "a\n ",
        "a\n\nb\n",
        "a\n  b\n c",
        " a\nb",
        "a\rb",
        "\x7f",
        "\xc2\x85",
        "\xe2\x80\xa8",
        "\xef\xbb\xbf",
        "\xf0\x9f\xa6\xa6",
        "'q'",
        "\"q\"",
        "a\\b",
        "\x01",
        "!x",
        "&x",
        "*x",
        "%x",
        "@x",
        "`x",
        "{x",
        "[x",
        "x]",
        "x, y",
        "?x",
        "|",
        ">",
        "a\n---\nb",
        "a\n...\n",
        "a\n\tb\n",
        "a\n   \n",
    };
    _cleanup_json_ struct json *v =
        json_build("{s:s, s:[], s:{}, s:i, s:n}", "a", "b", "list", "map", "i", (int64_t)-3, "n");
    struct json *list = json_ensure_array(v, "list"), *map = json_ensure_object(v, "map");

    for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
        json_push(list, json_string(strings[i]));
        json_set_str(map, strings[i], strings[i]);
    }
    char long_key[3000];
    memset(long_key, 'k', sizeof(long_key));
    long_key[sizeof(long_key) - 1] = '\0';
    json_set(map, long_key, json_build("{s:[s], s:{s:i}}", "l", "x", "m", "n", (int64_t)1));
    long_key[1200] = '\0';
    json_set(map, long_key, json_build("[i]", (int64_t)1));
    json_push(list, json_array_make());
    json_push(list, json_object_make());
    json_push(list, json_build("[[i, [s]], {s:[{s:s}]}]", (int64_t)1, "x", "k", "d", "a\nb"));
    _cleanup_free_ char *yaml = yaml_text(v);
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_json_ struct json *back = yaml_parse(yaml, strlen(yaml), NULL, &err);

    if (!json_equal(v, back))
        print_error("%s\n%s\n", yaml, error_text(&err));
    assert_true(json_equal(v, back));
    for (size_t i = 0; i < ARRAY_LEN(strings); i++) { /* alone, as a whole document */
        _cleanup_json_ struct json *one = json_string(strings[i]);
        _cleanup_free_ char *alone = yaml_text(one);
        _cleanup_json_ struct json *again = yaml_parse(alone, strlen(alone), NULL, &err);
        if (!json_equal(one, again))
            print_error("%s: %s\n", alone, error_text(&err));
        assert_true(json_equal(one, again));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),      cmocka_unit_test(test_billion_laughs),
        cmocka_unit_test(test_bombs),      cmocka_unit_test(test_aliases_are_copies),
        cmocka_unit_test(test_duplicates), cmocka_unit_test(test_text),
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
