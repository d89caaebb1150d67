/* The server from the inside: calls as HTTP requests make them, without the HTTP. */
#include "test.h"

#include "apiserver/inproc.h"
#include "apiserver/server_internal.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <event2/event.h>
#include <fcntl.h>

struct fixture {
    char dir[32];
    char *path;
    struct event_base *base;
    struct clock clock;
    struct apiserver *server;
};

static int64_t fixed_now(const struct clock *clock)
{
    return clock->fixed_ns;
}

static void start(struct fixture *f)
{
    struct error err = ERROR_INIT;
    const struct apiserver_options options = {.base = f->base,
                                              .store_path = f->path,
                                              .durability = STORE_DURABILITY_NORMAL,
                                              .clock = &f->clock,
                                              .node_name = "node1"};

    f->server = apiserver_new(&options, &err);
    if (!f->server)
        fail_msg("%s", error_text(&err));
}

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/holt-api-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->path = xasprintf("%s/store.db", f->dir);
    f->base = event_base_new();
    f->clock = (struct clock){.now_ns = fixed_now, .fixed_ns = 1767225600LL * NSEC_PER_SEC}; /* 2026-01-01 */
    start(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    apiserver_free(f->server);
    event_base_free(f->base);
    assert_int_equal(remove_tree_at(AT_FDCWD, f->dir, NULL), 0);
    free(f->path);
    free(f);
    return 0;
}

static void restart(struct fixture *f)
{
    apiserver_free(f->server);
    start(f);
}

/* Lets everything that is under way come to rest. */
static void settle(struct fixture *f)
{
    for (int i = 0; i < 50; i++)
        (void)event_base_loop(f->base, EVLOOP_NONBLOCK);
}

static struct json *parse(const char *text)
{
    struct error err = ERROR_INIT;
    struct json *v = json_parse(text, strlen(text), &err);

    if (err.code)
        fail_msg("%s: %s", text, error_text(&err));
    return v;
}

/* "pods", "sandboxes.agents.x-k8s.io" */
static const struct resource *resource(struct fixture *f, const char *name)
{
    size_t n;
    const struct resource *const *all = resource_table_list(f->server->resources, &n);

    for (size_t i = 0; i < n; i++) {
        _cleanup_free_ char *full =
            *all[i]->group ? xasprintf("%s.%s", all[i]->plural, all[i]->group) : xstrdup(all[i]->plural);
        if (streq(full, name))
            return all[i];
    }
    return NULL;
}

/* target: "pods/ns", "pods/ns/name", "pods/ns/name/status"; "-" stands for no namespace. Expects the code, returns the
 * answer. */
static struct json *call(struct fixture *f, enum api_verb verb, const char *target, const char *body, int code)
{
    char what[64] = "", ns[64] = "", name[64] = "", sub[64] = "";
    _cleanup_json_ struct json *parsed = body ? parse(body) : NULL;

    (void)sscanf(target, "%63[^/]/%63[^/]/%63[^/]/%63s", what, ns, name, sub);
    struct api_call c = api_internal_call(f->server, verb, resource(f, what), streq(ns, "-") ? "" : ns, name);
    assert_non_null(c.resource);
    c.internal = false;
    c.subresource = sub;
    c.body = parsed;
    c.patch = PATCH_MERGE;
    c.options.field_manager = "test";
    api_execute(&c);
    if (c.result.code != code) {
        _cleanup_free_ char *text = json_text(c.result.object);
        fail_msg("%s %s: %d instead of %d: %s", verb_name(verb), target, c.result.code, code, text);
    }
    struct json *answer = json_ref(c.result.object);
    if (c.result.list_revision)
        answer = json_int((int64_t)c.result.item_count);
    api_result_clear(&c.result);
    return answer;
}

static void run(struct fixture *f, enum api_verb verb, const char *target, const char *body, int code)
{
    json_unref(call(f, verb, target, body, code));
}

static void expect(struct json *taken, const char *path, const char *expected)
{
    const struct json *v = taken;
    _cleanup_free_ char *copy = xstrdup(path);

    for (char *save = NULL, *key = strtok_r(copy, ".", &save); key; key = strtok_r(NULL, ".", &save)) {
        uint64_t index;
        v = json_is(v, JSON_ARRAY) && parse_u64(key, &index) ? json_item(v, index) : json_get(v, key);
    }
    _cleanup_free_ char *text = json_str(v) ? xstrdup(json_str(v)) : json_text(v);
    assert_string_equal(text, expected);
    json_unref(taken);
}

static void create_map(struct fixture *f, const char *target, const char *name, const char *metadata)
{
    _cleanup_free_ char *body =
        xasprintf("{\"metadata\":{\"name\":\"%s\"%s%s},\"data\":{\"a\":\"1\"}}", name, *metadata ? "," : "", metadata);

    run(f, VERB_CREATE, target, body, 201);
}

static char *uid_of(struct fixture *f, const char *target)
{
    struct json *o = call(f, VERB_GET, target, NULL, 200);
    char *uid = xstrdup(object_uid(o));

    json_unref(o);
    return uid;
}

#define POD "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i:1\"}]}}"

static void test_create(void **state)
{
    struct fixture *f = *state;
    struct json *o;

    expect(call(f, VERB_CREATE, "configmaps/default", "{\"metadata\":{\"name\":\"a\"}}", 201), "metadata.namespace",
           "default");
    expect(call(f, VERB_CREATE, "configmaps/default", "{\"metadata\":{\"name\":\"a\"}}", 409), "message",
           "configmaps \"a\" already exists");
    expect(call(f, VERB_CREATE, "configmaps/none", "{\"metadata\":{\"name\":\"a\"}}", 404), "message",
           "namespaces \"none\" not found");
    expect(call(f, VERB_CREATE, "configmaps/default", "{\"metadata\":{}}", 422), "message",
           "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required");
    expect(call(f, VERB_CREATE, "configmaps/default", "{\"metadata\":{\"name\":\"x\",\"namespace\":\"b\"}}", 400),
           "message", "the namespace of the provided object does not match the namespace sent on the request");
    expect(call(f, VERB_CREATE, "configmaps/default", "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"x\"}}", 400),
           "reason", "BadRequest");
    expect(call(f, VERB_CREATE, "configmaps/default", "{\"apiVersion\":\"v2\",\"metadata\":{\"name\":\"x\"}}", 400),
           "message", "the API version in the data (v2) does not match the expected API version (v1)");
    expect(call(f, VERB_CREATE, "configmaps/default", "{\"metadata\":{\"name\":\"x\",\"resourceVersion\":\"1\"}}", 400),
           "message", "resourceVersion should not be set on objects to be created");
    expect(call(f, VERB_CREATE, "configmaps/default", "[]", 400), "reason", "BadRequest");
    o = call(f, VERB_CREATE, "configmaps/default",
             "{\"metadata\":{\"generateName\":\"g-\",\"uid\":\"u\",\"creationTimestamp\":\"2000-01-01T00:00:00Z\"}}",
             201);
    assert_int_equal(strlen(object_name(o)), 7);
    assert_int_equal(strlen(object_uid(o)), 36);
    expect(o, "metadata.creationTimestamp", "2026-01-01T00:00:00Z");
    expect(call(f, VERB_GET, "configmaps/default/nope", NULL, 404), "details.kind", "configmaps");
    run(f, VERB_CREATE, "configmaps/default/a", "{}", 405);
}

static void test_update(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *stale = NULL;

    create_map(f, "configmaps/default", "a", "");
    struct json *o = call(f, VERB_GET, "configmaps/default/a", NULL, 200);
    stale = xasprintf("{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"%s\"},\"data\":{\"a\":\"2\"}}",
                      json_str_at(o, "metadata", "resourceVersion", NULL));
    json_unref(o);
    expect(call(f, VERB_UPDATE, "configmaps/default/a", stale, 200), "data.a", "2");
    expect(call(f, VERB_UPDATE, "configmaps/default/a", stale, 409), "message",
           "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes "
           "to the latest version and try again");
    expect(call(f, VERB_UPDATE, "configmaps/default/a", "{\"metadata\":{\"name\":\"b\"}}", 400), "message",
           "the name of the object (b) does not match the name on the URL (a)");
    expect(call(f, VERB_UPDATE, "configmaps/default/a", "{\"metadata\":{\"uid\":\"x\"}}", 409), "reason", "Conflict");
    run(f, VERB_UPDATE, "configmaps/default/nope", "{}", 404);

    /* What changes nothing is no write. */
    int64_t before = store_revision(f->server->store);
    run(f, VERB_PATCH, "configmaps/default/a", "{\"data\":{\"a\":\"2\"}}", 200);
    assert_int_equal(store_revision(f->server->store), before);
    expect(call(f, VERB_PATCH, "configmaps/default/a", "{\"data\":{\"a\":null,\"b\":\"3\"}}", 200), "data",
           "{\"b\":\"3\"}");
}

#define SANDBOX                                                                                                        \
    "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"podTemplate\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":"   \
    "\"i\"}]}}},"                                                                                                      \
    "\"status\":{\"service\":\"x\"}}"

static void test_status(void **state)
{
    struct fixture *f = *state;

    struct json *o = call(f, VERB_CREATE, "sandboxes.agents.x-k8s.io/default", SANDBOX, 201);
    assert_false(json_has(o, "status"));
    expect(o, "metadata.generation", "1");
    run(f, VERB_PATCH, "sandboxes.agents.x-k8s.io/default/s/status",
        "{\"status\":{\"service\":\"y\"},\"spec\":{\"operatingMode\":\"Suspended\"}}", 200);
    o = call(f, VERB_GET, "sandboxes.agents.x-k8s.io/default/s", NULL, 200);
    assert_string_not_equal(json_str_or(json_at(o, "spec", "operatingMode", NULL), ""), "Suspended");
    assert_string_equal(json_str_at(o, "status", "service", NULL), "y");
    expect(o, "metadata.generation", "1");
    run(f, VERB_PATCH, "sandboxes.agents.x-k8s.io/default/s",
        "{\"status\":{\"service\":\"z\"},\"spec\":{\"operatingMode\":\"Suspended\"}}", 200);
    o = call(f, VERB_GET, "sandboxes.agents.x-k8s.io/default/s", NULL, 200);
    assert_string_equal(json_str_at(o, "status", "service", NULL), "y");
    expect(o, "metadata.generation", "2");
    run(f, VERB_PATCH, "sandboxes.agents.x-k8s.io/default/s", "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}", 200);
    expect(call(f, VERB_GET, "sandboxes.agents.x-k8s.io/default/s", NULL, 200), "metadata.generation", "2");
}

static void test_pods(void **state)
{
    struct fixture *f = *state;

    struct json *o = call(f, VERB_CREATE, "pods/default", POD, 201);
    assert_string_equal(json_str_at(o, "spec", "nodeName", NULL), "node1");
    assert_string_equal(json_str_at(o, "status", "qosClass", NULL), "BestEffort");
    expect(o, "status.conditions.0.type", "PodScheduled");
    run(f, VERB_PATCH, "pods/default/p", "{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i:2\"}]}}", 200);
    expect(call(f, VERB_PATCH, "pods/default/p", "{\"spec\":{\"hostNetwork\":true}}", 422), "details.causes.0.reason",
           "FieldValueForbidden");

    expect(call(f, VERB_DELETE, "pods/default/p", NULL, 200), "metadata.deletionTimestamp", "2026-01-01T00:00:30Z");
    expect(call(f, VERB_DELETE, "pods/default/p", "{\"gracePeriodSeconds\":40}", 200),
           "metadata.deletionGracePeriodSeconds", "30");
    expect(call(f, VERB_DELETE, "pods/default/p", "{\"gracePeriodSeconds\":5}", 200), "metadata.deletionTimestamp",
           "2026-01-01T00:00:05Z");
    run(f, VERB_DELETE, "pods/default/p", "{\"gracePeriodSeconds\":0}", 200);
    run(f, VERB_GET, "pods/default/p", NULL, 404);
    /* One that no node has goes at once. */
    run(f, VERB_CREATE, "pods/default",
        "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"schedulingGates\":[{\"name\":\"g\"}],"
        "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}",
        201);
    run(f, VERB_DELETE, "pods/default/q", NULL, 200);
    run(f, VERB_GET, "pods/default/q", NULL, 404);
}

static void test_finalizers(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *uid = NULL;

    create_map(f, "configmaps/default", "a", "\"finalizers\":[\"x.y/z\"]");
    uid = uid_of(f, "configmaps/default/a");
    expect(call(f, VERB_DELETE, "configmaps/default/a", "{\"preconditions\":{\"uid\":\"other\"}}", 409), "reason",
           "Conflict");
    expect(call(f, VERB_DELETE, "configmaps/default/a", NULL, 200), "metadata.deletionGracePeriodSeconds", "0");
    run(f, VERB_DELETE, "configmaps/default/a", NULL, 200);
    expect(call(f, VERB_PATCH, "configmaps/default/a", "{\"metadata\":{\"finalizers\":[\"x.y/z\",\"b.c/d\"]}}", 422),
           "details.causes.0.field", "metadata.finalizers");
    run(f, VERB_PATCH, "configmaps/default/a", "{\"metadata\":{\"finalizers\":null}}", 200);
    run(f, VERB_GET, "configmaps/default/a", NULL, 404);
    create_map(f, "configmaps/default", "b", "");
    expect(call(f, VERB_DELETE, "configmaps/default/b", NULL, 200), "status", "Success");
}

static char *owner_text(const char *kind, const char *name, const char *uid, bool block)
{
    return xasprintf("\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"%s\",\"name\":\"%s\",\"uid\":\"%s\","
                     "\"blockOwnerDeletion\":%s}]",
                     kind, name, uid, block ? "true" : "false");
}

static void make_family(struct fixture *f, bool block)
{
    create_map(f, "configmaps/default", "owner", "");
    _cleanup_free_ char *uid = uid_of(f, "configmaps/default/owner");
    _cleanup_free_ char *owner = owner_text("ConfigMap", "owner", uid, block);
    _cleanup_free_ char *secret = xasprintf("{\"metadata\":{\"name\":\"child\",%s}}", owner);
    run(f, VERB_CREATE, "secrets/default", secret, 201);
    _cleanup_free_ char *child_uid = uid_of(f, "secrets/default/child");
    _cleanup_free_ char *grand = owner_text("Secret", "child", child_uid, block);
    create_map(f, "configmaps/default", "grandchild", grand);
    settle(f);
}

static void test_gc_background(void **state)
{
    struct fixture *f = *state;

    make_family(f, false);
    run(f, VERB_DELETE, "configmaps/default/owner", NULL, 200);
    run(f, VERB_GET, "secrets/default/child", NULL, 200);
    settle(f);
    run(f, VERB_GET, "secrets/default/child", NULL, 404);
    run(f, VERB_GET, "configmaps/default/grandchild", NULL, 404);
}

static void test_gc_survives_restart(void **state)
{
    struct fixture *f = *state;

    make_family(f, false);
    run(f, VERB_DELETE, "configmaps/default/owner", NULL, 200);
    restart(f);
    settle(f);
    run(f, VERB_GET, "secrets/default/child", NULL, 404);
    run(f, VERB_GET, "configmaps/default/grandchild", NULL, 404);
}

static void test_gc_foreground(void **state)
{
    struct fixture *f = *state;

    make_family(f, true);
    run(f, VERB_PATCH, "configmaps/default/grandchild", "{\"metadata\":{\"finalizers\":[\"x.y/z\"]}}", 200);
    run(f, VERB_DELETE, "configmaps/default/owner", "{\"propagationPolicy\":\"Foreground\"}", 200);
    settle(f);
    expect(call(f, VERB_GET, "configmaps/default/owner", NULL, 200), "metadata.finalizers", "[\"foregroundDeletion\"]");
    expect(call(f, VERB_GET, "secrets/default/child", NULL, 200), "metadata.finalizers", "[\"foregroundDeletion\"]");
    run(f, VERB_PATCH, "configmaps/default/grandchild", "{\"metadata\":{\"finalizers\":null}}", 200);
    settle(f);
    run(f, VERB_GET, "configmaps/default/grandchild", NULL, 404);
    run(f, VERB_GET, "secrets/default/child", NULL, 404);
    run(f, VERB_GET, "configmaps/default/owner", NULL, 404);
}

static void test_gc_orphan(void **state)
{
    struct fixture *f = *state;

    make_family(f, true);
    run(f, VERB_DELETE, "configmaps/default/owner", "{\"propagationPolicy\":\"Orphan\"}", 200);
    settle(f);
    run(f, VERB_GET, "configmaps/default/owner", NULL, 404);
    expect(call(f, VERB_GET, "secrets/default/child", NULL, 200), "metadata.ownerReferences", "null");
    run(f, VERB_GET, "configmaps/default/grandchild", NULL, 200);
}

static void test_gc_two_owners(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *a = NULL, *b = NULL, *body = NULL;

    create_map(f, "configmaps/default", "a", "");
    create_map(f, "configmaps/default", "b", "");
    a = uid_of(f, "configmaps/default/a");
    b = uid_of(f, "configmaps/default/b");
    body = xasprintf("{\"metadata\":{\"name\":\"c\",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\","
                     "\"name\":\"a\",\"uid\":\"%s\"},"
                     "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"b\",\"uid\":\"%s\"}]}}",
                     a, b);
    run(f, VERB_CREATE, "configmaps/default", body, 201);
    settle(f);
    run(f, VERB_DELETE, "configmaps/default/a", NULL, 200);
    settle(f);
    expect(call(f, VERB_GET, "configmaps/default/c", NULL, 200), "metadata.ownerReferences.0.name", "b");
    run(f, VERB_DELETE, "configmaps/default/b", NULL, 200);
    settle(f);
    run(f, VERB_GET, "configmaps/default/c", NULL, 404);
    /* An owner that never was. */
    run(f, VERB_CREATE, "configmaps/default", body, 201);
    settle(f);
    run(f, VERB_GET, "configmaps/default/c", NULL, 404);
}

static void test_namespaces(void **state)
{
    struct fixture *f = *state;

    expect(call(f, VERB_CREATE, "namespaces/-", "{\"metadata\":{\"name\":\"n\"}}", 201), "metadata.labels",
           "{\"kubernetes.io/metadata.name\":\"n\"}");
    run(f, VERB_GET, "serviceaccounts/n/default", NULL, 200);
    create_map(f, "configmaps/n", "a", "");
    create_map(f, "configmaps/n", "b", "\"finalizers\":[\"x.y/z\"]");
    expect(call(f, VERB_DELETE, "namespaces/-/n", NULL, 200), "status.phase", "Terminating");
    expect(call(f, VERB_CREATE, "configmaps/n", "{\"metadata\":{\"name\":\"x\"}}", 403), "details.causes.0.reason",
           "NamespaceTerminating");
    settle(f);
    run(f, VERB_GET, "configmaps/n/a", NULL, 404);
    run(f, VERB_GET, "namespaces/-/n", NULL, 200);
    restart(f);
    settle(f);
    run(f, VERB_PATCH, "configmaps/n/b", "{\"metadata\":{\"finalizers\":null}}", 200);
    settle(f);
    run(f, VERB_GET, "namespaces/-/n", NULL, 404);
    expect(call(f, VERB_DELETE, "namespaces/-/default", NULL, 403), "message",
           "namespaces \"default\" is forbidden: this namespace may not be deleted");
}

#define CRD                                                                                                            \
    "{\"metadata\":{\"name\":\"widgets.example.com\"},\"spec\":{\"group\":\"example.com\",\"scope\":\"Namespaced\","   \
    "\"names\":{\"plural\":\"widgets\",\"kind\":\"Widget\",\"shortNames\":[\"wd\"]},\"versions\":[{\"name\":\"v1\","   \
    "\"served\":true,"                                                                                                 \
    "\"storage\":true,\"subresources\":{\"status\":{},\"scale\":{\"specReplicasPath\":\".spec.replicas\","             \
    "\"statusReplicasPath\":"                                                                                          \
    "\".status.replicas\"}},\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"x-kubernetes-preserve-unknown-"     \
    "fields\":true}}}]}}"

static void test_definitions(void **state)
{
    struct fixture *f = *state;

    struct json *crd = call(f, VERB_CREATE, "customresourcedefinitions.apiextensions.k8s.io/-", CRD, 201);
    assert_true(condition_true(crd, "Established"));
    assert_true(condition_true(crd, "NamesAccepted"));
    expect(crd, "status.acceptedNames.listKind", "WidgetList");
    run(f, VERB_CREATE, "widgets.example.com/default", "{\"metadata\":{\"name\":\"w\"},\"spec\":{\"replicas\":2}}",
        201);
    expect(call(f, VERB_GET, "widgets.example.com/default/w/scale", NULL, 200), "spec.replicas", "2");
    expect(call(f, VERB_PATCH, "widgets.example.com/default/w/scale", "{\"spec\":{\"replicas\":3}}", 200),
           "spec.replicas", "3");
    expect(call(f, VERB_GET, "widgets.example.com/default/w", NULL, 200), "metadata.generation", "2");
    run(f, VERB_UPDATE, "widgets.example.com/default/w", "{\"spec\":{}}", 422); /* resourceVersion is needed */
    restart(f);
    run(f, VERB_GET, "widgets.example.com/default/w", NULL, 200);
    run(f, VERB_DELETE, "customresourcedefinitions.apiextensions.k8s.io/-/widgets.example.com", NULL, 200);
    settle(f);
    assert_null(resource(f, "widgets.example.com"));
    run(f, VERB_GET, "customresourcedefinitions.apiextensions.k8s.io/-/widgets.example.com", NULL, 404);
    run(f, VERB_CREATE, "customresourcedefinitions.apiextensions.k8s.io/-",
        "{\"metadata\":{\"name\":\"x.y\"},\"spec\":{}}", 422);
}

static void test_services(void **state)
{
    struct fixture *f = *state;
    struct json *o = call(f, VERB_CREATE, "services/default",
                          "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"ports\":[{\"port\":80}]}}", 201);
    _cleanup_free_ char *ip = xstrdup(json_str_at(o, "spec", "clusterIP", NULL));
    _cleanup_free_ char *same =
        xasprintf("{\"metadata\":{\"name\":\"b\"},\"spec\":{\"clusterIP\":\"%s\",\"ports\":[{\"port\":80}]}}", ip);

    assert_non_null(str_skip_prefix(ip, "10.96."));
    expect(o, "spec.ports.0.targetPort", "80");
    run(f, VERB_CREATE, "services/default", same, 422);
    run(f, VERB_PATCH, "services/default/a", "{\"spec\":{\"clusterIP\":\"10.96.0.9\"}}", 422);
    run(f, VERB_DELETE, "services/default/a", NULL, 200);
    run(f, VERB_CREATE, "services/default", same, 201);
    expect(call(f, VERB_CREATE, "services/default", "{\"metadata\":{\"name\":\"h\"},\"spec\":{\"clusterIP\":\"None\"}}",
                201),
           "spec.clusterIPs", "[\"None\"]");
    run(f, VERB_CREATE, "services/default", "{\"metadata\":{\"name\":\"1a\"},\"spec\":{\"ports\":[{\"port\":80}]}}",
        422);
    run(f, VERB_CREATE, "services/default", "{\"metadata\":{\"name\":\"c\"},\"spec\":{\"ports\":[]}}", 422);
}

static void test_secrets(void **state)
{
    struct fixture *f = *state;

    struct json *o = call(
        f, VERB_CREATE, "secrets/default",
        "{\"metadata\":{\"name\":\"a\"},\"data\":{\"x\":\"eA==\"},\"stringData\":{\"y\":\"why\"},\"immutable\":true}",
        201);
    assert_false(json_has(o, "stringData"));
    assert_string_equal(json_str_at(o, "type", NULL), "Opaque");
    expect(o, "data", "{\"x\":\"eA==\",\"y\":\"d2h5\"}");
    run(f, VERB_PATCH, "secrets/default/a", "{\"stringData\":{\"y\":\"z\"}}", 422);
    run(f, VERB_CREATE, "secrets/default", "{\"metadata\":{\"name\":\"b\"},\"data\":{\"x\":\"not base64\"}}", 422);
    run(f, VERB_CREATE, "secrets/default", "{\"metadata\":{\"name\":\"b\"},\"data\":{\"x/y\":\"eA==\"}}", 422);
}

/* One store, two shapes. */
static void test_events(void **state)
{
    struct fixture *f = *state;

    run(f, VERB_CREATE, "events/default",
        "{\"metadata\":{\"name\":\"e\"},\"involvedObject\":{\"kind\":\"Pod\",\"name\":\"p\",\"namespace\":\"default\"},"
        "\"message\":\"m\",\"reason\":\"R\",\"type\":\"Normal\",\"source\":{\"component\":\"c\"},\"count\":1}",
        201);
    struct json *o = call(f, VERB_GET, "events.events.k8s.io/default/e", NULL, 200);
    assert_string_equal(object_api_version(o), "events.k8s.io/v1");
    assert_string_equal(json_str_at(o, "note", NULL), "m");
    expect(o, "regarding.name", "p");
    run(f, VERB_PATCH, "events/default/e", "{\"count\":2}", 200);
    expect(call(f, VERB_GET, "events.events.k8s.io/default/e", NULL, 200), "deprecatedCount", "2");
    run(f, VERB_CREATE, "events/default",
        "{\"metadata\":{\"name\":\"f\"},\"involvedObject\":{\"namespace\":\"other\"}}", 422);
}

static void test_reviews(void **state)
{
    struct fixture *f = *state;
    const struct resource *r = resource(f, "selfsubjectaccessreviews.authorization.k8s.io");
    static char node[] = "system:nodes", *groups[] = {node, NULL};
    static const struct {
        const char *verb, *resource;
        bool allowed;
    } cases[] = {{"list", "pods", true}, {"delete", "pods", true}, {"list", "roles", false}, {"use", "pods", false}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(user_info_free_p) struct user_info *user = user_info_new("n", NULL, groups);
        _cleanup_json_ struct json *body = json_build("{s:{s:{s:s, s:s}}}", "spec", "resourceAttributes", "verb",
                                                      cases[i].verb, "resource", cases[i].resource);
        struct api_call c = api_internal_call(f->server, VERB_CREATE, r, "", "");
        c.user = user;
        c.body = body;
        api_execute(&c);
        assert_int_equal(c.result.code, 201);
        assert_int_equal(json_bool_or(json_at(c.result.object, "status", "allowed", NULL), false), cases[i].allowed);
        api_result_clear(&c.result);
    }
}

static void test_delete_collection(void **state)
{
    struct fixture *f = *state;

    create_map(f, "configmaps/default", "a", "");
    create_map(f, "configmaps/default", "b", "");
    expect(call(f, VERB_DELETE_COLLECTION, "configmaps/default", NULL, 200), "", "2");
    expect(call(f, VERB_LIST, "configmaps/default", NULL, 200), "", "0");
}

/* --- the in-process client --- */

struct answer {
    bool done;
    int status;
    int64_t revisions[8];
    size_t completed;
    struct json *object;
};

static void on_done(void *arg, int status, struct json *object, const struct error *err)
{
    struct answer *a = arg;

    (void)err;
    a->done = true;
    a->status = status;
    a->object = json_ref(object);
}

static void on_transaction(void *arg, size_t completed, const int64_t *revisions, const struct error *err)
{
    struct answer *a = arg;

    a->done = true;
    a->status = err ? err->code : 0;
    a->completed = completed;
    memcpy(a->revisions, revisions, sizeof(a->revisions[0]) * MIN(completed, ARRAY_LEN(a->revisions)));
}

struct seen {
    char text[1024];
};

static void on_seen(void *arg, enum kube_event_type type, struct json *object)
{
    struct seen *s = arg;
    static const char types[] = "+~-b";

    (void)snprintf(s->text + strlen(s->text), sizeof(s->text) - strlen(s->text), "%c%s ", types[type],
                   object_name(object));
}

static void on_synced(void *arg, int64_t revision)
{
    struct seen *s = arg;

    (void)revision;
    (void)snprintf(s->text + strlen(s->text), sizeof(s->text) - strlen(s->text), "| ");
}

static const struct kube_watch_callbacks watch_callbacks = {on_seen, on_synced};

static void test_inproc(void **state)
{
    struct fixture *f = *state;
    struct kube *k = inproc_new(f->server);
    struct seen all = {0}, labelled = {0};
    struct answer a = {0}, b = {0}, c = {0};
    _cleanup_json_ struct json *one = parse("{\"metadata\":{\"name\":\"one\",\"labels\":{\"x\":\"y\"}}}");
    _cleanup_json_ struct json *two = parse("{\"metadata\":{\"name\":\"two\"}}");
    _cleanup_json_ struct json *service =
        parse("{\"metadata\":{\"name\":\"svc\"},\"spec\":{\"ports\":[{\"port\":1}]}}");
    _cleanup_json_ struct json *unlabel = parse("{\"metadata\":{\"labels\":null}}");

    create_map(f, "configmaps/default", "zero", "");
    struct kube_watch *w = kube_watch_start(k, &KUBE_CONFIGMAPS, NULL, NULL, NULL, &watch_callbacks, &all);
    struct kube_watch *l = kube_watch_start(k, &KUBE_CONFIGMAPS, "default", "x=y", NULL, &watch_callbacks, &labelled);
    assert_string_equal(all.text, "");
    settle(f);
    const struct kube_request create_one = {
        .verb = KUBE_CREATE, .resource = &KUBE_CONFIGMAPS, .ns = "default", .body = one};
    kube_do(k, &create_one, on_done, &a);
    assert_false(a.done);
    run(f, VERB_GET, "configmaps/default/one", NULL, 200); /* there at once */
    settle(f);
    assert_true(a.done);
    assert_int_equal(a.status, 201);

    /* All or nothing: the second creation fails. */
    int64_t before = store_revision(f->server->store);
    const struct kube_request fails[] = {
        {.verb = KUBE_CREATE, .resource = &KUBE_SERVICES, .ns = "default", .body = service},
        {.verb = KUBE_CREATE, .resource = &KUBE_CONFIGMAPS, .ns = "default", .body = two},
        {.verb = KUBE_CREATE, .resource = &KUBE_CONFIGMAPS, .ns = "default", .body = one},
    };
    k->ops->transaction(k, fails, 3, on_transaction, &b);
    settle(f);
    assert_int_equal(b.status, EEXIST);
    assert_int_equal(b.completed, 2);
    assert_int_equal(store_revision(f->server->store), before);
    run(f, VERB_GET, "configmaps/default/two", NULL, 404);
    run(f, VERB_GET, "services/default/svc", NULL, 404);

    const struct kube_request works[] = {
        {.verb = KUBE_DELETE, .resource = &KUBE_CONFIGMAPS, .ns = "default", .name = "nope"},
        {.verb = KUBE_CREATE, .resource = &KUBE_CONFIGMAPS, .ns = "default", .body = two},
        {.verb = KUBE_PATCH_MERGE, .resource = &KUBE_CONFIGMAPS, .ns = "default", .name = "one", .body = unlabel},
        {.verb = KUBE_PATCH_MERGE, .resource = &KUBE_CONFIGMAPS, .ns = "default", .name = "one", .body = unlabel},
        {.verb = KUBE_DELETE, .resource = &KUBE_CONFIGMAPS, .ns = "default", .name = "zero"},
    };
    k->ops->transaction(k, works, 5, on_transaction, &c);
    settle(f);
    assert_int_equal(c.status, 0);
    assert_int_equal(c.completed, 5);
    assert_int_equal(c.revisions[0], 0);
    assert_int_equal(c.revisions[1], before + 1);
    assert_int_equal(c.revisions[2], before + 2);
    assert_int_equal(c.revisions[3], 0);
    assert_int_equal(c.revisions[4], before + 3);
    assert_string_equal(all.text, "+zero | +one +two ~one -zero ");
    assert_string_equal(labelled.text, "| +one -one ");
    kube_watch_stop(w);
    kube_watch_stop(l);
    json_unref(a.object);
    kube_free(k);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_create),
        CASE(test_update),
        CASE(test_status),
        CASE(test_pods),
        CASE(test_finalizers),
        CASE(test_gc_background),
        CASE(test_gc_survives_restart),
        CASE(test_gc_foreground),
        CASE(test_gc_orphan),
        CASE(test_gc_two_owners),
        CASE(test_namespaces),
        CASE(test_definitions),
        CASE(test_services),
        CASE(test_secrets),
        CASE(test_events),
        CASE(test_delete_collection),
        CASE(test_reviews),
        CASE(test_inproc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
