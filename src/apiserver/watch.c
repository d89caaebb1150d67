#include "apiserver/watch.h"

#include "apiserver/filter.h"
#include "apiserver/options.h"
#include "apiserver/proto.h"
#include "apiserver/statistics.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/strutil.h"

#include <event2/event.h>
#include <inttypes.h>

#define TIMEOUT_MIN_SECONDS 1800 /* of streams that ask for none: up to twice as long */
#define BOOKMARK_SECONDS 60
/* Of the state that a stream begins with, so much waits for the client at a time. */
#define INITIAL_HIGH_BYTES (64u << 10)

struct watch_stream {
    struct apiserver *server;
    struct http_request *req;
    struct resource *resource;
    struct object_filter filter;
    char *ns, *name; /* filter borrows them */
    struct answer_type type;
    struct table *table; /* FORM_TABLE */
    bool bookmarks, initial_bookmark, definitions_sent;
    uint64_t *events; /* counts those that are sent (statistics.h) */
    struct store_watch *watch;
    struct stored **initial; /* to be sent when from is on disk */
    size_t initial_count, initial_sent;
    int64_t from;
    bool starting, dead;
    struct event *timeout, *bookmark_timer;
    struct watch_stream *prev, *next;
};

static void destroy(struct watch_stream *w)
{
    store_list_free(w->initial, w->initial_count);
    filter_clear(&w->filter);
    table_free(w->table);
    resource_unref(w->resource);
    free(w->ns);
    free(w->name);
    free(w);
}

/* Ends the answer. The memory stays while the store still owes the start callback. */
static void stop(struct watch_stream *w)
{
    if (w->dead)
        return;
    w->dead = true;
    store_unwatch(take_ptr(w->watch));
    if (w->timeout)
        event_free(take_ptr(w->timeout));
    if (w->bookmark_timer)
        event_free(take_ptr(w->bookmark_timer));
    *(w->prev ? &w->prev->next : &w->server->streams_open) = w->next;
    if (w->next)
        w->next->prev = w->prev;
    http_on_close(w->req, NULL, NULL);
    http_end(take_ptr(w->req));
    if (!w->starting)
        destroy(w);
}

static bool send_text(struct watch_stream *w, const struct strbuf *line)
{
    if (http_write(w->req, line->data, line->len))
        return true;
    stop(w);
    return false;
}

static void write_table(struct watch_stream *w, const struct json *shown, struct strbuf *line)
{
    char metadata[64];

    (void)snprintf(metadata, sizeof(metadata), "{\"resourceVersion\":\"%s\"}",
                   json_str_or(json_at(shown, "metadata", "resourceVersion", NULL), ""));
    table_set_now(w->table, clock_now(w->server->clock));
    table_begin(w->table, metadata, !w->definitions_sent, line);
    table_row(w->table, shown, true, line);
    table_end(line);
    w->definitions_sent = true;
}

static void send_status(struct watch_stream *w, struct json *status);

/* object: in the resource's own form; text: the same as JSON, NULL when there is none at hand. */
static bool send_event(struct watch_stream *w, const char *type, struct json *object, const char *text, size_t len)
{
    _cleanup_(strbuf_free) struct strbuf line = {0};
    _cleanup_json_ struct json *value = w->type.form == FORM_METADATA ? partial_object(object) : json_ref(object);

    ++*w->events;
    if (w->type.encoding == ENCODING_PROTOBUF) {
        _cleanup_error_ struct error err = ERROR_INIT;
        if (proto_watch_frame(type, value, &line, &err) == 0)
            return send_text(w, &line);
        send_status(w, status_failuref(500, "InternalError", "%s: ask for it as JSON", error_text(&err)));
        return false;
    }
    strbuf_addf(&line, "{\"type\":\"%s\",\"object\":", type);
    if (w->type.form == FORM_TABLE)
        write_table(w, object, &line);
    else if (text)
        strbuf_add(&line, text, len);
    else
        json_write(value, &line);
    strbuf_adds(&line, "}\n");
    return send_text(w, &line);
}

static bool send_object(struct watch_stream *w, const char *type, struct stored *o)
{
    _cleanup_json_ struct json *shown = object_shown(w->resource, o->value);
    bool as_stored = shown == o->value && w->type.form == FORM_OBJECT && w->type.encoding == ENCODING_JSON;
    size_t len = 0;
    const char *text = as_stored ? stored_text(o, &len) : NULL;

    return send_event(w, type, shown, text, len);
}

/* Ends the stream. Takes status. */
static void send_status(struct watch_stream *w, struct json *status)
{
    _cleanup_(strbuf_free) struct strbuf line = {0};

    if (w->type.encoding == ENCODING_PROTOBUF) {
        (void)proto_watch_frame("ERROR", status, &line, NULL); /* a Status can be encoded */
    } else {
        strbuf_adds(&line, "{\"type\":\"ERROR\",\"object\":");
        json_write(status, &line);
        strbuf_adds(&line, "}\n");
    }
    json_unref(status);
    if (send_text(w, &line))
        stop(w);
}

static bool send_bookmark(struct watch_stream *w, int64_t revision, bool initial_end)
{
    char version[32];

    (void)snprintf(version, sizeof(version), "%" PRId64, revision);
    _cleanup_json_ struct json *object =
        json_build("{s:s, s:s, s:{s:s, s:n}}", "kind", w->resource->kind, "apiVersion", w->resource->api_version,
                   "metadata", "resourceVersion", version, "creationTimestamp");
    if (initial_end)
        json_set(json_get(object, "metadata"), "annotations", json_build("{s:s}", "k8s.io/initial-events-end", "true"));
    return send_event(w, "BOOKMARK", object, NULL, 0);
}

/* What the client sees of a change depends on whether the object matched before and matches now. */
static void on_event(void *arg, const struct store_event *e)
{
    struct watch_stream *w = arg;
    bool before = e->previous && filter_matches(&w->filter, e->previous->key, e->previous->value);
    bool now = e->type != STORE_DELETED && filter_matches(&w->filter, e->object->key, e->object->value);

    if (now)
        (void)send_object(w, before ? "MODIFIED" : "ADDED", e->object);
    else if (before ||
             (e->type == STORE_DELETED && !e->previous && filter_matches(&w->filter, e->object->key, e->object->value)))
        (void)send_object(w, "DELETED", e->object);
}

static void on_lost(void *arg)
{
    struct watch_stream *w = arg;

    w->watch = NULL; /* stopped by the store */
    send_status(w, status_expired("too old resource version: the watch could not keep up"));
}

static const struct store_watch_callbacks callbacks = {on_event, on_lost};

static struct json *refusal(struct apiserver *s, int64_t from, int code)
{
    if (code == ERANGE)
        return status_timeout(from, store_revision(s->store));
    return status_expired("too old resource version: %" PRId64 " (%" PRId64 ")", from, store_compacted(s->store) + 1);
}

/* What the stream begins with has been sent: from here on, changes. */
static void follow(struct watch_stream *w)
{
    struct error err = ERROR_INIT;

    http_on_drain(w->req, NULL, NULL);
    store_list_free(take_ptr(w->initial), w->initial_count);
    w->initial_count = 0;
    if (w->initial_bookmark && !send_bookmark(w, w->from, true))
        return; /* w is gone */
    w->watch = store_watch(w->server->store, w->resource->store_name, w->from, true, &callbacks, w, &err);
    if (!w->watch)
        send_status(w, refusal(w->server, w->from, err.code));
    error_clear(&err);
}

/* The present state, as fast as the client takes it. */
static void begin(void *arg, struct http_request *req)
{
    struct watch_stream *w = arg;

    while (w->initial_sent < w->initial_count && http_output_pending(req) < INITIAL_HIGH_BYTES) {
        struct stored *o = w->initial[w->initial_sent++];
        if (filter_matches(&w->filter, o->key, o->value) && !send_object(w, "ADDED", o))
            return; /* w is gone */
    }
    if (w->initial_sent == w->initial_count)
        follow(w);
    else
        http_on_drain(req, begin, w);
}

static void on_start(void *arg, const struct error *err)
{
    struct watch_stream *w = arg;

    w->starting = false;
    if (w->dead)
        destroy(w);
    else if (err)
        send_status(w, status_store_failed(err));
    else
        begin(w, w->req);
}

static void on_closed(void *arg, struct http_request *req)
{
    (void)req;
    stop(arg);
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
    struct watch_stream *w = arg;

    (void)fd;
    (void)what;
    if (!w->bookmarks || !w->watch || send_bookmark(w, store_durable_revision(w->server->store), false))
        stop(w);
}

static void on_bookmark(evutil_socket_t fd, short what, void *arg)
{
    struct watch_stream *w = arg;

    (void)fd;
    (void)what;
    if (w->watch)
        (void)send_bookmark(w, store_durable_revision(w->server->store), false);
}

static void start_timers(struct watch_stream *w, int64_t seconds)
{
    uint32_t random;

    random_bytes(&random, sizeof(random));
    if (seconds <= 0)
        seconds = TIMEOUT_MIN_SECONDS + random % TIMEOUT_MIN_SECONDS;
    w->timeout = evtimer_new(w->server->base, on_timeout, w);
    if (!w->timeout || evtimer_add(w->timeout, &(struct timeval){.tv_sec = seconds}) < 0)
        abort(); /* out of memory */
    if (!w->bookmarks)
        return;
    w->bookmark_timer = event_new(w->server->base, -1, EV_PERSIST, on_bookmark, w);
    if (!w->bookmark_timer || evtimer_add(w->bookmark_timer, &(struct timeval){.tv_sec = BOOKMARK_SECONDS}) < 0)
        abort(); /* out of memory */
}

/* *ret_initial: the stream begins with the present state. */
static int choose_start(struct api_call *c, int64_t *ret_from, bool *ret_initial)
{
    const struct api_options *o = &c->options;
    int64_t now = store_revision(c->server->store);
    uint64_t version = 0;

    if (o->resource_version && *o->resource_version &&
        (!parse_u64(o->resource_version, &version) || version > INT64_MAX))
        return api_fail(c, status_bad_request("invalid resource version \"%s\"", o->resource_version));
    if ((int64_t)version > now)
        return api_fail(c, refusal(c->server, (int64_t)version, ERANGE));
    *ret_initial = o->send_initial_given ? o->send_initial_events : version == 0;
    *ret_from = *ret_initial || version == 0 ? now : (int64_t)version;
    if (*ret_from < store_compacted(c->server->store))
        return api_fail(c, refusal(c->server, *ret_from, EOVERFLOW));
    return 0;
}

static struct watch_stream *make(struct api_call *c)
{
    struct watch_stream *w = xcalloc(1, sizeof(*w));
    const char *ns = c->ns, *name = c->name;

    w->server = c->server;
    w->ns = xstrdup(ns);
    w->name = xstrdup(name);
    c->ns = w->ns; /* what the filter borrows must live as long as the stream */
    c->name = w->name;
    int r = filter_read(c, &w->filter);
    c->ns = ns;
    c->name = name;
    if (r == 0)
        return w;
    destroy(w);
    return NULL;
}

int watch_start(struct api_call *c, struct http_request *req, const struct answer_type *type, enum table_object include)
{
    struct apiserver *s = c->server;
    int64_t from = 0;
    bool initial = false;

    if (options_check_list(c, true) < 0 || choose_start(c, &from, &initial) < 0)
        return -1;
    struct watch_stream *w = make(c);
    if (!w)
        return -1;
    w->req = req;
    w->resource = resource_ref(c->resource);
    w->events = statistics_watch_events(s->statistics, c->resource);
    w->type = *type;
    w->table = type->form == FORM_TABLE ? table_new(c->resource, include, clock_now(s->clock)) : NULL;
    w->bookmarks = c->options.bookmarks;
    w->initial_bookmark = c->options.send_initial_events && c->options.bookmarks;
    w->from = from;
    w->next = s->streams_open;
    if (w->next)
        w->next->prev = w;
    s->streams_open = w;
    if (initial)
        w->initial = store_list(s->store, c->resource->store_name, w->filter.ns, &w->initial_count);
    http_on_close(req, on_closed, w);
    http_set_low_priority(req, false); /* how much is sent is not up to this client: all watchers in one go */
    http_start(req, 200, answer_media_type(type));
    start_timers(w, c->options.timeout_seconds);
    w->starting = true;
    store_when_durable(s->store, from, on_start, w);
    return 0;
}

void watch_check_resources(struct apiserver *s)
{
    for (struct watch_stream *w = s->streams_open, *next; w; w = next) {
        const struct resource *r = w->resource;
        next = w->next;
        if (!resource_by_plural(s->resources, r->group, r->version, r->plural))
            stop(w);
    }
}

void watch_stop_all(struct apiserver *s)
{
    while (s->streams_open)
        stop(s->streams_open);
}
