#include "apiserver/proxy.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <stdio.h>

#define DEFAULT_PORT 80
/* The parts of /api/v1/namespaces/NS/pods/NAME/proxy. */
#define PREFIX_PARTS 7

bool proxy_wants(const struct api_call *c)
{
    return !*c->resource->group && streq(c->subresource, "proxy") &&
           (streq(c->resource->plural, "pods") || streq(c->resource->plural, "services"));
}

/* "SCHEME:NAME:PORT", "NAME:PORT" or "NAME". */
struct wanted {
    char *name, *port; /* port: "" when none is given */
};

static void wanted_free(struct wanted *w)
{
    free(w->name);
    free(w->port);
}

static int read_wanted(struct api_call *c, const char *text, struct wanted *ret)
{
    const char *first = strchr(text, ':'), *second = first ? strchr(first + 1, ':') : NULL;
    size_t scheme_len = second ? (size_t)(first - text) : 0;

    if (second && strchr(second + 1, ':'))
        return api_fail(c, status_bad_request("invalid %s request \"%s\"", c->resource->singular, text));
    if (scheme_len && strncmp(text, "http:", scheme_len + 1) != 0)
        return api_fail(c, status_bad_request("invalid %s request \"%s\": only http is spoken to what is proxied",
                                              c->resource->singular, text));
    const char *name = second ? first + 1 : text, *port = second ? second : first;
    ret->name = port ? xstrndup(name, (size_t)(port - name)) : xstrdup(name);
    ret->port = xstrdup(port ? port + 1 : "");
    return 0;
}

static bool read_port(const char *text, uint16_t *ret)
{
    int64_t port;
    bool ok = parse_i64(text, &port) && port >= 1 && port <= UINT16_MAX;

    *ret = ok ? (uint16_t)port : 0;
    return ok;
}

/* Of the containers' ports the one of this name; the first of all when name is "". */
static uint16_t container_port(const struct json *pod, const char *name)
{
    const struct json *containers = json_at(pod, "spec", "containers", NULL);

    for (size_t i = 0; i < json_size(containers); i++) {
        const struct json *ports = json_get(json_item(containers, i), "ports");
        for (size_t k = 0; k < json_size(ports); k++) {
            const struct json *port = json_item(ports, k);
            if (!*name || streq(json_str_or(json_get(port, "name"), ""), name))
                return (uint16_t)json_int_or(json_get(port, "containerPort"), 0);
        }
    }
    return *name ? 0 : DEFAULT_PORT;
}

static struct stored *pod_target(struct api_call *c, const struct wanted *w, uint16_t *ret_port)
{
    struct stored *pod = stored_ref(api_current(c));

    if (!pod)
        return NULL;
    if (!read_port(w->port, ret_port))
        *ret_port = container_port(pod->value, w->port);
    if (*ret_port)
        return pod;
    (void)api_fail(c, status_bad_request("pod %s has no port \"%s\"", w->name, w->port));
    stored_unref(pod);
    return NULL;
}

static struct json *unavailable(const char *text)
{
    return status_failure(503, "ServiceUnavailable", text, NULL);
}

/* The port of the Service that is meant: by name, by number, or the only one. */
static const struct json *service_port(const struct json *service, const char *text)
{
    const struct json *ports = json_at(service, "spec", "ports", NULL);
    uint16_t number;
    bool is_number = read_port(text, &number);

    if (!*text)
        return json_size(ports) == 1 ? json_item(ports, 0) : NULL;
    for (size_t i = 0; i < json_size(ports); i++) {
        const struct json *port = json_item(ports, i);
        if (is_number ? json_int_or(json_get(port, "port"), 0) == number
                      : streq(json_str_or(json_get(port, "name"), ""), text))
            return port;
    }
    return NULL;
}

/* The first Pod that is ready for the port, as the Service's Endpoints have it; a reference. */
static struct stored *endpoint(struct apiserver *s, const char *key, const char *ns, const char *port_name,
                               uint16_t *ret_port)
{
    struct stored *endpoints = store_get(s->store, "/endpoints", key);
    const struct json *subsets = endpoints ? json_get(endpoints->value, "subsets") : NULL;

    for (size_t i = 0; i < json_size(subsets); i++) {
        const struct json *subset = json_item(subsets, i), *ports = json_get(subset, "ports");
        const struct json *addresses = json_get(subset, "addresses");
        *ret_port = 0;
        for (size_t k = 0; k < json_size(ports) && !*ret_port; k++)
            if (streq(json_str_or(json_get(json_item(ports, k), "name"), ""), port_name))
                *ret_port = (uint16_t)json_int_or(json_get(json_item(ports, k), "port"), 0);
        for (size_t k = 0; k < json_size(addresses) && *ret_port; k++) {
            const struct json *ref = json_get(json_item(addresses, k), "targetRef");
            _cleanup_free_ char *pod_key = xasprintf("%s/%s", ns, json_str_or(json_get(ref, "name"), ""));
            struct stored *pod = store_get(s->store, "/pods", pod_key);
            if (pod && streq(object_uid(pod->value), json_str_or(json_get(ref, "uid"), "")))
                return stored_ref(pod);
        }
    }
    return NULL;
}

static struct stored *service_target(struct api_call *c, const struct wanted *w, uint16_t *ret_port)
{
    struct stored *service = api_current(c);

    if (!service)
        return NULL;
    const struct json *port = service_port(service->value, w->port);
    _cleanup_free_ char *key = xasprintf("%s/%s", c->ns, w->name);
    if (!port) {
        _cleanup_free_ char *text = xasprintf("no service port \"%s\" found for service \"%s\"", w->port, w->name);
        (void)api_fail(c, unavailable(text));
        return NULL;
    }
    struct stored *pod = endpoint(c->server, key, c->ns, json_str_or(json_get(port, "name"), ""), ret_port);
    if (!pod) {
        _cleanup_free_ char *text = xasprintf("no endpoints available for service \"%s\"", w->name);
        (void)api_fail(c, unavailable(text));
    }
    return pod;
}

/* Where in a path, as sent, the one inside begins. */
static const char *path_inside(const char *path)
{
    for (int i = 0; i < PREFIX_PARTS; i++) {
        path += strspn(path, "/");
        path += strcspn(path, "/");
    }
    return path;
}

/* Pages refer to others beside them: without a slash at its end the path would lead them astray. */
static void send_with_slash(struct exchange *x)
{
    const char *query = strchr(http_target(x->req), '?');
    _cleanup_free_ char *location = xasprintf("%s/%s", http_path(x->req), query ? query : "");

    http_add_header(x->req, "Location", location);
    http_respond(x->req, 301, NULL, NULL, 0);
    exchange_forget(x);
}

static void pass_on(struct exchange *x, struct json *pod, uint16_t port)
{
    const struct stream_backend *b = &x->call.server->streams;
    const char *path = http_path(x->req), *inside = path_inside(path), *query = strchr(http_target(x->req), '?');
    _cleanup_free_ char *prefix = xstrndup(path, (size_t)(inside - path));
    _cleanup_free_ char *target = xasprintf("%s%s", *inside ? inside : "/", query ? query : "");

    b->proxy(b->arg, &(struct proxy_target){.pod = pod, .port = port, .prefix = prefix, .target = target}, x->req);
    exchange_forget(x);
}

void proxy_handle(struct exchange *x)
{
    struct api_call *c = &x->call;
    const char *whole = c->name, *method = http_method(x->req);
    __attribute__((cleanup(wanted_free))) struct wanted w = {0};
    struct stored *pod = NULL;
    uint16_t port = 0;

    if (read_wanted(c, whole, &w) == 0) {
        c->name = w.name;
        pod = streq(c->resource->plural, "pods") ? pod_target(c, &w, &port) : service_target(c, &w, &port);
    }
    if (pod && !c->server->streams.proxy)
        (void)api_fail(c, unavailable("no node can be reached for streams"));
    c->name = whole;
    if (c->result.code >= 400)
        exchange_answer(x);
    else if (!*path_inside(http_path(x->req)) && (streq(method, "GET") || streq(method, "HEAD")))
        send_with_slash(x);
    else
        pass_on(x, pod->value, port);
    stored_unref(pod);
}
