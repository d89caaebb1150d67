/* `holt ls`, `holt rm` and `holt logs`. */
#include "cli/client.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "kube/object.h"

#include <event2/event.h>
#include <stdio.h>

static char *age(const char *since)
{
    int64_t at;

    if (!since || !time_parse_rfc3339(since, &at))
        return xstrdup("?");
    long long s = (time_now_ns() - at) / NSEC_PER_SEC;

    return s < 120      ? xasprintf("%llds", MAX(s, 0))
           : s < 7200   ? xasprintf("%lldm", s / 60)
           : s < 172800 ? xasprintf("%lldh", s / 3600)
                        : xasprintf("%lldd", s / 86400);
}

int cmd_ls(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_json_ struct json *list = NULL;
    const char *kubeconfig = NULL, *ns = NULL;
    bool all = false;
    const struct option options[] = {
        {"kubeconfig", 0, OPTION_STRING, &kubeconfig, "FILE", "How to reach holt ($KUBECONFIG, or that of holt up)"},
        {"namespace", 'n', OPTION_STRING, &ns, "NS", "Only that namespace"},
        {"all-namespaces", 'A', OPTION_FLAG, &all, NULL, "Sandboxes of all namespaces"},
    };
    struct client c;
    int rest;

    if (options_parse("holt ls [OPTIONS]\n\nLists sandboxes.", options, ARRAY_LEN(options), argc, argv, &rest, &err) <
        0)
        return fail(EXIT_USAGE, &err);
    int r = client_open(&c, kubeconfig, ns, &err);
    if (r == 0) {
        struct kube_request q = {.verb = KUBE_LIST, .resource = &KUBE_SANDBOXES, .ns = all ? NULL : c.ns};
        r = kube_call_wait(c.base, c.kube, &q, &list, &err);
    }
    _cleanup_free_ char *looked_in = c.ns ? xstrdup(c.ns) : NULL;
    client_close(&c);
    if (err.code)
        return fail(EXIT_HOLT_FAILED, &err);
    (void)r;
    if (!json_size(json_get(list, "items")) && !all) {
        (void)fprintf(stderr, "holt: no sandboxes in the namespace \"%s\"\n", looked_in);
        return 0;
    }
    (void)printf("%-16s %-30s %-7s %-24s %s\n", "NAMESPACE", "NAME", "READY", "REASON", "AGE");
    const struct json *items = json_get(list, "items");
    for (size_t i = 0; i < json_size(items); i++) {
        const struct json *o = json_item(items, i);
        const struct json *ready = condition_find(json_at(o, "status", "conditions", NULL), "Ready");
        _cleanup_free_ char *old = age(json_str(json_at(o, "metadata", "creationTimestamp", NULL)));
        (void)printf("%-16s %-30s %-7s %-24s %s\n", object_namespace(o), object_name(o),
                     json_str_or(json_get(ready, "status"), "Unknown"), json_str_or(json_get(ready, "reason"), ""),
                     old);
    }
    return 0;
}

/* Waiting for the end of something: the watch tells. */
struct vanish {
    struct event_base *base;
    const char *name, *uid;
    bool seen, gone;
};

static void on_event(void *arg, enum kube_event_type type, struct json *object)
{
    struct vanish *v = arg;

    if (type == KUBE_BOOKMARK || !streq(object_name(object), v->name) || !streq(object_uid(object), v->uid))
        return;
    v->seen = type != KUBE_DELETED;
    if (type == KUBE_DELETED) {
        v->gone = true;
        (void)event_base_loopbreak(v->base);
    }
}

static void on_synced(void *arg, int64_t revision UNUSED)
{
    struct vanish *v = arg;

    if (!v->seen) {
        v->gone = true;
        (void)event_base_loopbreak(v->base);
    }
}

static int remove_one(struct client *c, const char *name, struct error *err)
{
    static const struct kube_watch_callbacks callbacks = {.event = on_event, .synced = on_synced};
    _cleanup_json_ struct json *object = NULL;
    struct kube_request get = {.verb = KUBE_GET, .resource = &KUBE_SANDBOXES, .ns = c->ns, .name = name};
    int status = kube_call_wait(c->base, c->kube, &get, &object, err);

    if (status != 200)
        return status < 0 ? status : -err->code;
    _cleanup_json_ struct json *options = json_build("{s:s}", "propagationPolicy", "Foreground");
    struct kube_request del = {
        .verb = KUBE_DELETE, .resource = &KUBE_SANDBOXES, .ns = c->ns, .name = name, .body = options};
    status = kube_call_wait(c->base, c->kube, &del, NULL, err);
    if (err->code)
        return -err->code;
    _cleanup_free_ char *selector = xasprintf("metadata.name=%s", name);
    struct vanish v = {.base = c->base, .name = name, .uid = object_uid(object)};
    struct kube_watch *w = kube_watch_start(c->kube, &KUBE_SANDBOXES, c->ns, NULL, selector, &callbacks, &v);
    while (!v.gone && event_base_dispatch(c->base) == 0)
        ;
    kube_watch_stop(w);
    return 0;
}

int cmd_rm(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    const char *kubeconfig = NULL, *ns = NULL;
    const struct option options[] = {
        {"kubeconfig", 0, OPTION_STRING, &kubeconfig, "FILE", "How to reach holt ($KUBECONFIG, or that of holt up)"},
        {"namespace", 'n', OPTION_STRING, &ns, "NS", "Namespace of the sandboxes"},
    };
    struct client c;
    int rest, r;

    if (options_parse("holt rm [OPTIONS] SANDBOX...\n\nDeletes sandboxes with all that is theirs.", options,
                      ARRAY_LEN(options), argc, argv, &rest, &err) < 0)
        return fail(EXIT_USAGE, &err);
    if (rest >= argc)
        return failf(EXIT_USAGE, "rm: name the sandboxes to remove");
    r = client_open(&c, kubeconfig, ns, &err);
    for (; r == 0 && rest < argc; rest++)
        r = remove_one(&c, argv[rest], &err);
    client_close(&c);
    return r < 0 ? fail(1, &err) : 0;
}

struct printing {
    struct event_base *base;
    int status;
    struct strbuf refusal;
    struct error error;
};

static void on_headers(void *arg, int status, const struct http_headers *headers UNUSED)
{
    struct printing *p = arg;

    p->status = status;
}

static void on_data(void *arg, const char *data, size_t len)
{
    struct printing *p = arg;

    if (p->status != 200)
        strbuf_add(&p->refusal, data, len);
    else if (fd_write_all(STDOUT_FILENO, data, len) < 0)
        (void)event_base_loopbreak(p->base); /* nobody reads us any more */
}

static void on_done(void *arg, int status, const struct http_headers *headers UNUSED, const char *body UNUSED,
                    size_t len UNUSED)
{
    struct printing *p = arg;

    if (status != 200) {
        _cleanup_json_ struct json *object = json_parse(strbuf_str(&p->refusal), p->refusal.len, NULL);
        (void)error_set(&p->error, EIO, "%s", json_str_or(json_get(object, "message"), "refused"));
    }
    (void)event_base_loopbreak(p->base);
}

static void on_failed(void *arg, const struct error *err)
{
    struct printing *p = arg;

    (void)error_set(&p->error, err->code, "%s", error_text(err));
    (void)event_base_loopbreak(p->base);
}

int cmd_logs(int argc, char **argv)
{
    static const struct http_call_callbacks callbacks = {
        .headers = on_headers, .data = on_data, .done = on_done, .failed = on_failed};
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *pod = NULL;
    const char *kubeconfig = NULL, *ns = NULL;
    bool follow = false, timestamps = false, previous = false;
    int64_t tail = -1;
    const struct option options[] = {
        {"kubeconfig", 0, OPTION_STRING, &kubeconfig, "FILE", "How to reach holt ($KUBECONFIG, or that of holt up)"},
        {"namespace", 'n', OPTION_STRING, &ns, "NS", "Namespace of the sandbox"},
        {"follow", 'f', OPTION_FLAG, &follow, NULL, "Go on with what is written from now on"},
        {"timestamps", 0, OPTION_FLAG, &timestamps, NULL, "Show when each line was written"},
        {"previous", 'p', OPTION_FLAG, &previous, NULL, "The run before the last restart"},
        {"tail", 0, OPTION_INT, &tail, "N", "Only the last N lines"},
    };
    struct client c;
    int rest;

    if (options_parse("holt logs [OPTIONS] SANDBOX\n\nPrints what the main process of a sandbox has written.", options,
                      ARRAY_LEN(options), argc, argv, &rest, &err) < 0)
        return fail(EXIT_USAGE, &err);
    if (rest + 1 != argc)
        return failf(EXIT_USAGE, "logs: name one sandbox");
    int r = client_open(&c, kubeconfig, ns, &err);
    if (r == 0)
        r = client_find_pod(&c, argv[rest], &pod, &err);
    if (r == 0) {
        struct printing p = {.base = c.base};
        _cleanup_free_ char *tail_text = tail >= 0 ? xasprintf("&tailLines=%lld", (long long)tail) : xstrdup("");
        _cleanup_free_ char *target =
            xasprintf("/api/v1/namespaces/%s/pods/%s/log?follow=%d&timestamps=%d&previous=%d%s", c.ns, pod, follow,
                      timestamps, previous, tail_text);
        (void)http_call(c.http, "GET", target, NULL, NULL, 0, 0, &callbacks, &p);
        (void)event_base_dispatch(c.base);
        if (p.error.code)
            r = error_move(&err, &p.error);
        strbuf_free(&p.refusal);
    }
    client_close(&c);
    return r < 0 ? fail(1, &err) : 0;
}
