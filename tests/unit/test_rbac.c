/* What rules allow and what they lack, and who is given them, by table. */
#include "quoted.h"
#include "test.h"

#include "apiserver/authz.h"
#include "apiserver/store.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <event2/event.h>

#define RULE(groups, resources, verbs) "{'apiGroups':[" groups "],'resources':[" resources "],'verbs':[" verbs "]}"
#define NAMED(resources, names, verbs)                                                                                 \
    "{'apiGroups':[''],'resources':[" resources "],'resourceNames':[" names "],'verbs':[" verbs "]}"
#define PATHS(paths, verbs) "{'nonResourceURLs':[" paths "],'verbs':[" verbs "]}"

static void test_rule_allows(void **state UNUSED)
{
    static const struct {
        const char *rule, *verb, *group, *plural, *subresource, *name, *path;
        bool want;
    } table[] = {
        {RULE("''", "'pods'", "'get'"), "get", "", "pods", "", "a", NULL, true},
        {RULE("''", "'pods'", "'get'"), "list", "", "pods", "", "", NULL, false},
        {RULE("''", "'pods'", "'get'"), "get", "apps", "pods", "", "a", NULL, false},
        {RULE("''", "'pods'", "'get'"), "get", "", "secrets", "", "a", NULL, false},
        /* Subresources are resources of their own. */
        {RULE("''", "'pods'", "'*'"), "create", "", "pods", "exec", "a", NULL, false},
        {RULE("''", "'pods/log'", "'get'"), "get", "", "pods", "log", "a", NULL, true},
        {RULE("''", "'pods/log'", "'get'"), "get", "", "pods", "", "a", NULL, false},
        {RULE("''", "'pods/log'", "'get'"), "get", "", "pods", "logs", "a", NULL, false},
        {RULE("''", "'*/log'", "'get'"), "get", "", "pods", "log", "a", NULL, true},
        {RULE("''", "'*/log'", "'get'"), "get", "", "pods", "", "a", NULL, false},
        {RULE("''", "'*/log'", "'get'"), "get", "", "pods", "exec", "a", NULL, false},
        {RULE("''", "'pods/*'", "'get'"), "get", "", "pods", "log", "a", NULL, false},
        {RULE("''", "'*'", "'get'"), "get", "", "pods", "log", "a", NULL, true},
        {RULE("'*'", "'*'", "'*'"), "anything", "x.y", "z", "s", "n", NULL, true},
        {RULE("'*'", "'*'", "'*'"), "get", "", "", "", "", "/metrics", false},
        {RULE("''", "'pod*'", "'get'"), "get", "", "pods", "", "a", NULL, false},
        {RULE("''", "'pods'", ""), "get", "", "pods", "", "a", NULL, false},
        {RULE("", "'pods'", "'get'"), "get", "", "pods", "", "a", NULL, false},
        {"{}", "get", "", "pods", "", "a", NULL, false},
        {"{'verbs':'*','apiGroups':'*','resources':'*'}", "get", "", "pods", "", "a", NULL, false},
        /* Names; what has none is not meant. */
        {NAMED("'pods'", "'a'", "'*'"), "get", "", "pods", "", "a", NULL, true},
        {NAMED("'pods'", "'a'", "'*'"), "get", "", "pods", "", "b", NULL, false},
        {NAMED("'pods'", "'a'", "'*'"), "list", "", "pods", "", "", NULL, false},
        {NAMED("'pods'", "'a'", "'*'"), "create", "", "pods", "", "", NULL, false},
        {NAMED("'pods'", "''", "'*'"), "deletecollection", "", "pods", "", "", NULL, false},
        {NAMED("'pods'", "'*'", "'*'"), "get", "", "pods", "", "a", NULL, false},
        /* Paths. */
        {PATHS("'/metrics'", "'get'"), "get", "", "", "", "", "/metrics", true},
        {PATHS("'/metrics'", "'get'"), "get", "", "", "", "", "/metrics/x", false},
        {PATHS("'/metrics'", "'get'"), "post", "", "", "", "", "/metrics", false},
        {PATHS("'/apis/*'", "'get'"), "get", "", "", "", "", "/apis/x/y", true},
        {PATHS("'/apis/*'", "'get'"), "get", "", "", "", "", "/apis", false},
        {PATHS("'*'", "'*'"), "get", "", "", "", "", "/anything", true},
        {PATHS("'/a*b'", "'get'"), "get", "", "", "", "", "/axb", false},
        {PATHS("'*'", "'*'"), "get", "", "pods", "", "", NULL, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        _cleanup_json_ struct json *rule = parse(table[i].rule);
        const struct access a = {.verb = table[i].verb,
                                 .group = table[i].group,
                                 .plural = table[i].plural,
                                 .subresource = table[i].subresource,
                                 .ns = "",
                                 .name = table[i].name,
                                 .path = table[i].path};
        if (rule_allows(rule, &a) != table[i].want)
            fail_msg("%zu: %s", i, table[i].rule);
    }
}

static void test_rules_cover(void **state UNUSED)
{
    static const struct {
        const char *held, *wanted, *missing; /* NULL: nothing */
    } table[] = {
        {"[]", "[]", NULL},
        {"[]", "[" RULE("''", "'pods'", "'get'") "]", "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}"},
        {"[" RULE("''", "'pods'", "'get','list'") "]", "[" RULE("''", "'pods'", "'get'") "]", NULL},
        {"[" RULE("''", "'pods'", "'get'") "," RULE("''", "'services'", "'get'") "]",
         "[" RULE("''", "'pods','services'", "'get'") "]", NULL},
        {"[" RULE("''", "'pods'", "'get'") "]", "[" RULE("''", "'pods','secrets'", "'get','list'") "]",
         "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}\n"
         "{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\"]}"},
        /* All of something is more than each that there is. */
        {"[" RULE("''", "'pods'", "'get','list'") "]", "[" RULE("''", "'pods'", "'*'") "]",
         "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"*\"]}"},
        {"[" RULE("''", "'pods'", "'*'") "]", "[" RULE("''", "'*'", "'get'") "]",
         "{APIGroups:[\"\"], Resources:[\"*\"], Verbs:[\"get\"]}"},
        {"[" RULE("''", "'*'", "'*'") "]", "[" RULE("'*'", "'pods'", "'get'") "]",
         "{APIGroups:[\"*\"], Resources:[\"pods\"], Verbs:[\"get\"]}"},
        {"[" RULE("'*'", "'*'", "'*'") "]", "[" RULE("'*'", "'*'", "'*'") "]", NULL},
        {"[" RULE("'*'", "'*'", "'*'") "]", "[" PATHS("'/x'", "'get'") "]",
         "{NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}"},
        /* Subresources. */
        {"[" RULE("''", "'pods'", "'*'") "]", "[" RULE("''", "'pods/exec'", "'create'") "]",
         "{APIGroups:[\"\"], Resources:[\"pods/exec\"], Verbs:[\"create\"]}"},
        {"[" RULE("''", "'*/scale'", "'get'") "]", "[" RULE("''", "'x/scale'", "'get'") "]", NULL},
        {"[" RULE("''", "'x/scale'", "'get'") "]", "[" RULE("''", "'*/scale'", "'get'") "]",
         "{APIGroups:[\"\"], Resources:[\"*/scale\"], Verbs:[\"get\"]}"},
        /* Names. */
        {"[" NAMED("'pods'", "'a'", "'get'") "]", "[" NAMED("'pods'", "'a','b'", "'get'") "]",
         "{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"b\"], Verbs:[\"get\"]}"},
        {"[" NAMED("'pods'", "'a'", "'get'") "]", "[" RULE("''", "'pods'", "'get'") "]",
         "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}"},
        {"[" RULE("''", "'pods'", "'get'") "]", "[" NAMED("'pods'", "'a'", "'get'") "]", NULL},
        /* Paths. */
        {"[" PATHS("'/a/*'", "'get'") "]", "[" PATHS("'/a/b','/a/b/*'", "'get'") "]", NULL},
        {"[" PATHS("'/a/b'", "'get'") "]", "[" PATHS("'/a/*'", "'get'") "]",
         "{NonResourceURLs:[\"/a/*\"], Verbs:[\"get\"]}"},
        {"[" PATHS("'/a'", "'get'") "]", "[" PATHS("'*'", "'get'") "]", "{NonResourceURLs:[\"*\"], Verbs:[\"get\"]}"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        _cleanup_json_ struct json *held = parse(table[i].held), *wanted = parse(table[i].wanted);
        _cleanup_free_ char *missing = NULL;
        assert_int_equal(rules_cover(held, wanted, &missing), table[i].missing == NULL);
        if (table[i].missing)
            assert_string_equal(missing, table[i].missing);
    }
}

/* A rule that multiplies to very many permissions ends, and is not held. */
static void test_rules_cover_limit(void **state UNUSED)
{
    _cleanup_json_ struct json *held = json_array_make(), *wanted = json_array_make(), *rule = json_object_make();
    static const char *const keys[] = {"apiGroups", "resources", "verbs", "resourceNames"};
    _cleanup_free_ char *missing = NULL;

    for (size_t k = 0; k < ARRAY_LEN(keys); k++)
        for (int i = 0; i < 3000; i++) {
            _cleanup_free_ char *text = xasprintf("x%d", i);
            json_push(json_ensure_array(rule, keys[k]), json_string(text));
        }
    json_push(wanted, json_ref(rule));
    assert_false(rules_cover(held, wanted, &missing));
    assert_non_null(strstr(missing, "too many"));
}

/* --- bindings --- */

struct fixture {
    struct event_base *base;
    struct store *store;
    struct rbac *rbac;
    char dir[32];
};

static void put(struct fixture *f, const char *plural, const char *key, const char *text)
{
    struct error err = ERROR_INIT;
    _cleanup_free_ char *resource = xasprintf(RBAC_GROUP "/%s", plural);
    struct stored *old = stored_ref(store_get(f->store, resource, key));
    struct stored *new = store_put(f->store, resource, key, parse(text), -1, &err);

    if (!new)
        fail_msg("%s", error_text(&err));
    if (str_has_suffix(plural, "bindings"))
        rbac_binding_changed(f->rbac, old ? old->value : NULL, new->value);
    stored_unref(old);
}

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    struct error err = ERROR_INIT;

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/holt-rbac-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    _cleanup_free_ char *path = xasprintf("%s/store.db", f->dir);
    f->base = event_base_new();
    f->store = store_open(f->base, path, STORE_DURABILITY_NORMAL, NULL, &err);
    if (!f->store)
        fail_msg("%s", error_text(&err));
    f->rbac = rbac_new(f->store);
    put(f, "roles", "a/reader",
        "{'metadata':{'name':'reader','namespace':'a'},'rules':[" RULE("''", "'pods'", "'get'") "]}");
    put(f, "clusterroles", "reader",
        "{'metadata':{'name':'reader'},'rules':[" RULE("''", "'pods'", "'get'") "," PATHS("'/x'", "'get'") "]}");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *command = xasprintf("%s/store.db", f->dir);

    rbac_free(f->rbac);
    store_close(f->store);
    event_base_free(f->base);
    (void)unlink(command);
    (void)rmdir(f->dir);
    free(f);
    return 0;
}

static bool may_get(struct fixture *f, const char *user, const char *group, const char *ns, char **reason)
{
    char *groups[] = {(char *)group, NULL};
    struct user_info *u = user_info_exact(user, NULL, group ? groups : NULL);
    const struct access a = {.verb = "get", .group = "", .plural = "pods", .subresource = "", .ns = ns, .name = "p"};
    bool may = authorize(f->rbac, u, &a, reason);

    user_info_free(u);
    return may;
}

#define BINDING(ns, kind, subject)                                                                                     \
    "{'metadata':{'name':'b'" ns "},'roleRef':{'apiGroup':'" RBAC_GROUP "','kind':'" kind                              \
    "','name':'reader'},'subjects':[" subject "]}"
#define IN_A ",'namespace':'a'"

static void test_bindings(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *plural, *key, *binding, *user, *group;
        bool in_a, in_b, in_cluster;
    } table[] = {
        {"rolebindings", "a/b", BINDING(IN_A, "Role", "{'kind':'User','name':'eve'}"), "eve", NULL, true, false, false},
        {"rolebindings", "a/b", BINDING(IN_A, "Role", "{'kind':'User','name':'eve'}"), "bob", NULL, false, false,
         false},
        {"rolebindings", "a/b", BINDING(IN_A, "Role", "{'kind':'Group','name':'eve'}"), "eve", NULL, false, false,
         false},
        {"rolebindings", "a/b", BINDING(IN_A, "Role", "{'kind':'Group','name':'dev'}"), "eve", "dev", true, false,
         false},
        {"rolebindings", "a/b", BINDING(IN_A, "ClusterRole", "{'kind':'User','name':'eve'}"), "eve", NULL, true, false,
         false},
        {"rolebindings", "a/b", BINDING(IN_A, "Role", "{'kind':'ServiceAccount','name':'s','namespace':'b'}"),
         "system:serviceaccount:b:s", NULL, true, false, false},
        {"rolebindings", "a/b", BINDING(IN_A, "Role", "{'kind':'ServiceAccount','name':'s'}"),
         "system:serviceaccount:a:s", NULL, true, false, false},
        {"rolebindings", "a/b", BINDING(IN_A, "Role", "{'kind':'ServiceAccount','name':'s','namespace':'b'}"), "s",
         NULL, false, false, false},
        {"rolebindings", "a/b", BINDING(IN_A, "Role", ""), "eve", NULL, false, false, false},
        {"rolebindings", "a/b", BINDING(IN_A, "Other", "{'kind':'User','name':'eve'}"), "eve", NULL, false, false,
         false},
        {"clusterrolebindings", "b", BINDING("", "ClusterRole", "{'kind':'User','name':'eve'}"), "eve", NULL, true,
         true, true},
        {"clusterrolebindings", "b", BINDING("", "Role", "{'kind':'User','name':'eve'}"), "eve", NULL, false, false,
         false},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct error err = ERROR_INIT;
        _cleanup_free_ char *resource = xasprintf(RBAC_GROUP "/%s", table[i].plural);
        put(f, table[i].plural, table[i].key, table[i].binding);
        /* The index as it was kept up, and as it is made anew. */
        for (int again = 0; again < 2; again++) {
            if (may_get(f, table[i].user, table[i].group, "a", NULL) != table[i].in_a ||
                may_get(f, table[i].user, table[i].group, "b", NULL) != table[i].in_b ||
                may_get(f, table[i].user, table[i].group, "", NULL) != table[i].in_cluster)
                fail_msg("%zu (%d): %s", i, again, table[i].binding);
            rbac_forget(f->rbac);
        }
        assert_false(may_get(f, "mallory", NULL, "a", NULL)); /* the index is there again */
        struct stored *old = stored_ref(store_get(f->store, resource, table[i].key));
        assert_int_equal(store_delete(f->store, resource, table[i].key, json_copy(old->value), -1, &err), 0);
        rbac_binding_changed(f->rbac, old->value, NULL);
        stored_unref(old);
        assert_false(may_get(f, table[i].user, table[i].group, "a", NULL));
    }
}

static void test_reasons(void **state)
{
    struct fixture *f = *state;
    char *reason = NULL;

    put(f, "rolebindings", "a/b", BINDING(IN_A, "Role", "{'kind':'User','name':'eve'}"));
    assert_true(may_get(f, "eve", NULL, "a", &reason));
    assert_string_equal(reason, "RBAC: allowed by RoleBinding \"b/a\" of Role \"reader\" to User \"eve\"");
    free(reason);
    put(f, "rolebindings", "b/b",
        "{'metadata':{'name':'b','namespace':'b'},'roleRef':{'kind':'Role','name':'no<b>'},'subjects':[{'kind':'User',"
        "'name':'eve'}]}");
    assert_false(may_get(f, "eve", NULL, "b", &reason));
    assert_string_equal(reason, "RBAC: role." RBAC_GROUP " \"no<b>\" not found");

    char *groups[] = {(char *)"dev", NULL};
    _cleanup_(user_info_free_p) struct user_info *u = user_info_exact("eve", NULL, groups);
    const struct access a = {
        .verb = "get", .group = "apps", .plural = "x", .subresource = "scale", .ns = "b", .name = "n"};
    _cleanup_json_ struct json *status = authz_refusal(u, &a, reason);
    assert_string_equal(json_str_at(status, "message", NULL),
                        "x.apps \"n\" is forbidden: User \"eve\" cannot get resource \"x/scale\" in API group \"apps\" "
                        "in the namespace \"b\": RBAC: role." RBAC_GROUP " \"no&lt;b&gt;\" not found");
    free(reason);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_allows),
        cmocka_unit_test(test_rules_cover),
        cmocka_unit_test(test_rules_cover_limit),
        cmocka_unit_test_setup_teardown(test_bindings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reasons, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
