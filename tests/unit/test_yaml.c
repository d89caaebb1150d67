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
         "[{\"a\":16,\"b\":15,\"c\":15,\"d\":1.5,\"e\":1000.0,\"f\":9223372036854775807,\"g\":\"1.2.3\",\"h\":-5}]"},
        {"---\na: 1\n---\n---\nb: 2\n", "[{\"a\":1},{\"b\":2}]"},
        {"a: &x {k: 1}\nb: *x\nc:\n  <<: *x\n  m: 2\n", "[{\"a\":{\"k\":1},\"b\":{\"k\":1},\"c\":{\"m\":2,\"k\":1}}]"},
        {"a: |\n  line 1\n  line 2\nb: >-\n  folded\n  text\n",
         "[{\"a\":\"line 1\\nline 2\\n\",\"b\":\"folded text\"}]"},
        {"{\"json\": [1, {\"too\": null}]}", "[{\"json\":[1,{\"too\":null}]}]"},
        {"a: 1\na: 2\n", NULL},
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

    assert_null(yaml_parse(text, strlen(text), NULL, &err));
    assert_non_null(strstr(error_text(&err), "too many nodes"));
}

static void test_round_trip(void **state UNUSED)
{
    static const char text[] = "{\"a\":\"yes\",\"b\":[{\"c\":1,\"d\":[]},[1,[2]],\"- "
                               "x\"],\"e\":{},\"f\":\"multi\\nline\",\"g\":\"a: b\",\"h\":null,"
                               "\"i\":\"\",\"j\":\"12\",\"k\":\"#x\",\"l\":true}";
    _cleanup_json_ struct json *v = json_parse(text, strlen(text), NULL);
    _cleanup_free_ char *yaml = yaml_text(v);
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_json_ struct json *back = yaml_parse(yaml, strlen(yaml), NULL, &err);

    if (!json_equal(v, back))
        print_error("%s\n%s\n", yaml, error_text(&err));
    assert_true(json_equal(v, back));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_billion_laughs),
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
