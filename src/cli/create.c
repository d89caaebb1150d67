/* `holt create`: a Sandbox without a manifest, for people without kubectl. */
#include "cli/client.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "kube/object.h"

#include <event2/event.h>
#include <stdio.h>

struct create_options {
    const char *kubeconfig, *ns, *image, *memory, *cpus;
    char **env;
    bool no_wait;
    int64_t timeout_ns;
};

/* Watches the Sandbox until it is ready or will not be. */
struct waiting {
    struct event_base *base;
    bool ready, timed_out;
    char *message; /* of the Ready condition, as it was last */
};

static void on_event(void *arg, enum kube_event_type type, struct json *object)
{
    struct waiting *w = arg;
    const struct json *ready = condition_find(json_at(object, "status", "conditions", NULL), "Ready");
    const char *reason = json_str_or(json_get(ready, "reason"), "");

    if (type == KUBE_BOOKMARK || !ready)
        return;
    free(w->message);
    w->message = xstrdup(json_str_or(json_get(ready, "message"), reason));
    w->ready = streq(json_str_or(json_get(ready, "status"), ""), "True");
    bool ended = streq(reason, "PodFailed") || streq(reason, "PodSucceeded") || streq(reason, "ReconcilerError");
    /* "(Reason: message)" is why the container does not run; nobody but the user can change that. */
    bool stuck = strstr(w->message, "Pod is Pending (") != NULL;
    if (w->ready || ended || stuck || type == KUBE_DELETED)
        (void)event_base_loopbreak(w->base);
}

static void on_synced(void *arg UNUSED, int64_t revision UNUSED)
{
}

static void on_timeout(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct waiting *w = arg;

    w->timed_out = true;
    (void)event_base_loopbreak(w->base);
}

static int wait_ready(struct client *c, const char *name, int64_t timeout_ns, struct error *err)
{
    static const struct kube_watch_callbacks callbacks = {.event = on_event, .synced = on_synced};
    _cleanup_free_ char *selector = xasprintf("metadata.name=%s", name);
    struct waiting w = {.base = c->base};
    struct timeval tv = {.tv_sec = timeout_ns / NSEC_PER_SEC, .tv_usec = timeout_ns % NSEC_PER_SEC / 1000};

    if (event_base_once(c->base, -1, EV_TIMEOUT, on_timeout, &w, &tv) < 0)
        return error_set(err, ENOMEM, "create a timer");
    struct kube_watch *watch = kube_watch_start(c->kube, &KUBE_SANDBOXES, c->ns, NULL, selector, &callbacks, &w);
    (void)event_base_dispatch(c->base);
    kube_watch_stop(watch);
    int r = w.ready ? 0
                    : error_set(err, w.timed_out ? ETIMEDOUT : EIO, "sandbox %s is not ready: %s", name,
                                w.message ? w.message : "nothing has been heard of it");
    free(w.message);
    return r;
}

static struct json *env_list(char *const *env, struct error *err)
{
    struct json *list = json_array_make();

    for (; env && *env; env++) {
        const char *equals = strchr(*env, '=');
        if (!equals || equals == *env) {
            (void)error_set(err, EINVAL, "--env: \"%s\" is not NAME=VALUE", *env);
            json_unref(list);
            return NULL;
        }
        _cleanup_free_ char *name = xstrndup(*env, (size_t)(equals - *env));
        json_push(list, json_build("{s:s, s:s}", "name", name, "value", equals + 1));
    }
    return list;
}

/* command: NULL-terminated, may be empty: then an image's own command runs, and the host's programs wait. */
static struct json *build(const struct create_options *o, const char *name, char *const *command, struct error *err)
{
    static const char *const nothing_to_do[] = {"sleep", "infinity", NULL};
    struct json *env = env_list(o->env, err), *words = json_array_make();

    if (!env) {
        json_unref(words);
        return NULL;
    }
    for (const char *const *w = *command                  ? (const char *const *)command
                                : streq(o->image, "host") ? nothing_to_do
                                                          : NULL;
         w && *w; w++)
        json_push(words, json_string(*w));
    struct json *limits = json_build("{s:s, s:s}", "memory", o->memory, "cpu", o->cpus);
    struct json *container = json_build("{s:s, s:s, s:o, s:o, s:{s:o}}", "name", "main", "image", o->image, "env", env,
                                        "command", words, "resources", "limits", limits);
    if (!json_size(words))
        json_remove(container, "command");
    return json_build("{s:s, s:s, s:{s:s}, s:{s:{s:{s:[o]}}}}", "apiVersion", "agents.x-k8s.io/v1beta1", "kind",
                      "Sandbox", "metadata", "name", name, "spec", "podTemplate", "spec", "containers", container);
}

static int create(const struct create_options *o, const char *name, char *const *command, struct error *err)
{
    _cleanup_json_ struct json *body = build(o, name, command, err);
    struct client c;

    if (!body)
        return -EINVAL;
    int r = client_open(&c, o->kubeconfig, o->ns, err);
    if (r == 0) {
        struct kube_request q = {.verb = KUBE_CREATE, .resource = &KUBE_SANDBOXES, .ns = c.ns, .body = body};
        (void)kube_call_wait(c.base, c.kube, &q, NULL, err);
        r = -err->code;
    }
    if (r == 0 && !o->no_wait)
        r = wait_ready(&c, name, o->timeout_ns, err);
    client_close(&c);
    return r;
}

int cmd_create(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct create_options o = {.image = "host", .timeout_ns = 60 * NSEC_PER_SEC};
    const struct option options[] = {
        {"image", 0, OPTION_STRING, &o.image, "IMAGE", "\"host\" (this machine's programs) or an imported one"},
        {"memory", 'm', OPTION_STRING, &o.memory, "SIZE", "Memory limit, 512Mi"},
        {"cpus", 0, OPTION_STRING, &o.cpus, "N", "CPU limit in cores, 0.5"},
        {"env", 'e', OPTION_LIST, &o.env, "NAME=VALUE", "Environment; may be repeated"},
        {"no-wait", 0, OPTION_FLAG, &o.no_wait, NULL, "Do not wait until it is ready"},
        {"timeout", 0, OPTION_DURATION, &o.timeout_ns, "TIME", "How long to wait (60s)"},
        {"namespace", 'n', OPTION_STRING, &o.ns, "NS", "Namespace of the sandbox"},
        {"kubeconfig", 0, OPTION_STRING, &o.kubeconfig, "FILE", "How to reach holt ($KUBECONFIG, or that of holt up)"},
    };
    int rest;

    if (options_parse("holt create [OPTIONS] NAME [-- COMMAND [ARGUMENTS]]\n\n"
                      "Makes a sandbox that stays until `holt rm`, and waits until it is ready. Without a command the "
                      "image's own runs;\nof the image \"host\" none does, and the sandbox waits for `holt exec`.",
                      options, ARRAY_LEN(options), argc, argv, &rest, &err) < 0)
        return fail(EXIT_USAGE, &err);
    if (rest >= argc)
        return failf(EXIT_USAGE, "create: name the sandbox");
    char **command = argv + rest + 1;
    if (*command && !streq(*command, "--"))
        return failf(EXIT_USAGE, "create: options go before the name, and -- before the command, not \"%s\"", *command);
    command += *command != NULL;
    int r = create(&o, argv[rest], command, &err);
    strv_free(o.env);
    if (r < 0)
        return fail(1, &err);
    (void)printf("sandbox %s is %s\n", argv[rest], o.no_wait ? "made" : "ready");
    return 0;
}
