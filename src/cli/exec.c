/* `holt exec`, `holt attach` and `holt ps`: processes in a running sandbox. */
#include "cli/client.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "wire/json.h"

#include <event2/event.h>
#include <stdio.h>

struct stream_options {
    const char *kubeconfig, *ns;
    bool stdin_wanted, tty;
};

/* Options all three commands share; with_streams adds those about input and terminals. */
static int parse(const char *usage, bool with_streams, int argc, char **argv, struct stream_options *o, int *ret_rest)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    const struct option options[] = {
        {"kubeconfig", 0, OPTION_STRING, &o->kubeconfig, "FILE", "How to reach holt ($KUBECONFIG, or that of holt up)"},
        {"namespace", 'n', OPTION_STRING, &o->ns, "NS", "Namespace of the sandbox"},
        {"stdin", 'i', OPTION_FLAG, &o->stdin_wanted, NULL, "Pass standard input"},
        {"tty", 't', OPTION_FLAG, &o->tty, NULL, "Use a terminal"},
    };

    *o = (struct stream_options){0};
    if (options_parse(usage, options, ARRAY_LEN(options) - (with_streams ? 0 : 2), argc, argv, ret_rest, &err) < 0)
        return fail(EXIT_USAGE, &err);
    return 0;
}

static int run_stream(const struct stream_options *o, const char *name, struct stream_request *q)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *pod = NULL;
    struct client c;
    int r = client_open(&c, o->kubeconfig, o->ns, &err);

    if (r == 0)
        r = client_find_pod(&c, name, &pod, &err);
    if (r == 0) {
        q->pod = pod;
        q->tty = o->tty;
        q->input = o->stdin_wanted ? STDIN_FILENO : -1;
        q->output = STDOUT_FILENO;
        q->errors = STDERR_FILENO;
        r = client_stream(&c, q, &err);
    }
    client_close(&c);
    return r < 0 ? fail(EXIT_HOLT_FAILED, &err) : r;
}

int cmd_exec(int argc, char **argv)
{
    struct stream_options o;
    int rest, r = parse("holt exec [OPTIONS] SANDBOX [--] CMD [ARG...]\n\nRuns a command in a sandbox; the exit status "
                        "is the command's, 125 when holt failed.",
                        true, argc, argv, &o, &rest);

    if (r)
        return r;
    if (rest >= argc)
        return failf(EXIT_USAGE, "exec: name the sandbox and the command: holt exec SANDBOX CMD");
    const char *name = argv[rest++];
    if (rest < argc && streq(argv[rest], "--"))
        rest++;
    if (rest >= argc)
        return failf(EXIT_USAGE, "exec: name the command to run in %s", name);
    struct stream_request q = {.argv = (const char *const *)argv + rest};
    return run_stream(&o, name, &q);
}

int cmd_attach(int argc, char **argv)
{
    struct stream_options o;
    int rest, r = parse("holt attach [OPTIONS] SANDBOX [PROCESS]", true, argc, argv, &o, &rest);

    if (r)
        return r;
    if (rest >= argc || argc - rest > 2)
        return failf(EXIT_USAGE, "attach: name the sandbox, and a process of \"holt ps\" unless the main one is meant");
    struct stream_request q = {.process = argv[rest + 1]};
    return run_stream(&o, argv[rest], &q);
}

struct answer {
    struct event_base *base;
    struct json *body;
    struct error error;
};

static void on_answer(void *arg, int status, const struct http_headers *headers UNUSED, const char *body, size_t len)
{
    struct answer *a = arg;

    a->body = json_parse(body, len, &a->error);
    if (status != 200)
        (void)error_set(&a->error, EIO, "%s", json_str_or(json_get(a->body, "message"), "refused"));
    (void)event_base_loopbreak(a->base);
}

static void on_failed(void *arg, const struct error *err)
{
    struct answer *a = arg;

    (void)error_set(&a->error, err->code, "%s", error_text(err));
    (void)event_base_loopbreak(a->base);
}

/* Bytes from a sandbox that could steer a terminal are shown as \xNN. */
static void print_safe(const char *s)
{
    for (; *s; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            (void)printf("\\x%02x", (unsigned char)*s);
        else
            (void)putchar(*s);
    }
}

static void print_processes(const struct json *list)
{
    (void)printf("%-16s %-7s %-8s %s\n", "ID", "PID", "STATE", "COMMAND");
    for (size_t i = 0; i < json_size(json_get(list, "items")); i++) {
        const struct json *p = json_item(json_get(list, "items"), i), *argv = json_get(p, "argv");
        bool running = json_bool_or(json_get(p, "running"), false);
        _cleanup_free_ char *state =
            running ? xstrdup("running") : xasprintf("exit %lld", (long long)json_int_or(json_get(p, "exitCode"), 0));

        (void)printf("%-16s %-7lld %-8s", json_str_or(json_get(p, "id"), ""),
                     (long long)json_int_or(json_get(p, "pid"), 0), state);
        for (size_t k = 0; k < json_size(argv); k++) {
            (void)putchar(' ');
            print_safe(json_str_or(json_item(argv, k), ""));
        }
        (void)putchar('\n');
    }
}

int cmd_ps(int argc, char **argv)
{
    static const struct http_call_callbacks callbacks = {.done = on_answer, .failed = on_failed};
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *pod = NULL;
    struct stream_options o;
    struct client c;
    int rest, r = parse("holt ps [OPTIONS] SANDBOX", false, argc, argv, &o, &rest);

    if (r)
        return r;
    if (rest + 1 != argc)
        return failf(EXIT_USAGE, "ps: name one sandbox");
    r = client_open(&c, o.kubeconfig, o.ns, &err);
    if (r == 0)
        r = client_find_pod(&c, argv[rest], &pod, &err);
    if (r == 0) {
        struct answer a = {.base = c.base};
        _cleanup_free_ char *target = xasprintf("/api/v1/namespaces/%s/pods/%s/attach?processes=true", c.ns, pod);
        (void)http_call(c.http, "GET", target, NULL, NULL, 0, 30000, &callbacks, &a);
        (void)event_base_dispatch(c.base);
        if (a.error.code)
            r = error_move(&err, &a.error);
        else
            print_processes(a.body);
        json_unref(a.body);
    }
    client_close(&c);
    return r < 0 ? fail(EXIT_HOLT_FAILED, &err) : 0;
}
