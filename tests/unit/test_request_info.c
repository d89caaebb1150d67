#include "test.h"

#include "apiserver/negotiate.h"
#include "apiserver/request_info.h"
#include "base/macros.h"

#include <errno.h>

static void test_paths(void **state)
{
    static const struct {
        const char *method, *path;
        int result;
        const char *expected; /* verb group version ns plural name subresource, "-" = none */
    } cases[] = {
        {"GET", "/api/v1/pods", 0, "list - v1 - pods - -"},
        {"GET", "/api/v1/namespaces/a/pods", 0, "list - v1 a pods - -"},
        {"POST", "/api/v1/namespaces/a/pods/", 0, "create - v1 a pods - -"},
        {"GET", "/api/v1/namespaces/a/pods/p", 0, "get - v1 a pods p -"},
        {"HEAD", "/api/v1/namespaces/a/pods/p", 0, "get - v1 a pods p -"},
        {"PUT", "/api/v1/namespaces/a/pods/p/status", 0, "update - v1 a pods p status"},
        {"DELETE", "/api/v1/namespaces/a/pods/p", 0, "delete - v1 a pods p -"},
        {"DELETE", "/api/v1/namespaces/a/pods", 0, "deletecollection - v1 a pods - -"},
        {"PATCH", "/apis/apps/v1/namespaces/a/deployments/d", 0, "patch apps v1 a deployments d -"},
        {"GET", "/api/v1/namespaces", 0, "list - v1 - namespaces - -"},
        {"GET", "/api/v1/namespaces/a", 0, "get - v1 a namespaces a -"},
        {"PUT", "/api/v1/namespaces/a/finalize", 0, "update - v1 a namespaces a finalize"},
        {"PUT", "/api/v1/namespaces/a/status", 0, "update - v1 a namespaces a status"},
        {"GET", "/api/v1/watch/namespaces/a/pods", 0, "watch - v1 a pods - -"},
        {"GET", "/api/v1/nodes/n%2e1", 0, "get - v1 - nodes n.1 -"},
        {"POST", "/api/v1/namespaces/a/pods/p/proxy/x/y", 0, "create - v1 a pods p proxy"},
        {"OPTIONS", "/api/v1/namespaces/a/services/s:80/proxy", 0, "get - v1 a services s:80 proxy"},
        {"GET", "/api/v1/namespaces/a/pods/p/status/x", 0, "get - v1 a pods p status/x"},
        {"GET", "/apis/g.example/v1/widgets", 0, "list g.example v1 - widgets - -"},
        {"OPTIONS", "/api/v1/pods", -EOPNOTSUPP, NULL},
        {"GET", "/api/v1/pods/%zz", -EINVAL, NULL},
        {"GET", "/api/v1", -ENOENT, NULL},
        {"GET", "/apis/apps/v1", -ENOENT, NULL},
        {"GET", "/version", 0, NULL},
        {"GET", "/", 0, NULL},
        {"GET", "", 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct request_info r;
        char got[256] = "";
        assert_int_equal(request_info_parse(cases[i].method, cases[i].path, false, &r), cases[i].result);
        if (r.is_resource && cases[i].result == 0)
            (void)snprintf(got, sizeof(got), "%s %s %s %s %s %s %s", verb_name(r.verb), *r.group ? r.group : "-",
                           r.version, *r.ns ? r.ns : "-", r.plural, *r.name ? r.name : "-",
                           *r.subresource ? r.subresource : "-");
        assert_string_equal(got, cases[i].expected ? cases[i].expected : "");
        request_info_free(&r);
    }
}

static void test_bools(void **state)
{
    (void)state;
    assert_false(query_bool(NULL));
    assert_false(query_bool("0"));
    assert_false(query_bool("False"));
    assert_true(query_bool(""));
    assert_true(query_bool("1"));
    assert_true(query_bool("True"));
}

static void test_accept(void **state)
{
#define TABLE "application/json;as=Table;v=v1;g=meta.k8s.io"
#define PROTOBUF "application/vnd.kubernetes.protobuf"
#define PARTIAL ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    static const struct {
        unsigned offer;
        const char *accept, *media; /* NULL = 406 */
        enum answer_form form;
    } cases[] = {
        {0, NULL, "application/json", FORM_OBJECT},
        {0, "", "application/json", FORM_OBJECT},
        {OFFER_PROTOBUF, "*/*", "application/json", FORM_OBJECT},
        {0, "application/json", "application/json", FORM_OBJECT},
        {0, "application/json, */*;q=0.8", "application/json", FORM_OBJECT},
        {0, PROTOBUF ",application/json", "application/json", FORM_OBJECT},
        {0, PROTOBUF ", */*", "application/json", FORM_OBJECT},
        {OFFER_PROTOBUF, PROTOBUF ",application/json", PROTOBUF, FORM_OBJECT},
        {OFFER_PROTOBUF, PROTOBUF ";q=0.5,application/json", "application/json", FORM_OBJECT},
        {OFFER_PROTOBUF | OFFER_WATCH, PROTOBUF, PROTOBUF ";stream=watch", FORM_OBJECT},
        {OFFER_WATCH, "application/json;stream=watch", "application/json;stream=watch", FORM_OBJECT},
        {OFFER_WATCH, "application/json", "application/json", FORM_OBJECT},
        {0, "application/yaml", "application/yaml", FORM_OBJECT},
        {0, "application/yaml" PARTIAL, "application/yaml", FORM_METADATA},
        {OFFER_WATCH, "application/yaml", NULL, FORM_OBJECT},
        {0, TABLE ",application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", "application/json",
         FORM_TABLE},
        {0, "application/json;q=0.5," TABLE, "application/json", FORM_TABLE},
        {0, TABLE ";q=0.4,application/json;q=0.5", "application/json", FORM_OBJECT},
        {OFFER_PROTOBUF, PROTOBUF ";as=Table;v=v1;g=meta.k8s.io," TABLE, "application/json", FORM_TABLE},
        {0, "application/yaml;as=Table;v=v1;g=meta.k8s.io", NULL, FORM_OBJECT},
        {0, "application/json;as=Strange;v=v1;g=meta.k8s.io,application/json", "application/json", FORM_OBJECT},
        {0, PROTOBUF PARTIAL ",application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/json",
         FORM_METADATA},
        {OFFER_PROTOBUF, PROTOBUF PARTIAL, PROTOBUF, FORM_METADATA},
        {OFFER_PROTOBUF, "application/cbor", NULL, FORM_OBJECT},
        {0, PROTOBUF, NULL, FORM_OBJECT},
        {0, "application/json;q=0", NULL, FORM_OBJECT},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct answer_type type;
        bool ok = negotiate_answer(cases[i].accept, cases[i].offer, &type);
        if (ok != (cases[i].media != NULL))
            fail_msg("%s: %d", cases[i].accept, ok);
        if (!ok)
            continue;
        assert_string_equal(answer_media_type(&type), cases[i].media);
        assert_int_equal(type.form, cases[i].form);
    }
}

static void test_content_types(void **state)
{
    (void)state;
    assert_int_equal(negotiate_body(NULL), BODY_JSON);
    assert_int_equal(negotiate_body("application/json; charset=utf-8"), BODY_JSON);
    assert_int_equal(negotiate_body("Application/YAML"), BODY_YAML);
    assert_int_equal(negotiate_body("application/vnd.kubernetes.protobuf"), BODY_PROTOBUF);
    assert_int_equal(negotiate_body("application/apply-patch+yaml"), BODY_APPLY);
    assert_int_equal(negotiate_body("text/plain"), BODY_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_bools),
        cmocka_unit_test(test_accept),
        cmocka_unit_test(test_content_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
