#include "test.h"

#include "apiserver/resource.h"
#include "base/memory.h"
#include "base/strutil.h"

static struct resource_table *table_new(void)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct resource_table *t = resource_table_new(&err);

    if (!t)
        fail_msg("%s", error_text(&err));
    return t;
}

static int setup(void **state)
{
    *state = table_new();
    return 0;
}

static int teardown(void **state)
{
    resource_table_free(*state);
    return 0;
}

static struct json *parse(const char *text)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct json *v = json_parse(text, strlen(text), &err);

    if (!v)
        fail_msg("%s: %s", error_text(&err), text);
    return v;
}

/* A definition with two versions; served says whether v1alpha1 is. */
static struct json *widgets(const char *group, bool served)
{
    _cleanup_free_ char *text = xasprintf(
        "{'metadata':{'name':'widgets.%s'},'spec':{'group':'%s','scope':'Namespaced',"
        "'names':{'plural':'widgets','kind':'Widget','shortNames':['wd'],'categories':['all']},'versions':["
        "{'name':'v1alpha1','served':%s,'storage':false,'deprecated':true,'schema':{'openAPIV3Schema':{'type':'object'}"
        "}},"
        "{'name':'v1','served':true,'storage':true,'selectableFields':[{'jsonPath':'.spec.size'}],"
        "'subresources':{'status':{},'scale':{'specReplicasPath':'.spec.n','statusReplicasPath':'.status.n'}},"
        "'additionalPrinterColumns':[{'name':'Size','type':'string','jsonPath':'.spec.size'}],"
        "'schema':{'openAPIV3Schema':{'type':'object','properties':{'metadata':{'type':'object','properties':"
        "{'name':{'type':'string','pattern':'^w'}}},'spec':{'type':'object','properties':{'pod':"
        "{'description':'The pod.','type':'object','x-holt-ref':'io.k8s.api.core.v1.PodSpec'},"
        "'list':{'type':'array','items':{'x-holt-ref':'io.k8s.api.core.v1.Toleration'}}}}}}}}]}}",
        group, group, served ? "true" : "false");

    for (char *c = text; *c; c++)
        if (*c == '\'')
            *c = '"';
    return parse(text);
}

static void add(struct resource_table *t, struct json *crd)
{
    _cleanup_error_ struct error err = ERROR_INIT;

    if (resource_table_add_crd(t, crd, &err) < 0)
        fail_msg("%s", error_text(&err));
}

static void test_builtin(void **state)
{
    const struct resource *r = resource_by_plural(*state, "", "v1", "pods");

    assert_non_null(r);
    assert_ptr_equal(r, resource_by_kind(*state, "", "v1", "Pod"));
    assert_string_equal(r->api_version, "v1");
    assert_string_equal(r->list_kind, "PodList");
    assert_string_equal(r->store_name, "/pods");
    assert_string_equal(r->short_names[0], "po");
    assert_null(r->short_names[1]);
    assert_true(r->namespaced && r->has_status && r->stored && r->returns_deleted && r->unconditional_update);
    assert_false(r->is_custom || r->has_generation || r->create_on_update || r->has_scale);
    assert_true(resource_has_verb(r, "deletecollection"));
    assert_string_equal(resource_subresource(r, "eviction")->group, "policy");
    assert_string_equal(resource_subresource(r, "log")->kind, "Pod");
    assert_null(resource_subresource(r, "scale"));
    assert_ptr_equal(r->schema, resource_schema_definition(*state, "io.k8s.api.core.v1.Pod"));
    assert_string_equal(json_str_at(json_item(r->columns, 0), "name", NULL), "Name");

    r = resource_by_plural(*state, "events.k8s.io", "v1", "events");
    assert_string_equal(r->store_name, "/events");
    assert_string_equal(r->storage_group, "");
    r = resource_by_plural(*state, "authorization.k8s.io", "v1", "subjectaccessreviews");
    assert_false(r->stored);
    assert_false(resource_has_verb(r, "get"));
    assert_null(resource_by_plural(*state, "", "v2", "pods"));
}

static void test_order(void **state)
{
    size_t count;

    _cleanup_json_ struct json *b = widgets("b.example.com", true), *a = widgets("a.example.com", true);
    add(*state, b);
    add(*state, a);
    const struct resource *const *list = resource_table_list(*state, &count);
    assert_string_equal(list[0]->plural, "configmaps");
    assert_string_equal(list[count - 4]->api_version, "a.example.com/v1");
    assert_string_equal(list[count - 3]->api_version, "a.example.com/v1alpha1");
    assert_string_equal(list[count - 2]->api_version, "b.example.com/v1");
    for (size_t i = 0; i + 1 < count; i++)
        assert_false(streq(list[i]->group, "") && i && !streq(list[i - 1]->group, ""));
}

static void test_versions(void **state UNUSED)
{
    static const char *const sorted[] = {"v10",     "v2",        "v1",        "v11beta2", "v10beta3",
                                         "v3beta1", "v12alpha1", "v11alpha2", "foo1",     "foo10"};

    for (size_t i = 0; i < ARRAY_LEN(sorted); i++)
        for (size_t j = 0; j < ARRAY_LEN(sorted); j++) {
            int c = version_compare(sorted[i], sorted[j]);
            assert_int_equal(i < j ? -1 : i > j, c < 0 ? -1 : c > 0);
        }
}

static void test_custom(void **state)
{
    struct resource_table *t = *state;
    uint64_t before = resource_table_changes(t);
    _cleanup_json_ struct json *crd = widgets("example.com", true);

    add(t, crd);
    assert_true(resource_table_changes(t) > before);
    const struct resource *r = resource_by_plural(t, "example.com", "v1", "widgets");
    assert_non_null(r);
    assert_string_equal(r->singular, "widget");
    assert_string_equal(r->list_kind, "WidgetList");
    assert_string_equal(r->schema_name, "com.example.v1.Widget");
    assert_string_equal(r->verbs[0], "delete");
    assert_string_equal(r->selectable_fields[0], "spec.size");
    assert_true(r->is_custom && r->has_status && r->has_scale && r->has_generation && r->namespaced);
    assert_false(r->unconditional_update);
    assert_string_equal(r->scale.spec_path, ".spec.n");
    assert_null(r->scale.selector_path);
    assert_string_equal(resource_subresource(r, "scale")->group, "autoscaling");
    assert_int_equal(json_size(r->columns), 2);
    assert_ptr_equal(r->schema, resource_schema_definition(t, "com.example.v1.Widget"));
    const struct json *p = json_get(r->schema, "properties");
    assert_string_equal(json_str_at(p, "kind", "type", NULL), "string");
    assert_string_equal(json_str_at(p, "metadata", "properties", "name", "pattern", NULL), "^w");
    assert_string_equal(json_str_at(p, "metadata", "properties", "uid", "type", NULL), "string");
    const struct json *pod = json_at(p, "spec", "properties", "pod", NULL);
    assert_string_equal(json_str_at(pod, "$ref", NULL), "#/components/schemas/io.holt.undefaulted.core.v1.PodSpec");
    assert_string_equal(json_str_at(pod, "description", NULL), "The pod.");
    assert_string_equal(json_str_at(p, "spec", "properties", "list", "items", "$ref", NULL),
                        "#/components/schemas/io.k8s.api.core.v1.Toleration");

    r = resource_by_plural(t, "example.com", "v1alpha1", "widgets");
    assert_string_equal(r->storage_version, "v1");
    assert_string_equal(r->store_name, "example.com/widgets");
    assert_string_equal(r->deprecation_warning, "example.com/v1alpha1 Widget is deprecated");
    assert_string_equal(json_str_at(json_item(r->columns, 1), "name", NULL), "Age");
}

static void test_change(void **state)
{
    struct resource_table *t = *state;
    _cleanup_json_ struct json *crd = widgets("example.com", true);

    add(t, crd);
    _cleanup_(resource_unref_p) struct resource *kept =
        resource_ref(resource_by_plural(t, "example.com", "v1alpha1", "widgets"));
    uint64_t changes = resource_table_changes(t);
    _cleanup_json_ struct json *same = json_copy(crd);
    json_set(same, "status", parse("{\"conditions\":[]}"));
    add(t, same);
    assert_int_equal(resource_table_changes(t), changes);

    _cleanup_json_ struct json *fewer = widgets("example.com", false);
    add(t, fewer);
    assert_true(resource_table_changes(t) > changes);
    assert_null(resource_by_plural(t, "example.com", "v1alpha1", "widgets"));
    assert_null(resource_schema_definition(t, "com.example.v1alpha1.Widget"));
    assert_non_null(resource_by_plural(t, "example.com", "v1", "widgets"));
    assert_string_equal(kept->plural, "widgets"); /* whoever holds one may go on */

    assert_true(resource_table_remove_crd(t, "widgets.example.com"));
    assert_false(resource_table_remove_crd(t, "widgets.example.com"));
    assert_null(resource_by_plural(t, "example.com", "v1", "widgets"));
    assert_null(resource_schema_definition(t, "com.example.v1.Widget"));
}

static void test_refused(void **state)
{
    static const char *const bad[] = {
        "{}",
        "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"versions\":[{\"served\":true}]}}",
        /* a built-in kind's name */
        "{\"metadata\":{\"name\":\"leases.coordination.k8s.io\"},\"spec\":{\"group\":\"coordination.k8s.io\",\"names\":"
        "{\"kind\":\"L\",\"plural\":\"leases\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,"
        "\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\"}}}]}}",
        /* an unknown definition */
        "{\"metadata\":{\"name\":\"xs.e.com\"},\"spec\":{\"group\":\"e.com\",\"names\":{\"kind\":\"X\",\"plural\":"
        "\"xs\"},"
        "\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":"
        "\"object\",\"properties\":{\"a\":{\"x-holt-ref\":\"nothing\"}}}}}]}}",
    };
    uint64_t changes = resource_table_changes(*state);

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        _cleanup_json_ struct json *crd = parse(bad[i]);
        _cleanup_error_ struct error err = ERROR_INIT;
        assert_int_equal(resource_table_add_crd(*state, crd, &err), -EINVAL);
        assert_int_equal(resource_table_changes(*state), changes);
    }
}

/* Nonsense that validation would have refused does no harm. */
static void test_nonsense(void **state)
{
    static const char *const schemas[] = {
        "{}",
        "{\"properties\":\"x\",\"items\":[1],\"allOf\":{\"a\":1},\"not\":null}",
        "{\"properties\":{\"metadata\":{\"properties\":{\"name\":1}},\"a\":null,\"b\":[{\"x-holt-ref\":1}]}}",
    };

    for (size_t i = 0; i < ARRAY_LEN(schemas); i++) {
        _cleanup_json_ struct json *crd = widgets("example.com", true);
        struct json *version = json_item(json_at(crd, "spec", "versions", NULL), 0);
        json_set(json_get(version, "schema"), "openAPIV3Schema", parse(schemas[i]));
        add(*state, crd);
        const struct resource *r = resource_by_plural(*state, "example.com", "v1alpha1", "widgets");
        assert_non_null(json_at(r->schema, "properties", "kind", NULL));
    }
}

static void test_bundled(void **state)
{
    const struct json *crds = resource_table_bundled_crds(*state);

    assert_true(json_size(crds) >= 1);
    for (size_t i = 0; i < json_size(crds); i++)
        add(*state, json_item(crds, i));
    const struct resource *r = resource_by_plural(*state, "agents.x-k8s.io", "v1beta1", "sandboxes");
    assert_non_null(r);
    assert_string_equal(r->short_names[0], "sandbox");
    assert_true(r->has_status);
}

/* Every reference of a schema, at any depth, can be resolved. */
static void check_references(const struct resource_table *t, const struct json *v)
{
    for (struct json_iter it = {0}; json_each(v, &it);) {
        if (streq(it.key, "$ref") && json_str(it.value)) {
            const char *name = str_skip_prefix(json_str(it.value), "#/components/schemas/");
            assert_non_null(name);
            if (!resource_schema_definition(t, name))
                fail_msg("%s cannot be resolved", name);
        }
        check_references(t, it.value);
    }
    for (size_t i = 0; json_is(v, JSON_ARRAY) && i < json_size(v); i++)
        check_references(t, json_item(v, i));
}

static void test_references(void **state)
{
    size_t count;

    test_bundled(state);
    const struct resource *const *list = resource_table_list(*state, &count);
    for (size_t i = 0; i < count; i++)
        check_references(*state, list[i]->schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_builtin, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test(test_versions),
        cmocka_unit_test_setup_teardown(test_custom, setup, teardown),
        cmocka_unit_test_setup_teardown(test_change, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nonsense, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bundled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_references, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
