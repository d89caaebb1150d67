#include "test.h"

#include "apiserver/openapi.h"
#include "base/memory.h"
#include "base/strutil.h"

struct fixture {
    struct resource_table *table;
    struct openapi *openapi;
};

static int setup(void **state)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct fixture *f = xcalloc(1, sizeof(*f));

    f->table = resource_table_new(&err);
    if (!f->table)
        fail_msg("%s", error_text(&err));
    const struct json *crds = resource_table_bundled_crds(f->table);
    for (size_t i = 0; i < json_size(crds); i++)
        if (resource_table_add_crd(f->table, json_item(crds, i), &err) < 0)
            fail_msg("%s", error_text(&err));
    f->openapi = openapi_new(f->table);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    openapi_free(f->openapi);
    resource_table_free(f->table);
    free(f);
    return 0;
}

static struct json *parse(const struct document *d)
{
    _cleanup_error_ struct error err = ERROR_INIT;

    assert_non_null(d);
    struct json *v = json_parse(d->text, d->len, &err);
    if (!v)
        fail_msg("%s", error_text(&err));
    return v;
}

/* Every reference is to a schema of the same document, and stands alone. */
static void check_references(const struct json *v, const struct json *schemas)
{
    const char *ref = json_str(json_get(v, "$ref"));

    if (ref) {
        const char *name = str_skip_prefix(ref, "#/components/schemas/");
        assert_non_null(name);
        if (!json_get(schemas, name))
            fail_msg("%s is not in the document", name);
        assert_int_equal(json_size(v), 1);
    }
    for (struct json_iter it = {0}; json_each(v, &it);)
        check_references(it.value, schemas);
    for (size_t i = 0; json_is(v, JSON_ARRAY) && i < json_size(v); i++)
        check_references(json_item(v, i), schemas);
}

/* Every property of every schema says what it is for. */
static void check_descriptions(const char *name, const struct json *schema)
{
    for (struct json_iter it = {0}; json_each(json_get(schema, "properties"), &it);) {
        if (!json_str(json_get(it.value, "description")))
            fail_msg("%s: %s has no description", name, it.key);
        check_descriptions(name, it.value);
    }
}

static const struct json *schema_of_kind(const struct json *schemas, const char *group, const char *version,
                                         const char *kind)
{
    for (struct json_iter it = {0}; json_each(schemas, &it);) {
        const struct json *gvks = json_get(it.value, "x-kubernetes-group-version-kind");
        for (size_t i = 0; i < json_size(gvks); i++) {
            const struct json *gvk = json_item(gvks, i);
            if (streq(json_str_at(gvk, "group", NULL), group) && streq(json_str_at(gvk, "version", NULL), version) &&
                streq(json_str_at(gvk, "kind", NULL), kind))
                return it.value;
        }
    }
    return NULL;
}

static void test_documents(void **state)
{
    struct fixture *f = *state;
    _cleanup_json_ struct json *root = parse(openapi_root(f->openapi));

    assert_true(json_size(json_get(root, "paths")) > 10);
    for (struct json_iter it = {0}; json_each(json_get(root, "paths"), &it);) {
        const struct document *d = openapi_document(f->openapi, it.key);
        _cleanup_json_ struct json *v = parse(d);
        _cleanup_free_ char *url = xasprintf("/openapi/v3/%s?hash=%s", it.key, d->hash);
        const struct json *schemas = json_at(v, "components", "schemas", NULL);

        assert_string_equal(json_str_at(it.value, "serverRelativeURL", NULL), url);
        assert_string_equal(json_str_at(v, "openapi", NULL), "3.0.0");
        check_references(v, schemas);
        for (struct json_iter s = {0}; json_each(schemas, &s);) {
            assert_non_null(json_str(json_get(s.value, "description")));
            check_descriptions(s.key, s.value);
        }
    }
    assert_null(openapi_document(f->openapi, "api/v2"));
    assert_null(openapi_document(f->openapi, "apis/v1"));
    assert_null(openapi_document(f->openapi, ""));
}

static void test_kinds(void **state)
{
    struct fixture *f = *state;
    size_t count;
    const struct resource *const *list = resource_table_list(f->table, &count);

    for (size_t i = 0; i < count; i++) {
        const struct resource *r = list[i];
        _cleanup_free_ char *path = xasprintf("%s/%s", *r->group ? "apis" : "api", r->api_version);
        _cleanup_json_ struct json *v = parse(openapi_document(f->openapi, path));
        const struct json *schemas = json_at(v, "components", "schemas", NULL);
        const struct json *schema = schema_of_kind(schemas, r->group, r->version, r->kind);
        assert_non_null(schema);
        assert_ptr_equal(schema, json_get(schemas, r->schema_name));
        assert_non_null(json_at(schema, "properties", "metadata", NULL));
        assert_non_null(json_at(schema, "properties", "apiVersion", NULL));
        assert_true(resource_has_verb(r, "list") ==
                    (schema_of_kind(schemas, r->group, r->version, r->list_kind) != NULL));
    }
}

/* What kubectl looks for: the parameter fieldValidation of the operation that patches the kind. */
static void test_patch(void **state)
{
    static const struct {
        const char *document, *path, *kind;
        bool strategic;
    } cases[] = {
        {"api/v1", "/api/v1/namespaces/{namespace}/pods/{name}", "Pod", true},
        {"api/v1", "/api/v1/namespaces/{name}", "Namespace", true},
        {"apis/coordination.k8s.io/v1", "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}", "Lease",
         true},
        {"apis/agents.x-k8s.io/v1beta1", "/apis/agents.x-k8s.io/v1beta1/namespaces/{namespace}/sandboxes/{name}",
         "Sandbox", false},
        {"apis/agents.x-k8s.io/v1beta1", "/apis/agents.x-k8s.io/v1beta1/namespaces/{namespace}/sandboxes/{name}/status",
         "Sandbox", false},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ struct json *v = parse(openapi_document(f->openapi, cases[i].document));
        const struct json *patch = json_at(v, "paths", cases[i].path, "patch", NULL);
        const struct json *parameters = json_get(patch, "parameters");
        bool found = false;
        assert_string_equal(json_str_at(patch, "x-kubernetes-action", NULL), "patch");
        assert_string_equal(json_str_at(patch, "x-kubernetes-group-version-kind", "kind", NULL), cases[i].kind);
        for (size_t j = 0; j < json_size(parameters); j++)
            found |= streq(json_str_at(json_item(parameters, j), "name", NULL), "fieldValidation") &&
                     streq(json_str_at(json_item(parameters, j), "in", NULL), "query");
        assert_true(found);
        const struct json *types = json_at(patch, "requestBody", "content", NULL);
        assert_true(json_has(types, "application/apply-patch+yaml"));
        assert_true(json_has(types, "application/strategic-merge-patch+json") == cases[i].strategic);
    }
}

static void test_beside_ref(void **state)
{
    struct fixture *f = *state;
    _cleanup_json_ struct json *v = parse(openapi_document(f->openapi, "apis/agents.x-k8s.io/v1beta1"));
    const struct json *schemas = json_at(v, "components", "schemas", NULL);
    const struct json *spec = json_at(schemas, "io.x-k8s.agents.v1beta1.Sandbox", "properties", "spec", "properties",
                                      "podTemplate", "properties", "spec", NULL);

    assert_string_equal(json_str_at(json_item(json_get(spec, "allOf"), 0), "$ref", NULL),
                        "#/components/schemas/io.holt.undefaulted.core.v1.PodSpec");
    assert_non_null(json_str(json_get(spec, "description")));
    const struct json *pod = json_get(schemas, "io.holt.undefaulted.core.v1.PodSpec");
    assert_false(json_has(json_at(pod, "properties", "restartPolicy", NULL), "default"));
    /* A key of a list keeps its default, so that this definition is used as it is. */
    assert_string_equal(
        json_str_at(schemas, "io.k8s.api.core.v1.ContainerPort", "properties", "protocol", "default", NULL), "TCP");
    assert_false(json_has(schemas, "io.k8s.api.core.v1.PodSpec")); /* only what is needed */
}

static void test_cache(void **state)
{
    struct fixture *f = *state;
    const struct document *core = openapi_document(f->openapi, "api/v1"), *root = openapi_root(f->openapi);
    char hash[DOCUMENT_HASH_SIZE];

    memcpy(hash, root->hash, sizeof(hash));
    assert_ptr_equal(openapi_root(f->openapi), root);
    assert_true(resource_table_remove_crd(f->table, "sandboxes.agents.x-k8s.io"));
    assert_string_not_equal(openapi_root(f->openapi)->hash, hash);
    assert_ptr_equal(openapi_document(f->openapi, "api/v1"), core); /* not touched by it */
    _cleanup_json_ struct json *v = parse(openapi_root(f->openapi));
    assert_false(json_has(json_get(v, "paths"), "apis/agents.x-k8s.io/v1beta1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_documents, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kinds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_patch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_beside_ref, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cache, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
