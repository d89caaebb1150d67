/* What the status of a Pod says for what the node knows. */
#include "test.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "kube/object.h"
#include "node/pod_status.h"

#define S NSEC_PER_SEC

static const char pod_text[] =
    "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u\"},\"spec\":{\"containers\":[{\"name\":\"c\","
    "\"image\":\"host\"}],\"initContainers\":[{\"name\":\"i\",\"image\":\"host\"}]},\"status\":{\"phase\":\"Pending\","
    "\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\",\"lastTransitionTime\":\"2020-01-01T00:00:00Z\"},"
    "{\"type\":\"example.com/mine\",\"status\":\"False\"}]}}";

static struct json *parse(const char *text)
{
    struct json *v = json_parse(text, strlen(text), NULL);

    assert_non_null(v);
    return v;
}

static struct container_exit exited(int code, const char *reason)
{
    return (struct container_exit){
        .valid = true, .code = code, .reason = xstrdup(reason), .started_ns = 5 * S, .finished_ns = 9 * S};
}

/* A Pod with one init container, in the middle of its life. */
static void make_state(struct pod_state *s, size_t current, enum container_phase phase)
{
    pod_state_init(s, 2);
    s->start_ns = 3 * S;
    s->pod_ip = xstrdup("10.88.0.7");
    s->current = current;
    s->sandbox = phase == CONTAINER_RUNNING;
    struct container_record *c = &s->containers[current];
    if (current == 1) {
        s->containers[0].phase = CONTAINER_TERMINATED;
        s->containers[0].exit = exited(0, "Completed");
        s->containers[0].ready = true;
    }
    c->phase = phase;
    if (phase == CONTAINER_RUNNING) {
        c->started_ns = 5 * S;
        c->ready = c->started = current == 1;
    }
    if (phase == CONTAINER_TERMINATED)
        c->exit = exited(3, "Error");
}

static void test_phases(void **state UNUSED)
{
    static const struct {
        size_t current;
        enum container_phase phase;
        bool ran_before;
        const char *over, *expect;
        const char *initialized, *ready, *ready_reason;
    } cases[] = {
        {0, CONTAINER_WAITING, false, NULL, "Pending", "False", "False", "ContainersNotReady"},
        {0, CONTAINER_RUNNING, false, NULL, "Pending", "False", "False", "ContainersNotReady"},
        {1, CONTAINER_WAITING, false, NULL, "Pending", "True", "False", "ContainersNotReady"},
        {1, CONTAINER_RUNNING, false, NULL, "Running", "True", "True", ""},
        {1, CONTAINER_TERMINATED, false, NULL, "Running", "True", "False", "ContainersNotReady"},
        {1, CONTAINER_WAITING, true, NULL, "Running", "True", "False", "ContainersNotReady"},
        {1, CONTAINER_TERMINATED, false, "Succeeded", "Succeeded", "True", "False", "PodCompleted"},
        {1, CONTAINER_TERMINATED, false, "Failed", "Failed", "True", "False", "PodFailed"},
        {0, CONTAINER_TERMINATED, false, "Failed", "Failed", "False", "False", "PodFailed"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ struct json *pod = parse(pod_text);
        _cleanup_(pod_state_clear) struct pod_state s = {0};
        make_state(&s, cases[i].current, cases[i].phase);
        s.phase = cases[i].over;
        if (cases[i].ran_before)
            s.containers[1].last = exited(1, "Error");
        _cleanup_json_ struct json *patch = pod_status_patch(pod, &s, "192.0.2.1", 100 * S);
        const struct json *status = json_get(patch, "status"), *conditions = json_get(status, "conditions");
        assert_string_equal(json_str(json_get(status, "phase")), cases[i].expect);
        assert_string_equal(json_str(json_get(condition_find(conditions, "Initialized"), "status")),
                            cases[i].initialized);
        const struct json *ready = condition_find(conditions, "Ready");
        assert_string_equal(json_str(json_get(ready, "status")), cases[i].ready);
        assert_string_equal(json_str_or(json_get(ready, "reason"), ""), cases[i].ready_reason);
        assert_string_equal(json_str(json_get(condition_find(conditions, "PodReadyToStartContainers"), "status")),
                            cases[i].phase == CONTAINER_RUNNING ? "True" : "False");
        /* What others set stays. */
        assert_non_null(condition_find(conditions, "example.com/mine"));
        assert_string_equal(json_str(json_get(condition_find(conditions, "PodScheduled"), "lastTransitionTime")),
                            "2020-01-01T00:00:00Z");
    }
}

static void test_whole(void **state UNUSED)
{
    _cleanup_json_ struct json *pod = parse(pod_text);
    _cleanup_(pod_state_clear) struct pod_state s = {0};

    make_state(&s, 1, CONTAINER_RUNNING);
    s.containers[1].id = xstrdup("holt://u-1-2");
    s.containers[1].image_id = xstrdup("sha256:abc");
    s.containers[1].restarts = 2;
    s.containers[1].last = exited(137, "OOMKilled");
    s.containers[1].last.sig = 9;
    s.containers[1].last.message = xstrdup("memory limit 1 reached");
    _cleanup_json_ struct json *patch = pod_status_patch(pod, &s, "192.0.2.1", 100 * S);
    const struct json *status = json_get(patch, "status");
    _cleanup_free_ char *text = json_text(json_get(status, "containerStatuses"));
    assert_string_equal(
        text, "[{\"name\":\"c\",\"image\":\"host\",\"imageID\":\"sha256:abc\",\"containerID\":\"holt://u-1-2\","
              "\"ready\":true,\"started\":true,\"restartCount\":2,\"state\":{\"running\":{\"startedAt\":"
              "\"1970-01-01T00:00:05Z\"}},\"lastState\":{\"terminated\":{\"exitCode\":137,\"signal\":9,\"reason\":"
              "\"OOMKilled\",\"message\":\"memory limit 1 reached\",\"startedAt\":\"1970-01-01T00:00:05Z\","
              "\"finishedAt\":\"1970-01-01T00:00:09Z\"}}}]");
    assert_string_equal(json_str(json_get(json_item(json_get(status, "podIPs"), 0), "ip")), "10.88.0.7");
    assert_string_equal(json_str(json_get(status, "startTime")), "1970-01-01T00:00:03Z");
    assert_string_equal(json_str(json_at(json_item(json_get(status, "initContainerStatuses"), 0), "state", "terminated",
                                         "reason", NULL)),
                        "Completed");

    /* Applied, the same state asks for nothing more; later, transition times stay. */
    _cleanup_json_ struct json *after = json_copy(pod);
    json_set(after, "status", json_copy(status));
    assert_null(pod_status_patch(after, &s, "192.0.2.1", 200 * S));
    s.containers[1].ready = false;
    _cleanup_json_ struct json *unready = pod_status_patch(after, &s, "192.0.2.1", 200 * S);
    const struct json *conditions = json_at(unready, "status", "conditions", NULL);
    assert_string_equal(json_str(json_get(condition_find(conditions, "Ready"), "lastTransitionTime")),
                        "1970-01-01T00:03:20Z");
    assert_string_equal(json_str(json_get(condition_find(conditions, "Ready"), "message")),
                        "containers with unready status: [c]");
    assert_string_equal(json_str(json_get(condition_find(conditions, "Initialized"), "lastTransitionTime")),
                        "1970-01-01T00:01:40Z");
    /* A reason that is over is removed. */
    json_set_str(json_get(after, "status"), "reason", "Evicted");
    _cleanup_json_ struct json *removal = pod_status_patch(after, &s, "192.0.2.1", 200 * S);
    assert_true(json_has(json_get(removal, "status"), "reason"));
    assert_null(json_get(json_get(removal, "status"), "reason"));
}

static void test_readiness_gate(void **state UNUSED)
{
    _cleanup_json_ struct json *pod = parse(pod_text);
    _cleanup_(pod_state_clear) struct pod_state s = {0};

    make_state(&s, 1, CONTAINER_RUNNING);
    json_set(json_get(pod, "spec"), "readinessGates", parse("[{\"conditionType\":\"example.com/mine\"}]"));
    _cleanup_json_ struct json *patch = pod_status_patch(pod, &s, "192.0.2.1", 100 * S);
    const struct json *conditions = json_at(patch, "status", "conditions", NULL);
    assert_string_equal(json_str(json_get(condition_find(conditions, "Ready"), "reason")), "ReadinessGatesNotReady");
    assert_string_equal(json_str(json_get(condition_find(conditions, "ContainersReady"), "status")), "True");
}

static void test_state_survives(void **state UNUSED)
{
    _cleanup_(pod_state_clear) struct pod_state s = {0}, again = {0};
    struct pod_state wrong;
    _cleanup_error_ struct error err = ERROR_INIT;

    make_state(&s, 1, CONTAINER_TERMINATED);
    s.containers[1].restarts = 4;
    s.containers[1].log_base[GUEST_STREAM_STDERR] = 1ull << 40;
    container_set_waiting(&s.containers[0], "ImagePullBackOff", "why");
    _cleanup_json_ struct json *v = pod_state_to_json(&s);
    assert_int_equal(pod_state_from_json(v, 2, &again, &err), 0);
    _cleanup_json_ struct json *w = pod_state_to_json(&again);
    assert_true(json_equal(v, w));
    assert_int_equal(pod_state_from_json(v, 1, &wrong, &err), -EINVAL);
    assert_int_equal(pod_state_from_json(NULL, 2, &wrong, &err), -EINVAL);
    json_set_int(v, "current", 2);
    assert_int_equal(pod_state_from_json(v, 2, &wrong, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_readiness_gate),
        cmocka_unit_test(test_state_survives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
