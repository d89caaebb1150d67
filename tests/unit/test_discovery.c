#include "test.h"

#include "apiserver/discovery.h"
#include "base/memory.h"
#include "base/strutil.h"

struct fixture {
    struct resource_table *table;
    struct discovery *discovery;
};

static int setup(void **state)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct fixture *f = xcalloc(1, sizeof(*f));

    f->table = resource_table_new(&err);
    if (!f->table)
        fail_msg("%s", error_text(&err));
    f->discovery = discovery_new(f->table, "10.0.0.1:6443");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    discovery_free(f->discovery);
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

static void assert_json(const struct json *v, const char *expected)
{
    _cleanup_free_ char *text = json_text(v), *wanted = xstrdup(expected);

    for (char *c = wanted; *c; c++)
        if (*c == '\'')
            *c = '"';
    assert_string_equal(text, wanted);
}

/* The item of an array whose member key is value. */
static const struct json *find(const struct json *array, const char *key, const char *value)
{
    for (size_t i = 0; i < json_size(array); i++)
        if (streq(json_str_or(json_get(json_item(array, i), key), ""), value))
            return json_item(array, i);
    fail_msg("no item with %s %s", key, value);
    return NULL;
}

static void add_sandboxes(struct fixture *f)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    const struct json *crds = resource_table_bundled_crds(f->table);

    for (size_t i = 0; i < json_size(crds); i++)
        if (streq(json_str_at(json_item(crds, i), "metadata", "name", NULL), "sandboxes.agents.x-k8s.io"))
            assert_int_equal(resource_table_add_crd(f->table, json_item(crds, i), &err), 0);
}

static void test_form(void **state UNUSED)
{
    static const struct {
        const char *accept;
        enum discovery_form form;
    } cases[] = {
        {NULL, DISCOVERY_LEGACY},
        {"", DISCOVERY_LEGACY},
        {"*/*", DISCOVERY_LEGACY},
        {"application/json, */*", DISCOVERY_LEGACY},
        {"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;"
         "v=v2beta1;as=APIGroupDiscoveryList,application/json",
         DISCOVERY_V2},
        {"application/json; as=APIGroupDiscoveryList; v=v2beta1 ;g=apidiscovery.k8s.io,application/json",
         DISCOVERY_V2BETA1},
        {"application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList,application/json", DISCOVERY_LEGACY},
        {"application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
         DISCOVERY_LEGACY},
        {"application/json,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", DISCOVERY_LEGACY},
        {",;,;=", DISCOVERY_LEGACY},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(discovery_form_for(cases[i].accept), cases[i].form);
}

static void test_aggregated(void **state)
{
    struct fixture *f = *state;

    add_sandboxes(f);
    _cleanup_json_ struct json *core = parse(discovery_api(f->discovery, DISCOVERY_V2));
    assert_string_equal(json_str_at(core, "kind", NULL), "APIGroupDiscoveryList");
    assert_string_equal(json_str_at(core, "apiVersion", NULL), "apidiscovery.k8s.io/v2");
    assert_int_equal(json_size(json_get(core, "items")), 1);
    const struct json *group = json_item(json_get(core, "items"), 0);
    assert_json(json_get(group, "metadata"), "{'creationTimestamp':null}");
    const struct json *version = json_item(json_get(group, "versions"), 0);
    assert_string_equal(json_str_at(version, "freshness", NULL), "Current");
    const struct json *pods = find(json_get(version, "resources"), "resource", "pods");
    assert_json(json_get(pods, "responseKind"), "{'group':'','version':'v1','kind':'Pod'}");
    assert_json(json_get(pods, "shortNames"), "['po']");
    assert_json(json_get(pods, "verbs"),
                "['create','delete','deletecollection','get','list','patch','update','watch']");
    assert_int_equal(json_size(json_get(pods, "subresources")), 10);
    assert_json(find(json_get(pods, "subresources"), "subresource", "eviction"),
                "{'subresource':'eviction','responseKind':{'group':'policy','version':'v1','kind':'Eviction'},"
                "'verbs':['create']}");

    _cleanup_json_ struct json *others = parse(discovery_apis(f->discovery, DISCOVERY_V2BETA1));
    assert_string_equal(json_str_at(others, "apiVersion", NULL), "apidiscovery.k8s.io/v2beta1");
    const struct json *items = json_get(others, "items");
    assert_string_equal(json_str_at(json_item(items, 0), "metadata", "name", NULL), "apps");
    group = json_item(items, json_size(items) - 1);
    assert_json(group,
                "{'metadata':{'name':'agents.x-k8s.io','creationTimestamp':null},'versions':[{'version':'v1beta1',"
                "'freshness':'Current','resources':[{'resource':'sandboxes','responseKind':{'group':'agents.x-k8s.io',"
                "'version':'v1beta1','kind':'Sandbox'},'scope':'Namespaced','singularResource':'sandbox','verbs':"
                "['delete','deletecollection','get','list','patch','create','update','watch'],'shortNames':['sandbox'],"
                "'subresources':[{'subresource':'status','responseKind':{'group':'agents.x-k8s.io','version':'v1beta1',"
                "'kind':'Sandbox'},'verbs':['get','patch','update']}]}]}]}");
}

static void test_legacy(void **state)
{
    struct fixture *f = *state;
    _cleanup_json_ struct json *api = parse(discovery_api(f->discovery, DISCOVERY_LEGACY));
    _cleanup_json_ struct json *apis = parse(discovery_apis(f->discovery, DISCOVERY_LEGACY));
    _cleanup_json_ struct json *group = parse(discovery_group(f->discovery, "coordination.k8s.io"));
    _cleanup_json_ struct json *core = parse(discovery_resources(f->discovery, "", "v1"));

    assert_json(api, "{'kind':'APIVersions','versions':['v1'],'serverAddressByClientCIDRs':[{'clientCIDR':'0.0.0.0/0',"
                     "'serverAddress':'10.0.0.1:6443'}]}");
    assert_json(find(json_get(apis, "groups"), "name", "policy"),
                "{'name':'policy','versions':[{'groupVersion':'policy/v1','version':'v1'}],'preferredVersion':"
                "{'groupVersion':'policy/v1','version':'v1'}}");
    assert_json(group, "{'kind':'APIGroup','apiVersion':'v1','name':'coordination.k8s.io','versions':[{'groupVersion':"
                       "'coordination.k8s.io/v1','version':'v1'}],'preferredVersion':{'groupVersion':"
                       "'coordination.k8s.io/v1','version':'v1'}}");
    assert_string_equal(json_str_at(core, "groupVersion", NULL), "v1");
    const struct json *resources = json_get(core, "resources");
    assert_json(find(resources, "name", "pods"),
                "{'name':'pods','singularName':'pod','namespaced':true,'kind':'Pod','verbs':['create','delete',"
                "'deletecollection','get','list','patch','update','watch'],'shortNames':['po'],'categories':['all']}");
    assert_json(find(resources, "name", "pods/eviction"),
                "{'name':'pods/eviction','singularName':'','namespaced':true,'group':'policy','version':'v1',"
                "'kind':'Eviction','verbs':['create']}");
    assert_json(find(resources, "name", "pods/log"),
                "{'name':'pods/log','singularName':'','namespaced':true,'kind':'Pod','verbs':['get']}");
    assert_null(discovery_group(f->discovery, "nothing.example.com"));
    assert_null(discovery_resources(f->discovery, "", "v2"));
    assert_null(discovery_resources(f->discovery, "agents.x-k8s.io", "v1beta1"));
}

/* Every group version of /apis has a document of its own. */
static void test_complete(void **state)
{
    struct fixture *f = *state;

    add_sandboxes(f);
    _cleanup_json_ struct json *apis = parse(discovery_apis(f->discovery, DISCOVERY_LEGACY));
    const struct json *groups = json_get(apis, "groups");
    for (size_t i = 0; i < json_size(groups); i++) {
        const struct json *versions = json_get(json_item(groups, i), "versions");
        const char *group = json_str_at(json_item(groups, i), "name", NULL);
        assert_non_null(discovery_group(f->discovery, group));
        for (size_t j = 0; j < json_size(versions); j++)
            assert_non_null(
                discovery_resources(f->discovery, group, json_str_at(json_item(versions, j), "version", NULL)));
    }
}

static void test_cache(void **state)
{
    struct fixture *f = *state;
    const struct document *d = discovery_apis(f->discovery, DISCOVERY_V2);
    char hash[DOCUMENT_HASH_SIZE];

    assert_int_equal(strlen(d->hash), 128);
    assert_int_equal(strspn(d->hash, "0123456789ABCDEF"), 128);
    assert_ptr_equal(discovery_apis(f->discovery, DISCOVERY_V2), d);
    memcpy(hash, d->hash, sizeof(hash));
    add_sandboxes(f);
    assert_string_not_equal(discovery_apis(f->discovery, DISCOVERY_V2)->hash, hash);
    assert_true(resource_table_remove_crd(f->table, "sandboxes.agents.x-k8s.io"));
    assert_string_equal(discovery_apis(f->discovery, DISCOVERY_V2)->hash, hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form),
        cmocka_unit_test_setup_teardown(test_aggregated, setup, teardown),
        cmocka_unit_test_setup_teardown(test_legacy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_complete, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cache, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
