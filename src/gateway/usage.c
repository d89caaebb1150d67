/* What Pods and the node use, asked of the node over its socket (sandbox/paths.h). */
#include "gateway/internal.h"

#include "base/memory.h"
#include "sandbox/paths.h"
#include "wire/http.h"

#define TIMEOUT_MSEC 10000

struct usage_question {
    struct gateway *gateway;
    usage_done done;
    void *arg;
    struct usage_question *next;
};

static void answer(struct usage_question *q, const struct json *readings, const struct error *err)
{
    struct usage_question **at = &q->gateway->questions;

    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    q->done(q->arg, readings, err);
    free(q);
}

static void on_done(void *arg, int status, const struct http_headers *headers UNUSED, const char *body, size_t len)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_json_ struct json *readings = status == 200 ? json_parse(body, len, &err) : NULL;

    if (!json_is(readings, JSON_OBJECT) && !err.code)
        (void)error_set(&err, EPROTO, "it answered %d", status);
    answer(arg, readings, err.code ? &err : NULL);
}

static void on_failed(void *arg, const struct error *err)
{
    _cleanup_error_ struct error away = ERROR_INIT;

    if (err->code == ENOENT || err->code == ECONNREFUSED) /* no socket, or nobody behind it */
        (void)error_set(&away, err->code, "it does not run");
    answer(arg, NULL, away.code ? &away : err);
}

void gateway_usage(void *arg, usage_done done, void *done_arg)
{
    static const struct http_call_callbacks callbacks = {.done = on_done, .failed = on_failed};
    struct gateway *g = arg;
    struct usage_question *q = xcalloc(1, sizeof(*q));

    *q = (struct usage_question){.gateway = g, .done = done, .arg = done_arg, .next = g->questions};
    g->questions = q;
    if (!g->node) {
        _cleanup_free_ char *path = path_node_socket(g->run_dir);
        const struct http_client_options options = {.host = "node", .unix_path = path};
        g->node = http_client_new(g->base, &options);
    }
    (void)http_call(g->node, "GET", "/usage", NULL, NULL, 0, TIMEOUT_MSEC, &callbacks, q); /* ends by a callback */
}

void gateway_usage_free(struct gateway *g)
{
    _cleanup_error_ struct error err = ERROR_INIT;

    http_client_free(g->node);
    (void)error_set(&err, ECANCELED, "the server stops");
    while (g->questions)
        answer(g->questions, NULL, &err);
}
