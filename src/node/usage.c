#include "node/usage.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "node/pod_internal.h"
#include "sandbox/paths.h"
#include "wire/http.h"

#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#define BACKLOG 16
#define PROC_MAX (1u << 20)
/* Two looks are at least this far apart, and at most so long, for the time between them to be of interest. */
#define WINDOW_MIN_NS NSEC_PER_SEC
#define WINDOW_MAX_NS (60 * NSEC_PER_SEC)
#define CONNECTIONS_MAX 256

/* One look at everything. */
struct look {
    int64_t at_ns; /* monotonic; 0 = none */
    uint64_t node_usec;
    struct hashmap pods; /* sandbox id → microseconds, as uint64_t* */
};

struct question {
    struct http_request *req;
    struct question *next;
};

struct usage_server {
    struct node *node;
    struct http_server *http;
    struct event *second;
    struct look before;
    char *answer; /* to who asks again at once */
    int64_t answered_ns;
    struct question *waiting;
};

/* --- arithmetic --- */

int64_t usage_cpu_nano(uint64_t before_usec, uint64_t now_usec, int64_t window_ns)
{
    if (window_ns <= 0 || now_usec <= before_usec)
        return 0; /* a counter that starts over is another sandbox's */
    return (int64_t)((__int128)(now_usec - before_usec) * 1000 * NSEC_PER_SEC / window_ns);
}

uint64_t usage_of_proc_stat(const char *text, int64_t ticks)
{
    /* user nice system idle iowait irq softirq steal; guests are part of user. */
    static const bool counts[] = {true, true, true, false, false, true, true, true};
    const char *p = str_skip_prefix(text, "cpu ");
    uint64_t sum = 0;

    for (size_t i = 0; p && i < ARRAY_LEN(counts); i++) {
        p += strspn(p, " ");
        _cleanup_free_ char *number = xstrndup(p, strspn(p, "0123456789"));
        uint64_t v;
        if (!parse_u64(number, &v))
            break;
        sum += counts[i] ? v : 0;
        p += strlen(number);
    }
    return ticks > 0 ? sum * 1000000 / (uint64_t)ticks : 0;
}

static uint64_t meminfo_kib(const char *text, const char *key)
{
    const char *p = strstr(text, key);
    uint64_t v = 0;

    if (!p)
        return 0;
    p += strlen(key);
    p += strspn(p, " ");
    _cleanup_free_ char *number = xstrndup(p, strspn(p, "0123456789"));
    return parse_u64(number, &v) ? v : 0;
}

uint64_t usage_of_meminfo(const char *text)
{
    uint64_t total = meminfo_kib(text, "MemTotal:"), available = meminfo_kib(text, "MemAvailable:");

    return total > available ? (total - available) * 1024 : 0;
}

/* --- looking --- */

static char *read_proc(const char *path)
{
    char *text = NULL;

    return file_read_at(AT_FDCWD, path, PROC_MAX, &text, NULL, NULL) < 0 ? xstrdup("") : text;
}

static void look_clear(struct look *l)
{
    hashmap_free(&l->pods, free);
    *l = (struct look){0};
}

static struct json *reading(int64_t cpu_nano, uint64_t memory, int64_t window_ns)
{
    int64_t msec = window_ns / NSEC_PER_MSEC;
    _cleanup_free_ char *window = xasprintf("%" PRId64 ".%03" PRId64 "s", msec / 1000, msec % 1000);

    return json_build("{s:i, s:i, s:s}", "cpuNano", cpu_nano, "memory", (int64_t)memory, "window", window);
}

/* Adds a Pod to a look, and its reading to ret (which may be NULL). */
static void look_at_pod(struct pod *p, const struct look *before, struct look *now, struct json *ret)
{
    struct native_usage usage = {0};

    if (p->sandbox != SANDBOX_RUNNING || native_usage(p->state.sandbox_id, &usage, NULL) < 0)
        return; /* it ends just now */
    uint64_t *usec = xmalloc(sizeof(*usec));
    *usec = usage.cpu_usec;
    free(hashmap_put(&now->pods, p->state.sandbox_id, usec));
    if (!ret)
        return;
    const uint64_t *was = hashmap_get(&before->pods, p->state.sandbox_id);
    /* One that is younger than the last look has used all of it since it began. */
    int64_t window = was ? now->at_ns - before->at_ns : time_now_ns() - pod_record(p)->started_ns;
    window = MAX(window, NSEC_PER_MSEC);
    uint64_t memory = usage.memory_now_bytes - MIN(usage.memory_cache_bytes, usage.memory_now_bytes);
    struct json *r = reading(usage_cpu_nano(was ? *was : 0, usage.cpu_usec, window), memory, window);
    json_set_str(r, "container", pod_container(p)->name);
    json_set(ret, p->uid, r);
}

/* Looks, and makes the answer when there is something to compare with. */
static char *look(struct usage_server *u, bool answer)
{
    struct look now = {.at_ns = time_monotonic_ns()};
    _cleanup_free_ char *stat = read_proc("/proc/stat"), *meminfo = read_proc("/proc/meminfo"), *text = NULL;
    _cleanup_json_ struct json *pods = answer ? json_object_make() : NULL;
    int64_t window = now.at_ns - u->before.at_ns;

    now.node_usec = usage_of_proc_stat(stat, sysconf(_SC_CLK_TCK));
    for (struct hashmap_iter it = {0}; hashmap_next(&u->node->pods, &it);)
        look_at_pod(it.value, &u->before, &now, pods);
    if (answer) {
        char timestamp[TIME_RFC3339_MAX];
        time_format_rfc3339(time_now_ns(), 0, timestamp);
        _cleanup_json_ struct json *all = json_build(
            "{s:s, s:o, s:O}", "timestamp", timestamp, "node",
            reading(usage_cpu_nano(u->before.node_usec, now.node_usec, window), usage_of_meminfo(meminfo), window),
            "pods", pods);
        text = json_text(all);
    }
    look_clear(&u->before);
    u->before = now;
    return take_ptr(text);
}

static void measure(struct usage_server *u)
{
    char *text = look(u, true);

    free(u->answer);
    u->answer = text;
    u->answered_ns = u->before.at_ns;
}

/* --- answering --- */

static void respond(struct usage_server *u, struct http_request *req)
{
    http_respond(req, 200, "application/json", u->answer, strlen(u->answer));
}

static void on_second(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct usage_server *u = arg;

    measure(u);
    for (struct question *q = take_ptr(u->waiting), *next; q; q = next) {
        next = q->next;
        respond(u, q->req);
        free(q);
    }
}

static void wait_a_second(struct usage_server *u, struct http_request *req)
{
    struct question *q = xcalloc(1, sizeof(*q));

    q->req = req;
    q->next = u->waiting;
    u->waiting = q;
    if (!evtimer_pending(u->second, NULL))
        (void)evtimer_add(u->second,
                          &(struct timeval){.tv_sec = WINDOW_MIN_NS / NSEC_PER_SEC}); /* fails only without memory */
}

static void on_request(void *arg, struct http_request *req)
{
    struct usage_server *u = arg;
    int64_t now = time_monotonic_ns(), age = now - u->before.at_ns;

    if (!streq(http_method(req), "GET") || !streq(http_path(req), "/usage")) {
        http_respond(req, 404, "text/plain", "not found\n", 10);
    } else if (u->waiting) {
        wait_a_second(u, req);
    } else if (u->answer && now - u->answered_ns < WINDOW_MIN_NS) {
        respond(u, req);
    } else if (u->before.at_ns && age >= WINDOW_MIN_NS && age <= WINDOW_MAX_NS) {
        measure(u);
        respond(u, req);
    } else {
        (void)look(u, false); /* nothing to compare with: NULL */
        wait_a_second(u, req);
    }
}

/* --- life --- */

static int listen_at(struct node *n, struct error *err)
{
    _cleanup_free_ char *path = path_node_socket(n->run_dir);
    _cleanup_close_ int dir = open(n->run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *name = strrchr(path, '/') + 1;

    if (dir < 0)
        return error_set_errno(err, errno, "open %s", n->run_dir);
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT) /* of an earlier run */
        return error_set_errno(err, errno, "remove %s", path);
    _cleanup_close_ int fd = unix_listen_at(dir, name, BACKLOG, err);
    if (fd < 0)
        return fd;
    bool group = n->options.gid != (gid_t)-1;
    if (fchmodat(dir, name, group ? 0660 : 0600, 0) < 0 ||
        (group && fchownat(dir, name, (uid_t)-1, n->options.gid, AT_SYMLINK_NOFOLLOW) < 0))
        return error_set_errno(err, errno, "set who may use %s", path);
    return take_fd(fd);
}

struct usage_server *usage_server_new(struct node *n, struct error *err)
{
    static const struct http_server_options options = {.max_connections = CONNECTIONS_MAX};
    int fd = listen_at(n, err);

    if (fd < 0)
        return NULL;
    struct usage_server *u = xcalloc(1, sizeof(*u));
    u->node = n;
    u->second = evtimer_new(n->base, on_second, u);
    if (!u->second)
        abort(); /* out of memory */
    u->http = http_server_new(n->base, fd, NULL, &options, on_request, u);
    return u;
}

void usage_server_free(struct usage_server *u)
{
    if (!u)
        return;
    for (struct question *q = u->waiting, *next; q; q = next) {
        next = q->next;
        http_respond(q->req, 503, "text/plain", "the node stops\n", 15);
        free(q);
    }
    http_server_free(u->http);
    event_free(u->second);
    look_clear(&u->before);
    free(u->answer);
    free(u);
}
