#include "apiserver/pod_streams.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

static const char *const names[] = {"exec", "attach", "log", "portforward"};
enum { EXEC, ATTACH, LOG, PORT_FORWARD };

bool pod_streams_wants(const struct api_call *c)
{
    if (*c->resource->group || !streq(c->resource->plural, "pods"))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (streq(c->subresource, names[i]))
            return true;
    return false;
}

static const char *const lists[] = {"containers", "initContainers", "ephemeralContainers"};

static bool has_container(const struct json *pod, const char *name)
{
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        const struct json *list = json_at(pod, "spec", lists[l], NULL);
        for (size_t i = 0; i < json_size(list); i++)
            if (streq(json_str_or(json_get(json_item(list, i), "name"), ""), name))
                return true;
    }
    return false;
}

static char *container_names(const struct json *pod)
{
    struct strbuf out = {0};
    const struct json *list = json_at(pod, "spec", "containers", NULL);

    for (size_t i = 0; i < json_size(list); i++)
        strbuf_addf(&out, "%s%s", i ? " " : "", json_str_or(json_get(json_item(list, i), "name"), ""));
    return strbuf_detach(&out);
}

/* The container asked for, or the one meant; NULL: refused. */
static const char *choose_container(struct api_call *c, const struct json *pod, const char *wanted)
{
    const struct json *list = json_at(pod, "spec", "containers", NULL);

    if (!wanted || !*wanted)
        wanted = object_annotation(pod, "kubectl.kubernetes.io/default-container");
    if (wanted && *wanted) {
        if (has_container(pod, wanted))
            return wanted;
        (void)api_fail(c, status_bad_request("container %s is not valid for pod %s", wanted, c->name));
        return NULL;
    }
    if (json_size(list) == 1)
        return json_str(json_get(json_item(list, 0), "name"));
    _cleanup_free_ char *all = container_names(pod);
    (void)api_fail(
        c, status_bad_request("a container name must be specified for pod %s, choose one of: [%s]", c->name, all));
    return NULL;
}

static int check_stream(struct exchange *x, int kind, const struct json *pod)
{
    struct http_request *req = x->req;

    if (kind != LOG && !*json_str_or(json_at(pod, "spec", "nodeName", NULL), ""))
        return api_fail(&x->call, status_bad_request("pod %s does not have a host assigned", x->call.name));
    if (kind == EXEC && !http_query(req, "command"))
        return api_fail(&x->call, status_bad_request("you must specify at least 1 command for the container"));
    bool streams = query_bool(http_query(req, "stdin")) || query_bool(http_query(req, "stdout")) ||
                   query_bool(http_query(req, "stderr"));
    /* attach?processes=true is ours: a list of what can be attached to. */
    bool needed = kind == EXEC || (kind == ATTACH && !query_bool(http_query(req, "processes")));
    if (needed && !streams)
        return api_fail(&x->call, status_bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    return 0;
}

void pod_streams_handle(struct exchange *x)
{
    struct apiserver *s = x->call.server;
    const struct stream_backend *b = &s->streams;
    void (*const handlers[])(void *, const struct stream_target *, struct http_request *) = {b->exec, b->attach, b->log,
                                                                                             b->port_forward};
    struct stream_target target = {0};
    int kind = 0;

    while (!streq(x->call.subresource, names[kind]))
        kind++;
    bool method_ok = x->call.verb == VERB_GET || (x->call.verb == VERB_CREATE && kind != LOG);
    struct api_subject subject = api_subject(&x->call);
    if (!method_ok) {
        exchange_refuse(x, status_no_method(&subject, verb_name(x->call.verb)));
        return;
    }
    struct stored *pod = stored_ref(api_current(&x->call));
    if (pod && check_stream(x, kind, pod->value) == 0) {
        target.pod = pod->value;
        target.container =
            kind == PORT_FORWARD ? "" : choose_container(&x->call, pod->value, http_query(x->req, "container"));
    }
    if (target.container && !handlers[kind])
        (void)api_fail(&x->call, status_failure(503, "ServiceUnavailable", "no node can be reached for streams", NULL));
    if (x->call.result.code >= 400) {
        exchange_answer(x);
    } else {
        handlers[kind](b->arg, &target, x->req);
        exchange_forget(x);
    }
    stored_unref(pod);
}
