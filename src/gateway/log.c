/*
 * Container logs, read from the node's files (sandbox/paths.h), also while the container writes and its files rotate.
 */
#include "gateway/internal.h"

#include "apiserver/api_error.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "kube/object.h"
#include "sandbox/paths.h"

#include <event2/event.h>
#include <fcntl.h>
#include <sys/inotify.h>

#define READ_CHUNK 65536
/* Output waiting for a slow client; reading the file pauses above it. */
#define OUTPUT_HIGH_BYTES (1u << 20)

struct options {
    bool follow, timestamps, previous;
    int64_t tail;     /* -1 = all */
    int64_t since_ns; /* 0 = all */
    int64_t limit;    /* bytes left; -1 = no limit */
};

struct log_session {
    struct gateway *gateway;
    struct log_session *next, **prev;
    struct http_request *req;
    struct options options;
    char *uid, *ns, *pod, *container, *dir;
    int64_t restart;
    int older[LOG_FILES]; /* rotated files still to be read, the oldest last */
    size_t older_count;
    int fd;                /* the file being read */
    int current;           /* the newest file; -1 once fd is it */
    int64_t left;          /* of the newest file, when it is not followed; -1 = all that comes */
    ino_t inode;           /* of the newest, to notice that it was rotated away */
    struct strbuf partial; /* an incomplete line of the file */
    bool mid_line[2];      /* per stream: the last piece had no newline */
    int notify;
    struct event *notify_event;
    bool container_ended;
};

static void session_free(struct log_session *s)
{
    if (s->prev) {
        *s->prev = s->next;
        if (s->next)
            s->next->prev = s->prev;
    }
    if (s->notify_event)
        event_free(s->notify_event);
    if (s->notify >= 0)
        (void)close(s->notify);
    while (s->older_count)
        (void)close(s->older[--s->older_count]);
    if (s->current >= 0)
        (void)close(s->current);
    if (s->fd >= 0)
        (void)close(s->fd);
    strbuf_free(&s->partial);
    free(s->uid);
    free(s->ns);
    free(s->pod);
    free(s->container);
    free(s->dir);
    free(s);
}

static void finish(struct log_session *s)
{
    http_on_close(s->req, NULL, NULL);
    http_end(s->req);
    session_free(s);
}

/* Lines. */

struct line {
    const char *stamp, *content;
    size_t stamp_len, content_len;
    int stream; /* 0 = stdout, 1 = stderr */
    bool whole; /* ends with a newline */
    bool mark;  /* tells what was dropped, and belongs to no line of the container */
};

/* "TIME stream TAGS content"; false for what is no such line. */
static bool parse_line(const char *text, size_t len, struct line *ret)
{
    const char *end = text + len, *a = memchr(text, ' ', len);
    const char *b = a ? memchr(a + 1, ' ', (size_t)(end - a - 1)) : NULL;
    const char *c = b ? memchr(b + 1, ' ', (size_t)(end - b - 1)) : NULL;

    if (!b)
        return false;
    if (!c)
        c = end;
    *ret = (struct line){.stamp = text,
                         .stamp_len = (size_t)(a - text),
                         .stream = b - a == 7 && a[4] == 'e',
                         .whole = b[1] == 'F',
                         .mark = b + 2 < c && b[2] == ':',
                         .content = c < end ? c + 1 : end,
                         .content_len = c < end ? (size_t)(end - c - 1) : 0};
    return true;
}

static bool send_bytes(struct log_session *s, const char *data, size_t len)
{
    if (s->options.limit >= 0) {
        len = MIN(len, (size_t)s->options.limit);
        s->options.limit -= (int64_t)len;
    }
    return http_write(s->req, data, len);
}

static bool too_old(const struct log_session *s, const struct line *l)
{
    _cleanup_free_ char *stamp = s->options.since_ns ? xstrndup(l->stamp, l->stamp_len) : NULL;
    int64_t at;

    return stamp && time_parse_rfc3339(stamp, &at) && at < s->options.since_ns;
}

/* False: the client is gone. */
static bool emit(struct log_session *s, const char *text, size_t len)
{
    struct line l;

    if (!parse_line(text, len, &l) || too_old(s, &l))
        return true;
    _cleanup_(strbuf_free) struct strbuf out = {0};
    if (l.mark && s->mid_line[l.stream]) {
        strbuf_addc(&out, '\n');
        s->mid_line[l.stream] = false;
    }
    if (s->options.timestamps && !s->mid_line[l.stream]) {
        strbuf_add(&out, l.stamp, l.stamp_len);
        strbuf_addc(&out, ' ');
    }
    strbuf_add(&out, l.content, l.content_len);
    if (l.whole)
        strbuf_addc(&out, '\n');
    s->mid_line[l.stream] = !l.whole;
    return send_bytes(s, strbuf_str(&out), out.len);
}

static bool emit_all(struct log_session *s, const char *text, size_t len)
{
    while (len && s->options.limit != 0) {
        const char *newline = memchr(text, '\n', len);
        size_t n = newline ? (size_t)(newline - text) : len;

        if (!newline) {
            strbuf_add(&s->partial, text, n);
            return true;
        }
        bool ok;
        if (s->partial.len) {
            strbuf_add(&s->partial, text, n);
            ok = emit(s, s->partial.data, s->partial.len);
            strbuf_truncate(&s->partial, 0);
        } else {
            ok = emit(s, text, n);
        }
        if (!ok)
            return false;
        text += n + 1;
        len -= n + 1;
    }
    return true;
}

/* Where the last `tail` whole lines of text start; *left: how many more are wanted from older files. */
static size_t tail_start(const char *text, size_t len, int64_t *left)
{
    size_t at = len, start = len;

    /* Backwards over the lines; pieces (P) belong to the whole line that follows them. */
    while (at > 0) {
        size_t begin = at - 1;
        while (begin > 0 && text[begin - 1] != '\n')
            begin--;
        struct line l;
        bool counts = parse_line(text + begin, at - begin - (text[at - 1] == '\n'), &l) && l.whole;
        if (counts && *left == 0)
            break;
        if (counts)
            (*left)--;
        start = begin;
        at = begin;
    }
    return start;
}

/* Files. */

static char *file_name(const struct log_session *s, int rotation)
{
    return rotation ? xasprintf("%s/%lld.log.%d", s->dir, (long long)s->restart, rotation)
                    : xasprintf("%s/%lld.log", s->dir, (long long)s->restart);
}

static int open_file(const struct log_session *s, int rotation)
{
    _cleanup_free_ char *path = file_name(s, rotation);

    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW); /* one that is not there is left out */
}

/* The newest file becomes the one being read. */
static bool open_current(struct log_session *s)
{
    struct stat st;

    s->fd = open_file(s, 0);
    if (s->fd < 0 || fstat(s->fd, &st) < 0)
        return false;
    s->inode = st.st_ino;
    return true;
}

static char *read_whole(int fd, size_t *ret_len)
{
    struct strbuf b = {0};
    ssize_t n = 0;

    do {
        strbuf_reserve(&b, READ_CHUNK);
        n = pread(fd, b.data + b.len, READ_CHUNK, (off_t)b.len);
        b.len += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    *ret_len = b.len;
    return strbuf_detach(&b);
}

/* Puts every file where the last `tail` lines begin; those before are dropped. fds: the newest first. */
static void seek_tail(const struct log_session *s, int *fds)
{
    int64_t left = s->options.tail;
    bool done = false; /* the first line to show begins in a newer file */

    for (size_t i = 0; i < LOG_FILES; i++) {
        if (fds[i] < 0)
            continue;
        size_t len;
        _cleanup_free_ char *text = done ? NULL : read_whole(fds[i], &len);
        size_t start = done ? 0 : tail_start(text, len, &left);
        (void)lseek(fds[i], (off_t)start, done ? SEEK_END : SEEK_SET); /* a regular file */
        done = done || start > 0;
    }
}

/* What is there now: rotated files, the oldest first, then the current one; up to its end when it is not followed. */
static void open_existing(struct log_session *s)
{
    int fds[LOG_FILES];
    struct stat st;

    for (int i = 0; i < LOG_FILES; i++)
        fds[i] = open_file(s, i);
    if (s->options.tail >= 0)
        seek_tail(s, fds);
    s->left = -1;
    s->current = fds[0];
    if (s->current >= 0 && fstat(s->current, &st) == 0) {
        s->inode = st.st_ino;
        if (!s->options.follow)
            s->left = st.st_size - lseek(s->current, 0, SEEK_CUR);
    }
    for (int i = 1; i < LOG_FILES; i++)
        if (fds[i] >= 0)
            s->older[s->older_count++] = fds[i];
}

/* The next file in order becomes the one being read. False: there is none. */
static bool next_file(struct log_session *s)
{
    if (!s->older_count && s->current < 0)
        return false;
    if (s->fd >= 0)
        (void)close(s->fd);
    if (s->older_count) {
        s->fd = s->older[--s->older_count];
    } else {
        s->fd = s->current;
        s->current = -1;
    }
    return true;
}

/* As much as the client takes. True: there is nothing more for now; see http_is_closed() for a client that is gone. */
static bool send_available(struct log_session *s)
{
    _cleanup_free_ char *buf = xmalloc(READ_CHUNK);

    while (http_output_pending(s->req) < OUTPUT_HIGH_BYTES) {
        bool newest = s->current < 0 && !s->older_count;
        size_t size = newest && s->left >= 0 ? (size_t)MIN(s->left, READ_CHUNK) : READ_CHUNK;
        ssize_t n = s->fd >= 0 && size ? read(s->fd, buf, size) : 0;
        if (n <= 0 && !next_file(s))
            return true;
        if (n <= 0)
            continue;
        if (newest && s->left >= 0)
            s->left -= n;
        if (!emit_all(s, buf, (size_t)n) || s->options.limit == 0)
            return true;
    }
    return false;
}

static bool rotated(const struct log_session *s)
{
    _cleanup_free_ char *path = file_name(s, 0);
    struct stat st;

    return lstat(path, &st) == 0 && st.st_ino != s->inode;
}

/* Goes as far as it can; ends the session when there is nothing more to come. */
static void advance(struct log_session *s)
{
    bool caught_up = send_available(s);

    while (caught_up && s->options.follow && !http_is_closed(s->req) && (s->fd < 0 || rotated(s))) {
        if (s->fd >= 0)
            (void)close(s->fd);
        s->fd = -1;
        if (!open_current(s))
            break;
        caught_up = send_available(s);
    }
    if (http_is_closed(s->req) || s->options.limit == 0 || (caught_up && (!s->options.follow || s->container_ended)))
        finish(s);
}

static void on_notify(evutil_socket_t fd, short what UNUSED, void *arg)
{
    char events[4096];

    while (read(fd, events, sizeof(events)) > 0)
        ;
    advance(arg);
}

static void on_drain(void *arg, struct http_request *req UNUSED)
{
    advance(arg);
}

static void on_close(void *arg, struct http_request *req)
{
    struct log_session *s = arg;

    http_end(req);
    session_free(s);
}

static const struct json *container_status(const struct json *pod, const char *name)
{
    static const char *const lists[] = {"containerStatuses", "initContainerStatuses"};

    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        const struct json *list = json_at(pod, "status", lists[l], NULL);
        for (size_t i = 0; i < json_size(list); i++)
            if (streq(json_str_or(json_get(json_item(list, i), "name"), ""), name))
                return json_item(list, i);
    }
    return NULL;
}

/* The run that is followed is over: terminated, or another one has begun. */
static bool run_over(const struct log_session *s, const struct json *pod)
{
    const struct json *status = container_status(pod, s->container);

    return json_int_or(json_get(status, "restartCount"), 0) != s->restart ||
           json_has(json_get(status, "state"), "terminated");
}

void gateway_logs_changed(struct gateway *g, const struct json *pod, bool gone)
{
    for (struct log_session *s = g->logs, *next; s; s = next) {
        next = s->next;
        if (!streq(s->uid, object_uid(pod)) || !(gone || run_over(s, pod)))
            continue;
        s->container_ended = true;
        advance(s);
    }
}

void gateway_logs_free(struct gateway *g)
{
    while (g->logs)
        finish(g->logs);
}

static bool watch_files(struct log_session *s)
{
    s->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (s->notify < 0 || inotify_add_watch(s->notify, s->dir, IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0)
        return false;
    s->notify_event = event_new(s->gateway->base, s->notify, EV_READ | EV_PERSIST, on_notify, s);
    if (!s->notify_event || event_add(s->notify_event, NULL) < 0)
        abort();
    return true;
}

static void begin(struct log_session *s, const struct json *pod)
{
    struct gateway *g = s->gateway;

    s->next = g->logs;
    s->prev = &g->logs;
    if (g->logs)
        g->logs->prev = &s->next;
    g->logs = s;
    http_on_drain(s->req, on_drain, s);
    if (s->options.follow && !watch_files(s))
        s->options.follow = false; /* no such directory: nothing was written and nothing will be seen */
    open_existing(s);
    /* The cache may be ahead of the Pod the request came with. */
    const struct json *now = informer_get(g->pods, s->ns, s->pod);
    s->container_ended = run_over(s, now && streq(object_uid(now), s->uid) ? now : pod);
    advance(s);
}

/* Options. */

static bool flag(const struct http_request *req, const char *name)
{
    const char *v = http_query(req, name);

    return v && !streq(v, "0") && strcasecmp(v, "false") != 0;
}

static int number(const struct http_request *req, const char *name, int64_t min, int64_t *ret, struct error *err)
{
    const char *text = http_query(req, name);

    if (!text || !*text)
        return 0;
    if (!parse_i64(text, ret) || *ret < min)
        return error_set_field(err, EINVAL, name, "%s: Invalid value: \"%s\": must be a whole number of at least %lld",
                               name, text, (long long)min);
    return 1;
}

static int parse_options(const struct http_request *req, struct options *o, struct error *err)
{
    int64_t since = 0;
    const char *since_time = http_query(req, "sinceTime");

    *o = (struct options){.follow = flag(req, "follow"),
                          .timestamps = flag(req, "timestamps"),
                          .previous = flag(req, "previous"),
                          .tail = -1,
                          .limit = -1};
    int has_since = number(req, "sinceSeconds", 1, &since, err);
    if (has_since < 0 || number(req, "tailLines", 0, &o->tail, err) < 0 ||
        number(req, "limitBytes", 1, &o->limit, err) < 0)
        return -EINVAL;
    if (has_since && since_time)
        return error_set(err, EINVAL, "at most one of sinceTime or sinceSeconds may be specified");
    if (has_since)
        o->since_ns = time_now_ns() - since * NSEC_PER_SEC;
    if (since_time && !time_parse_rfc3339(since_time, &o->since_ns))
        return error_set(err, EINVAL, "sinceTime: \"%s\" is not an RFC 3339 time", since_time);
    return 0;
}

/* Which run's log is meant; a Status when there is none (yet). */
static struct json *choose_run(const struct stream_target *target, bool previous, int64_t *ret)
{
    const struct json *status = container_status(target->pod, target->container);
    const struct json *waiting = json_at(status, "state", "waiting", NULL);
    int64_t restarts = json_int_or(json_get(status, "restartCount"), 0);
    const char *pod = object_name(target->pod);

    if (previous) {
        *ret = restarts - 1;
        return restarts > 0 ? NULL
                            : status_bad_request("previous terminated container \"%s\" in pod \"%s\" not found",
                                                 target->container, pod);
    }
    *ret = restarts;
    if (!status || (waiting && restarts == 0))
        return status_bad_request("container \"%s\" in pod \"%s\" is waiting to start: %s", target->container, pod,
                                  json_str_or(json_get(waiting, "reason"), "ContainerCreating"));
    return NULL;
}

void gateway_log(void *arg, const struct stream_target *target, struct http_request *req)
{
    struct gateway *g = arg;
    const struct json *pod = target->pod;
    _cleanup_error_ struct error err = ERROR_INIT;
    struct options options;
    int64_t restart = 0;

    if (parse_options(req, &options, &err) < 0) {
        gateway_refuse(req, status_bad_request("%s", error_text(&err)));
        return;
    }
    struct json *refusal = choose_run(target, options.previous, &restart);
    if (refusal) {
        gateway_refuse(req, refusal);
        return;
    }
    struct log_session *s = xcalloc(1, sizeof(*s));
    s->gateway = g;
    s->req = req;
    s->options = options;
    s->uid = xstrdup(object_uid(pod));
    s->ns = xstrdup(object_namespace(pod));
    s->pod = xstrdup(object_name(pod));
    s->container = xstrdup(target->container);
    s->dir = path_container_logs(g->data_dir, s->ns, s->pod, s->uid, s->container);
    s->restart = restart;
    s->fd = s->current = s->notify = -1;
    if (access(s->dir, R_OK | X_OK) < 0 && errno != ENOENT) { /* none yet is an empty log, one kept from us is not */
        gateway_refuse(req, status_internal("read the log of container \"%s\": %s", s->container, strerror(errno)));
        session_free(s);
        return;
    }
    http_start(req, 200, "text/plain");
    http_on_close(req, on_close, s);
    begin(s, pod);
}
