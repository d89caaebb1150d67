/* What quotas, limit ranges and disruption budgets count and compare, by table. */
#include "quoted.h"
#include "test.h"

#include "apiserver/limit_range.h"
#include "apiserver/pod_resources.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "controllers/disruption.h"

#define C(requests, limits) "{'name':'c','resources':{'requests':{" requests "},'limits':{" limits "}}}"

static void test_pod_resource(void **state UNUSED)
{
    static const struct {
        const char *spec, *which, *name, *want; /* NULL: not named */
    } table[] = {
        {"{'containers':[" C("'cpu':'100m'", "") "," C("'cpu':'0.2'", "") "]}", "requests", "cpu", "300m"},
        {"{'containers':[" C("'memory':'1Gi'", "") "," C("'memory':'512Mi'", "") "]}", "requests", "memory", "1536Mi"},
        {"{'containers':[" C("", "'cpu':1") "]}", "limits", "cpu", "1"},
        {"{'containers':[" C("'cpu':'1'", "") "]}", "limits", "cpu", NULL},
        /* An init container that needs more than all the others; one that needs less. */
        {"{'containers':[" C("'cpu':'1'", "") "],'initContainers':[" C("'cpu':'3'", "") "]}", "requests", "cpu", "3"},
        {"{'containers':[" C("'cpu':'4'", "") "],'initContainers':[" C("'cpu':'3'", "") "]}", "requests", "cpu", "4"},
        /* One that stays counts with both. */
        {"{'containers':[" C("'cpu':'1'", "") "],'initContainers':[{'restartPolicy':'Always','resources':{'requests':"
                                              "{'cpu':'1'}}}," C("'cpu':'2'", "") "]}",
         "requests", "cpu", "3"},
        {"{'containers':[" C("'cpu':'1'", "") "],'overhead':{'cpu':'250m'}}", "requests", "cpu", "1250m"},
        {"{'containers':[" C("'cpu':'1'", "") "],'overhead':{'cpu':'250m'}}", "limits", "cpu", NULL},
        {"{}", "requests", "cpu", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        _cleanup_json_ struct json *spec = parse(table[i].spec);
        struct quantity q;
        bool found = pod_resource(spec, table[i].which, table[i].name, &q);
        assert_int_equal(found, table[i].want != NULL);
        if (!found)
            continue;
        _cleanup_free_ char *text = quantity_format(&q);
        assert_string_equal(text, table[i].want);
    }
}

#define POD "{'spec':{'containers':[" C("'cpu':'500m','nvidia.com/gpu':'2'", "'memory':'1Gi'") "]},'status':{'phase':"

static void test_quota_use(void **state UNUSED)
{
    static const char running[] = POD "'Running'}}", ended[] = POD "'Failed'}}";
    static const char claim[] = "{'spec':{'storageClassName':'fast','resources':{'requests':{'storage':'2Gi'}}}}";
    static const char service[] = "{'spec':{'type':'NodePort','ports':[{},{}]}}";
    static const struct {
        const char *name, *group, *plural, *object, *want;
    } table[] = {
        {"pods", "", "pods", running, "1"},
        {"pods", "", "pods", ended, "0"},
        {"count/pods", "", "pods", ended, "1"},
        {"cpu", "", "pods", running, "500m"},
        {"requests.cpu", "", "pods", running, "500m"},
        {"requests.nvidia.com/gpu", "", "pods", running, "2"},
        {"limits.memory", "", "pods", running, "1Gi"},
        {"limits.memory", "", "pods", ended, "0"},
        {"limits.cpu", "", "pods", running, "0"},
        {"requests.storage", "", "pods", running, "0"},
        {"services", "", "pods", running, "0"},
        {"requests.storage", "", "persistentvolumeclaims", claim, "2Gi"},
        {"persistentvolumeclaims", "", "persistentvolumeclaims", claim, "1"},
        {"fast.storageclass.storage.k8s.io/requests.storage", "", "persistentvolumeclaims", claim, "2Gi"},
        {"fast.storageclass.storage.k8s.io/persistentvolumeclaims", "", "persistentvolumeclaims", claim, "1"},
        {"slow.storageclass.storage.k8s.io/requests.storage", "", "persistentvolumeclaims", claim, "0"},
        {"services.nodeports", "", "services", service, "2"},
        {"services.loadbalancers", "", "services", service, "0"},
        {"services", "", "services", service, "1"},
        {"secrets", "", "secrets", "{}", "1"},
        {"count/sandboxes.agents.x-k8s.io", "agents.x-k8s.io", "sandboxes", "{}", "1"},
        {"count/sandboxes.agents.x-k8s.io", "other.io", "sandboxes", "{}", "0"},
        {"count/sandboxes", "agents.x-k8s.io", "sandboxes", "{}", "0"},
        {"count/deployments.apps", "apps", "deployments", "{}", "1"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        _cleanup_json_ struct json *object = parse(table[i].object);
        struct quantity q = quota_use(table[i].name, table[i].group, table[i].plural, object);
        _cleanup_free_ char *text = quantity_format(&q);
        if (!streq(text, table[i].want))
            fail_msg("%s of %s: %s, not %s", table[i].name, table[i].plural, text, table[i].want);
        if (q.nano)
            assert_true(quota_counts(table[i].name, table[i].group, table[i].plural));
    }
    assert_null(quota_name_problem("requests.nvidia.com/gpu"));
    assert_null(quota_name_problem("count/widgets.example.com"));
    assert_non_null(quota_name_problem("cpuu"));
}

static void test_scopes(void **state UNUSED)
{
    static const char bare[] = "{'spec':{'containers':[{}]}}";
    static const char heavy[] =
        "{'spec':{'priorityClassName':'high','activeDeadlineSeconds':5,'containers':[" C("'cpu':'1'", "") "]}}";
    static const struct {
        const char *spec, *object;
        bool want;
    } table[] = {
        {"{}", bare, true},
        {"{'scopes':['BestEffort']}", bare, true},
        {"{'scopes':['BestEffort']}", heavy, false},
        {"{'scopes':['NotBestEffort','Terminating']}", heavy, true},
        {"{'scopes':['NotBestEffort','NotTerminating']}", heavy, false},
        {"{'scopes':['PriorityClass']}", heavy, true},
        {"{'scopes':['PriorityClass']}", bare, false},
        {"{'scopeSelector':{'matchExpressions':[{'scopeName':'PriorityClass','operator':'In','values':['high']}]}}",
         heavy, true},
        {"{'scopeSelector':{'matchExpressions':[{'scopeName':'PriorityClass','operator':'NotIn','values':['high']}]}}",
         heavy, false},
        {"{'scopeSelector':{'matchExpressions':[{'scopeName':'PriorityClass','operator':'DoesNotExist'}]}}", bare,
         true},
        {"{'scopes':['CrossNamespacePodAffinity']}", bare, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        _cleanup_json_ struct json *spec = parse(table[i].spec), *object = parse(table[i].object);
        if (quota_in_scope(spec, "", "pods", object) != table[i].want)
            fail_msg("%s", table[i].spec);
    }
    _cleanup_json_ struct json *scoped = parse("{'scopes':['BestEffort']}"), *none = parse("{}");
    assert_false(quota_in_scope(scoped, "", "configmaps", none));
}

static void test_missing(void **state UNUSED)
{
    _cleanup_json_ struct json *hard = parse("{'requests.cpu':'1','limits.memory':'1Gi','pods':'3'}");
    _cleanup_json_ struct json *spec = parse("{'containers':[{'name':'a'},{'name':'b','resources':{'requests':{'cpu':"
                                             "'1'},'limits':{'memory':'1Gi'}}}],'initContainers':[{'name':'i'}]}");
    _cleanup_free_ char *text = quota_missing(hard, spec);
    assert_string_equal(text, "limits.memory for: a,i; requests.cpu for: a,i");
    _cleanup_json_ struct json *counts = parse("{'pods':'3'}");
    assert_null(quota_missing(counts, spec));
}

static void test_limits(void **state UNUSED)
{
    static const struct {
        const char *item, *spec, *want; /* all that is wrong, joined by | */
    } table[] = {
        {"{'type':'Container','min':{'cpu':'100m'}}", "{'containers':[" C("'cpu':'50m'", "") "]}",
         "minimum cpu usage per Container is 100m, but request is 50m"},
        {"{'type':'Container','min':{'cpu':'100m'}}", "{'containers':[{'name':'c'}]}",
         "minimum cpu usage per Container is 100m.  No request is specified"},
        {"{'type':'Container','min':{'cpu':'100m'}}", "{'containers':[" C("'cpu':'100m'", "'cpu':'50m'") "]}",
         "minimum cpu usage per Container is 100m, but limit is 50m"},
        {"{'type':'Container','max':{'memory':'1Gi'}}", "{'containers':[" C("'memory':'2Gi'", "'memory':'1024Mi'") "]}",
         "maximum memory usage per Container is 1Gi, but request is 2Gi"},
        {"{'type':'Container','max':{'memory':'1Gi'}}", "{'containers':[" C("", "'memory':'1024Mi'") "]}", ""},
        {"{'type':'Container','maxLimitRequestRatio':{'cpu':'1500m'}}",
         "{'containers':[" C("'cpu':'1'", "'cpu':'1500m'") "," C("'cpu':'1'", "'cpu':'1600m'") "]}",
         "cpu max limit to request ratio per Container is 1500m, but provided ratio is 1.600000"},
        {"{'type':'Container','maxLimitRequestRatio':{'cpu':'2'}}", "{'containers':[" C("", "'cpu':'1'") "]}",
         "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"},
        {"{'type':'Pod','max':{'cpu':'2'}}", "{'containers':[" C("", "'cpu':'1'") "," C("", "'cpu':'1500m'") "]}",
         "maximum cpu usage per Pod is 2, but limit is 2500m"},
        {"{'type':'PersistentVolumeClaim','max':{'storage':'1Gi'}}", "{'containers':[{}]}", ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        _cleanup_json_ struct json *item = parse(table[i].item), *spec = parse(table[i].spec);
        _cleanup_strv_ char **problems = limit_check_pod(item, spec, NULL);
        struct strbuf all = {0};
        for (size_t k = 0; problems && problems[k]; k++)
            strbuf_addf(&all, "%s%s", k ? "|" : "", problems[k]);
        assert_string_equal(strbuf_str(&all), table[i].want);
        strbuf_free(&all);
    }
}

static void test_limit_item_defaults(void **state UNUSED)
{
    static const struct {
        const char *item, *want;
    } table[] = {
        {"{'type':'Container','max':{'cpu':'2'}}",
         "{'type':'Container','max':{'cpu':'2'},'default':{'cpu':'2'},'defaultRequest':{'cpu':'2'}}"},
        {"{'type':'Container','min':{'cpu':'1'}}",
         "{'type':'Container','min':{'cpu':'1'},'defaultRequest':{'cpu':'1'}}"},
        {"{'type':'Pod','max':{'cpu':'2'}}", "{'type':'Pod','max':{'cpu':'2'}}"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        _cleanup_json_ struct json *item = parse(table[i].item), *want = parse(table[i].want);
        limit_default_item(item);
        assert_true(json_equal(item, want));
    }
}

#define READY(name)                                                                                                    \
    "{'metadata':{'name':'" name "'},'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'}]}}"
#define WAITS(name) "{'metadata':{'name':'" name "'},'status':{'phase':'Pending'}}"
#define ENDED(name) "{'metadata':{'name':'" name "'},'status':{'phase':'Succeeded'}}"
#define NOW (1000 * INT64_C(1000000000))

static void test_disruption(void **state UNUSED)
{
    static const struct {
        const char *spec, *disrupted, *pods;
        int allowed, healthy, desired, expected;
    } table[] = {
        {"{'minAvailable':1}", "{}", "[" READY("a") "," READY("b") "]", 1, 2, 1, 2},
        {"{'minAvailable':3}", "{}", "[" READY("a") "," READY("b") "]", 0, 2, 3, 2},
        {"{'minAvailable':'51%'}", "{}", "[" READY("a") "," READY("b") "," READY("c") "]", 1, 3, 2, 3},
        {"{'maxUnavailable':1}", "{}", "[" READY("a") "," WAITS("b") "]", 0, 1, 1, 2},
        {"{'maxUnavailable':'50%'}", "{}", "[" READY("a") "," READY("b") "," READY("c") "]", 2, 3, 1, 3},
        {"{'maxUnavailable':5}", "{}", "[" READY("a") "]", 1, 1, 0, 1},
        {"{'maxUnavailable':1}", "{}", "[" READY("a") "," ENDED("b") "]", 1, 1, 0, 1},
        {"{'maxUnavailable':1}", "{}", "[]", 0, 0, 0, 0},
        {"{}", "{}", "[" READY("a") "]", 0, 1, 0, 0},
        /* An eviction that is under way, and one that has not come to pass. */
        {"{'minAvailable':1}", "{'a':'1970-01-01T00:16:00Z'}", "[" READY("a") "," READY("b") "]", 0, 1, 1, 2},
        {"{'minAvailable':1}", "{'a':'1970-01-01T00:12:00Z'}", "[" READY("a") "," READY("b") "]", 1, 2, 1, 2},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        _cleanup_json_ struct json *pods = parse(table[i].pods);
        _cleanup_json_ struct json *budget =
            json_build("{s:{s:i}, s:o, s:{s:o}}", "metadata", "generation", (int64_t)4, "spec", parse(table[i].spec),
                       "status", "disruptedPods", parse(table[i].disrupted));
        int64_t again;
        _cleanup_json_ struct json *status = disruption_status(budget, pods, NOW, &again);
        assert_int_equal(json_int_or(json_get(status, "disruptionsAllowed"), -1), table[i].allowed);
        assert_int_equal(json_int_or(json_get(status, "currentHealthy"), -1), table[i].healthy);
        assert_int_equal(json_int_or(json_get(status, "desiredHealthy"), -1), table[i].desired);
        assert_int_equal(json_int_or(json_get(status, "expectedPods"), -1), table[i].expected);
        assert_int_equal(json_int_or(json_get(status, "observedGeneration"), -1), 4);
        assert_int_equal(again != 0, json_size(json_get(status, "disruptedPods")) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pod_resource), cmocka_unit_test(test_quota_use),
        cmocka_unit_test(test_scopes),       cmocka_unit_test(test_missing),
        cmocka_unit_test(test_limits),       cmocka_unit_test(test_limit_item_defaults),
        cmocka_unit_test(test_disruption),
    };

    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
