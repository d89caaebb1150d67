/* Audit policies: what is refused, and which rule decides. */
#include "test.h"

#include "apiserver/audit_policy.h"
#include "base/memory.h"
#include "base/strutil.h"

#define HEAD "apiVersion: audit.k8s.io/v1\nkind: Policy\n"

static void test_refused(void **state UNUSED)
{
    static const struct {
        const char *text, *field; /* NULL: accepted */
    } cases[] = {
        {HEAD "rules: [{level: Metadata}]", NULL},
        {HEAD "metadata: {name: p}\nrules: [{level: None, users: [a], verbs: [get], namespaces: [\"\"]}]", NULL},
        {"{\"apiVersion\":\"audit.k8s.io/v1\",\"kind\":\"Policy\",\"rules\":[{\"level\":\"Request\"}]}", NULL},
        {HEAD "rules: []", "rules"},
        {HEAD, "rules"},
        {"apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]", "apiVersion"},
        {HEAD "rules: [{}]", "rules[0]"},
        {HEAD "rules: [{level: metadata}]", "rules[0].level"},
        {HEAD "rules: [{level: None}, {level: 1}]", "rules[1].level"},
        {HEAD "rules: [{level: None, verb: [get]}]", "rules[0].verb"},
        {HEAD "rules: [{level: None, verbs: get}]", "rules[0].verbs"},
        {HEAD "rules: [{level: None, verbs: [1]}]", "rules[0].verbs[0]"},
        {HEAD "rules: [{level: None, resources: [pods]}]", "rules[0].resources[0]"},
        {HEAD "rules: [{level: None, resources: [{groups: a}]}]", "rules[0].resources[0].groups"},
        {HEAD "rules: [{level: None, resources: [{group: a}], nonResourceURLs: [/a]}]", "rules[0]"},
        {HEAD "omitStages: [Done]\nrules: [{level: None}]", "omitStages[0]"},
        {HEAD "rules: [{level: None, omitManagedFields: 1}]", "rules[0].omitManagedFields"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = ERROR_INIT;
        struct audit_policy *p = audit_policy_parse(cases[i].text, strlen(cases[i].text), &err);
        if (!p != (cases[i].field != NULL) || (cases[i].field && !streq(err.field ? err.field : "", cases[i].field)))
            fail_msg("%s: %s (%s)", cases[i].text, error_text(&err), err.field ? err.field : "");
        audit_policy_free(p);
        error_clear(&err);
    }
    struct error err = ERROR_INIT;
    assert_null(audit_policy_parse("", 0, &err));
    assert_true(err.code != 0);
    error_clear(&err);
}

static const char policy[] = HEAD "omitStages: [RequestReceived]\n"
                                  "omitManagedFields: true\n"
                                  "rules:\n"
                                  "- {level: None, users: [quiet]}\n"
                                  "- {level: None, userGroups: [machines], verbs: [watch, list]}\n"
                                  "- {level: Request, resources: [{group: '', resources: [pods/exec, '*/scale']}]}\n"
                                  "- {level: Metadata, resources: [{group: '', resources: [secrets]}], omitStages: "
                                  "[ResponseStarted]}\n"
                                  "- {level: RequestResponse, resources: [{group: agents.x-k8s.io}], namespaces: "
                                  "[prod], omitManagedFields: false}\n"
                                  "- {level: Request, resources: [{group: '', resources: [configmaps], resourceNames: "
                                  "[one]}]}\n"
                                  "- {level: Metadata, namespaces: ['']}\n"
                                  "- {level: Metadata, nonResourceURLs: [/metrics, '/debug/*']}\n";

static void test_decides(void **state UNUSED)
{
    static const struct {
        const char *user, *group, *method, *path;
        enum audit_level level;
        unsigned omitted;
        bool managed_fields;
    } cases[] = {
        {"quiet", "g", "GET", "/api/v1/namespaces/a/secrets/s", AUDIT_NONE, 0, false},
        {"a", "machines", "GET", "/api/v1/namespaces/a/secrets", AUDIT_NONE, 0, false},
        {"a", "machines", "GET", "/api/v1/namespaces/a/secrets/s", AUDIT_METADATA, 3, true},
        {"a", "g", "POST", "/api/v1/namespaces/a/pods/p/exec", AUDIT_REQUEST, 1, true},
        {"a", "g", "POST", "/api/v1/namespaces/a/pods", AUDIT_NONE, 0, false},
        {"a", "g", "PUT", "/api/v1/namespaces/a/replicationcontrollers/r/scale", AUDIT_REQUEST, 1, true},
        {"a", "g", "POST", "/apis/agents.x-k8s.io/v1beta1/namespaces/prod/sandboxes", AUDIT_REQUEST_RESPONSE, 1, false},
        {"a", "g", "PUT", "/apis/agents.x-k8s.io/v1beta1/namespaces/prod/sandboxes/s/status", AUDIT_REQUEST_RESPONSE, 1,
         false},
        {"a", "g", "POST", "/apis/agents.x-k8s.io/v1beta1/namespaces/dev/sandboxes", AUDIT_NONE, 0, false},
        {"a", "g", "GET", "/api/v1/namespaces/a/configmaps/one", AUDIT_REQUEST, 1, true},
        {"a", "g", "GET", "/api/v1/namespaces/a/configmaps/two", AUDIT_NONE, 0, false},
        {"a", "g", "GET", "/api/v1/nodes", AUDIT_METADATA, 1, true},
        {"a", "g", "GET", "/metrics", AUDIT_METADATA, 1, true},
        {"a", "g", "GET", "/metrics/more", AUDIT_NONE, 0, false},
        {"a", "g", "GET", "/debug/x", AUDIT_METADATA, 1, true},
    };
    struct audit_policy *p = audit_policy_parse(policy, strlen(policy), NULL);

    assert_non_null(p);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *groups[] = {(char *)(uintptr_t)cases[i].group, NULL};
        struct user_info *user = user_info_new(cases[i].user, NULL, groups);
        struct request_info info;
        assert_int_equal(request_info_parse(cases[i].method, cases[i].path, false, &info), 0);
        const char *verb = info.is_resource ? verb_name(info.verb) : "get";
        struct audit_decision d = audit_policy_decide(p, user, &info, verb);
        if (d.level == AUDIT_NONE)
            d = (struct audit_decision){.level = AUDIT_NONE}; /* the rest means nothing */
        if (d.level != cases[i].level || d.omitted_stages != cases[i].omitted ||
            d.omit_managed_fields != cases[i].managed_fields)
            fail_msg("%s %s: %s %u", cases[i].method, cases[i].path, audit_level_name(d.level), d.omitted_stages);
        request_info_free(&info);
        user_info_free(user);
    }
    audit_policy_free(p);
}

static void test_default(void **state UNUSED)
{
    struct audit_policy *p = audit_policy_default();
    struct request_info info;

    assert_int_equal(request_info_parse("GET", "/api/v1/namespaces/a/pods", false, &info), 0);
    assert_int_equal(audit_policy_decide(p, NULL, &info, "list").level, AUDIT_METADATA);
    request_info_free(&info);
    assert_int_equal(request_info_parse("GET", "/apis", false, &info), -ENOENT); /* no resource */
    assert_int_equal(audit_policy_decide(p, NULL, &info, "get").level, AUDIT_NONE);
    request_info_free(&info);
    audit_policy_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_decides),
        cmocka_unit_test(test_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
