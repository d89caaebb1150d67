/* The Sandbox controller by table: objects in, plan out. Reasons and texts are those of agent-sandbox v1beta1. */
#include "quoted.h"
#include "test.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "controllers/sandbox.h"
#include "kube/object.h"
#include "sandbox/blueprint.h"

#define NOW 1000000

static struct json *objects; /* every object of the world */

static bool is(const struct json *o, const struct kube_resource *r)
{
    return streq(object_kind(o), r->kind);
}

static struct json *get(const struct world *w UNUSED, const struct kube_resource *r, const char *ns, const char *name)
{
    for (size_t i = 0; i < json_size(objects); i++) {
        struct json *o = json_item(objects, i);
        if (is(o, r) && streq(object_namespace(o), ns) && streq(object_name(o), name))
            return o;
    }
    return NULL;
}

static struct json *labelled(const struct world *w UNUSED, const struct kube_resource *r, const char *ns,
                             const char *key, const char *value)
{
    struct json *list = json_array_make();

    for (size_t i = 0; i < json_size(objects); i++) {
        struct json *o = json_item(objects, i);
        if (is(o, r) && streq(object_namespace(o), ns) && streq_null(object_label(o, key), value))
            json_push(list, json_ref(o));
    }
    return list;
}

static char *describe(const struct plan *plan)
{
    static const char *const verbs[] = {"get", "list", "create", "update", "patch", "patch-json", "apply", "delete"};
    struct strbuf b = {0};

    for (size_t i = 0; i < plan->count; i++) {
        const struct plan_op *op = &plan->ops[i];
        bool event = op->resource == &KUBE_EVENTS; /* their names are random */
        strbuf_addf(&b, "%s %s%s%s %s", verbs[op->verb], op->resource->plural, op->subresource ? "/" : "",
                    op->subresource ? op->subresource : "",
                    event      ? json_str(json_get(op->body, "reason"))
                    : op->name ? op->name
                               : object_name(op->body));
        const struct json *conditions = json_at(op->body, "status", "conditions", NULL);
        for (size_t c = 0; c < json_size(conditions); c++) {
            const struct json *condition = json_item(conditions, c);
            strbuf_addf(&b, " %s=%s/%s", json_str(json_get(condition, "type")), json_str(json_get(condition, "status")),
                        json_str(json_get(condition, "reason")));
        }
        strbuf_addc(&b, '\n');
    }
    if (plan->failure.code)
        strbuf_addf(&b, "error%s: %s\n", plan->permanent ? " (permanent)" : "", error_text(&plan->failure));
    return strbuf_detach(&b);
}

static void reconcile(const char *world_text, struct plan *plan)
{
    struct world w = {.now_ns = NOW * NSEC_PER_SEC, .get = get, .labelled = labelled};

    objects = parse(world_text);
    sandbox_controller.reconcile(&w, "default", "a", plan);
}

/* fnv1a32("a") */
#define HASH "e40c292c"
#define META "'name':'a','namespace':'default','uid':'u1','generation':2"
#define OWNER                                                                                                          \
    "'ownerReferences':[{'apiVersion':'agents.x-k8s.io/"                                                               \
    "v1beta1','kind':'Sandbox','name':'a','uid':'u1','controller':true,'blockOwnerDeletion':true}]"
#define TRACKED "'labels':{'agents.x-k8s.io/sandbox-name-hash':'" HASH "'}"
#define SPEC "'podTemplate':{'spec':{'containers':[{'name':'c','image':'host'}]}}"
#define SANDBOX(meta, spec, status)                                                                                    \
    "{'kind':'Sandbox','apiVersion':'agents.x-k8s.io/v1beta1','metadata':{" META meta "},'spec':{" SPEC spec           \
    "},'status':{" status "}}"
#define POD(name, meta, status)                                                                                        \
    ",{'kind':'Pod','apiVersion':'v1','metadata':{'name':'" name "','namespace':'default','uid':'p-" name "'," meta    \
    "},'spec':{'nodeName':'n1'},'status':{" status "}}"
#define READY_STATUS                                                                                                   \
    "'phase':'Running','podIPs':[{'ip':'10.88.0.2'}],'conditions':[{'type':'Ready','status':'True'},{'type':'"         \
    "PodScheduled','status':'True'}]"
#define SERVICE(meta, spec)                                                                                            \
    ",{'kind':'Service','apiVersion':'v1','metadata':{'name':'a','namespace':'default','uid':'s1'," meta               \
    "},'spec':{" spec "}}"
#define NAMED ",'annotations':{'agents.x-k8s.io/pod-name':'a'}"
#define STATUS_NEW " Suspended=False/NotSuspended Ready=False/DependenciesNotReady"

static const struct {
    const char *what, *world, *plan;
} cases[] = {
    {"a new Sandbox", "[" SANDBOX("", "", "") "]",
     "create pods a\npatch sandboxes a\npatch sandboxes/status a" STATUS_NEW "\n"},
    {"with a Service and a claim",
     "[" SANDBOX("", ",'service':true,'volumeClaimTemplates':[{'metadata':{'name':'data'},'spec':{}}]", "") "]",
     "create persistentvolumeclaims data-a\ncreate pods a\npatch sandboxes a\ncreate services a\n"
     "patch sandboxes/status a" STATUS_NEW "\n"},
    {"the Pod is ready", "[" SANDBOX(NAMED, "", "") POD("a", OWNER "," TRACKED, READY_STATUS) "]",
     "patch sandboxes/status a Suspended=False/NotSuspended PodScheduled=True/PodScheduled "
     "Ready=True/DependenciesReady\n"},
    {"the Pod is ready, its Service is not there",
     "[" SANDBOX(NAMED, ",'service':true", "") POD("a", OWNER "," TRACKED, READY_STATUS) "]",
     "create services a\npatch sandboxes/status a Suspended=False/NotSuspended PodScheduled=True/PodScheduled "
     "Ready=False/DependenciesNotReady\n"},
    {"being deleted", "[" SANDBOX(",'deletionTimestamp':'2026-01-01T00:00:00Z'", "", "") "]", ""},
    {"the Pod has ended", "[" SANDBOX(NAMED, "", "") POD("a", OWNER "," TRACKED, "'phase':'Failed'") "]",
     "patch sandboxes/status a Suspended=False/NotSuspended PodScheduled=Unknown/PodSchedulingUnknown "
     "Finished=True/PodFailed Ready=False/PodFailed\n"},
    {"suspend", "[" SANDBOX(NAMED, ",'operatingMode':'Suspended'", "") POD("a", OWNER "," TRACKED, READY_STATUS) "]",
     "delete pods a\npatch sandboxes/status a Suspended=False/PodTerminating PodScheduled=True/PodScheduled "
     "Ready=False/SandboxSuspended\n"},
    {"suspended", "[" SANDBOX(NAMED, ",'operatingMode':'Suspended'", "") "]",
     "patch sandboxes a\npatch sandboxes/status a Suspended=True/PodTerminated Ready=False/SandboxSuspended\n"},
    {"suspend with a stranger in the way",
     "[" SANDBOX("", ",'operatingMode':'Suspended'", "") POD("a", "'labels':{}", READY_STATUS) "]",
     "patch sandboxes/status a Suspended=False/PodNotOwned Ready=False/SandboxSuspended\n"},
    {"a stranger's Pod has the name", "[" SANDBOX("", "", "") POD("a", "'labels':{}", READY_STATUS) "]",
     "patch sandboxes/status a Suspended=False/NotSuspended Ready=False/ReconcilerError\n"
     "error: Pod a exists and is not adoptable: label it agents.x-k8s.io/adoptable=true or delete it\n"},
    {"an adoptable Pod has the name",
     "[" SANDBOX("", "", "") POD("a", "'labels':{'agents.x-k8s.io/adoptable':'true'}", READY_STATUS) "]",
     "patch pods a\npatch sandboxes a\npatch sandboxes/status a" STATUS_NEW "\n"},
    {"the annotation names an adoptable Pod",
     "[" SANDBOX(",'annotations':{'agents.x-k8s.io/pod-name':'w'}", "", "")
         POD("w", "'labels':{'agents.x-k8s.io/adoptable':'true'}", READY_STATUS) "]",
     "patch pods w\npatch sandboxes/status a" STATUS_NEW "\n"},
    {"the annotation names somebody else's Pod",
     "[" SANDBOX(",'annotations':{'agents.x-k8s.io/pod-name':'w'}", "", "") POD("w", "'labels':{}", READY_STATUS) "]",
     "patch sandboxes a\npatch sandboxes/status a Suspended=False/NotSuspended Ready=False/ReconcilerError\n"
     "error: Pod w exists and is not adoptable: label it agents.x-k8s.io/adoptable=true or delete it\n"},
    {"the annotation names no Pod", "[" SANDBOX(",'annotations':{'agents.x-k8s.io/pod-name':'w'}", "", "") "]",
     "create pods a\npatch sandboxes a\npatch sandboxes/status a" STATUS_NEW "\n"},
    {"two claims of one name",
     "[" SANDBOX("",
                 ",'volumeClaimTemplates':[{'metadata':{'name':'d'},'spec':{}},{'metadata':{'name':'d'},'spec':{}}]",
                 "") "]",
     "create persistentvolumeclaims d-a\npatch sandboxes/status a Suspended=False/NotSuspended "
     "Ready=False/ReconcilerError\n"
     "error (permanent): spec.volumeClaimTemplates[1].metadata.name: there is another template named d\n"},
    {"two owned Pods",
     "[" SANDBOX("", ",'service':true", "") POD("a", OWNER "," TRACKED, READY_STATUS)
         POD("b", OWNER "," TRACKED, READY_STATUS) "]",
     "create events MultiplePods\npatch sandboxes/status a Suspended=False/NotSuspended Ready=False/MultiplePods\n"
     "error (permanent): more than one Pod is owned by this Sandbox: delete all but one\n"},
    {"the owned Pod has another name", "[" SANDBOX(NAMED, "", "") POD("b", OWNER "," TRACKED, READY_STATUS) "]",
     "patch sandboxes a\npatch sandboxes/status a Suspended=False/NotSuspended PodScheduled=True/PodScheduled "
     "Ready=True/DependenciesReady\n"},
    {"a Service that is not headless",
     "[" SANDBOX(NAMED, ",'service':true", "") POD("a", OWNER "," TRACKED, READY_STATUS)
         SERVICE("'labels':{'agents.x-k8s.io/adoptable':'true'}", "'clusterIP':'10.96.0.9'") "]",
     "patch sandboxes/status a Suspended=False/NotSuspended PodScheduled=True/PodScheduled "
     "Ready=False/ReconcilerError\n"
     "error: Service a exists and is not headless: it cannot be adopted\n"},
    {"service: false removes the owned one",
     "[" SANDBOX(NAMED, ",'service':false", "") POD("a", OWNER "," TRACKED, READY_STATUS) SERVICE(
         OWNER "," TRACKED, "'clusterIP':'None','selector':{'agents.x-k8s.io/sandbox-name-hash':'" HASH "'}") "]",
     "delete services a\npatch sandboxes/status a Suspended=False/NotSuspended PodScheduled=True/PodScheduled "
     "Ready=True/DependenciesReady\n"},
    {"expired, first pass",
     "[" SANDBOX(NAMED, ",'shutdownTime':'1970-01-12T13:46:39Z'", "") POD("a", OWNER "," TRACKED, READY_STATUS) "]",
     "patch sandboxes/status a Suspended=False/NotSuspended Ready=False/SandboxExpired\n"},
    {"expired, second pass, retained",
     "[" SANDBOX(NAMED, ",'shutdownTime':'1970-01-12T13:46:39Z'",
                 "'selector':'x','conditions':[{'type':'Finished','status':'True','reason':'PodFailed'},"
                 "{'type':'Ready','status':'False','reason':'SandboxExpired'}]")
         POD("a", OWNER "," TRACKED, READY_STATUS) SERVICE(OWNER "," TRACKED, "'clusterIP':'None'") "]",
     "delete pods a\ndelete services a\npatch sandboxes/status a Finished=True/PodFailed Ready=False/SandboxExpired "
     "Suspended=False/NotSuspended\n"},
    {"expired and retained, changed afterwards",
     "[" SANDBOX("", ",'operatingMode':'Suspended','shutdownTime':'1970-01-12T13:46:39Z'",
                 "'conditions':[{'type':'Suspended','status':'False','reason':'NotSuspended','observedGeneration':1},"
                 "{'type':'Ready','status':'False','reason':'SandboxExpired','observedGeneration':1}]") "]",
     "patch sandboxes/status a Suspended=True/PodTerminated Ready=False/SandboxExpired\n"},
    {"expired, second pass, to be deleted",
     "[" SANDBOX(NAMED, ",'shutdownTime':'1970-01-12T13:46:39Z','shutdownPolicy':'Delete'",
                 "'conditions':[{'type':'Ready','status':'False','reason':'SandboxExpired'}]") "]",
     "delete sandboxes a\n"},
    {"a claim of somebody else",
     "[" SANDBOX("", ",'volumeClaimTemplates':[{'metadata':{'name':'data'},'spec':{}}]",
                 "") ",{'kind':'PersistentVolumeClaim','metadata':{'name':'data-a','namespace':'default','uid':'c'}}]",
     "patch sandboxes/status a Suspended=False/NotSuspended Ready=False/ReconcilerError\n"
     "error: PersistentVolumeClaim data-a exists and is not adoptable: label it agents.x-k8s.io/adoptable=true or "
     "delete it\n"},
};

static void test_plans(void **state UNUSED)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct plan plan = {0};

        reconcile(cases[i].world, &plan);
        _cleanup_free_ char *text = describe(&plan);
        if (!streq(text, cases[i].plan))
            print_error("%s:\n%s", cases[i].what, text);
        assert_string_equal(text, cases[i].plan);
        plan_free(&plan);
        json_unref(objects);
    }
}

/* What was written is what the next pass sees: it must have nothing left to do. */
static void test_settles(void **state UNUSED)
{
    struct plan plan = {0}, again = {0};

    reconcile("[" SANDBOX(NAMED, "", "") POD("a", OWNER "," TRACKED, READY_STATUS) "]", &plan);
    assert_int_equal(plan.count, 1);
    json_set(json_item(objects, 0), "status", json_ref(json_get(plan.ops[0].body, "status")));
    struct world w = {.now_ns = (NOW + 50) * NSEC_PER_SEC, .get = get, .labelled = labelled};
    sandbox_controller.reconcile(&w, "default", "a", &again);
    assert_int_equal(again.count, 0);
    plan_free(&plan);
    plan_free(&again);
    json_unref(objects);
}

/* The API server's word reaches the Ready condition, once. */
static void test_refused(void **state UNUSED)
{
    struct plan plan = {0}, again = {0};
    struct world w = {.now_ns = NOW * NSEC_PER_SEC, .get = get, .labelled = labelled};
    _cleanup_error_ struct error err = ERROR_INIT;

    (void)error_set(&err, EINVAL, "Pod \"a\" is invalid");
    objects = parse("[" SANDBOX("", "", "") "]");
    sandbox_controller.refused(&w, "default", "a", &err, &plan);
    _cleanup_free_ char *text = describe(&plan);
    assert_string_equal(text, "patch sandboxes/status a Suspended=False/NotSuspended Ready=False/ReconcilerError\n");
    const struct json *status = json_get(plan.ops[0].body, "status");
    assert_string_equal(json_str(json_get(condition_find(json_get(status, "conditions"), "Ready"), "message")),
                        "Pod \"a\" is invalid");
    json_set(json_item(objects, 0), "status", json_ref(json_get(plan.ops[0].body, "status")));
    sandbox_controller.refused(&w, "default", "a", &err, &again);
    assert_int_equal(again.count, 0);
    plan_free(&plan);
    plan_free(&again);
    json_unref(objects);
}

static struct json *list(const struct world *w UNUSED, const struct kube_resource *r, const char *ns)
{
    struct json *found = json_array_make();

    for (size_t i = 0; i < json_size(objects); i++)
        if (is(json_item(objects, i), r) && streq(object_namespace(json_item(objects, i)), ns))
            json_push(found, json_ref(json_item(objects, i)));
    return found;
}

/* What the namespace forbids is not tried again by the clock: a change of what it allows wakes the Sandbox. */
static void test_forbidden_waits_for_a_change(void **state UNUSED)
{
    struct plan plan = {0};
    struct world w = {.now_ns = NOW * NSEC_PER_SEC, .get = get, .labelled = labelled, .list = list};
    _cleanup_json_ struct json *here = parse("{'metadata':{'namespace':'default','name':'q'}}"),
                               *elsewhere = parse("{'metadata':{'namespace':'other','name':'q'}}");
    _cleanup_error_ struct error err = ERROR_INIT;

    (void)error_set(&err, EACCES, "pods \"a\" is forbidden: exceeded quota: q");
    objects = parse("[" SANDBOX("", "", "") "]");
    assert_null(sandbox_controller.map(&w, &KUBE_QUOTAS, here)); /* it waits for nothing yet */
    sandbox_controller.refused(&w, "default", "a", &err, &plan);
    assert_true(plan.permanent);
    json_set(json_item(objects, 0), "status", json_ref(json_get(plan.ops[0].body, "status")));
    static const struct kube_resource *const kinds[] = {&KUBE_QUOTAS, &KUBE_LIMIT_RANGES};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        _cleanup_strv_ char **keys = sandbox_controller.map(&w, kinds[i], here);
        assert_int_equal(strv_len(keys), 1);
        assert_string_equal(keys[0], "default/a");
        assert_null(sandbox_controller.map(&w, kinds[i], elsewhere));
    }
    plan_free(&plan);
    json_unref(objects);
}

/* More than one Pod: what the status says of the Service stays. */
static void test_multiple_pods_keep_the_service(void **state UNUSED)
{
    struct plan plan = {0};

    reconcile("[" SANDBOX(NAMED, ",'service':true", "") POD("a", OWNER "," TRACKED, READY_STATUS)
                  POD("b", OWNER "," TRACKED, READY_STATUS)
                      SERVICE(OWNER "," TRACKED, "'clusterIP':'None','selector':{'x':'y'}") "]",
              &plan);
    const struct json *status = json_get(plan.ops[plan.count - 1].body, "status");
    assert_string_equal(json_str(json_get(status, "serviceFQDN")), "a.default.svc.cluster.local");
    for (size_t i = 0; i < plan.count; i++)
        assert_true(plan.ops[i].resource != &KUBE_SERVICES);
    plan_free(&plan);
    json_unref(objects);
}

static void test_messages(void **state UNUSED)
{
    struct plan plan = {0};

    reconcile("[" SANDBOX(NAMED, ",'service':true", "") POD("a", OWNER "," TRACKED, READY_STATUS)
                  SERVICE(OWNER "," TRACKED,
                          "'clusterIP':'None','selector':{'agents.x-k8s.io/sandbox-name-hash':'" HASH "'}") "]",
              &plan);
    const struct json *status = json_get(plan.ops[0].body, "status"), *conditions = json_get(status, "conditions");
    assert_string_equal(json_str(json_get(condition_find(conditions, "Ready"), "message")),
                        "Pod is Ready; Service Exists");
    assert_string_equal(json_str(json_get(condition_find(conditions, "Suspended"), "message")),
                        "Sandbox is not suspended");
    assert_string_equal(json_str(json_get(condition_find(conditions, "PodScheduled"), "message")), "");
    assert_string_equal(json_str(json_get(status, "serviceFQDN")), "a.default.svc.cluster.local");
    assert_string_equal(json_str(json_get(status, "selector")), "agents.x-k8s.io/sandbox-name-hash=" HASH);
    assert_int_equal(json_int_or(json_get(condition_find(conditions, "Ready"), "observedGeneration"), 0), 2);
    plan_free(&plan);
    json_unref(objects);
}

static void test_pod_metadata(void **state UNUSED)
{
    _cleanup_json_ struct json *sandbox = parse(
        "{'metadata':{'name':'a','labels':{'agents.x-k8s.io/created-by':'somebody'}},'spec':{'podTemplate':{'metadata':"
        "{'labels':{'app':'x','agents.x-k8s.io/evil':'1'},'annotations':{'note':'n'}},'spec':{}}}}");
    _cleanup_json_ struct json *pod = sandbox_build_pod(sandbox);

    assert_null(object_label(pod, "agents.x-k8s.io/evil"));
    assert_string_equal(object_label(pod, "app"), "x");
    assert_string_equal(object_label(pod, "agents.x-k8s.io/created-by"), "unknown");
    assert_string_equal(object_annotation(pod, "agents.x-k8s.io/propagated-labels"), "app");
    assert_null(sandbox_pod_metadata_patch(sandbox, pod));

    _cleanup_json_ struct json *edited =
        parse("{'metadata':{'name':'a'},'spec':{'podTemplate':{'metadata':{'labels':{'tier':'y'}},'spec':{}}}}");
    _cleanup_json_ struct json *patch = sandbox_pod_metadata_patch(edited, pod);
    _cleanup_free_ char *text = json_text(patch);
    assert_string_equal(text,
                        "{\"metadata\":{\"labels\":{\"tier\":\"y\",\"app\":null,\"agents.x-k8s.io/created-by\":null},"
                        "\"annotations\":{\"agents.x-k8s.io/propagated-labels\":\"tier\",\"note\":null,"
                        "\"agents.x-k8s.io/propagated-annotations\":null}}}");
}

static void test_service_ports(void **state UNUSED)
{
    _cleanup_json_ struct json *sandbox =
        parse("{'metadata':{'name':'a'},'spec':{'podTemplate':{'spec':{'containers':[{'ports':[{'containerPort':8080,'"
              "name':'web'},"
              "{'containerPort':53,'protocol':'UDP'},{'containerPort':53},{'containerPort':8080},{'containerPort':0},"
              "{'containerPort':9090,'name':'web'}]}],'initContainers':[{'restartPolicy':'Always','ports':[{'"
              "containerPort':1}]},"
              "{'ports':[{'containerPort':2}]}]}}}}");
    _cleanup_json_ struct json *service = sandbox_build_service(sandbox);
    const struct json *ports = json_at(service, "spec", "ports", NULL);
    _cleanup_(strbuf_free) struct strbuf b = {0};

    for (size_t i = 0; i < json_size(ports); i++)
        strbuf_addf(&b, "%s ", json_str(json_get(json_item(ports, i), "name")));
    assert_string_equal(strbuf_str(&b), "p-1-tcp p-53-tcp p-53-udp web p-9090-tcp ");
    assert_null(sandbox_service_patch(sandbox, service, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_settles),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_forbidden_waits_for_a_change),
        cmocka_unit_test(test_multiple_pods_keep_the_service),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_pod_metadata),
        cmocka_unit_test(test_service_ports),
    };
    return cmocka_run_group_tests_name("sandbox_controller", tests, NULL, NULL);
}
