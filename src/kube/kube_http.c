#include "kube/kube_http.h"

#include "base/hashmap.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "kube/object.h"
#include "wire/http.h"
#include "wire/tls.h"

#include <event2/event.h>
#include <inttypes.h>

#define REQUEST_TIMEOUT_MS 60000
#define WATCH_SECONDS 600
#define RETRY_MIN_NS (50 * NSEC_PER_MSEC)
#define RETRY_MAX_NS (5 * NSEC_PER_SEC)
#define WATCH_LINE_MAX (64u << 20)

struct kube_http {
    struct kube kube;
    struct event_base *base;
    struct http_client *client;
    struct ssl_ctx_st *tls;
};

/* Paths. */

static void add_param(struct strbuf *b, const char *key, const char *value)
{
    _cleanup_free_ char *encoded = url_encode(value);

    strbuf_addf(b, "%c%s=%s", strchr(strbuf_str(b), '?') ? '&' : '?', key, encoded);
}

static void add_path(struct strbuf *b, const struct kube_resource *r, const char *ns, const char *name,
                     const char *subresource)
{
    if (*r->group)
        strbuf_addf(b, "/apis/%s/%s", r->group, r->version);
    else
        strbuf_addf(b, "/api/%s", r->version);
    if (r->namespaced && ns && *ns)
        strbuf_addf(b, "/namespaces/%s", ns);
    strbuf_addf(b, "/%s", r->plural);
    if (name) {
        _cleanup_free_ char *encoded = url_encode(name);
        strbuf_addf(b, "/%s", encoded);
    }
    if (subresource)
        strbuf_addf(b, "/%s", subresource);
}

/* One request. */

struct call {
    kube_done done;
    void *arg;
};

static void call_done(void *arg, int status, const struct http_headers *headers UNUSED, const char *body, size_t len)
{
    struct call *call = arg;
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_json_ struct json *object = len ? json_parse(body, len, &err) : NULL;

    if (status >= 400)
        kube_error_from_status(status, object, &err);
    call->done(call->arg, status, object, err.code ? &err : NULL);
    free(call);
}

static void call_failed(void *arg, const struct error *err)
{
    struct call *call = arg;

    call->done(call->arg, 0, NULL, err);
    free(call);
}

static const struct http_call_callbacks call_callbacks = {.done = call_done, .failed = call_failed};

static void http_request(struct kube *k, const struct kube_request *q, kube_done done, void *arg)
{
    static const struct {
        const char *method, *content_type;
    } verbs[] = {
        [KUBE_GET] = {"GET", NULL},
        [KUBE_LIST] = {"GET", NULL},
        [KUBE_CREATE] = {"POST", "application/json"},
        [KUBE_UPDATE] = {"PUT", "application/json"},
        [KUBE_PATCH_MERGE] = {"PATCH", "application/merge-patch+json"},
        [KUBE_PATCH_JSON] = {"PATCH", "application/json-patch+json"},
        [KUBE_APPLY] = {"PATCH", "application/apply-patch+yaml"},
        [KUBE_DELETE] = {"DELETE", "application/json"},
    };
    struct kube_http *h = container_of(k, struct kube_http, kube);
    _cleanup_(strbuf_free) struct strbuf target = {0}, body = {0};
    struct http_headers headers = {0};

    add_path(&target, q->resource, q->ns, q->name, q->subresource);
    if (q->label_selector)
        add_param(&target, "labelSelector", q->label_selector);
    if (q->field_selector)
        add_param(&target, "fieldSelector", q->field_selector);
    if (q->field_manager && q->verb != KUBE_GET && q->verb != KUBE_LIST && q->verb != KUBE_DELETE)
        add_param(&target, "fieldManager", q->field_manager);
    if (q->verb == KUBE_APPLY)
        add_param(&target, "force", "true");
    if (q->body) {
        json_write(q->body, &body);
        http_headers_add(&headers, "Content-Type", verbs[q->verb].content_type);
    }
    http_headers_add(&headers, "Accept", "application/json");

    struct call *call = xmalloc(sizeof(*call));
    *call = (struct call){done, arg};
    (void)http_call(h->client, verbs[q->verb].method, strbuf_str(&target), &headers, strbuf_str(&body), body.len,
                    REQUEST_TIMEOUT_MS, &call_callbacks, call);
    http_headers_free(&headers);
}

/* Watching: list, then watch from the list's revision; after any break list again and report the difference. */

struct watch {
    struct kube_watch watch;
    const struct kube_resource *resource;
    char *ns, *label_selector, *field_selector;
    const struct kube_watch_callbacks *cb;
    void *arg;
    struct hashmap known; /* key → last object, to find what vanished while not watching */
    int64_t revision;     /* to watch from; 0 = list first */
    int64_t retry_ns;
    struct http_call *call;
    struct event *retry;
    struct strbuf line;
    int status;
};

static void watch_begin(struct watch *w);

static void watch_again(struct watch *w, bool at_once)
{
    int64_t delay = at_once ? 0 : w->retry_ns;
    struct timeval tv = {.tv_sec = delay / NSEC_PER_SEC, .tv_usec = delay % NSEC_PER_SEC / 1000};

    w->call = NULL;
    strbuf_truncate(&w->line, 0);
    w->retry_ns = at_once ? RETRY_MIN_NS : MIN(w->retry_ns * 2, RETRY_MAX_NS);
    (void)evtimer_add(w->retry, &tv);
}

static void on_retry(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    watch_begin(arg);
}

static void deliver(struct watch *w, enum kube_event_type type, struct json *object)
{
    _cleanup_free_ char *key = object_key(object);
    _cleanup_json_ struct json *old = NULL;

    if (type == KUBE_DELETED) {
        old = hashmap_remove(&w->known, key);
        if (!old)
            return;
    } else {
        old = hashmap_put(&w->known, key, json_ref(object));
        if (old && object_revision(old) == object_revision(object))
            return;
        type = old ? KUBE_MODIFIED : KUBE_ADDED;
    }
    w->cb->event(w->arg, type, object);
}

/* A list's items carry neither kind nor apiVersion for built-in kinds; everywhere else objects do. */
static struct json *complete(const struct watch *w, const struct json *item)
{
    struct json *object = json_copy_shallow(item);
    char version[256];

    if (!json_has(object, "kind")) {
        json_set_str(object, "apiVersion", kube_api_version(w->resource, version, sizeof(version)));
        json_set_str(object, "kind", w->resource->kind);
    }
    return object;
}

static void list_done(void *arg, int status, const struct http_headers *headers UNUSED, const char *body, size_t len)
{
    struct watch *w = arg;
    _cleanup_json_ struct json *list = status == 200 ? json_parse(body, len, NULL) : NULL;
    const struct json *items = json_get(list, "items");

    if (!json_is(items, JSON_ARRAY)) {
        watch_again(w, false);
        return;
    }
    struct hashmap seen = {0};
    for (size_t i = 0; i < json_size(items); i++) {
        _cleanup_json_ struct json *object = complete(w, json_item(items, i));
        _cleanup_free_ char *key = object_key(object);
        (void)hashmap_put(&seen, key, w);
        deliver(w, KUBE_ADDED, object);
    }
    for (struct hashmap_iter it = {0}; hashmap_next(&w->known, &it);) {
        if (hashmap_get(&seen, it.key))
            continue;
        _cleanup_json_ struct json *gone = json_ref(it.value);
        deliver(w, KUBE_DELETED, gone);
    }
    hashmap_free(&seen, NULL);
    w->revision = object_revision(list);
    w->cb->synced(w->arg, w->revision);
    watch_again(w, true);
}

static void watch_line(struct watch *w, const char *line, size_t len)
{
    static const struct {
        const char *name;
        enum kube_event_type type;
    } types[] = {
        {"ADDED", KUBE_ADDED}, {"MODIFIED", KUBE_MODIFIED}, {"DELETED", KUBE_DELETED}, {"BOOKMARK", KUBE_BOOKMARK}};
    _cleanup_json_ struct json *event = json_parse(line, len, NULL);
    const char *type = json_str_or(json_get(event, "type"), "");
    struct json *object = json_get(event, "object");

    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (!streq(type, types[i].name))
            continue;
        w->revision = MAX(w->revision, object_revision(object));
        if (types[i].type == KUBE_BOOKMARK)
            w->cb->event(w->arg, KUBE_BOOKMARK, object);
        else
            deliver(w, types[i].type, object);
        return;
    }
    w->revision = 0; /* ERROR, or something we do not understand: start over */
}

static void watch_headers(void *arg, int status, const struct http_headers *headers UNUSED)
{
    struct watch *w = arg;

    w->status = status;
}

static void watch_data(void *arg, const char *data, size_t len)
{
    struct watch *w = arg;

    if (w->status != 200)
        return;
    w->retry_ns = RETRY_MIN_NS;
    while (len) {
        const char *newline = memchr(data, '\n', len);
        size_t n = newline ? (size_t)(newline - data) : len;

        strbuf_add(&w->line, data, n);
        if (w->line.len > WATCH_LINE_MAX) {
            log_warn("watch line too long", "resource", w->resource->plural, NULL);
            strbuf_truncate(&w->line, 0);
            w->revision = 0;
        }
        if (!newline)
            return;
        if (w->line.len)
            watch_line(w, w->line.data, w->line.len);
        strbuf_truncate(&w->line, 0);
        data = newline + 1;
        len -= n + 1;
    }
}

static void watch_done(void *arg, int status, const struct http_headers *headers UNUSED, const char *body UNUSED,
                       size_t len UNUSED)
{
    struct watch *w = arg;

    if (status != 200)
        w->revision = 0;
    watch_again(w, status == 200 && w->revision);
}

static void watch_failed(void *arg, const struct error *err)
{
    struct watch *w = arg;

    log_debug("watch interrupted", "resource", w->resource->plural, "error", error_text(err), NULL);
    watch_again(w, false);
}

static void watch_begin(struct watch *w)
{
    static const struct http_call_callbacks list_callbacks = {.done = list_done, .failed = watch_failed};
    static const struct http_call_callbacks watch_callbacks = {
        .headers = watch_headers, .data = watch_data, .done = watch_done, .failed = watch_failed};
    struct kube_http *h = container_of(w->watch.kube, struct kube_http, kube);
    _cleanup_(strbuf_free) struct strbuf target = {0};
    bool list = w->revision == 0;

    add_path(&target, w->resource, w->ns, NULL, NULL);
    if (w->label_selector)
        add_param(&target, "labelSelector", w->label_selector);
    if (w->field_selector)
        add_param(&target, "fieldSelector", w->field_selector);
    if (!list)
        strbuf_addf(&target, "%cwatch=true&allowWatchBookmarks=true&resourceVersion=%" PRId64 "&timeoutSeconds=%d",
                    strchr(target.data, '?') ? '&' : '?', w->revision, WATCH_SECONDS);
    w->status = 0;
    w->call = http_call(h->client, "GET", strbuf_str(&target), NULL, NULL, 0, list ? REQUEST_TIMEOUT_MS : 0,
                        list ? &list_callbacks : &watch_callbacks, w);
}

static struct kube_watch *http_watch(struct kube *k, const struct kube_resource *r, const char *ns,
                                     const char *label_selector, const char *field_selector,
                                     const struct kube_watch_callbacks *cb, void *arg)
{
    struct kube_http *h = container_of(k, struct kube_http, kube);
    struct watch *w = xcalloc(1, sizeof(*w));

    w->watch.kube = k;
    w->resource = r;
    w->ns = ns ? xstrdup(ns) : NULL;
    w->label_selector = label_selector ? xstrdup(label_selector) : NULL;
    w->field_selector = field_selector ? xstrdup(field_selector) : NULL;
    w->cb = cb;
    w->arg = arg;
    w->retry_ns = RETRY_MIN_NS;
    w->retry = evtimer_new(h->base, on_retry, w);
    if (!w->retry)
        abort();
    watch_begin(w);
    return &w->watch;
}

static void unref_json(void *value)
{
    json_unref(value);
}

static void http_watch_stop(struct kube_watch *watch)
{
    struct watch *w = container_of(watch, struct watch, watch);

    if (w->call)
        http_call_cancel(w->call);
    event_free(w->retry);
    hashmap_free(&w->known, unref_json);
    strbuf_free(&w->line);
    free(w->ns);
    free(w->label_selector);
    free(w->field_selector);
    free(w);
}

static void http_free(struct kube *k)
{
    struct kube_http *h = container_of(k, struct kube_http, kube);

    http_client_free(h->client);
    tls_context_free(h->tls);
    free(h);
}

static const struct kube_ops http_ops = {
    .request = http_request, .watch = http_watch, .watch_stop = http_watch_stop, .free = http_free};

/* "https://host:port", "https://[::1]:6443". */
static int split_server(const char *server, bool *ret_tls, char **ret_host, uint16_t *ret_port, struct error *err)
{
    const char *rest = str_skip_prefix(server, "https://");
    uint64_t port;

    *ret_tls = rest != NULL;
    if (!rest)
        rest = str_skip_prefix(server, "http://");
    if (!rest)
        return error_set_field(err, EINVAL, "server", "server \"%s\" is no http(s) address", server);
    const char *end = *rest == '[' ? strchr(rest, ']') : NULL;
    size_t host_len = end ? (size_t)(end - rest - 1) : strcspn(rest, ":/");
    const char *after = end ? end + 1 : rest + host_len;
    char *host = xstrndup(end ? rest + 1 : rest, host_len);
    _cleanup_free_ char *digits = *after == ':' ? xstrndup(after + 1, strcspn(after + 1, "/")) : NULL;

    port = *ret_tls ? 443 : 80;
    if (!*host || (digits && (!parse_u64(digits, &port) || port == 0 || port > 65535))) {
        free(host);
        return error_set_field(err, EINVAL, "server", "server \"%s\" has no valid host and port", server);
    }
    *ret_host = host;
    *ret_port = (uint16_t)port;
    return 0;
}

struct http_client *kube_http_client_new(struct event_base *base, const struct kubeconfig *config,
                                         const char *user_agent, struct ssl_ctx_st **ret_tls, struct error *err)
{
    _cleanup_free_ char *host = NULL;
    bool with_tls;
    uint16_t port = 0;
    if (split_server(config->server, &with_tls, &host, &port, err) < 0)
        return NULL;

    struct ssl_ctx_st *tls = NULL;
    if (with_tls) {
        struct tls_cert cert = {config->cert_pem, config->key_pem};
        tls = tls_client_context(config->ca_pem, config->cert_pem ? &cert : NULL, err);
        if (!tls)
            return NULL;
    }
    struct http_client_options options = {
        .host = host, .port = port, .tls = tls, .bearer_token = config->token, .user_agent = user_agent};
    *ret_tls = tls;
    return http_client_new(base, &options);
}

struct kube *kube_http_new(struct event_base *base, const struct kubeconfig *config, const char *user_agent,
                           struct error *err)
{
    struct ssl_ctx_st *tls;
    struct http_client *client = kube_http_client_new(base, config, user_agent, &tls, err);
    if (!client)
        return NULL;
    struct kube_http *h = xcalloc(1, sizeof(*h));

    h->kube.ops = &http_ops;
    h->base = base;
    h->tls = tls;
    h->client = client;
    return &h->kube;
}

struct wait {
    struct event_base *base;
    int status;
    bool finished;
    struct json *object;
    struct error *err;
};

static void wait_done(void *arg, int status, struct json *object, const struct error *err)
{
    struct wait *wait = arg;

    wait->finished = true;
    wait->status = status;
    wait->object = json_ref(object);
    if (err) {
        (void)error_set(wait->err, err->code, "%s", error_text(err));
        error_set_reason(wait->err, err->reason);
    }
    (void)event_base_loopbreak(wait->base);
}

int kube_call_wait(struct event_base *base, struct kube *k, const struct kube_request *request, struct json **ret,
                   struct error *err)
{
    _cleanup_error_ struct error failure = ERROR_INIT;
    struct wait wait = {.base = base, .err = &failure};

    kube_do(k, request, wait_done, &wait);
    while (!wait.finished && event_base_dispatch(base) == 0)
        ;
    if (ret)
        *ret = take_ptr(wait.object);
    json_unref(wait.object);
    if (!wait.finished)
        return error_set(err, EIO, "the event loop ended before the answer came");
    if (failure.code && wait.status == 0)
        return error_move(err, &failure);
    int status = wait.status;
    if (failure.code)
        (void)error_move(err, &failure);
    return status;
}
