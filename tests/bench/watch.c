/*
 * One write and many watchers, and a long list, as HTTPS clients see them.
 *
 *     bench_watch KUBECONFIG [WATCHERS] [WRITES] [LISTED]
 *
 * WATCHERS watches of ConfigMaps are opened; then one ConfigMap is changed WRITES times, each time waiting until all
 * have heard of it: fanout_each is the time until one watcher has, fanout_all until the last has. Then LISTED
 * ConfigMaps are made and listed 20 times. Prints one JSON object a line: {"name", "n", "p50_us", "p99_us", "max_us"}.
 */
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "kube/kube_http.h"
#include "kube/object.h"
#include "wire/http.h"
#include "wire/tls.h"

#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#define NAME "fanout"
#define WATCH "/api/v1/namespaces/default/configmaps?watch=1&fieldSelector=metadata.name%3Dfanout"
#define LISTS 20
#define WATCHES_OF_A_CLIENT 50 /* it has 64 connections */

struct watcher {
    struct bench *bench;
    bool synced;
};

struct bench {
    struct event_base *base;
    struct kube *kube;
    uint64_t watchers, synced, heard;
    int64_t wanted; /* resourceVersion all are to hear of; 0 = not answered yet */
    int64_t started_ns;
    int64_t *each;
    uint64_t each_count;
    uint64_t made, to_make, bytes;
};

/* The bytes of a watch: an event ends with a newline. The first is the object as it is. */
static void on_event(void *arg, const char *data, size_t len)
{
    struct watcher *w = arg;
    struct bench *b = w->bench;

    if (!memchr(data, '\n', len))
        return;
    if (!w->synced) {
        w->synced = true;
        if (++b->synced == b->watchers)
            (void)event_base_loopbreak(b->base);
        return;
    }
    b->each[b->each_count++] = time_monotonic_ns() - b->started_ns;
    if (++b->heard == b->watchers)
        (void)event_base_loopbreak(b->base);
}

static void die(const char *what, const struct error *err)
{
    fprintf(stderr, "bench_watch: %s: %s\n", what, error_text(err));
    exit(1);
}

static void on_watch_ended(void *arg UNUSED, const struct error *err)
{
    die("watch", err);
}

static void on_written(void *arg UNUSED, int status UNUSED, struct json *object UNUSED, const struct error *err)
{
    if (err)
        die("write", err);
}

static void on_made(void *arg, int status UNUSED, struct json *object UNUSED, const struct error *err)
{
    struct bench *b = arg;

    if (err)
        die("create", err);
    if (++b->made == b->to_make)
        (void)event_base_loopbreak(b->base);
}

static void make(struct bench *b, const char *name)
{
    _cleanup_json_ struct json *body = json_build("{s:s, s:s, s:{s:s}, s:{s:s}}", "apiVersion", "v1", "kind",
                                                  "ConfigMap", "metadata", "name", name, "data", "key", "value");
    const struct kube_request q = {.verb = KUBE_CREATE, .resource = &KUBE_CONFIGMAPS, .ns = "default", .body = body};

    kube_do(b->kube, &q, on_made, b);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void print(const char *name, int64_t *values, uint64_t count)
{
    qsort(values, count, sizeof(values[0]), compare);
    printf("{\"name\":\"%s\",\"n\":%" PRIu64 ",\"p50_us\":%lld,\"p99_us\":%lld,\"max_us\":%lld}\n", name, count,
           values[count / 2] / NSEC_PER_USEC, values[count * 99 / 100] / NSEC_PER_USEC,
           values[count - 1] / NSEC_PER_USEC);
    fflush(stdout);
}

static void fan_out(struct bench *b, uint64_t writes)
{
    _cleanup_free_ int64_t *all = xcalloc(writes, sizeof(*all));

    b->each = xcalloc(writes * b->watchers, sizeof(*b->each));
    for (uint64_t i = 0; i < writes; i++) {
        char value[32];
        (void)snprintf(value, sizeof(value), "%" PRIu64, i);
        _cleanup_json_ struct json *patch = json_build("{s:{s:s}}", "data", "key", value);
        const struct kube_request q = {
            .verb = KUBE_PATCH_MERGE, .resource = &KUBE_CONFIGMAPS, .ns = "default", .name = NAME, .body = patch};
        b->heard = 0;
        b->started_ns = time_monotonic_ns();
        kube_do(b->kube, &q, on_written, b);
        (void)event_base_dispatch(b->base);
        all[i] = time_monotonic_ns() - b->started_ns;
    }
    print("fanout_each", b->each, b->each_count);
    print("fanout_all", all, writes);
    free(b->each);
}

static void on_data(void *arg, const char *data UNUSED, size_t len)
{
    ((struct bench *)arg)->bytes += len;
}

static void on_listed(void *arg, int status, const struct http_headers *headers UNUSED, const char *body UNUSED,
                      size_t len UNUSED)
{
    if (status != 200)
        die("list", &(struct error){.code = EIO, .message = (char *)(uintptr_t) "refused"});
    (void)event_base_loopbreak(((struct bench *)arg)->base);
}

static void on_list_failed(void *arg UNUSED, const struct error *err)
{
    die("list", err);
}

/* Until the last byte is here: what a client makes of them is its own affair. */
static void long_lists(struct bench *b, const struct kubeconfig *config, uint64_t listed)
{
    static const struct http_call_callbacks callbacks = {.data = on_data, .done = on_listed, .failed = on_list_failed};
    int64_t times[LISTS];
    struct error err = ERROR_INIT;
    struct ssl_ctx_st *tls;
    struct http_client *http = kube_http_client_new(b->base, config, "bench", &tls, &err);

    if (!http)
        die("connect", &err);
    b->made = 0;
    b->to_make = listed;
    for (uint64_t i = 0; i < listed; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "listed-%" PRIu64, i);
        make(b, name);
    }
    (void)event_base_dispatch(b->base);
    for (int i = 0; i < LISTS; i++) {
        int64_t started = time_monotonic_ns();
        (void)http_call(http, "GET", "/api/v1/namespaces/default/configmaps", NULL, NULL, 0, 0, &callbacks, b);
        (void)event_base_dispatch(b->base);
        times[i] = time_monotonic_ns() - started;
    }
    print("list", times, LISTS);
    http_client_free(http);
    tls_context_free(tls);
}

int main(int argc, char **argv)
{
    static const struct http_call_callbacks callbacks = {.data = on_event, .failed = on_watch_ended};
    struct bench b = {.watchers = 1000};
    uint64_t writes = 50, listed = 10000;
    struct kubeconfig config = {0};
    struct error err = ERROR_INIT;

    if (argc < 2 || (argc > 2 && !parse_u64(argv[2], &b.watchers)) || (argc > 3 && !parse_u64(argv[3], &writes)) ||
        (argc > 4 && !parse_u64(argv[4], &listed)) || !b.watchers || !writes || !listed) {
        fprintf(stderr, "usage: bench_watch KUBECONFIG [WATCHERS] [WRITES] [LISTED]\n");
        return 64;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    b.base = event_base_new();
    if (kubeconfig_load(argv[1], &config, &err) == 0)
        b.kube = kube_http_new(b.base, &config, "bench", &err);
    if (!b.kube)
        die("connect", &err);
    b.to_make = 1;
    make(&b, NAME);
    (void)event_base_dispatch(b.base);
    struct watcher *watchers = xcalloc(b.watchers, sizeof(*watchers));
    struct http_client **clients = xcalloc(b.watchers / WATCHES_OF_A_CLIENT + 2, sizeof(*clients));
    struct ssl_ctx_st **tls = xcalloc(b.watchers / WATCHES_OF_A_CLIENT + 2, sizeof(*tls));
    for (uint64_t i = 0; i < b.watchers; i++) {
        uint64_t k = i / WATCHES_OF_A_CLIENT;
        if (!clients[k] && !(clients[k] = kube_http_client_new(b.base, &config, "bench", &tls[k], &err)))
            die("connect", &err);
        watchers[i].bench = &b;
        (void)http_call(clients[k], "GET", WATCH, NULL, NULL, 0, 0, &callbacks, &watchers[i]);
    }
    (void)event_base_dispatch(b.base);
    fan_out(&b, writes);
    for (uint64_t k = 0; k <= b.watchers / WATCHES_OF_A_CLIENT && clients[k]; k++) {
        http_client_free(clients[k]);
        tls_context_free(tls[k]);
    }
    free(clients);
    free(tls);
    free(watchers);
    long_lists(&b, &config, listed);
    kube_free(b.kube);
    kubeconfig_free(&config);
    event_base_free(b.base);
    return 0;
}
