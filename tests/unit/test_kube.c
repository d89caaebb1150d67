#include "test.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "kube/informer.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "kube/runner.h"

#include <event2/event.h>

static void test_selectors(void **state UNUSED)
{
    static const struct {
        const char *selector, *labels;
        int result; /* -1: does not parse */
    } cases[] = {
        {"", "{}", 1},
        {"a=b", "{\"a\":\"b\"}", 1},
        {"a==b,c!=d", "{\"a\":\"b\"}", 1},
        {"a==b,c!=d", "{\"a\":\"b\",\"c\":\"d\"}", 0},
        {"a", "{\"a\":\"\"}", 1},
        {"!a", "{\"a\":\"\"}", 0},
        {"a in (x, y)", "{\"a\":\"y\"}", 1},
        {"a notin (x,y)", "{}", 1},
        {"a notin (x,y)", "{\"a\":\"x\"}", 0},
        {"n>5", "{\"n\":\"6\"}", 1},
        {"n<5", "{\"n\":\"6\"}", 0},
        {"a=", "{\"a\":\"\"}", 1},
        {"agents.x-k8s.io/sandbox-name-hash=0badf00d", "{\"agents.x-k8s.io/sandbox-name-hash\":\"0badf00d\"}", 1},
        {"a b", "{}", -1},
        {"a in x", "{}", -1},
        {"=b", "{}", -1},
        {"a=b=c", "{}", -1},
        {"n>x", "{}", -1},
        {"a=b,", "{}", -1},
        {"/x=b", "{}", -1},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        _cleanup_(selector_free_p) struct selector *s = selector_parse(cases[i].selector, &err);
        _cleanup_json_ struct json *labels = json_parse(cases[i].labels, strlen(cases[i].labels), NULL);
        int result = s ? selector_matches(s, labels) : -1;
        if (result != cases[i].result)
            print_error("%s on %s: %d (%s)\n", cases[i].selector, cases[i].labels, result, error_text(&err));
        assert_int_equal(result, cases[i].result);
    }
}

static void test_field_selectors(void **state UNUSED)
{
    static const struct {
        const char *selector;
        int result;
    } cases[] = {{"metadata.name=a,status.phase!=Failed", 1},
                 {"spec.hostNetwork=true", 1},
                 {"spec.missing=", 1},
                 {"spec.text=x\\,y", 1},
                 {"metadata.name==b", 0},
                 {"metadata.name", -1},
                 {"a=b=c", -1}};
    static const char text[] = "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"hostNetwork\":true,\"text\":\"x,y\"}}";
    _cleanup_json_ struct json *object = json_parse(text, strlen(text), NULL);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(field_selector_free_p) struct field_selector *s = field_selector_parse(cases[i].selector, NULL);
        assert_int_equal(s ? field_selector_matches(s, object) : -1, cases[i].result);
    }
}

static void test_conditions(void **state UNUSED)
{
    _cleanup_json_ struct json *list = json_array_make();

    assert_true(condition_set(list, "Ready", "False", "Starting", "", 1, 1000 * NSEC_PER_SEC));
    assert_false(condition_set(list, "Ready", "False", "Starting", "", 1, 2000 * NSEC_PER_SEC));
    assert_true(condition_set(list, "Ready", "False", "Waiting", "", 1, 2000 * NSEC_PER_SEC));
    assert_string_equal(json_str(json_get(condition_find(list, "Ready"), "lastTransitionTime")),
                        "1970-01-01T00:16:40Z");
    assert_true(condition_set(list, "Ready", "True", "Ok", "", 2, 3000 * NSEC_PER_SEC));
    assert_string_equal(json_str(json_get(condition_find(list, "Ready"), "lastTransitionTime")),
                        "1970-01-01T00:50:00Z");
    assert_true(condition_remove(list, "Ready"));
    assert_false(condition_remove(list, "Ready"));
}

/* A transport made of a table: writes succeed and come back as watch events one turn later. */
struct fake {
    struct kube kube;
    struct event_base *base;
    struct fake_watch *watches;
    int64_t revision;
    int creates, fail_next, fail_code;
};

struct fake_watch {
    struct kube_watch watch;
    struct fake_watch *next;
    const struct kube_resource *resource;
    const struct kube_watch_callbacks *cb;
    void *arg;
};

struct fake_call {
    struct fake *fake;
    kube_done done;
    void *arg;
    const struct kube_resource *resource;
    struct json *object;
    bool fail;
};

static void fake_publish(struct fake *f, const struct kube_resource *r, struct json *object)
{
    for (struct fake_watch *w = f->watches; w; w = w->next)
        if (w->resource == r)
            w->cb->event(w->arg, KUBE_ADDED, object);
}

static void fake_event(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct fake_call *call = arg;

    fake_publish(call->fake, call->resource, call->object);
    json_unref(call->object);
    free(call);
}

static void fake_answer(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct fake_call *call = arg;
    _cleanup_error_ struct error err = ERROR_INIT;

    if (call->fail) {
        (void)error_set(&err, call->fake->fail_code ? call->fake->fail_code : EIO, "made to fail");
        call->done(call->arg, 500, NULL, &err);
        json_unref(call->object);
        free(call);
        return;
    }
    call->done(call->arg, 201, call->object, NULL);
    /* The cache hears of it later than the writer. */
    struct timeval later = {.tv_usec = 2000};
    (void)event_base_once(call->fake->base, -1, EV_TIMEOUT, fake_event, call, &later);
}

static void fake_request(struct kube *k, const struct kube_request *q, kube_done done, void *arg)
{
    struct fake *f = container_of(k, struct fake, kube);
    struct fake_call *call = xcalloc(1, sizeof(*call));
    struct timeval now = {0};

    *call = (struct fake_call){.fake = f,
                               .done = done,
                               .arg = arg,
                               .resource = q->resource,
                               .object = json_copy(q->body),
                               .fail = f->fail_next > 0};
    if (call->fail) {
        f->fail_next--;
    } else {
        _cleanup_free_ char *rv = xasprintf("%lld", (long long)++f->revision);
        json_set_str(json_ensure_object(call->object, "metadata"), "resourceVersion", rv);
        f->creates++;
    }
    (void)event_base_once(f->base, -1, EV_TIMEOUT, fake_answer, call, &now);
}

static struct kube_watch *fake_watch(struct kube *k, const struct kube_resource *r, const char *ns UNUSED,
                                     const char *labels UNUSED, const char *fields UNUSED,
                                     const struct kube_watch_callbacks *cb, void *arg)
{
    struct fake *f = container_of(k, struct fake, kube);
    struct fake_watch *w = xcalloc(1, sizeof(*w));

    *w = (struct fake_watch){.watch = {k}, .next = f->watches, .resource = r, .cb = cb, .arg = arg};
    f->watches = w;
    return &w->watch;
}

static void fake_watch_stop(struct kube_watch *watch)
{
    struct fake *f = container_of(watch->kube, struct fake, kube);

    for (struct fake_watch **p = &f->watches; *p; p = &(*p)->next) {
        if (&(*p)->watch == watch) {
            struct fake_watch *w = *p;
            *p = w->next;
            free(w);
            return;
        }
    }
}

static const struct kube_ops fake_ops = {.request = fake_request, .watch = fake_watch, .watch_stop = fake_watch_stop};

static int reconciles;

/* Makes one Pod for each Sandbox that has none. With a cache behind its own writes it would make many. */
static void reconcile_one_pod(const struct world *w, const char *ns, const char *name, struct plan *plan)
{
    struct json *sandbox = w->get(w, &KUBE_SANDBOXES, ns, name);

    reconciles++;
    if (!sandbox)
        return;
    _cleanup_json_ struct json *pods = w->owned(w, &KUBE_PODS, object_uid(sandbox));
    if (json_size(pods) == 0)
        plan_create(plan, &KUBE_PODS,
                    json_build("{s:{s:s, s:s, s:[o]}}", "metadata", "name", name, "namespace", ns, "ownerReferences",
                               owner_reference(sandbox)));
}

static const struct kube_resource *const owned_pods[] = {&KUBE_PODS, NULL};
static const struct controller one_pod = {
    .name = "one-pod", .primary = &KUBE_SANDBOXES, .owned = owned_pods, .reconcile = reconcile_one_pod};

static void publish_sandbox(struct fake *f, const char *name)
{
    _cleanup_free_ char *rv = xasprintf("%lld", (long long)++f->revision);
    _cleanup_json_ struct json *sandbox =
        json_build("{s:s, s:s, s:{s:s, s:s, s:s, s:s}}", "apiVersion", "agents.x-k8s.io/v1beta1", "kind", "Sandbox",
                   "metadata", "name", name, "namespace", "default", "uid", name, "resourceVersion", rv);

    fake_publish(f, &KUBE_SANDBOXES, sandbox);
}

static void stop(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    (void)event_base_loopbreak(arg);
}

static void run_ms(struct fake *f, int ms)
{
    struct timeval tv = {.tv_usec = ms * 1000};

    (void)event_base_once(f->base, -1, EV_TIMEOUT, stop, f->base, &tv);
    (void)event_base_dispatch(f->base);
}

static void test_runner(void **state UNUSED)
{
    struct fake f = {.kube = {&fake_ops}, .base = event_base_new()};
    struct runner *r = runner_new(f.base, &f.kube, &clock_system);

    runner_add(r, &one_pod);
    runner_start(r);
    publish_sandbox(&f, "a");
    run_ms(&f, 20);
    assert_int_equal(reconciles, 0); /* not synced: the Pods may exist already */
    for (struct fake_watch *w = f.watches; w; w = w->next)
        w->cb->synced(w->arg, f.revision);
    publish_sandbox(&f, "a"); /* wakes it again and again while its own write is not seen yet */
    publish_sandbox(&f, "a");
    run_ms(&f, 50);
    publish_sandbox(&f, "a");
    run_ms(&f, 50);
    assert_int_equal(f.creates, 1);

    f.fail_next = 3; /* backs off and comes through */
    publish_sandbox(&f, "b");
    run_ms(&f, 200);
    assert_int_equal(f.creates, 2);
    assert_true(runner_idle(r));
    runner_free(r);
    assert_null(f.watches);
    event_base_free(f.base);
}

static int told;

static void refused_for_good(const struct world *w UNUSED, const char *ns UNUSED, const char *name UNUSED,
                             const struct error *err, struct plan *plan)
{
    assert_int_equal(err->code, EACCES);
    told++;
    plan->permanent = true;
}

/* What is forbidden until something changes is not tried again and again. */
static void test_runner_waits_for_a_change(void **state UNUSED)
{
    struct controller patient = one_pod;
    struct fake f = {.kube = {&fake_ops}, .base = event_base_new(), .fail_code = EACCES};
    struct runner *r = runner_new(f.base, &f.kube, &clock_system);

    patient.refused = refused_for_good;
    runner_add(r, &patient);
    runner_start(r);
    for (struct fake_watch *w = f.watches; w; w = w->next)
        w->cb->synced(w->arg, f.revision);
    reconciles = 0;
    f.fail_next = 1;
    publish_sandbox(&f, "c");
    run_ms(&f, 200); /* the first back-off takes 5 ms */
    assert_int_equal(told, 1);
    assert_int_equal(reconciles, 1);
    publish_sandbox(&f, "c");
    run_ms(&f, 50);
    assert_int_equal(f.creates, 1);
    runner_free(r);
    event_base_free(f.base);
}

static void test_quantities(void **state UNUSED)
{
    static const struct {
        const char *text;
        int64_t value, milli;
        const char *canonical; /* NULL: not a quantity */
    } cases[] = {{".1Ei", 115292150460684698, INT64_MAX, "115292150460684697600m"},
                 {"115292150460684697600m", 115292150460684698, INT64_MAX, "115292150460684697600m"},
                 {"100m", 1, 100, "100m"},
                 {"1.5Gi", 1610612736, 1610612736000, "1536Mi"},
                 {"0.5", 1, 500, "500m"},
                 {"2e3", 2000, 2000000, "2k"},
                 {"1Ei", 1152921504606846976, INT64_MAX, "1Ei"},
                 {"1000000", 1000000, 1000000000, "1M"},
                 {"-5", -5, -5000, "-5"},
                 {".5", 1, 500, "500m"},
                 {"0", 0, 0, "0"},
                 {"1e-3", 1, 1, "1m"},
                 {"0.0000000001", 1, 1, "1n"},
                 {"512Mi", 536870912, 536870912000, "512Mi"},
                 {"10000000000.000000001", 10000000001, 10000000000001, "10000000000000000001n"},
                 {"", 0, 0, NULL},
                 {"abc", 0, 0, NULL},
                 {"1.2.3", 0, 0, NULL},
                 {"1Kb", 0, 0, NULL},
                 {"1 Gi", 0, 0, NULL},
                 {"1e", 0, 0, NULL},
                 {"Gi", 0, 0, NULL}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct quantity q;
        int r = quantity_parse(cases[i].text, &q, NULL);
        if ((r == 0) != (cases[i].canonical != NULL))
            print_error("\"%s\": %d\n", cases[i].text, r);
        assert_int_equal(r == 0, cases[i].canonical != NULL);
        if (r < 0)
            continue;
        _cleanup_free_ char *canonical = quantity_format(&q);
        assert_string_equal(canonical, cases[i].canonical);
        assert_true(quantity_value(&q) == cases[i].value);
        assert_true(quantity_milli(&q) == cases[i].milli);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_selectors),  cmocka_unit_test(test_field_selectors),
        cmocka_unit_test(test_conditions), cmocka_unit_test(test_runner),
        cmocka_unit_test(test_quantities), cmocka_unit_test(test_runner_waits_for_a_change),
    };
    return cmocka_run_group_tests_name("kube", tests, NULL, NULL);
}
