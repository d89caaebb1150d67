#include "node/link.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/timeutil.h"

#include <fcntl.h>
#include <string.h>

struct link {
    struct event_base *base;
    struct guest_client *client;
    struct log_file *log;
    const struct link_callbacks *callbacks;
    void *arg;
    bool running, attached; /* attached: to a process that ran already */
    /* Token bucket. */
    int64_t tokens, filled_ns;
    struct event *resume;
};

int link_connect(const char *socket_path, struct error *err)
{
    const char *slash = strrchr(socket_path, '/');
    _cleanup_free_ char *dir = xstrndup(socket_path, (size_t)(slash - socket_path));
    _cleanup_close_ int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (at < 0)
        return error_set_errno(err, errno, "open %s", dir);
    return unix_connect_nonblock_at(at, slash + 1, err);
}

static void on_resume(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct link *l = arg;

    guest_client_resume(l->client);
}

/* Takes len tokens; when there are none left, reading stops until there are some again. */
static void throttle(struct link *l, size_t len, int64_t now_ns)
{
    l->tokens += (int64_t)((double)(now_ns - l->filled_ns) * LINK_BYTES_PER_SECOND / (double)NSEC_PER_SEC);
    l->tokens = MIN(l->tokens, LINK_BURST);
    l->filled_ns = now_ns;
    l->tokens -= (int64_t)len;
    if (l->tokens > 0)
        return;
    if (!l->resume)
        l->resume = evtimer_new(l->base, on_resume, l);
    int64_t usec = (-l->tokens + LINK_BURST / 8) * 1000000 / LINK_BYTES_PER_SECOND;
    struct timeval tv = {.tv_sec = usec / 1000000, .tv_usec = usec % 1000000};
    if (l->resume && evtimer_add(l->resume, &tv) == 0)
        guest_client_pause(l->client);
}

static void on_started(void *arg, const char *id UNUSED, uint32_t pid UNUSED)
{
    struct link *l = arg;

    l->running = true;
    l->callbacks->started(l->arg);
}

static void on_output(void *arg, enum guest_stream stream, uint64_t offset, const void *data, size_t len)
{
    struct link *l = arg;
    bool rotated;

    /* What the disk refuses is marked in the log when there is room again. */
    (void)log_file_write(l->log, stream, offset, data, len, time_now_ns(), &rotated);
    if (rotated)
        l->callbacks->log_rotated(l->arg);
    throttle(l, len, time_monotonic_ns());
}

static void on_dropped(void *arg, enum guest_stream stream, uint64_t bytes)
{
    struct link *l = arg;

    log_file_dropped(l->log, stream, bytes, time_now_ns());
}

static void on_exited(void *arg, const struct guest_exit *exit)
{
    struct link *l = arg;

    l->callbacks->exited(l->arg, exit);
}

static void on_failed(void *arg, const struct error *err)
{
    struct link *l = arg;

    if (l->running || l->attached || err->code == ECONNRESET || err->code == EPROTO)
        l->callbacks->lost(l->arg, err);
    else
        l->callbacks->refused(l->arg, err);
}

static const struct guest_callbacks callbacks_of_guest = {
    .started = on_started, .output = on_output, .dropped = on_dropped, .exited = on_exited, .failed = on_failed};

static struct link *link_new(struct event_base *base, struct log_file *log, const struct link_callbacks *callbacks,
                             void *arg)
{
    struct link *l = xcalloc(1, sizeof(*l));

    *l = (struct link){.base = base,
                       .log = log,
                       .callbacks = callbacks,
                       .arg = arg,
                       .tokens = LINK_BURST,
                       .filled_ns = time_monotonic_ns()};
    return l;
}

struct link *link_start(struct event_base *base, const char *socket_path, const struct guest_start_request *request,
                        struct log_file *log, const struct link_callbacks *callbacks, void *arg, struct error *err)
{
    int fd = link_connect(socket_path, err);
    if (fd < 0)
        return NULL;
    struct link *l = link_new(base, log, callbacks, arg);
    l->client = guest_start(base, fd, request, &callbacks_of_guest, l, err);
    if (l->client)
        return l;
    link_free(l);
    return NULL;
}

struct link *link_attach(struct event_base *base, const char *socket_path, struct log_file *log,
                         const struct link_callbacks *callbacks, void *arg, struct error *err)
{
    int fd = link_connect(socket_path, err);
    if (fd < 0)
        return NULL;
    struct link *l = link_new(base, log, callbacks, arg);
    l->attached = true;
    l->client =
        guest_attach(base, fd, GUEST_MAIN_ID, log_file_offset(log, GUEST_STREAM_STDOUT),
                     log_file_offset(log, GUEST_STREAM_STDERR), GUEST_FLAG_LOSSLESS, &callbacks_of_guest, l, err);
    if (l->client)
        return l;
    link_free(l);
    return NULL;
}

void link_free(struct link *l)
{
    if (!l)
        return;
    guest_client_free(l->client);
    if (l->resume)
        event_free(l->resume);
    free(l);
}
