#include "apiserver/statistics.h"

#include "apiserver/fair_queue.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <unistd.h>

static const double buckets[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};

/* Requests of one verb for one resource. */
struct series {
    char *labels; /* verb="GET",group="",... */
    bool goes_on;
    struct {
        int code;
        uint64_t count;
    } * codes;
    size_t code_count;
    uint64_t below[ARRAY_LEN(buckets)], ended; /* below[i]: took more than bucket i-1, and no more than bucket i */
    int64_t sum_ns;
    uint64_t open;
};

struct statistics {
    struct hashmap series;       /* by labels */
    struct hashmap watch_events; /* labels of a resource → uint64_t */
    struct strbuf key;           /* kept, so that a request makes none */
    uint64_t open[2];            /* that do not go on: reading, changing */
    uint64_t unauthorized;
};

/* Part of one request. */
struct record {
    struct statistics *statistics;
    struct series *series;
    int64_t begin_ns;
    bool changes;
};

struct statistics *statistics_new(void)
{
    return xcalloc(1, sizeof(struct statistics));
}

static void series_free(void *arg)
{
    struct series *e = arg;

    free(e->labels);
    free(e->codes);
    free(e);
}

void statistics_free(struct statistics *s)
{
    if (!s)
        return;
    hashmap_free(&s->series, series_free);
    hashmap_free(&s->watch_events, free);
    strbuf_free(&s->key);
    free(s);
}

/* --- counting --- */

/* name with "=" and the opening quote behind it; each request adds some, so nothing is formatted. */
static void add_label(struct strbuf *out, const char *name, const char *value)
{
    strbuf_adds(out, name);
    strbuf_adds(out, value);
    strbuf_addc(out, '"');
}

static void resource_labels(const struct resource *r, struct strbuf *out)
{
    add_label(out, "group=\"", r ? r->group : "");
    add_label(out, ",version=\"", r ? r->version : "");
    add_label(out, ",resource=\"", r ? r->plural : "");
}

/* Of subresources only those that are served: others are of the client's invention. */
static const char *known_subresource(const struct api_call *c)
{
    size_t len = c->subresource ? strcspn(c->subresource, "/") : 0; /* a path may follow: "proxy/index.html" */

    for (size_t i = 0; c->resource && i < c->resource->subresource_count; i++) {
        const char *name = c->resource->subresources[i].name;
        if (strlen(name) == len && memcmp(name, c->subresource, len) == 0)
            return name;
    }
    return "";
}

/* As Kubernetes labels them. */
static const char *const verbs[VERB_COUNT] = {"GET", "LIST",  "WATCH",  "POST",
                                              "PUT", "PATCH", "DELETE", "DELETECOLLECTION"};

static struct series *find_series(struct statistics *s, const struct exchange *x, bool goes_on)
{
    const struct api_call *c = &x->call;

    strbuf_truncate(&s->key, 0);
    add_label(&s->key, "verb=\"", c->resource ? verbs[c->verb] : "GET");
    strbuf_addc(&s->key, ',');
    resource_labels(c->resource, &s->key);
    add_label(&s->key, ",subresource=\"", known_subresource(c));
    struct series *e = hashmap_get(&s->series, s->key.data);
    if (e)
        return e;
    e = xcalloc(1, sizeof(*e));
    e->labels = xstrdup(s->key.data);
    e->goes_on = goes_on;
    (void)hashmap_put(&s->series, e->labels, e);
    return e;
}

static void count_code(struct series *e, int code)
{
    for (size_t i = 0; i < e->code_count; i++)
        if (e->codes[i].code == code) {
            e->codes[i].count++;
            return;
        }
    e->codes = xreallocarray(e->codes, e->code_count + 1, sizeof(*e->codes));
    e->codes[e->code_count].code = code;
    e->codes[e->code_count++].count = 1;
}

static void on_finish(void *arg, const struct http_request *req UNUSED, int status)
{
    _cleanup_free_ struct record *r = arg;
    struct series *e = r->series;
    int64_t took = time_monotonic_ns() - r->begin_ns;
    size_t i = 0;

    e->open--;
    if (!e->goes_on)
        r->statistics->open[r->changes]--;
    count_code(e, status);
    while (i < ARRAY_LEN(buckets) && (double)took > buckets[i] * NSEC_PER_SEC)
        i++;
    if (i < ARRAY_LEN(buckets))
        e->below[i]++;
    e->ended++;
    e->sum_ns += took;
}

void statistics_request(struct statistics *s, const struct exchange *x, bool goes_on)
{
    struct record *r = xcalloc(1, sizeof(*r));
    enum api_verb verb = x->call.verb;

    *r = (struct record){.statistics = s,
                         .series = find_series(s, x, goes_on),
                         .begin_ns = time_monotonic_ns(),
                         .changes = x->call.resource && verb != VERB_GET && verb != VERB_LIST && verb != VERB_WATCH};
    r->series->open++;
    if (!r->series->goes_on)
        s->open[r->changes]++;
    http_on_finish(x->req, on_finish, r);
}

uint64_t *statistics_watch_events(struct statistics *s, const struct resource *r)
{
    strbuf_truncate(&s->key, 0);
    resource_labels(r, &s->key);
    uint64_t *count = hashmap_get(&s->watch_events, s->key.data);
    if (!count) {
        count = xcalloc(1, sizeof(*count));
        (void)hashmap_put(&s->watch_events, s->key.data, count);
    }
    return count;
}

void statistics_unauthorized(struct statistics *s)
{
    s->unauthorized++;
}

/* --- telling --- */

static void describe(struct strbuf *out, const char *name, const char *type, const char *help)
{
    strbuf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(struct strbuf *out, const char *name, const char *type, const char *help, double value)
{
    describe(out, name, type, help);
    strbuf_addf(out, "%s %.15g\n", name, value);
}

static void tell_requests(const struct statistics *s, struct strbuf *out)
{
    describe(out, "apiserver_request_total", "counter", "Requests that have ended, by verb, resource and code.");
    for (struct hashmap_iter it = {0}; hashmap_next(&s->series, &it);) {
        const struct series *e = it.value;
        for (size_t i = 0; i < e->code_count; i++)
            strbuf_addf(out, "apiserver_request_total{%s,code=\"%d\"} %" PRIu64 "\n", e->labels, e->codes[i].code,
                        e->codes[i].count);
    }
    describe(out, "apiserver_request_duration_seconds", "histogram",
             "From a request's turn to the end of its answer, without those that go on.");
    for (struct hashmap_iter it = {0}; hashmap_next(&s->series, &it);) {
        const struct series *e = it.value;
        uint64_t count = 0;
        if (e->goes_on)
            continue;
        for (size_t i = 0; i < ARRAY_LEN(buckets); i++) {
            count += e->below[i];
            strbuf_addf(out, "apiserver_request_duration_seconds_bucket{%s,le=\"%g\"} %" PRIu64 "\n", e->labels,
                        buckets[i], count);
        }
        strbuf_addf(out, "apiserver_request_duration_seconds_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", e->labels,
                    e->ended);
        strbuf_addf(out, "apiserver_request_duration_seconds_sum{%s} %.9f\n", e->labels,
                    (double)e->sum_ns / NSEC_PER_SEC);
        strbuf_addf(out, "apiserver_request_duration_seconds_count{%s} %" PRIu64 "\n", e->labels, e->ended);
    }
    describe(out, "apiserver_longrunning_requests", "gauge", "Watches and streams that are open.");
    for (struct hashmap_iter it = {0}; hashmap_next(&s->series, &it);) {
        const struct series *e = it.value;
        if (e->goes_on)
            strbuf_addf(out, "apiserver_longrunning_requests{%s} %" PRIu64 "\n", e->labels, e->open);
    }
    describe(out, "apiserver_current_inflight_requests", "gauge", "Requests being answered, without those that go on.");
    strbuf_addf(out, "apiserver_current_inflight_requests{request_kind=\"readOnly\"} %" PRIu64 "\n", s->open[0]);
    strbuf_addf(out, "apiserver_current_inflight_requests{request_kind=\"mutating\"} %" PRIu64 "\n", s->open[1]);
    describe(out, "apiserver_watch_events_total", "counter", "Events sent on watches.");
    for (struct hashmap_iter it = {0}; hashmap_next(&s->watch_events, &it);)
        strbuf_addf(out, "apiserver_watch_events_total{%s} %" PRIu64 "\n", it.key, *(const uint64_t *)it.value);
    one(out, "holt_unauthorized_requests_total", "counter", "Requests refused with 401.", (double)s->unauthorized);
}

static void tell_store(const struct apiserver *server, struct strbuf *out)
{
    size_t count;
    const struct resource *const *all = resource_table_list(server->resources, &count);

    describe(out, "apiserver_storage_objects", "gauge", "Objects in the store, by resource.");
    for (size_t i = 0; i < count; i++) {
        const struct resource *r = all[i];
        /* Several versions share one place. */
        if (r->stored && !r->refused && streq(r->group, r->storage_group) && streq(r->version, r->storage_version))
            strbuf_addf(out, "apiserver_storage_objects{resource=\"%s%s%s\"} %zu\n", r->plural, *r->group ? "." : "",
                        r->group, store_count(server->store, r->store_name));
    }
    one(out, "holt_store_revision", "gauge", "The newest revision.", (double)store_revision(server->store));
    one(out, "holt_store_durable_revision", "gauge", "The newest revision that is on disk.",
        (double)store_durable_revision(server->store));
    one(out, "holt_store_compacted_revision", "gauge", "Watches can begin behind it.",
        (double)store_compacted(server->store));
    one(out, "apiserver_flowcontrol_current_inqueue_requests", "gauge", "Requests that wait for their turn.",
        (double)fair_queue_length(server->queue));
}

static size_t open_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    size_t count = 0;

    while (d && readdir(d))
        count++;
    if (d)
        (void)closedir(d);
    return count > 3 ? count - 3 : 0; /* ".", "..", and that of the directory */
}

/* Field n (from 1) of /proc/self/stat; 0 when there is none. */
static uint64_t stat_field(const char *text, int n)
{
    const char *p = text ? strrchr(text, ')') : NULL; /* the end of field 2, which may hold anything */

    for (int i = 2; p && i < n; i++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p, NULL, 10) : 0;
}

static void tell_process(struct strbuf *out)
{
    _cleanup_free_ char *stat = NULL;
    struct rusage usage;
    struct rlimit files;
    struct timespec boot, now;
    double seconds = 0;

    (void)file_read_at(AT_FDCWD, "/proc/self/stat", 4096, &stat, NULL, NULL); /* without it, zeros */
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                  (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    one(out, "process_cpu_seconds_total", "counter", "Processor time used.", seconds);
    one(out, "process_resident_memory_bytes", "gauge", "Resident memory.",
        (double)stat_field(stat, 24) * (double)sysconf(_SC_PAGESIZE));
    one(out, "process_virtual_memory_bytes", "gauge", "Address space.", (double)stat_field(stat, 23));
    one(out, "process_open_fds", "gauge", "Open descriptors.", (double)open_descriptors());
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        one(out, "process_max_fds", "gauge", "How many descriptors there may be.", (double)files.rlim_cur);
    if (clock_gettime(CLOCK_BOOTTIME, &boot) < 0 || clock_gettime(CLOCK_REALTIME, &now) < 0)
        return;
    double since_boot = (double)boot.tv_sec + (double)boot.tv_nsec / 1e9;
    one(out, "process_start_time_seconds", "gauge", "When it began, since 1970.",
        (double)now.tv_sec - since_boot + (double)stat_field(stat, 22) / (double)sysconf(_SC_CLK_TCK));
}

void statistics_answer(const struct apiserver *server, struct http_request *req)
{
    _cleanup_(strbuf_free) struct strbuf out = {0};

    tell_requests(server->statistics, &out);
    tell_store(server, &out);
    tell_process(&out);
    http_respond(req, 200, "text/plain; version=0.0.4; charset=utf-8", out.data, out.len);
}
