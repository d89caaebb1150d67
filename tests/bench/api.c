/*
 * Latencies through the API of a running holt, as a client sees them:
 *   cold   POST Sandbox → Ready seen by a watcher
 *   gone   DELETE Sandbox → deletion of its Pod seen by a watcher
 *   exec   exec of `true` in a running sandbox, on a connection that is already open
 *
 *     bench_api KUBECONFIG [ROUNDS] [IMAGE]
 *
 * Prints one JSON object a line: {"name", "n", "min_us", "p50_us", "p99_us"}.
 */
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "kube/kube_http.h"
#include "kube/object.h"
#include "wire/http.h"
#include "wire/tls.h"
#include "wire/websocket.h"

#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#define MESSAGE_MAX_BYTES (1u << 20)

struct bench {
    struct event_base *base;
    struct kube *kube;
    struct http_client *http;
    const char *image;
    char *waiting_for; /* name of the sandbox */
    bool ready, pod_gone, done;
    int status;
    int64_t stamp;
    struct http_headers handshake;
};

static void stop(struct bench *b)
{
    (void)event_base_loopbreak(b->base);
}

static void on_sandbox(void *arg, enum kube_event_type type, struct json *object)
{
    struct bench *b = arg;

    if (type == KUBE_BOOKMARK || !b->waiting_for || !streq(object_name(object), b->waiting_for))
        return;
    if (type != KUBE_DELETED && condition_true(object, "Ready")) {
        b->stamp = time_monotonic_ns();
        b->ready = true;
        stop(b);
    }
}

static void on_pod(void *arg, enum kube_event_type type, struct json *object)
{
    struct bench *b = arg;

    if (type != KUBE_DELETED || !b->waiting_for || !streq(object_name(object), b->waiting_for))
        return;
    b->stamp = time_monotonic_ns();
    b->pod_gone = true;
    stop(b);
}

static void on_synced(void *arg UNUSED, int64_t revision UNUSED)
{
}

static void on_done(void *arg, int status, struct json *object UNUSED, const struct error *err)
{
    struct bench *b = arg;

    b->status = status;
    if (err)
        (void)fprintf(stderr, "request failed: %s\n", error_text(err));
    b->done = true;
    stop(b);
}

static void wait_for(struct bench *b, const bool *flag)
{
    while (!*flag && event_base_dispatch(b->base) == 0)
        ;
}

static void request(struct bench *b, enum kube_verb verb, const char *name, struct json *body)
{
    struct kube_request q = {.verb = verb, .resource = &KUBE_SANDBOXES, .ns = "default", .name = name, .body = body};

    b->done = false;
    kube_do(b->kube, &q, on_done, b);
}

static int compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static void report(const char *name, int64_t *ns, size_t n)
{
    if (!n)
        return;
    qsort(ns, n, sizeof(*ns), compare);
    (void)printf("{\"name\":\"%s\",\"n\":%zu,\"min_us\":%" PRId64 ",\"p50_us\":%" PRId64 ",\"p99_us\":%" PRId64 "}\n",
                 name, n, ns[0] / 1000, ns[n / 2] / 1000, ns[n * 99 / 100] / 1000);
}

static struct json *sandbox(const struct bench *b, const char *name)
{
    return json_build("{s:s, s:s, s:{s:s}, s:{s:{s:{s:i, s:[{s:s, s:s, s:[s, s]}]}}}}", "apiVersion",
                      "agents.x-k8s.io/v1beta1", "kind", "Sandbox", "metadata", "name", name, "spec", "podTemplate",
                      "spec", "terminationGracePeriodSeconds", (int64_t)0, "containers", "name", "main", "image",
                      b->image, "command", "sleep", "infinity");
}

static void cold(struct bench *b, size_t rounds)
{
    _cleanup_free_ int64_t *up = xcalloc(rounds, sizeof(*up)), *down = xcalloc(rounds, sizeof(*down));

    for (size_t i = 0; i < rounds; i++) {
        _cleanup_free_ char *name = xasprintf("bench-%zu", i);
        _cleanup_json_ struct json *object = sandbox(b, name);

        b->waiting_for = name;
        b->ready = b->pod_gone = false;
        int64_t start = time_monotonic_ns();
        request(b, KUBE_CREATE, NULL, object);
        wait_for(b, &b->ready);
        up[i] = b->stamp - start;
        wait_for(b, &b->done);
        start = time_monotonic_ns();
        request(b, KUBE_DELETE, name, NULL);
        wait_for(b, &b->pod_gone);
        down[i] = b->stamp - start;
        wait_for(b, &b->done);
        b->waiting_for = NULL;
    }
    report("cold", up, rounds);
    report("gone", down, rounds);
}

static void on_message(void *arg, struct websocket *ws UNUSED, bool binary UNUSED, const char *data, size_t len)
{
    struct bench *b = arg;

    if (len && data[0] == 3) { /* the Status: the command has ended */
        b->stamp = time_monotonic_ns();
        b->status = memmem(data, len, "Success", 7) ? 0 : 1;
    }
}

static void on_closed(void *arg, struct websocket *ws UNUSED, int code UNUSED)
{
    struct bench *b = arg;

    b->done = true;
    stop(b);
}

static void on_upgraded(void *arg, struct bufferevent *bev, const struct http_headers *answer)
{
    static const struct websocket_callbacks callbacks = {.message = on_message, .closed = on_closed};
    struct bench *b = arg;

    if (!websocket_connected(b->base, bev, &b->handshake, answer, MESSAGE_MAX_BYTES, &callbacks, b)) {
        b->done = true;
        stop(b);
    }
}

static void on_http_done(void *arg, int status, const struct http_headers *headers UNUSED, const char *body, size_t len)
{
    struct bench *b = arg;

    b->status = status;
    if (status >= 400)
        (void)fprintf(stderr, "HTTP %d: %.*s\n", status, (int)len, body);
    b->done = true;
    stop(b);
}

static void on_http_failed(void *arg, const struct error *err)
{
    struct bench *b = arg;

    (void)fprintf(stderr, "%s\n", error_text(err));
    b->status = -1;
    b->done = true;
    stop(b);
}

static void exec_true(struct bench *b, size_t rounds)
{
    static const struct http_call_callbacks callbacks = {.done = on_http_done, .failed = on_http_failed};
    static const char target[] = "/api/v1/namespaces/default/pods/bench-exec/exec?command=true&stdout=true&stderr=true";
    _cleanup_free_ int64_t *ns = xcalloc(rounds, sizeof(*ns));
    _cleanup_json_ struct json *object = sandbox(b, "bench-exec");
    size_t n = 0;

    b->waiting_for = (char *)"bench-exec";
    b->ready = false;
    request(b, KUBE_CREATE, NULL, object);
    wait_for(b, &b->ready);
    wait_for(b, &b->done);
    for (size_t i = 0; i < rounds; i++) {
        b->done = false; /* opens a connection, or proves that one is open */
        (void)http_call(b->http, "GET", "/version", NULL, NULL, 0, 10000, &callbacks, b);
        wait_for(b, &b->done);
        http_headers_free(&b->handshake);
        websocket_handshake(&b->handshake, "v5.channel.k8s.io");
        b->done = false;
        b->status = 1;
        int64_t start = time_monotonic_ns();
        (void)http_call_upgrade(b->http, "GET", target, &b->handshake, &callbacks, on_upgraded, b);
        wait_for(b, &b->done);
        if (b->status == 0)
            ns[n++] = b->stamp - start;
    }
    request(b, KUBE_DELETE, "bench-exec", NULL);
    wait_for(b, &b->done);
    report("exec", ns, n);
}

int main(int argc, char **argv)
{
    static const struct kube_watch_callbacks sandboxes = {.event = on_sandbox, .synced = on_synced};
    static const struct kube_watch_callbacks pods = {.event = on_pod, .synced = on_synced};
    _cleanup_error_ struct error err = ERROR_INIT;
    struct kubeconfig config;
    struct ssl_ctx_st *tls = NULL;
    uint64_t rounds = 200;

    if (argc < 2 || (argc > 2 && !parse_u64(argv[2], &rounds)) || kubeconfig_load(argv[1], &config, &err) < 0) {
        (void)fprintf(stderr, "usage: bench_api KUBECONFIG [ROUNDS] [IMAGE]\n%s\n", err.code ? error_text(&err) : "");
        return 64;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    struct bench b = {.base = event_base_new(), .image = argc > 3 ? argv[3] : "host"};
    b.kube = kube_http_new(b.base, &config, "bench", &err);
    b.http = kube_http_client_new(b.base, &config, "bench", &tls, &err);
    if (!b.kube || !b.http) {
        (void)fprintf(stderr, "%s\n", error_text(&err));
        return 1;
    }
    struct kube_watch *ws = kube_watch_start(b.kube, &KUBE_SANDBOXES, "default", NULL, NULL, &sandboxes, &b);
    struct kube_watch *wp = kube_watch_start(b.kube, &KUBE_PODS, "default", NULL, NULL, &pods, &b);
    cold(&b, rounds);
    exec_true(&b, rounds);
    kube_watch_stop(ws);
    kube_watch_stop(wp);
    kube_free(b.kube);
    http_client_free(b.http);
    tls_context_free(tls);
    http_headers_free(&b.handshake);
    event_base_free(b.base);
    kubeconfig_free(&config);
    return 0;
}
