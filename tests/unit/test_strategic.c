#include "test.h"

#include "apiserver/strategic_patch.h"
#include "schema_fixture.h"

/* As the kinds that roll out have it. */
#define STRATEGY                                                                                                       \
    "{'properties':{'spec':{'properties':{'strategy':{'x-kubernetes-patch-strategy':'retainKeys',"                     \
    "'allOf':[{'$ref':'#/components/schemas/none'}]}}}}}"

static const struct strategic_case {
    const char *api_version, *kind; /* NULL: kind is a schema's text */
    const char *doc, *patch;
    const char *result; /* NULL: fails */
    int code;
} cases[] = {
    /* Maps merge, null removes, scalars and lists without strategy replace. */
    {"v1", "ConfigMap", "{'data':{'a':'1','b':'2'}}", "{'data':{'a':'3','b':null,'c':'4'}}",
     "{'data':{'a':'3','c':'4'}}", 0},
    {"v1", "ConfigMap", "{}", "{'data':{'a':'1','b':null}}", "{'data':{'a':'1'}}", 0},
    {"v1", "Node", "{'spec':{}}", "{'spec':{'unschedulable':true}}", "{'spec':{'unschedulable':true}}", 0},
    {"v1", "Node", "{'spec':{'unschedulable':true}}", "{'spec':{'unschedulable':null}}", "{'spec':{}}", 0},
    {"v1", "Pod", "{'spec':{'tolerations':[{'key':'a'}]}}", "{'spec':{'tolerations':[{'key':'b'}]}}",
     "{'spec':{'tolerations':[{'key':'b'}]}}", 0},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a','command':['x','y']}]}}",
     "{'spec':{'containers':[{'name':'a','command':['z']}]}}", "{'spec':{'containers':[{'name':'a','command':['z']}]}}",
     0},
    /* Lists by merge key. New items come first: nothing in the live list says what precedes them. */
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a','image':'1'},{'name':'b','image':'1'}]}}",
     "{'spec':{'containers':[{'name':'b','image':'2'}]}}",
     "{'spec':{'containers':[{'name':'a','image':'1'},{'name':'b','image':'2'}]}}", 0},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a'},{'name':'b'}]}}", "{'spec':{'containers':[{'name':'n'}]}}",
     "{'spec':{'containers':[{'name':'n'},{'name':'a'},{'name':'b'}]}}", 0},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a'},{'name':'b'},{'name':'c'}]}}",
     "{'spec':{'containers':[{'name':'c','image':'2'},{'name':'n'},{'name':'a','image':'2'}]}}",
     "{'spec':{'containers':[{'name':'b'},{'name':'c','image':'2'},{'name':'n'},{'name':'a','image':'2'}]}}", 0},
    {"v1", "Pod", "{'spec':{}}", "{'spec':{'ephemeralContainers':[{'name':'debug','image':'x'}]}}",
     "{'spec':{'ephemeralContainers':[{'name':'debug','image':'x'}]}}", 0},
    {"v1", "Service", "{'spec':{'ports':[{'port':80,'name':'a'},{'port':81}]}}",
     "{'spec':{'ports':[{'port':80,'targetPort':8080}]}}",
     "{'spec':{'ports':[{'port':80,'name':'a','targetPort':8080},{'port':81}]}}", 0},
    {"v1", "Pod", "{'status':{'conditions':[{'type':'Ready','status':'False'},{'type':'X','status':'True'}]}}",
     "{'status':{'conditions':[{'type':'Ready','status':'True'}]}}",
     "{'status':{'conditions':[{'type':'Ready','status':'True'},{'type':'X','status':'True'}]}}", 0},
    {"v1", "Pod", "{'metadata':{'ownerReferences':[{'uid':'1','name':'a'}]}}",
     "{'metadata':{'ownerReferences':[{'uid':'1','controller':true},{'uid':'2','name':'b'}]}}",
     "{'metadata':{'ownerReferences':[{'uid':'1','name':'a','controller':true},{'uid':'2','name':'b'}]}}", 0},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a'}]}}", "{'spec':{'containers':[{'image':'2'}]}}", NULL, EPERM},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a'}]}}", "{'spec':{'containers':['a']}}", NULL, EPERM},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a'}]}}", "{'spec':{'containers':null}}", "{'spec':{}}", 0},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a'}]}}", "{'spec':{'containers':[]}}",
     "{'spec':{'containers':[{'name':'a'}]}}", 0},
    /* Nested merge lists. */
    {"v1", "Pod",
     "{'spec':{'containers':[{'name':'a','env':[{'name':'X','value':'1'},{'name':'Y','value':'1'}],"
     "'volumeMounts':[{'mountPath':'/m','name':'v'}]}]}}",
     "{'spec':{'containers':[{'name':'a','env':[{'name':'X','value':'2'},{'name':'Y','$patch':'delete'}],"
     "'volumeMounts':[{'mountPath':'/m','readOnly':true}]}]}}",
     "{'spec':{'containers':[{'name':'a','env':[{'name':'X','value':'2'}],"
     "'volumeMounts':[{'mountPath':'/m','name':'v','readOnly':true}]}]}}",
     0},
    /* Lists of scalars. */
    {"v1", "Pod", "{'metadata':{'finalizers':['a','b']}}", "{'metadata':{'finalizers':['b','c']}}",
     "{'metadata':{'finalizers':['a','b','c']}}", 0},
    {"v1", "Pod", "{'metadata':{'finalizers':['a','b','c']}}",
     "{'metadata':{'$deleteFromPrimitiveList/finalizers':['b']}}", "{'metadata':{'finalizers':['a','c']}}", 0},
    {"v1", "Pod", "{'metadata':{'finalizers':['a','b']}}",
     "{'metadata':{'$deleteFromPrimitiveList/finalizers':['a'],'$setElementOrder/finalizers':['c','b'],"
     "'finalizers':['c']}}",
     "{'metadata':{'finalizers':['c','b']}}", 0},
    {"v1", "Pod", "{'metadata':{}}", "{'metadata':{'$deleteFromPrimitiveList/finalizers':['a']}}", "{'metadata':{}}",
     0},
    {"v1", "Pod", "{'metadata':{'finalizers':['a']}}", "{'metadata':{'$deleteFromPrimitiveList/finalizers':'a'}}", NULL,
     EINVAL},
    /* $patch. */
    {"v1", "Pod", "{'spec':{'securityContext':{'a':1}}}",
     "{'spec':{'securityContext':{'$patch':'replace','runAsUser':1}}}", "{'spec':{'securityContext':{'runAsUser':1}}}",
     0},
    {"v1", "Pod", "{'spec':{'securityContext':{'a':1},'x':1}}", "{'spec':{'securityContext':{'$patch':'delete'}}}",
     "{'spec':{'x':1}}", 0},
    {"v1", "Pod", "{'spec':{'securityContext':{'a':1}}}", "{'spec':{'securityContext':{'$patch':'merge','b':2}}}",
     "{'spec':{'securityContext':{'a':1,'b':2}}}", 0},
    {"v1", "Pod", "{'spec':{'securityContext':{'a':1}}}", "{'spec':{'securityContext':{'$patch':'melt'}}}", NULL,
     EINVAL},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a'},{'name':'b'}]}}",
     "{'spec':{'containers':[{'$patch':'replace'},{'name':'c'}]}}", "{'spec':{'containers':[{'name':'c'}]}}", 0},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a'},{'name':'b'}]}}",
     "{'spec':{'containers':[{'$patch':'delete','name':'a'},{'$patch':'delete','name':'z'}]}}",
     "{'spec':{'containers':[{'name':'b'}]}}", 0},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a'},{'name':'b'}]}}",
     "{'spec':{'containers':[{'$patch':'delete'}]}}", NULL, EPERM},
    {"v1", "Pod", "{'spec':{}}",
     "{'spec':{'containers':[{'$patch':'delete','name':'a'},{'name':'b','image':null}],"
     "'$setElementOrder/containers':[{'name':'b'}]}}",
     "{'spec':{'containers':[{'name':'b'}]}}", 0},
    /* $setElementOrder: kubectl set image, kubectl apply. */
    {"v1", "Pod", "{'spec':{'containers':[{'name':'w','image':'x:0'},{'name':'x','image':'x:1'}]}}",
     "{'spec':{'$setElementOrder/containers':[{'name':'x'}],'containers':[{'image':'x:2','name':'x'}]}}",
     "{'spec':{'containers':[{'name':'w','image':'x:0'},{'image':'x:2','name':'x'}]}}", 0},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a'},{'name':'b'},{'name':'c'}]}}",
     "{'spec':{'$setElementOrder/containers':[{'name':'c'},{'name':'a'}]}}",
     "{'spec':{'containers':[{'name':'b'},{'name':'c'},{'name':'a'}]}}", 0},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a'},{'name':'b'}]}}",
     "{'spec':{'$setElementOrder/containers':[{'name':'a'},{'name':'n'},{'name':'b'}],'containers':[{'name':'n'}]}}",
     "{'spec':{'containers':[{'name':'a'},{'name':'n'},{'name':'b'}]}}", 0},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a'},{'name':'b'}]}}",
     "{'spec':{'$setElementOrder/containers':[{'name':'b'}],"
     "'containers':[{'name':'b','image':'2'},{'$patch':'delete','name':'a'}]}}",
     "{'spec':{'containers':[{'name':'b','image':'2'}]}}", 0},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a'}]}}",
     "{'spec':{'$setElementOrder/containers':[{'name':'a'}],'containers':[{'name':'n'}]}}", NULL, EINVAL},
    {"v1", "Pod", "{'spec':{'containers':[{'name':'a'},{'name':'b'}]}}",
     "{'spec':{'$setElementOrder/containers':[{'name':'a'},{'name':'b'}],"
     "'containers':[{'name':'b','image':'1'},{'name':'a','image':'1'}]}}",
     NULL, EINVAL},
    {"v1", "Pod", "{'spec':{}}", "{'spec':{'$setElementOrder/containers':[{'name':'a'}]}}", "{'spec':{}}", 0},
    {"v1", "Pod", "{'spec':{'containers':[]}}", "{'spec':{'$setElementOrder/containers':1}}", NULL, EINVAL},
    {"v1", "Pod", "{'spec':{'nodeName':'n'}}", "{'spec':{'$setElementOrder/nodeName':[]}}", NULL, EINVAL},
    /* $retainKeys: another source for a volume, another strategy. */
    {"v1", "Pod", "{'spec':{'volumes':[{'name':'v','emptyDir':{}}]}}",
     "{'spec':{'volumes':[{'name':'v','$retainKeys':['name','secret'],'secret':{'secretName':'s'}}]}}",
     "{'spec':{'volumes':[{'name':'v','secret':{'secretName':'s'}}]}}", 0},
    {NULL, STRATEGY, "{'spec':{'strategy':{'type':'RollingUpdate','rollingUpdate':{'maxSurge':1}}}}",
     "{'spec':{'strategy':{'$retainKeys':['type'],'type':'Recreate','rollingUpdate':null}}}",
     "{'spec':{'strategy':{'type':'Recreate'}}}", 0},
    {NULL, STRATEGY, "{'spec':{'strategy':{'type':'RollingUpdate'}}}",
     "{'spec':{'strategy':{'$retainKeys':['type'],'rollingUpdate':{'maxSurge':1}}}}", NULL, EINVAL},
    {NULL, STRATEGY, "{'spec':{'strategy':{'type':'RollingUpdate'}}}", "{'spec':{'strategy':{'$retainKeys':'type'}}}",
     NULL, EINVAL},
    /* kubectl rollout restart, and an event that happens again. */
    {"v1", "ConfigMap", "{'spec':{'template':{'metadata':{'labels':{'a':'b'}}}}}",
     "{'spec':{'template':{'metadata':{'annotations':{'kubectl.kubernetes.io/restartedAt':'now'}}}}}",
     "{'spec':{'template':{'metadata':{'labels':{'a':'b'},"
     "'annotations':{'kubectl.kubernetes.io/restartedAt':'now'}}}}}",
     0},
    {"v1", "Event", "{'count':1,'lastTimestamp':'a','message':'m'}", "{'count':2,'lastTimestamp':'b'}",
     "{'count':2,'lastTimestamp':'b','message':'m'}", 0},
    /* Directives where there is nothing to merge with. */
    {"v1", "Pod", "{}",
     "{'spec':{'volumes':[{'name':'v','$retainKeys':['name'],'emptyDir':null}],'x':{'$patch':'delete'}}}",
     "{'spec':{'volumes':[{'name':'v'}]}}", 0},
    /* A type changes. */
    {"v1", "Pod", "{'spec':{'containers':'none'}}", "{'spec':{'containers':[{'name':'a'}]}}",
     "{'spec':{'containers':[{'name':'a'}]}}", 0},
    {"v1", "Pod", "{'spec':1}", "{'spec':{'a':{'b':null}}}", "{'spec':{'a':{}}}", 0},
    /* Two ports of the same number are two items. */
    {"v1", "Service", "{'spec':{'ports':[{'port':53,'protocol':'UDP'},{'port':53,'protocol':'TCP'}]}}",
     "{'spec':{'ports':[{'port':53,'name':'dns'}]}}",
     "{'spec':{'ports':[{'port':53,'protocol':'UDP','name':'dns'},{'port':53,'protocol':'TCP'}]}}", 0},
    {"v1", "Pod", "{'a':1}", "[]", NULL, EINVAL},
};

static void test_cases(void **state UNUSED)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct strategic_case *c = &cases[i];
        _cleanup_error_ struct error err = ERROR_INIT;
        _cleanup_json_ struct json *doc = fixture_json(c->doc), *doc_before = json_copy(doc);
        _cleanup_json_ struct json *patch = fixture_json(c->patch), *patch_before = json_copy(patch);
        _cleanup_json_ struct json *wanted = c->result ? fixture_json(c->result) : NULL;
        _cleanup_json_ struct json *own_schema = c->api_version ? NULL : fixture_json(c->kind);
        const struct json *schema = own_schema ? own_schema : fixture_schema(c->api_version, c->kind);
        _cleanup_json_ struct json *result = strategic_patch_apply(doc, patch, &fixture_context, schema, &err);

        if (!json_equal(result, wanted) || err.code != c->code)
            fail_msg("%s on %s: %s (%s)", c->patch, c->doc, json_text(result), error_text(&err));
        assert_true(json_equal(doc, doc_before));
        assert_true(json_equal(patch, patch_before));
    }
}

static void test_missing_key_message(void **state UNUSED)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_json_ struct json *doc = fixture_json("{'spec':{'containers':[{'name':'a'}]}}");
    _cleanup_json_ struct json *patch =
        fixture_json("{'spec':{'containers':[{'image':'x','args':['a','b'],'ports':[{'hostPort':1}],'tty':true}]}}");

    assert_null(strategic_patch_apply(doc, patch, &fixture_context, fixture_schema("v1", "Pod"), &err));
    assert_string_equal(err.message, "map: map[args:[a b] image:x ports:[map[hostPort:1]] tty:true] does not contain "
                                     "declared merge key: name");
}

static void test_without_schema(void **state UNUSED)
{
    _cleanup_json_ struct json *doc = fixture_json("{'spec':{'containers':[{'name':'a'}],'m':{'a':1}}}");
    _cleanup_json_ struct json *patch = fixture_json("{'spec':{'containers':[{'name':'b'}],'m':{'b':2}}}");
    _cleanup_json_ struct json *wanted = fixture_json("{'spec':{'containers':[{'name':'b'}],'m':{'a':1,'b':2}}}");
    _cleanup_json_ struct json *result = strategic_patch_apply(doc, patch, NULL, NULL, NULL);

    assert_true(json_equal(result, wanted));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_missing_key_message),
        cmocka_unit_test(test_without_schema),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
