#include "test.h"

#include "apiserver/apply_patch.h"
#include "apiserver/field_set.h"
#include "schema_fixture.h"

/*
 * A scenario is the life of one object: steps that apply or write, and after each what the object and its managers are
 * to be. Managers are summed up as "NAME OPERATION[/SUBRESOURCE] SECOND: PATH PATH; ...", the second being the step
 * in which the entry's time was set.
 */
enum action { END, APPLY, FORCE, WRITE };

struct step {
    enum action action;
    const char *manager;
    const char *body;     /* of the apply, or the whole new object */
    const char *object;   /* without managedFields; NULL: as before */
    const char *managers; /* NULL: as before */
    const char *conflict; /* the message the step fails with */
    const char *subresource;
};

struct scenario {
    const char *title, *api_version, *kind;
    struct step steps[8];
};

static void add_path(void *arg, const char *path)
{
    strbuf_addf(arg, " %s", path);
}

static char *summary(const struct json *object)
{
    const struct json *list = json_at(object, "metadata", "managedFields", NULL);
    struct strbuf text = {0};

    for (size_t i = 0; i < json_size(list); i++) {
        const struct json *entry = json_item(list, i);
        const char *time = json_str_or(json_get(entry, "time"), "");
        const char *subresource = json_str(json_get(entry, "subresource"));
        struct error err = ERROR_INIT;
        _cleanup_field_set_ struct field_set *set = field_set_parse(json_get(entry, "fieldsV1"), &err);

        if (!set)
            fail_msg("%s", error_text(&err));
        strbuf_addf(&text, "%s%s %c%s%s %d:", i ? "; " : "", json_str(json_get(entry, "manager")),
                    *json_str(json_get(entry, "operation")), subresource ? "/" : "", subresource ? subresource : "",
                    atoi(strlen(time) > 17 ? time + 17 : "0"));
        field_set_each(set, add_path, &text);
    }
    return strbuf_detach(&text);
}

static struct json *without_managers(const struct json *object)
{
    return managed_fields_put(object, NULL);
}

/* Gives a body the apiVersion, kind and name of its object. */
static struct json *body_of(const struct scenario *s, const char *text)
{
    struct json *body = fixture_json(text);

    json_set_str(body, "apiVersion", s->api_version);
    json_set_str(body, "kind", s->kind);
    json_set_str(json_ensure_object(body, "metadata"), "name", "x");
    return body;
}

static struct managed_write write_of(const struct scenario *s, const struct step *step, const char *time)
{
    bool has_status = fixture_resource(s->api_version, s->kind)->has_status;
    enum managed_reset reset = step->subresource ? MANAGED_RESET_ALL_BUT_STATUS
                               : has_status      ? MANAGED_RESET_STATUS
                                                 : MANAGED_RESET_NONE;

    return (struct managed_write){&fixture_context,
                                  fixture_schema(s->api_version, s->kind),
                                  step->manager,
                                  s->api_version,
                                  step->subresource,
                                  time,
                                  reset};
}

static struct json *run_step(const struct scenario *s, const struct step *step, const char *time,
                             const struct json *live, struct json **ret_causes, struct error *err)
{
    struct managed_write w = write_of(s, step, time);
    _cleanup_json_ struct json *body = body_of(s, step->body);

    *ret_causes = NULL;
    if (step->action == WRITE) {
        struct json *list = managed_fields_after_write(&w, live, body);
        return managed_fields_put(body, list);
    }
    struct apply_request request = {w, live, body, step->action == FORCE};
    struct json *result = apply_patch(&request, ret_causes, err);
    if (!result)
        return NULL;
    /* Applying the same again changes nothing, whenever it happens. */
    request.live = result;
    request.write.time = "2027-01-01T00:00:59Z";
    struct json *again = apply_patch(&request, NULL, NULL);
    if (again != result)
        fail_msg("%s: applied again: %s", s->title, json_text(again));
    json_unref(again);
    return result;
}

static void check_step(const struct scenario *s, size_t i, const struct json *object, const struct json *causes,
                       const struct error *err)
{
    const struct step *step = &s->steps[i];

    if (step->conflict || err->code) {
        if (!step->conflict || !err->message || !streq(step->conflict, err->message))
            fail_msg("%s, step %zu: %s", s->title, i + 1, error_text(err));
        assert_true(err->code != EBUSY || json_size(causes) > 0);
        return;
    }
    if (step->object) {
        _cleanup_json_ struct json *got = without_managers(object);
        _cleanup_json_ struct json *wanted = body_of(s, step->object);
        if (!json_equal(got, wanted))
            fail_msg("%s, step %zu: %s", s->title, i + 1, json_text(got));
    }
    if (step->managers) {
        _cleanup_free_ char *managers = summary(object);
        if (!streq(managers, step->managers))
            fail_msg("%s, step %zu: managers %s", s->title, i + 1, managers);
    }
}

static void run_scenario(const struct scenario *s)
{
    _cleanup_json_ struct json *object = NULL;

    for (size_t i = 0; i < ARRAY_LEN(s->steps) && s->steps[i].action != END; i++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        _cleanup_free_ char *time = xasprintf("2026-01-01T00:00:%02zuZ", i + 1);
        _cleanup_json_ struct json *causes = NULL, *before = json_copy(object);
        struct json *result = run_step(s, &s->steps[i], time, object, &causes, &err);

        assert_true(json_equal(before, object)); /* inputs stay as they are */
        check_step(s, i, result, causes, &err);
        if (result) {
            json_unref(object);
            object = result;
        }
    }
}

static const struct scenario scenarios[] = {
    {"create by apply",
     "v1",
     "ConfigMap",
     {{APPLY, "a", "{'data':{'x':'1'}}", "{'data':{'x':'1'}}", "a A 1: .data.x"},
      {APPLY, "a", "{'data':{'x':'1'}}", "{'data':{'x':'1'}}", "a A 1: .data.x"},
      {APPLY, "a", "{'data':{'x':'2'}}", "{'data':{'x':'2'}}", "a A 3: .data.x"}}},
    {"create by write",
     "v1",
     "ConfigMap",
     {{WRITE, "a", "{'data':{'x':'1'}}", NULL, "a U 1: .data .data.x"},
      {WRITE, "a", "{'data':{'x':'1'}}", NULL, "a U 1: .data .data.x"},
      {WRITE, "b", "{'data':{'x':'1','y':'1'}}", NULL, "a U 1: .data .data.x; b U 3: .data.y"},
      {WRITE, "b", "{'data':{'x':'2','y':'1'}}", NULL, "a U 1: .data; b U 4: .data.x .data.y"},
      {WRITE, "c", "{'data':{'y':'1'}}", NULL, "a U 1: .data; b U 4: .data.y"},
      {WRITE, "c", "{}", NULL, ""}}},
    {"two managers, the same value",
     "v1",
     "ConfigMap",
     {{APPLY, "a", "{'data':{'x':'1'}}", NULL, "a A 1: .data.x"},
      {APPLY, "b", "{'data':{'x':'1','y':'1'}}", "{'data':{'x':'1','y':'1'}}",
       "a A 1: .data.x; b A 2: .data.x .data.y"},
      {APPLY, "a", "{}", "{'data':{'x':'1','y':'1'}}", "b A 2: .data.x .data.y"},
      {APPLY, "b", "{'data':{'y':'1'}}", "{'data':{'y':'1'}}", "b A 4: .data.y"},
      {APPLY, "b", "{}", "{}", ""}}},
    {"a conflict, and force",
     "v1",
     "ConfigMap",
     {{APPLY, "a", "{'data':{'x':'1','y':'1'}}"},
      {APPLY, "b", "{'data':{'x':'2'}}", NULL, NULL, "Apply failed with 1 conflict: conflict with \"a\": .data.x"},
      {APPLY, "b", "{'data':{'x':'2','y':'2'}}", NULL, NULL,
       "Apply failed with 2 conflicts: conflicts with \"a\":\n- .data.x\n- .data.y"},
      {FORCE, "b", "{'data':{'x':'2'}}", "{'data':{'x':'2','y':'1'}}", "a A 1: .data.y; b A 4: .data.x"},
      {APPLY, "a", "{'data':{'x':'1','y':'1'}}", NULL, NULL,
       "Apply failed with 1 conflict: conflict with \"b\": .data.x"},
      {APPLY, "a", "{'data':{'y':'1'}}", "{'data':{'x':'2','y':'1'}}", "a A 1: .data.y; b A 4: .data.x"}}},
    {"conflicts with writers",
     "v1",
     "ConfigMap",
     {{WRITE, "kubectl-create", "{'data':{'a':'1','b':'1'}}"},
      {APPLY, "m1", "{'data':{'a':'1'}}"},
      {APPLY, "m2", "{'data':{'a':'2','b':'2'}}", NULL, NULL,
       "Apply failed with 3 conflicts: conflicts with \"kubectl-create\" using v1 at 2026-01-01T00:00:01Z:\n"
       "- .data.a\n- .data.b\nconflicts with \"m1\":\n- .data.a"},
      {FORCE, "m2", "{'data':{'a':'2','b':'2'}}", "{'data':{'a':'2','b':'2'}}",
       "m2 A 4: .data.a .data.b; kubectl-create U 1: .data"}}},
    {"what a writer owns stays when an applier drops it",
     "v1",
     "ConfigMap",
     {{APPLY, "a", "{'data':{'x':'1','y':'1'}}"},
      {WRITE, "w", "{'data':{'x':'2','y':'1'}}", NULL, "a A 1: .data.y; w U 2: .data.x"},
      {APPLY, "a", "{'data':{'y':'1'}}", "{'data':{'x':'2','y':'1'}}", "a A 1: .data.y; w U 2: .data.x"},
      {APPLY, "a", "{}", "{'data':{'x':'2'}}", "w U 2: .data.x"}}},
    {"Service ports, with a default in the key",
     "v1",
     "Service",
     {{APPLY, "a", "{'spec':{'ports':[{'port':80},{'port':53,'protocol':'UDP'}]}}",
       "{'spec':{'ports':[{'port':80},{'port':53,'protocol':'UDP'}]}}",
       "a A 1: .spec.ports[port=53,protocol=\"UDP\"] .spec.ports[port=80,protocol=\"TCP\"] "
       ".spec.ports[port=53,protocol=\"UDP\"].port .spec.ports[port=53,protocol=\"UDP\"].protocol "
       ".spec.ports[port=80,protocol=\"TCP\"].port"},
      {APPLY, "b", "{'spec':{'ports':[{'port':80,'protocol':'TCP','name':'web'}]}}",
       "{'spec':{'ports':[{'port':80,'protocol':'TCP','name':'web'},{'port':53,'protocol':'UDP'}]}}", NULL},
      {APPLY, "a", "{'spec':{'ports':[{'port':80}]}}", "{'spec':{'ports':[{'port':80,'protocol':'TCP','name':'web'}]}}",
       NULL},
      {APPLY, "c", "{'spec':{'ports':[{'port':80,'name':'www'}]}}", NULL, NULL,
       "Apply failed with 1 conflict: conflict with \"b\": .spec.ports[port=80,protocol=\"TCP\"].name"},
      {APPLY, "b", "{'spec':{}}", "{'spec':{'ports':[{'port':80}]}}", NULL},
      {APPLY, "a", "{'spec':{'type':'ClusterIP'}}", "{'spec':{'type':'ClusterIP'}}",
       "b A 5: .spec; a A 6: .spec.type"}}},
    {"order of items",
     "v1",
     "Pod",
     {{WRITE, "w", "{'spec':{'containers':[{'name':'a'},{'name':'x'},{'name':'b'}]}}"},
      {APPLY, "m", "{'spec':{'containers':[{'name':'b'},{'name':'a'}]}}",
       "{'spec':{'containers':[{'name':'x'},{'name':'b'},{'name':'a'}]}}"},
      {APPLY, "m", "{'spec':{'containers':[{'name':'b'},{'name':'n'},{'name':'a'}]}}",
       "{'spec':{'containers':[{'name':'x'},{'name':'b'},{'name':'n'},{'name':'a'}]}}"},
      {APPLY, "m", "{'spec':{'containers':[{'name':'a'}]}}",
       "{'spec':{'containers':[{'name':'x'},{'name':'b'},{'name':'a'}]}}"}}},
    {"an item goes with what nobody asked for in it",
     "v1",
     "Pod",
     {{APPLY, "m", "{'spec':{'containers':[{'name':'a','image':'1'},{'name':'b'}]}}"},
      {WRITE, "w", "{'spec':{'containers':[{'name':'a','image':'1','tty':true},{'name':'b'}]}}", NULL,
       "m A 1: .spec.containers[name=\"a\"] .spec.containers[name=\"b\"] .spec.containers[name=\"a\"].image "
       ".spec.containers[name=\"a\"].name .spec.containers[name=\"b\"].name; "
       "w U 2: .spec.containers[name=\"a\"].tty"},
      {APPLY, "m", "{'spec':{'containers':[{'name':'b'}]}}", "{'spec':{'containers':[{'name':'b'}]}}",
       "m A 3: .spec.containers[name=\"b\"] .spec.containers[name=\"b\"].name"}}},
    {"sets",
     "v1",
     "Pod",
     {{APPLY, "a", "{'metadata':{'finalizers':['x/a','x/b']}}", NULL,
       "a A 1: .metadata.finalizers[=\"x/a\"] .metadata.finalizers[=\"x/b\"]"},
      {APPLY, "b", "{'metadata':{'finalizers':['x/b','x/c']}}", "{'metadata':{'finalizers':['x/a','x/b','x/c']}}",
       NULL},
      {APPLY, "a", "{}", "{'metadata':{'finalizers':['x/b','x/c']}}", NULL},
      {APPLY, "b", "{'metadata':{'finalizers':['x/b','x/b']}}", NULL, NULL,
       "failed to create typed patch object (/x; v1, Kind=Pod): .metadata.finalizers: duplicate entries for key "
       "[=\"x/b\"]"},
      {APPLY, "b", "{}", "{}", ""}}},
    {"atomic lists and maps",
     "v1",
     "Pod",
     {{APPLY, "a", "{'spec':{'tolerations':[{'key':'k'}],'containers':[{'name':'c','command':['x']}]}}", NULL, NULL},
      {APPLY, "b", "{'spec':{'tolerations':[{'key':'l'}]}}", NULL, NULL,
       "Apply failed with 1 conflict: conflict with \"a\": .spec.tolerations"},
      {FORCE, "b", "{'spec':{'tolerations':[{'key':'l'}]}}",
       "{'spec':{'tolerations':[{'key':'l'}],'containers':[{'name':'c','command':['x']}]}}", NULL}}},
    {"a struct goes with its last wanted field",
     "v1",
     "Pod",
     {{APPLY, "a", "{'spec':{'securityContext':{'runAsUser':1},'nodeName':'n'}}"},
      {APPLY, "a", "{'spec':{'nodeName':'n'}}", "{'spec':{'nodeName':'n'}}", "a A 2: .spec.nodeName"},
      {APPLY, "b", "{'spec':{'securityContext':{'runAsUser':1}}}"},
      {APPLY, "a", "{'spec':{'securityContext':{'runAsGroup':1}}}",
       "{'spec':{'securityContext':{'runAsUser':1,'runAsGroup':1}}}"},
      {APPLY, "a", "{}", "{'spec':{'securityContext':{'runAsUser':1}}}", "b A 3: .spec.securityContext.runAsUser"}}},
    {"status belongs to its subresource",
     "v1",
     "Pod",
     {{WRITE, "w", "{'spec':{'nodeName':'n'},'status':{'phase':'Running'}}", NULL, "w U 1: .spec .spec.nodeName"},
      {WRITE, "kubelet", "{'spec':{'nodeName':'n'},'status':{'phase':'Failed'}}", NULL,
       "w U 1: .spec .spec.nodeName; kubelet U/status 2: .status.phase", NULL, "status"},
      {APPLY, "a", "{'spec':{'nodeName':'n'},'status':{'phase':'Pending'}}",
       "{'spec':{'nodeName':'n'},'status':{'phase':'Failed'}}",
       "a A 3: .spec.nodeName; w U 1: .spec .spec.nodeName; kubelet U/status 2: .status.phase"},
      {APPLY, "a", "{'spec':{'nodeName':'m'},'status':{'phase':'Pending'}}", NULL, NULL,
       "Apply failed with 1 conflict: conflict with \"kubelet\" with subresource \"status\" using v1 at "
       "2026-01-01T00:00:02Z: .status.phase",
       "status"},
      {FORCE, "a", "{'spec':{'nodeName':'m'},'metadata':{'labels':{'l':'1'}},'status':{'phase':'Pending'}}",
       "{'spec':{'nodeName':'n'},'status':{'phase':'Pending'}}",
       "a A 3: .spec.nodeName; a A/status 5: .status.phase; w U 1: .spec .spec.nodeName", NULL, "status"}}},
    {"an object nobody tracked",
     "v1",
     "ConfigMap",
     {{WRITE, "w", "{'metadata':{'managedFields':[]},'data':{'x':'1'}}", NULL, "w U 1: .data .data.x"},
      {WRITE, "w", "{'metadata':{'managedFields':[]},'data':{'x':'1'}}", NULL, ""},
      {WRITE, "w", "{'data':{'x':'2'}}", NULL, ""},
      {APPLY, "a", "{'data':{'x':'1'}}", NULL, NULL,
       "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1 at 2026-01-01T00:00:04Z: "
       ".data.x"},
      {APPLY, "a", "{'data':{'x':'2','y':'1'}}", "{'data':{'x':'2','y':'1'}}",
       "a A 5: .data.x .data.y; before-first-apply U 5: .data .data.x"},
      {WRITE, "w", "{'metadata':{'managedFields':[{}]},'data':{'x':'2','y':'1'}}", NULL, ""}}},
    {"the client's own list",
     "v1",
     "ConfigMap",
     {{WRITE, "w", "{'data':{'x':'1'}}"},
      {WRITE, "w",
       "{'metadata':{'managedFields':[{'manager':'kubectl','operation':'Apply','apiVersion':'v1',"
       "'time':'2026-01-01T00:00:09Z','fieldsType':'FieldsV1','fieldsV1':{'f:data':{'f:x':{}}}}]},'data':{'x':'1'}}",
       NULL, "kubectl A 9: .data.x"},
      {WRITE, "w", "{'metadata':{'managedFields':[{'manager':'bad','operation':'Rule'}]},'data':{'x':'1'}}", NULL,
       "kubectl A 9: .data.x"},
      {WRITE, "w", "{'metadata':{'managedFields':null},'data':{'x':'1'}}", NULL, "kubectl A 9: .data.x"}}},
    {"from client-side to server-side apply",
     "v1",
     "ConfigMap",
     {{WRITE, "kubectl-client-side-apply",
       "{'metadata':{'annotations':{'kubectl.kubernetes.io/last-applied-configuration':"
       "'{\\'apiVersion\\':\\'v1\\',\\'data\\':{\\'x\\':\\'1\\',\\'y\\':\\'1\\'}}'}},'data':{'x':'1','y':'1'}}"},
      {APPLY, "other", "{'data':{'x':'2'}}", NULL, NULL,
       "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1 at "
       "2026-01-01T00:00:01Z: .data.x"},
      {APPLY, "kubectl", "{'data':{'x':'2'}}",
       "{'metadata':{'annotations':{'kubectl.kubernetes.io/last-applied-configuration':"
       "'{\\'apiVersion\\':\\'v1\\',\\'data\\':{\\'x\\':\\'2\\'},\\'kind\\':\\'ConfigMap\\',"
       "\\'metadata\\':{\\'name\\':\\'x\\'}}\\n'}},'data':{'x':'2','y':'1'}}"},
      {WRITE, "w",
       "{'metadata':{'annotations':{'kubectl.kubernetes.io/last-applied-configuration':"
       "'{\\'apiVersion\\':\\'v1\\',\\'data\\':{\\'x\\':\\'2\\'},\\'kind\\':\\'ConfigMap\\',"
       "\\'metadata\\':{\\'name\\':\\'x\\'}}\\n'}},'data':{'x':'3','y':'1'}}"},
      {APPLY, "kubectl", "{'data':{'x':'2'}}", NULL, NULL,
       "Apply failed with 1 conflict: conflict with \"w\" using v1 at 2026-01-01T00:00:04Z: .data.x"}}},
    {"free-form parts of a custom kind",
     "agents.x-k8s.io/v1beta1",
     "Sandbox",
     {{APPLY, "a", "{'spec':{'podTemplate':{'metadata':{'labels':{'l':'1'}},'spec':{'containers':[{'name':'c'}]}}}}",
       NULL, NULL},
      {APPLY, "b", "{'spec':{'podTemplate':{'spec':{'containers':[{'name':'c','image':'i'},{'name':'d'}]}}}}",
       "{'spec':{'podTemplate':{'metadata':{'labels':{'l':'1'}},'spec':{'containers':[{'name':'c','image':'i'},"
       "{'name':'d'}]}}}}",
       "a A 1: .spec.podTemplate.metadata.labels.l .spec.podTemplate.spec.containers[name=\"c\"] "
       ".spec.podTemplate.spec.containers[name=\"c\"].name; "
       "b A 2: .spec.podTemplate.spec.containers[name=\"c\"] .spec.podTemplate.spec.containers[name=\"d\"] "
       ".spec.podTemplate.spec.containers[name=\"c\"].image .spec.podTemplate.spec.containers[name=\"c\"].name "
       ".spec.podTemplate.spec.containers[name=\"d\"].name"},
      {APPLY, "a", "{'spec':{'podTemplate':{'spec':{'containers':[{'name':'c'}]}}}}",
       "{'spec':{'podTemplate':{'spec':{'containers':[{'name':'c','image':'i'},{'name':'d'}]}}}}", NULL}}},
    {"empty containers and nulls",
     "v1",
     "Pod",
     {{APPLY, "a", "{'metadata':{'creationTimestamp':null},'spec':{'volumes':[{'name':'v','emptyDir':{}}]}}",
       "{'spec':{'volumes':[{'name':'v','emptyDir':{}}]}}",
       "a A 1: .spec.volumes[name=\"v\"] .spec.volumes[name=\"v\"].emptyDir .spec.volumes[name=\"v\"].name"},
      {APPLY, "b", "{'spec':{'volumes':[{'name':'v','emptyDir':{'medium':'Memory'}}]}}",
       "{'spec':{'volumes':[{'name':'v','emptyDir':{'medium':'Memory'}}]}}", NULL},
      {APPLY, "b", "{'spec':{}}", "{'spec':{'volumes':[{'name':'v','emptyDir':{}}]}}", NULL}}},
    {"wrong bodies",
     "v1",
     "ConfigMap",
     {{APPLY, "a", "{'metadata':{'managedFields':[]}}", NULL, NULL, "metadata.managedFields must be nil"}}},
    {"an item without its key",
     "v1",
     "Service",
     {{APPLY, "a", "{'spec':{'ports':[{'name':'x'}]}}", NULL, NULL,
       "failed to create typed patch object (/x; v1, Kind=Service): .spec.ports: element 0: associative list with "
       "keys has an element that omits key field \"port\" (and doesn't have default value)"}}},
    {"a type changes",
     "agents.x-k8s.io/v1beta1",
     "Sandbox",
     {{APPLY, "a", "{'metadata':{'labels':{'x':'1'}},'extra':{'k':{'deep':1}}}"},
      {APPLY, "b", "{'extra':{'k':'flat'}}", NULL, NULL, "Apply failed with 1 conflict: conflict with \"a\": .extra.k"},
      {FORCE, "b", "{'extra':{'k':'flat'}}", "{'metadata':{'labels':{'x':'1'}},'extra':{'k':'flat'}}",
       "a A 1: .extra .metadata.labels.x; b A 3: .extra .extra.k"}}},
};

static void test_scenarios(void **state UNUSED)
{
    for (size_t i = 0; i < ARRAY_LEN(scenarios); i++)
        run_scenario(&scenarios[i]);
}

static void test_sets(void **state UNUSED)
{
    static const struct {
        const char *a, *b, *sum, *difference, *intersection;
    } cases[] = {
        {"{}", "{}", "{}", "{}", "{}"},
        {"{'f:a':{}}", "{}", "{'f:a':{}}", "{'f:a':{}}", "{}"},
        {"{'f:a':{},'f:c':{}}", "{'f:b':{},'f:c':{}}", "{'f:a':{},'f:b':{},'f:c':{}}", "{'f:a':{}}", "{'f:c':{}}"},
        /* Owning a container is not owning what is in it. */
        {"{'f:a':{'.':{},'f:b':{}}}", "{'f:a':{}}", "{'f:a':{'.':{},'f:b':{}}}", "{'f:a':{'f:b':{}}}", "{'f:a':{}}"},
        {"{'f:a':{'f:b':{}}}", "{'f:a':{}}", "{'f:a':{'.':{},'f:b':{}}}", "{'f:a':{'f:b':{}}}", "{}"},
        {"{'f:a':{'.':{},'f:b':{}}}", "{'f:a':{'f:b':{}}}", "{'f:a':{'.':{},'f:b':{}}}", "{'f:a':{}}",
         "{'f:a':{'f:b':{}}}"},
        /* Different texts of one key. */
        {"{'f:p':{'k:{\\'port\\':80,\\'a\\':\\'b\\'}':{}}}", "{'f:p':{'k:{\\'a\\':\\'b\\', \\'port\\':80.0}':{}}}",
         "{'f:p':{'k:{\\'a\\':\\'b\\',\\'port\\':80}':{}}}", "{}", "{'f:p':{'k:{\\'a\\':\\'b\\',\\'port\\':80}':{}}}"},
        {"{'f:s':{'v:\\'\\\\u0041\\'':{},'v:1.0':{},'i:3':{}}}", "{'f:s':{'v:\\'A\\'':{},'v:1':{}}}",
         "{'f:s':{'i:3':{},'v:\\'A\\'':{},'v:1':{}}}", "{'f:s':{'i:3':{}}}", "{'f:s':{'v:\\'A\\'':{},'v:1':{}}}"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ struct json *a_json = fixture_json(cases[i].a), *b_json = fixture_json(cases[i].b);
        _cleanup_field_set_ struct field_set *a = field_set_parse(a_json, NULL), *b = field_set_parse(b_json, NULL);
        _cleanup_field_set_ struct field_set *sum = field_set_union(a, b), *difference = field_set_difference(a, b);
        _cleanup_field_set_ struct field_set *intersection = field_set_intersection(a, b);
        struct field_set *sets[] = {sum, difference, intersection};
        const char *wanted[] = {cases[i].sum, cases[i].difference, cases[i].intersection};

        for (size_t j = 0; j < ARRAY_LEN(sets); j++) {
            _cleanup_json_ struct json *got = field_set_to_json(sets[j]), *json = fixture_json(wanted[j]);
            _cleanup_free_ char *got_text = json_text(got), *text = json_text(json);
            if (!streq(got_text, text))
                fail_msg("case %zu, operation %zu: %s", i, j, got_text);
        }
        assert_int_equal(field_set_overlaps(a, b), !field_set_is_empty(intersection));
        _cleanup_field_set_ struct field_set *again = field_set_parse(a_json, NULL);
        assert_true(field_set_equal(a, again));
    }
}

static void test_sets_that_are_none(void **state UNUSED)
{
    static const char *const cases[] = {
        "[]",        "null",       "{'a':{}}",   "{'f:a':1}",   "{'x:a':{}}",
        "{'':{}}",   "{'f':{}}",   "{'k:':{}}",  "{'k:{}':{}}", "{'k:[1]':{}}",
        "{'v:':{}}", "{'v:x':{}}", "{'i:x':{}}", "{'i:-1':{}}", "{'f:a':{'f:b':{'k:1':{}}}}",
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        _cleanup_json_ struct json *v = fixture_json(cases[i]);
        if (field_set_parse(v, &err))
            fail_msg("accepted: %s", cases[i]);
        assert_int_equal(err.code, EINVAL);
    }
}

static void test_path_texts(void **state UNUSED)
{
    _cleanup_json_ struct json *v =
        fixture_json("{'f:spec':{'f:ports':{'.':{},'k:{\\'port\\':80,\\'protocol\\':\\'TCP\\'}':{'.':{},'f:port':{}}},"
                     "'f:s':{'v:\\'x\\'':{},'v:1':{}},'f:l':{'i:2':{}}},'f:kind':{}}");
    _cleanup_field_set_ struct field_set *set = field_set_parse(v, NULL);
    _cleanup_(strbuf_free) struct strbuf text = {0};

    field_set_each(set, add_path, &text);
    assert_string_equal(strbuf_str(&text), " .kind .spec.ports .spec.l[2] .spec.ports[port=80,protocol=\"TCP\"]"
                                           " .spec.ports[port=80,protocol=\"TCP\"].port .spec.s[=\"x\"] .spec.s[=1]");
}

/* The exact form of an entry, and of the causes of a conflict. */
static void test_forms(void **state UNUSED)
{
    _cleanup_json_ struct json *body = fixture_json("{'apiVersion':'v1','kind':'Pod','metadata':{'name':'x'},"
                                                    "'spec':{'nodeName':'n'},'status':{'phase':'Running'}}");
    _cleanup_json_ struct json *other = fixture_json("{'apiVersion':'v1','kind':'Pod','metadata':{'name':'x'},"
                                                     "'status':{'phase':'Failed'}}");
    struct managed_write w = {&fixture_context,       fixture_schema("v1", "Pod"), "m", "v1", "status",
                              "2026-11-30T22:42:37Z", MANAGED_RESET_ALL_BUT_STATUS};
    struct json *list = managed_fields_after_write(&w, NULL, body);
    _cleanup_free_ char *text = json_text(list);
    _cleanup_json_ struct json *live = managed_fields_put(body, list), *causes = NULL;
    _cleanup_error_ struct error err = ERROR_INIT;

    assert_string_equal(text, "[{\"manager\":\"m\",\"operation\":\"Update\",\"apiVersion\":\"v1\","
                              "\"time\":\"2026-11-30T22:42:37Z\",\"fieldsType\":\"FieldsV1\","
                              "\"fieldsV1\":{\"f:status\":{\".\":{},\"f:phase\":{}}},\"subresource\":\"status\"}]");
    w.manager = "other";
    struct apply_request request = {w, live, other, false};
    assert_null(apply_patch(&request, &causes, &err));
    assert_int_equal(err.code, EBUSY);
    _cleanup_free_ char *causes_text = json_text(causes);
    assert_string_equal(causes_text,
                        "[{\"reason\":\"FieldManagerConflict\",\"message\":\"conflict with \\\"m\\\" with subresource "
                        "\\\"status\\\" using v1 at 2026-11-30T22:42:37Z\",\"field\":\".status.phase\"}]");

    json_set_str(other, "apiVersion", "v2");
    error_clear(&err);
    json_unref(causes);
    assert_null(apply_patch(&request, &causes, &err));
    assert_null(causes);
    assert_int_equal(err.code, EINVAL);
    assert_string_equal(err.message,
                        "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1");
}

static void test_many_writers(void **state UNUSED)
{
    const struct json *schema = fixture_schema("v1", "ConfigMap");
    _cleanup_json_ struct json *object = NULL;

    for (int i = 1; i <= 14; i++) {
        _cleanup_free_ char *manager = xasprintf("w%02d", i), *time = xasprintf("2026-01-01T00:00:%02dZ", i);
        /* The first of another version stays: there is no second to join it with. */
        struct managed_write w = {&fixture_context,  schema, manager, i == 2 ? "v0" : "v1", NULL, time,
                                  MANAGED_RESET_NONE};
        struct json *next = object ? json_copy(object) : fixture_json("{'metadata':{},'data':{}}");

        json_set_str(json_get(next, "data"), manager, "1");
        struct json *list = managed_fields_after_write(&w, object, next);
        struct json *result = managed_fields_put(next, list);
        json_unref(next);
        json_unref(object);
        object = result;
    }
    _cleanup_free_ char *text = summary(object);
    assert_string_equal(text, "w02 U 2: .data.w02; ancient-changes U 6: .data .data.w01 .data.w03 .data.w04 .data.w05 "
                              ".data.w06; w07 U 7: .data.w07; w08 U 8: .data.w08; w09 U 9: .data.w09; "
                              "w10 U 10: .data.w10; w11 U 11: .data.w11; w12 U 12: .data.w12; w13 U 13: .data.w13; "
                              "w14 U 14: .data.w14");
}

static void test_only_times_differ(void **state UNUSED)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {"{'metadata':{'managedFields':[{'manager':'a','time':'1'}]}}",
         "{'metadata':{'managedFields':[{'manager':'a','time':'2'}]}}", true},
        {"{'metadata':{'managedFields':[{'manager':'a'}]}}",
         "{'metadata':{'managedFields':[{'manager':'a','time':'2'}]}}", true},
        {"{'metadata':{'managedFields':[{'manager':'a'}]}}", "{'metadata':{'managedFields':[{'manager':'b'}]}}", false},
        {"{'metadata':{'managedFields':[{'manager':'a'}]}}", "{'metadata':{}}", false},
        {"{'metadata':{'name':'a'}}", "{'metadata':{'name':'b'}}", false},
        {"{'metadata':{'name':'a'},'data':null}", "{'metadata':{'name':'a'},'info':null}", false},
        {"{'metadata':{'name':'a'},'data':{}}", "{'metadata':{'name':'a'},'data':{}}", true},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ struct json *a = fixture_json(cases[i].a), *b = fixture_json(cases[i].b);
        if (managed_fields_only_times_differ(a, b) != cases[i].same)
            fail_msg("%s, %s", cases[i].a, cases[i].b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets),         cmocka_unit_test(test_sets_that_are_none),
        cmocka_unit_test(test_path_texts),   cmocka_unit_test(test_forms),
        cmocka_unit_test(test_many_writers), cmocka_unit_test(test_only_times_differ),
        cmocka_unit_test(test_scenarios),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
