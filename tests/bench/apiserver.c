/*
 * Writes and reads per second of a running API server, as HTTPS clients see them.
 *
 *     bench_apiserver KUBECONFIG [CLIENTS] [OBJECTS] [configmap|sandbox] [keep]
 *
 * CLIENTS connections create OBJECTS objects as fast as answers come, then read each, then (without keep) delete each.
 * Prints one JSON object a line: {"name", "clients", "n", "per_second", "p50_us", "p99_us", "max_us"}.
 */
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "kube/kube_http.h"
#include "kube/object.h"

#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

struct bench {
    struct event_base *base;
    struct kube *kube;
    const struct kube_resource *resource;
    bool sandbox;
    enum kube_verb verb;
    uint64_t clients, count, next, finished;
    int64_t *latencies;
};

struct client {
    struct bench *bench;
    int64_t started_ns;
};

static void next(struct client *c);

static struct json *object(const struct bench *b, uint64_t i)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "bench-%" PRIu64, i);
    if (b->sandbox)
        return json_build("{s:s, s:s, s:{s:s, s:{s:s}}, s:{s:s, s:{s:{s:[{s:s, s:s, s:[s, s]}]}}}}", "apiVersion",
                          "agents.x-k8s.io/v1beta1", "kind", "Sandbox", "metadata", "name", name, "labels", "app",
                          "bench", "spec", "operatingMode", "Suspended", "podTemplate", "spec", "containers", "name",
                          "main", "image", "base", "command", "sleep", "inf");
    return json_build("{s:s, s:s, s:{s:s}, s:{s:s}}", "apiVersion", "v1", "kind", "ConfigMap", "metadata", "name", name,
                      "data", "key", "value");
}

static void on_done(void *arg, int status, struct json *answer UNUSED, const struct error *err)
{
    struct client *c = arg;
    struct bench *b = c->bench;

    if (err) {
        fprintf(stderr, "status %d: %s\n", status, error_text(err));
        exit(1);
    }
    b->latencies[b->finished++] = time_monotonic_ns() - c->started_ns;
    next(c);
}

static void next(struct client *c)
{
    struct bench *b = c->bench;
    char name[32];

    if (b->next == b->count) {
        if (b->finished == b->count)
            (void)event_base_loopbreak(b->base);
        return;
    }
    uint64_t i = b->next++;
    (void)snprintf(name, sizeof(name), "bench-%" PRIu64, i);
    _cleanup_json_ struct json *body = b->verb == KUBE_CREATE ? object(b, i) : NULL;
    const struct kube_request request = {.verb = b->verb,
                                         .resource = b->resource,
                                         .ns = "default",
                                         .name = b->verb == KUBE_CREATE || b->verb == KUBE_LIST ? NULL : name,
                                         .body = body};
    c->started_ns = time_monotonic_ns();
    kube_do(b->kube, &request, on_done, c);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void phase(struct bench *b, struct client *clients, const char *name, enum kube_verb verb)
{
    int64_t started = time_monotonic_ns();

    b->verb = verb;
    b->next = b->finished = 0;
    for (uint64_t i = 0; i < b->clients; i++)
        next(&clients[i]);
    (void)event_base_dispatch(b->base);
    double seconds = (double)(time_monotonic_ns() - started) / (double)NSEC_PER_SEC;
    qsort(b->latencies, b->count, sizeof(b->latencies[0]), compare);
    printf("{\"name\":\"%s\",\"clients\":%" PRIu64 ",\"n\":%" PRIu64
           ",\"per_second\":%.0f,\"p50_us\":%lld,\"p99_us\":%lld,\"max_us\":%lld}\n",
           name, b->clients, b->count, (double)b->count / seconds, b->latencies[b->count / 2] / NSEC_PER_USEC,
           b->latencies[b->count * 99 / 100] / NSEC_PER_USEC, b->latencies[b->count - 1] / NSEC_PER_USEC);
    fflush(stdout);
}

/* A TLS handshake takes the server as long as fifty writes: it is no part of them. */
static void connect_all(struct bench *b, struct client *clients)
{
    uint64_t count = b->count;

    b->count = b->clients;
    b->verb = KUBE_LIST;
    b->next = b->finished = 0;
    for (uint64_t i = 0; i < b->clients; i++)
        next(&clients[i]);
    (void)event_base_dispatch(b->base);
    b->count = count;
}

int main(int argc, char **argv)
{
    struct bench b = {.clients = 64, .count = 10000, .resource = &KUBE_CONFIGMAPS};
    struct kubeconfig config = {0};
    struct error err = ERROR_INIT;

    if (argc < 2 || (argc > 2 && !parse_u64(argv[2], &b.clients)) || (argc > 3 && !parse_u64(argv[3], &b.count)) ||
        b.clients == 0 || b.count == 0) {
        fprintf(stderr, "usage: bench_apiserver KUBECONFIG [CLIENTS] [OBJECTS] [configmap|sandbox] [keep]\n");
        return 64;
    }
    b.sandbox = argc > 4 && streq(argv[4], "sandbox");
    bool keep = argc > 5 && streq(argv[5], "keep");
    if (b.sandbox)
        b.resource = &KUBE_SANDBOXES;
    (void)signal(SIGPIPE, SIG_IGN);
    b.base = event_base_new();
    if (kubeconfig_load(argv[1], &config, &err) == 0)
        b.kube = kube_http_new(b.base, &config, "bench", &err);
    if (!b.kube) {
        fprintf(stderr, "bench_apiserver: %s\n", error_text(&err));
        return 1;
    }
    b.latencies = xcalloc(MAX(b.count, b.clients), sizeof(b.latencies[0]));
    struct client *clients = xcalloc(b.clients, sizeof(*clients));
    for (uint64_t i = 0; i < b.clients; i++)
        clients[i].bench = &b;
    connect_all(&b, clients);
    phase(&b, clients, "create", KUBE_CREATE);
    phase(&b, clients, "get", KUBE_GET);
    if (!keep)
        phase(&b, clients, "delete", KUBE_DELETE);
    free(clients);
    free(b.latencies);
    kube_free(b.kube);
    kubeconfig_free(&config);
    event_base_free(b.base);
    return 0;
}
