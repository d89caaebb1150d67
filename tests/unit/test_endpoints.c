/* The endpoints controller by table: a Service, its Pods and what there was in, plan out. */
#include "quoted.h"
#include "test.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "controllers/endpoints.h"
#include "kube/object.h"

/* --- the world --- */

static struct json *objects;

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

static struct json *list(const struct world *w UNUSED, const struct kube_resource *r, const char *ns)
{
    struct json *found = json_array_make();

    for (size_t i = 0; i < json_size(objects); i++)
        if (is(json_item(objects, i), r) && streq(object_namespace(json_item(objects, i)), ns))
            json_push(found, json_ref(json_item(objects, i)));
    return found;
}

static struct json *owned(const struct world *w UNUSED, const struct kube_resource *r, const char *uid)
{
    struct json *found = json_array_make();

    for (size_t i = 0; i < json_size(objects); i++) {
        const struct json *ref = object_controller(json_item(objects, i));
        if (is(json_item(objects, i), r) && streq(json_str_or(json_get(ref, "uid"), ""), uid))
            json_push(found, json_ref(json_item(objects, i)));
    }
    return found;
}

static const struct world world = {.get = get, .list = list, .owned = owned};

/* --- plans as text --- */

static void describe_ports(const struct json *ports, struct strbuf *b)
{
    strbuf_addc(b, '[');
    for (size_t i = 0; i < json_size(ports); i++) {
        const struct json *p = json_item(ports, i);
        strbuf_addf(b, "%s%s:%lld/%s", i ? "," : "", json_str_or(json_get(p, "name"), ""),
                    (long long)json_int_or(json_get(p, "port"), 0), json_str_or(json_get(p, "protocol"), "?"));
    }
    strbuf_addc(b, ']');
}

static char flag(const struct json *endpoint, const char *name, char letter)
{
    return json_bool_or(json_at(endpoint, "conditions", name, NULL), false) ? letter : '-';
}

static void describe_slice(const struct json *slice, struct strbuf *b)
{
    const struct json *endpoints = json_get(slice, "endpoints");

    describe_ports(json_get(slice, "ports"), b);
    for (size_t i = 0; i < json_size(endpoints); i++) {
        const struct json *e = json_item(endpoints, i);
        const char *host = json_str(json_get(e, "hostname"));
        strbuf_addf(b, " %s=%c%c%c", json_str_or(json_item(json_get(e, "addresses"), 0), ""), flag(e, "ready", 'r'),
                    flag(e, "serving", 's'), flag(e, "terminating", 't'));
        if (host)
            strbuf_addf(b, "(%s)", host);
    }
}

static void describe_addresses(const struct json *subset, const char *key, char sign, struct strbuf *b)
{
    const struct json *addresses = json_get(subset, key);

    for (size_t i = 0; i < json_size(addresses); i++)
        strbuf_addf(b, " %c%s", sign, json_str_or(json_get(json_item(addresses, i), "ip"), ""));
}

static char *describe(const struct plan *plan)
{
    static const char *const verbs[] = {"get", "list", "create", "update", "patch", "patch-json", "apply", "delete"};
    struct strbuf b = {0};

    for (size_t i = 0; i < plan->count; i++) {
        const struct plan_op *op = &plan->ops[i];
        const struct json *subsets = json_get(op->body, "subsets");
        strbuf_addf(&b, "%s %s %s ", verbs[op->verb], op->resource == &KUBE_ENDPOINTS ? "endpoints" : "slice",
                    op->name ? op->name : object_name(op->body));
        if (op->resource == &KUBE_ENDPOINT_SLICES && op->verb != KUBE_DELETE)
            describe_slice(op->body, &b);
        for (size_t k = 0; k < json_size(subsets); k++) {
            describe_ports(json_get(json_item(subsets, k), "ports"), &b);
            describe_addresses(json_item(subsets, k), "addresses", '+', &b);
            describe_addresses(json_item(subsets, k), "notReadyAddresses", '-', &b);
        }
        while (b.len && b.data[b.len - 1] == ' ')
            b.data[--b.len] = '\0';
        strbuf_addc(&b, '\n');
    }
    return strbuf_detach(&b);
}

/* What a plan leads to: created and updated objects are put into the world, deleted ones taken out. */
static void carry_out(const struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct plan_op *op = &plan->ops[i];
        const char *name = op->name ? op->name : object_name(op->body);
        struct json *kept = json_array_make();
        for (size_t k = 0; k < json_size(objects); k++)
            if (!is(json_item(objects, k), op->resource) || !streq(object_name(json_item(objects, k)), name))
                json_push(kept, json_ref(json_item(objects, k)));
        if (op->body && op->verb != KUBE_DELETE)
            json_push(kept, json_ref(op->body));
        json_unref(objects);
        objects = kept;
    }
}

static char *reconcile(void)
{
    struct plan plan = {0};

    endpoints_controller.reconcile(&world, "default", "a", &plan);
    char *text = describe(&plan);
    carry_out(&plan);
    plan_free(&plan);
    return text;
}

/* --- the table --- */

#define SERVICE(spec)                                                                                                  \
    "{'kind':'Service','apiVersion':'v1','metadata':{'name':'a','namespace':'default','uid':'s1'},'spec':{" spec "}}"
#define SELECTS "'selector':{'app':'web'},'clusterIP':'10.96.1.1'"
#define PORT80 ",'ports':[{'port':80,'targetPort':8080,'protocol':'TCP'}]"
#define POD_WITH(name, ip, meta, spec, phase, ready)                                                                   \
    ",{'kind':'Pod','apiVersion':'v1','metadata':{'name':'" name "','namespace':'default','uid':'p-" name              \
    "','labels':{'app':'web'}" meta "},'spec':{'nodeName':'n1'" spec "},'status':{'phase':'" phase "','podIP':'" ip    \
    "','conditions':[{'type':'Ready','status':'" ready "'}]}}"
#define POD(name, ip, ready) POD_WITH(name, ip, "", "", "Running", ready)
#define DELETED ",'deletionTimestamp':'2026-01-01T00:00:00Z'"
#define PORTS(name, number, protocol)                                                                                  \
    ",'containers':[{'ports':[{'name':'" name "','containerPort':" number ",'protocol':'" protocol "'}]}]"
#define HTTP ",'ports':[{'name':'web','port':80,'targetPort':'http','protocol':'TCP'}]"

static const struct {
    const char *what, *world, *plan;
} cases[] = {
    {"nobody", "[" SERVICE(SELECTS PORT80) "]", "create slice a-ipv4-0 []\ncreate endpoints a\n"},
    {"ready and not ready, by name",
     "[" SERVICE(SELECTS PORT80) POD("y", "10.0.0.2", "False") POD("x", "10.0.0.1", "True") "]",
     "create slice a-ipv4-0 [:8080/TCP] 10.0.0.1=rs- 10.0.0.2=---\n"
     "create endpoints a [:8080/TCP] +10.0.0.1 -10.0.0.2\n"},
    {"terminating: still serving, no longer ready, gone from Endpoints",
     "[" SERVICE(SELECTS PORT80) POD_WITH("x", "10.0.0.1", DELETED, "", "Running", "True")
         POD_WITH("y", "10.0.0.2", DELETED, "", "Running", "False") "]",
     "create slice a-ipv4-0 [:8080/TCP] 10.0.0.1=-st 10.0.0.2=--t\ncreate endpoints a\n"},
    {"publishNotReadyAddresses: ready whatever it says, serving only when it is",
     "[" SERVICE(SELECTS PORT80 ",'publishNotReadyAddresses':true") POD("x", "10.0.0.1", "False")
         POD_WITH("y", "10.0.0.2", DELETED, "", "Running", "True") "]",
     "create slice a-ipv4-0 [:8080/TCP] 10.0.0.1=r-- 10.0.0.2=rst\n"
     "create endpoints a [:8080/TCP] +10.0.0.1 +10.0.0.2\n"},
    {"ended, without an address, or of others",
     "[" SERVICE(SELECTS PORT80) POD_WITH("x", "10.0.0.1", "", "", "Succeeded", "False")
         POD_WITH("y", "10.0.0.2", "", "", "Failed", "True")
             POD_WITH("z", "", "", "", "Pending", "False") ",{'kind':'Pod','metadata':{'name':'o','namespace':'default'"
                                                           ",'labels':{'app':'db'}},'status':{'podIP':'1.1.1.1'}}"
                                                           ",{'kind':'Pod','metadata':{'name':'n','namespace':'other','"
                                                           "labels':{'app':'web'}},'status':{'podIP':'1.1.1.2'}}]",
     "create slice a-ipv4-0 []\ncreate endpoints a\n"},
    {"no targetPort: the port itself", "[" SERVICE(SELECTS ",'ports':[{'port':80}]") POD("x", "10.0.0.1", "True") "]",
     "create slice a-ipv4-0 [:80/TCP] 10.0.0.1=rs-\ncreate endpoints a [:80/TCP] +10.0.0.1\n"},
    {"a named port that leads to different numbers",
     "[" SERVICE(SELECTS HTTP) POD_WITH("x", "10.0.0.1", "", PORTS("http", "8080", "TCP"), "Running", "True")
         POD_WITH("y", "10.0.0.2", "", PORTS("http", "9090", "TCP"), "Running", "True")
             POD_WITH("z", "10.0.0.3", "", PORTS("http", "8080", "TCP"), "Running", "False") "]",
     "create slice a-ipv4-0 [web:8080/TCP] 10.0.0.1=rs- 10.0.0.3=---\n"
     "create slice a-ipv4-1 [web:9090/TCP] 10.0.0.2=rs-\n"
     "create endpoints a [web:8080/TCP] +10.0.0.1 -10.0.0.3[web:9090/TCP] +10.0.0.2\n"},
    {"a named port that the Pod does not have, or has for another protocol",
     "[" SERVICE(SELECTS HTTP) POD_WITH("x", "10.0.0.1", "", PORTS("https", "443", "TCP"), "Running", "True")
         POD_WITH("y", "10.0.0.2", "", PORTS("http", "80", "UDP"), "Running", "True") "]",
     "create slice a-ipv4-0 []\ncreate endpoints a\n"},
    {"one of two named ports",
     "[" SERVICE(SELECTS ",'ports':[{'name':'web','port':80,'targetPort':'http'},{'name':'dns','port':53,"
                         "'targetPort':5353,'protocol':'UDP'}]") POD("x", "10.0.0.1", "True") "]",
     "create slice a-ipv4-0 [dns:5353/UDP] 10.0.0.1=rs-\ncreate endpoints a [dns:5353/UDP] +10.0.0.1\n"},
    {"the port of a sidecar",
     "[" SERVICE(SELECTS HTTP) POD_WITH("x", "10.0.0.1", "",
                                        ",'containers':[{}],'initContainers':[{'ports':[{'name':'http',"
                                        "'containerPort':15001}]}]",
                                        "Running", "True") "]",
     "create slice a-ipv4-0 [web:15001/TCP] 10.0.0.1=rs-\ncreate endpoints a [web:15001/TCP] +10.0.0.1\n"},
    {"headless without ports, with names",
     "[" SERVICE("'selector':{'app':'web'},'clusterIP':'None'")
         POD_WITH("x", "10.0.0.1", "", ",'hostname':'h','subdomain':'a'", "Running", "True")
             POD_WITH("y", "10.0.0.2", "", ",'hostname':'h','subdomain':'b'", "Running", "True") "]",
     "create slice a-ipv4-0 [] 10.0.0.1=rs-(h) 10.0.0.2=rs-\ncreate endpoints a [] +10.0.0.1 +10.0.0.2\n"},
    {"both families", "[" SERVICE(SELECTS PORT80) POD("x", "10.0.0.1", "True") POD("y", "fd00::1", "True") "]",
     "create slice a-ipv4-0 [:8080/TCP] 10.0.0.1=rs-\ncreate slice a-ipv6-0 [:8080/TCP] fd00::1=rs-\n"
     "create endpoints a [:8080/TCP] +10.0.0.1 +fd00::1\n"},
    {"no selector", "[" SERVICE("'clusterIP':'10.96.1.1'" PORT80) POD("x", "10.0.0.1", "True") "]", ""},
    {"an external name", "[" SERVICE(SELECTS ",'type':'ExternalName'") POD("x", "10.0.0.1", "True") "]", ""},
    {"no Service, and Endpoints of our own",
     "[{'kind':'Endpoints','metadata':{'name':'a','namespace':'default','uid':'e1','labels':{"
     "'endpoints.kubernetes.io/managed-by':'endpoint-controller'}}}]",
     "delete endpoints a\n"},
    {"no Service, and Endpoints of somebody else",
     "[{'kind':'Endpoints','metadata':{'name':'a','namespace':'default','uid':'e1'}}]", ""},
    {"a slice too many",
     "[" SERVICE(SELECTS PORT80)
         POD("x", "10.0.0.1", "True") ",{'kind':'EndpointSlice','metadata':{'name':'a-ipv4-1','namespace':'default','"
                                      "uid':'e1','ownerReferences':[{"
                                      "'kind':'Service','name':'a','uid':'s1','controller':true}]}}]",
     "create slice a-ipv4-0 [:8080/TCP] 10.0.0.1=rs-\ndelete slice a-ipv4-1\n"
     "create endpoints a [:8080/TCP] +10.0.0.1\n"},
};

static void test_plans(void **state UNUSED)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        objects = parse(cases[i].world);
        _cleanup_free_ char *first = reconcile(), *second = reconcile();
        if (!streq(first, cases[i].plan))
            print_error("case \"%s\"\n", cases[i].what);
        assert_string_equal(first, cases[i].plan);
        if (*second)
            print_error("case \"%s\" does not settle\n", cases[i].what);
        assert_string_equal(second, "");
        json_unref(objects);
    }
}

/* --- many --- */

static struct json *many_pods(size_t count)
{
    struct json *pods = json_array_make();

    for (size_t i = 0; i < count; i++) {
        _cleanup_free_ char *name = xasprintf("p%05zu", i), *ip = xasprintf("10.1.%zu.%zu", i / 250, i % 250 + 1);
        json_push(pods, json_build("{s:s, s:s, s:{s:s, s:s, s:s, s:{s:s}}, s:{}, s:{s:s, s:s, s:[{s:s, s:s}]}}", "kind",
                                   "Pod", "apiVersion", "v1", "metadata", "name", name, "namespace", "default", "uid",
                                   name, "labels", "app", "web", "spec", "status", "phase", "Running", "podIP", ip,
                                   "conditions", "type", "Ready", "status", i == 0 ? "False" : "True"));
    }
    return pods;
}

static size_t endpoint_count(const char *slice)
{
    return json_size(json_get(get(NULL, &KUBE_ENDPOINT_SLICES, "default", slice), "endpoints"));
}

static const char *over_capacity(void)
{
    return json_str_or(json_at(get(NULL, &KUBE_ENDPOINTS, "default", "a"), "metadata", "annotations",
                               "endpoints.kubernetes.io/over-capacity", NULL),
                       "");
}

static size_t address_count(void)
{
    const struct json *subset = json_item(json_get(get(NULL, &KUBE_ENDPOINTS, "default", "a"), "subsets"), 0);

    return json_size(json_get(subset, "addresses")) + json_size(json_get(subset, "notReadyAddresses"));
}

static void set_pods(size_t count)
{
    _cleanup_json_ struct json *pods = many_pods(count);
    struct json *next = json_array_make();

    for (size_t i = 0; i < json_size(objects); i++)
        if (!is(json_item(objects, i), &KUBE_PODS))
            json_push(next, json_ref(json_item(objects, i)));
    for (size_t i = 0; i < json_size(pods); i++)
        json_push(next, json_ref(json_item(pods, i)));
    json_unref(objects);
    objects = next;
}

/* Slices hold a thousand each; the Endpoints object is cut there, says so, and stops saying so. */
static void test_many(void **state UNUSED)
{
    objects = parse("[" SERVICE(SELECTS PORT80) "]");
    set_pods(1000);
    free(reconcile());
    assert_int_equal(endpoint_count("a-ipv4-0"), 1000);
    assert_null(get(NULL, &KUBE_ENDPOINT_SLICES, "default", "a-ipv4-1"));
    assert_string_equal(over_capacity(), "");

    set_pods(2001);
    free(reconcile());
    assert_int_equal(endpoint_count("a-ipv4-0"), 1000);
    assert_int_equal(endpoint_count("a-ipv4-1"), 1000);
    assert_int_equal(endpoint_count("a-ipv4-2"), 1);
    assert_int_equal(address_count(), 1000);
    assert_string_equal(over_capacity(), "truncated");
    _cleanup_free_ char *again = reconcile();
    assert_string_equal(again, "");

    set_pods(3);
    free(reconcile());
    assert_int_equal(endpoint_count("a-ipv4-0"), 3);
    assert_null(get(NULL, &KUBE_ENDPOINT_SLICES, "default", "a-ipv4-1"));
    assert_string_equal(over_capacity(), "");
    json_unref(objects);
}

/* Labels of the Service are those of what belongs to it; a headless one is marked. */
static void test_labels(void **state UNUSED)
{
    objects = parse("[{'kind':'Service','metadata':{'name':'a','namespace':'default','uid':'s1','labels':{'tier':'x'}},"
                    "'spec':{'selector':{'app':'web'},'clusterIP':'None'}}]");
    free(reconcile());
    const struct json *slice = get(NULL, &KUBE_ENDPOINT_SLICES, "default", "a-ipv4-0");
    const struct json *endpoints = get(NULL, &KUBE_ENDPOINTS, "default", "a");
    assert_string_equal(object_label(slice, "tier"), "x");
    assert_string_equal(object_label(slice, "kubernetes.io/service-name"), "a");
    assert_string_equal(object_label(slice, "endpointslice.kubernetes.io/managed-by"),
                        "endpointslice-controller.k8s.io");
    assert_string_equal(object_label(slice, "service.kubernetes.io/headless"), "");
    assert_string_equal(object_label(endpoints, "service.kubernetes.io/headless"), "");
    assert_string_equal(json_str(json_get(object_controller(slice), "name")), "a");
    assert_null(object_controller(endpoints));
    json_unref(objects);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_labels),
    };
    return cmocka_run_group_tests_name("endpoints", tests, NULL, NULL);
}
