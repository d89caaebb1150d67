#include "test.h"

#include "apiserver/metadata_validate.h"
#include "apiserver/names.h"
#include "base/memory.h"
#include "base/strutil.h"

#define X10 "xxxxxxxxxx"
#define X63 X10 X10 X10 X10 X10 X10 "xxx"

static void test_rules(void **state UNUSED)
{
    static const struct {
        name_rule *rule;
        const char *name, *text; /* the start of the message; NULL: good */
    } cases[] = {
        {name_check_subdomain, "a", NULL},
        {name_check_subdomain, "a-b.c-1.0", NULL},
        {name_check_subdomain, "Bad_Name",
         "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
         "start "
         "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
         "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"},
        {name_check_subdomain, "", "a lowercase"},
        {name_check_subdomain, "a..b", "a lowercase"},
        {name_check_subdomain, "a.", "a lowercase"},
        {name_check_subdomain, "a-.b", "a lowercase"},
        {name_check_subdomain, X63 X63 X63 X63 "x", NULL},
        {name_check_subdomain, X63 X63 X63 X63 "xx", "must be no more than 253 bytes"},
        {name_check_label, "a-b", NULL},
        {name_check_label, "a.b", "a lowercase RFC 1123 label"},
        {name_check_label, X63, NULL},
        {name_check_label, X63 "x", "must be no more than 63 bytes"},
        {name_check_dns1035_label, "a1", NULL},
        {name_check_dns1035_label, "1a", "a DNS-1035 label"},
        {name_check_path_segment, "system:admin", NULL},
        {name_check_path_segment, "..", "may not be '..'"},
        {name_check_path_segment, "a/b", "may not contain '/'"},
        {name_check_path_segment, "a%b", "may not contain '%'"},
        {name_check_data_key, "a_B.c-1", NULL},
        {name_check_data_key, "..data", "must not start with '..'"},
        {name_check_data_key, "a/b", "a valid config key"},
        {name_check_qualified, "a", NULL},
        {name_check_qualified, "example.com/My.Name", NULL},
        {name_check_qualified, "Example.com/a", "prefix part a lowercase RFC 1123 subdomain"},
        {name_check_qualified, "/a", "prefix part must be non-empty"},
        {name_check_qualified, "a/", "name part must be non-empty"},
        {name_check_qualified, "a/b/c", "a qualified name must consist"},
        {name_check_qualified, "-a", "name part must consist"},
        {name_check_qualified, X63 "x", "name part must be no more than 63 bytes"},
        {name_check_annotation_key, "Example.com/a", NULL},
        {name_check_label_value, "", NULL},
        {name_check_label_value, "a b",
         "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
         "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
         "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"},
        {name_check_env_var, "A.b-c", NULL},
        {name_check_env_var, "A=b", "a valid environment"},
        {name_check_port, "http-2", NULL},
        {name_check_port, "123", "must contain at least one letter"},
        {name_check_port, "a--b", "must not contain consecutive"},
        {name_check_port, "a-", "must not begin or end"},
        {name_check_port, "sixteen-letters-", "must be no more than 15"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *text = cases[i].rule(cases[i].name);
        bool good = cases[i].text ? text && str_skip_prefix(text, cases[i].text) : !text;
        if (!good)
            fail_msg("%s: %s", cases[i].name, text ? text : "accepted");
    }
    assert_null(name_check_prefix(name_check_subdomain, "a-"));
    assert_non_null(name_check_prefix(name_check_subdomain, "-"));
}

static char *summary(const struct field_errors *errors)
{
    return field_errors_summary(errors, "", "X", "x");
}

static void test_metadata(void **state UNUSED)
{
    static const struct metadata_rules rules = {.namespaced = true, .name = name_check_subdomain};
    static const struct {
        const char *object, *old, *text;
    } cases[] = {
        {"{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"labels\":{\"a/b\":\"c\"}}}", NULL, "X \"x\" is invalid"},
        {"{\"metadata\":{\"namespace\":\"b\"}}", NULL,
         "X \"x\" is invalid: metadata.name: Required value: name or generateName is required"},
        {"{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"labels\":{\"c\":\"d\\u0000\"}}}", NULL,
         "X \"x\" is invalid: metadata.labels: Invalid value: \"\\x01\": a valid label must be an empty string or "
         "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
         "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
         "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"},
        {"{\"metadata\":{\"name\":\"a\"}}", NULL, "X \"x\" is invalid: metadata.namespace: Required value"},
        {"{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":"
         "\"Pod\",\"name\":\"p\"}]}}",
         NULL, "X \"x\" is invalid: metadata.ownerReferences.uid: Invalid value: \"\": uid must not be empty"},
        {"{\"metadata\":{\"name\":\"a\",\"finalizers\":[\"a/b\",\"x/y\"]}}",
         "{\"metadata\":{\"name\":\"a\",\"deletionTimestamp\":\"t\",\"finalizers\":[\"a/b\"]}}",
         "X \"x\" is invalid: [metadata.finalizers: Forbidden: no new finalizers can be added if the object is being "
         "deleted, found new finalizers []string{\"x/y\"}, metadata.deletionTimestamp: Invalid value: \"null\": field "
         "is immutable]"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(field_errors_clear) struct field_errors errors = {0};
        _cleanup_json_ struct json *o = json_parse(cases[i].object, strlen(cases[i].object), NULL);
        _cleanup_json_ struct json *old = cases[i].old ? json_parse(cases[i].old, strlen(cases[i].old), NULL) : NULL;
        if (old)
            metadata_validate_update(o, old, &errors);
        else
            metadata_validate(o, &rules, &errors);
        _cleanup_free_ char *text = summary(&errors);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_annotations_size(void **state UNUSED)
{
    _cleanup_(field_errors_clear) struct field_errors errors = {0};
    _cleanup_free_ char *big = xcalloc(1, ANNOTATIONS_MAX_BYTES + 1);
    _cleanup_json_ struct json *map = json_object_make();

    memset(big, 'x', ANNOTATIONS_MAX_BYTES - 1);
    json_set_str(map, "a", big);
    annotations_validate(map, "f", &errors);
    assert_true(field_errors_empty(&errors));
    big[ANNOTATIONS_MAX_BYTES - 1] = 'x';
    json_set_str(map, "a", big);
    annotations_validate(map, "f", &errors);
    assert_string_equal(errors.items[0].message, "Too long: may not be more than 262144 bytes");
}

static void test_field_errors(void **state UNUSED)
{
    static const char *const sizes[] = {"S", "M", NULL};
    _cleanup_(field_errors_clear) struct field_errors errors = {0};
    _cleanup_(field_errors_clear) struct field_errors more = {0};
    _cleanup_json_ struct json *half = json_double(0.5), *million = json_double(1e6), *three = json_int(3);
    _cleanup_json_ struct json *object = json_build("{s:s}", "name", "a");
    static const char *const expected[] = {
        "{\"reason\":\"FieldValueRequired\",\"message\":\"Required value\",\"field\":\"a\"}",
        "{\"reason\":\"FieldValueInvalid\",\"message\":\"Invalid value: 0.5: too small\",\"field\":\"<nil>\"}",
        "{\"reason\":\"FieldValueTypeInvalid\",\"message\":\"Invalid value: 1e+06: no\",\"field\":\"a\"}",
        "{\"reason\":\"FieldValueInvalid\",\"message\":\"Invalid value: \\\"null\\\": no\",\"field\":\"a\"}",
        "{\"reason\":\"FieldValueInvalid\",\"message\":\"Invalid value: 0x0: no\",\"field\":\"a\"}",
        ("{\"reason\":\"FieldValueNotSupported\",\"message\":\"Unsupported value: \\\"XXL\\\": supported values: "
         "\\\"S\\\", "
         "\\\"M\\\"\",\"field\":\"a\"}"),
        ("{\"reason\":\"FieldValueDuplicate\",\"message\":\"Duplicate value: "
         "{\\\"name\\\":\\\"a\\\"}\",\"field\":\"a[1]\"}"),
        "{\"reason\":\"FieldValueForbidden\",\"message\":\"Forbidden: never\",\"field\":\"a\"}",
        "{\"reason\":\"FieldValueTooLong\",\"message\":\"Too long: may not be more than 5 bytes\",\"field\":\"a\"}",
        "{\"reason\":\"FieldValueTooMany\",\"message\":\"Too many: 5: must have at most 3 items\",\"field\":\"a\"}",
        "{\"reason\":\"FieldValueNotFound\",\"message\":\"Not found: \\\"x\\\\\\\"\\\\n\\\\x01\\\"\",\"field\":\"a\"}",
        "{\"reason\":\"InternalError\",\"message\":\"Internal error: oh\",\"field\":\"a\"}",
    };

    field_required(&errors, "a", NULL);
    field_invalid(&errors, "", half, "too small");
    field_type_invalid(&errors, "a", million, "no");
    field_invalid(&errors, "a", NULL, "no");
    field_invalid_raw(&errors, "a", "0x0", "no");
    field_not_supported_str(&errors, "a", "XXL", sizes);
    field_duplicate(&errors, "a[1]", object);
    field_forbidden(&errors, "a", "never");
    field_too_long(&more, "a", 5);
    field_too_many(&more, "a", 5, 3);
    field_not_found(&more, "a", "x\"\n\1");
    field_internal(&more, "a", "oh");
    field_errors_move(&errors, &more);
    _cleanup_json_ struct json *causes = field_errors_causes(&errors);
    assert_int_equal(json_size(causes), ARRAY_LEN(expected));
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        _cleanup_free_ char *text = json_text(json_item(causes, i));
        assert_string_equal(text, expected[i]);
    }

    field_errors_truncate(&errors, 1);
    field_required(&errors, "a", NULL);
    _cleanup_free_ char *once = field_errors_summary(&errors, "g", "K", "n");
    assert_string_equal(once, "K.g \"n\" is invalid: a: Required value");
    field_invalid(&errors, "b", three, "%s", "must be even");
    _cleanup_free_ char *two = field_errors_summary(&errors, "", "K", "n");
    assert_string_equal(two, "K \"n\" is invalid: [a: Required value, b: Invalid value: 3: must be even]");
    for (size_t i = 0; i < FIELD_ERRORS_MAX + 5; i++)
        field_required(&errors, "a", NULL);
    assert_int_equal(errors.count, FIELD_ERRORS_MAX);
}

static void test_path(void **state UNUSED)
{
    struct field_path spec = {.name = "spec"}, list = {.parent = &spec, .name = "list"},
                      item = {.parent = &list, .index = 2}, map = {.parent = &item, .name = "m"},
                      key = {.parent = &map, .name = "k", .bracket = true}, last = {.parent = &key, .name = "x"};
    _cleanup_free_ char *text = field_path_text(&last), *root = field_path_text(NULL);

    assert_string_equal(text, "spec.list[2].m[k].x");
    assert_string_equal(root, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),        cmocka_unit_test(test_metadata), cmocka_unit_test(test_annotations_size),
        cmocka_unit_test(test_field_errors), cmocka_unit_test(test_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
