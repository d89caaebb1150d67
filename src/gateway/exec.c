/* exec and attach: the request. What follows it: exec.h. `attach?processes=true` lists what can be attached to. */
#include "gateway/exec.h"

#include "apiserver/api_error.h"
#include "apiserver/request_info.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "wire/guest_client.h"
#include "wire/websocket.h"

#include <strings.h>

#define PROTOCOLS "v5.channel.k8s.io, v4.channel.k8s.io, v3.channel.k8s.io, v2.channel.k8s.io, channel.k8s.io"

static void refuse_protocol(struct http_request *req, bool attach)
{
    http_add_header(req, "X-Accepted-Stream-Protocol-Versions", PROTOCOLS);
    gateway_refuse(req, status_failure(403, "Forbidden",
                                       attach ? "attach is served over WebSocket and SPDY/3.1 with one of " PROTOCOLS
                                              : "exec is served over WebSocket and SPDY/3.1 with one of " PROTOCOLS,
                                       NULL));
}

static void stream(struct gateway *g, const struct stream_target *target, struct http_request *req, bool attach)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    bool websocket = websocket_requested(req);
    bool spdy = !websocket && http_headers_has_token(http_request_headers(req), "Upgrade", "SPDY/3.1");
    const char *protocol = websocket ? exec_choose_channels(req) : spdy ? exec_choose_spdy(req) : NULL;

    if (gateway_check_guest(g, target->pod, &err) < 0) {
        gateway_refuse_error(req, &err);
        return;
    }
    if (!websocket && !spdy) {
        gateway_refuse(req, status_bad_request("%s is served over WebSocket and SPDY/3.1: ask for an upgrade",
                                               attach ? "attach" : "exec"));
        return;
    }
    if (!protocol) {
        refuse_protocol(req, attach);
        return;
    }
    struct exec_session *s = exec_session_new(g, target, req, attach, &err);
    if (!s)
        gateway_refuse(req, status_bad_request("%s", error_text(&err)));
    else if (websocket)
        exec_accept_channels(s, req, protocol);
    else
        exec_accept_spdy(s, g, req, protocol);
}

void gateway_exec(void *arg, const struct stream_target *target, struct http_request *req)
{
    stream(arg, target, req, false);
}

/* What runs in the sandbox, to find what a cut client left behind. */
struct listing {
    struct http_request *req;
    struct guest_client *guest;
    struct json *items;
};

static void on_process(void *arg, const struct guest_process_info *info)
{
    struct listing *l = arg;
    struct json *argv = json_array_make();
    bool exited = info->flags & GUEST_FLAG_EXITED;

    for (size_t i = 0; info->argv && info->argv[i]; i++)
        json_push(argv, json_string(info->argv[i]));
    struct json *item = json_build("{s:s, s:i, s:o, s:b, s:b, s:b}", "id", info->id, "pid", (int64_t)info->pid, "argv",
                                   argv, "main", (info->flags & GUEST_FLAG_MAIN) != 0, "tty",
                                   (info->flags & GUEST_FLAG_TTY) != 0, "running", !exited);
    if (exited)
        json_set_int(item, "exitCode", info->exit.code);
    json_push(l->items, item);
}

static void listing_end(struct listing *l, const struct error *err)
{
    if (err) {
        gateway_refuse(l->req, status_internal("%s", error_text(err)));
    } else {
        _cleanup_json_ struct json *body = json_build("{s:s, s:O}", "kind", "ProcessList", "items", l->items);
        _cleanup_free_ char *text = json_text(body);
        http_respond(l->req, 200, "application/json", text, strlen(text));
    }
    guest_client_free(l->guest);
    json_unref(l->items);
    free(l);
}

static void on_list_done(void *arg)
{
    listing_end(arg, NULL);
}

static void on_list_failed(void *arg, const struct error *err)
{
    listing_end(arg, err);
}

static void list_processes(struct gateway *g, const struct stream_target *target, struct http_request *req)
{
    static const struct guest_callbacks callbacks = {
        .process = on_process, .done = on_list_done, .failed = on_list_failed};
    _cleanup_error_ struct error err = ERROR_INIT;
    int fd = gateway_connect_guest(g, target->pod, &err);
    struct listing *l = xcalloc(1, sizeof(*l));

    l->req = req;
    l->items = json_array_make();
    l->guest = fd >= 0 ? guest_list(g->base, fd, &callbacks, l, &err) : NULL;
    if (!l->guest) {
        gateway_refuse_error(req, &err);
        json_unref(l->items);
        free(l);
    }
}

void gateway_attach(void *arg, const struct stream_target *target, struct http_request *req)
{
    if (query_bool(http_query(req, "processes")))
        list_processes(arg, target, req);
    else
        stream(arg, target, req, true);
}
