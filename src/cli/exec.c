/* `holt exec`, `holt attach` and `holt ps`: processes in a running sandbox. */
#include "cli/client.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "wire/json.h"

#include <event2/event.h>
#include <stdio.h>

struct target_options {
    const char *kubeconfig, *ns;
};

#define TARGET_OPTIONS(t)                                                                                              \
    {"kubeconfig", 0, OPTION_STRING, &(t).kubeconfig, "FILE", "How to reach holt ($KUBECONFIG, or that of holt up)"},  \
    {                                                                                                                  \
        "namespace", 'n', OPTION_STRING, &(t).ns, "NS", "Namespace of the sandbox"                                     \
    }

static int run_stream(const struct target_options *t, const char *name, struct stream_request *q)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *pod = NULL;
    struct client c;
    int r = client_open(&c, t->kubeconfig, t->ns, &err);

    if (r == 0)
        r = client_find_pod(&c, name, &pod, &err);
    if (r == 0) {
        q->pod = pod;
        r = client_stream(&c, q, &err);
    }
    client_close(&c);
    return r < 0 ? fail(EXIT_HOLT_FAILED, &err) : r;
}

int cmd_exec(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct target_options t = {0};
    bool stdin_wanted = false, tty = false;
    const struct option options[] = {
        TARGET_OPTIONS(t),
        {"stdin", 'i', OPTION_FLAG, &stdin_wanted, NULL, "Pass standard input"},
        {"tty", 't', OPTION_FLAG, &tty, NULL, "Give it a terminal"},
    };
    int rest;

    if (options_parse("holt exec [OPTIONS] SANDBOX [--] CMD [ARG...]", options, ARRAY_LEN(options), argc, argv, &rest,
                      &err) < 0)
        return fail(EXIT_USAGE, &err);
    if (rest >= argc)
        return failf(EXIT_USAGE, "holt exec: name the sandbox and the command: holt exec SANDBOX CMD");
    const char *name = argv[rest++];
    if (rest < argc && streq(argv[rest], "--"))
        rest++;
    if (rest >= argc)
        return failf(EXIT_USAGE, "holt exec: name the command to run in %s", name);
    struct stream_request q = {.argv = (const char *const *)argv + rest,
                               .tty = tty,
                               .input = stdin_wanted ? STDIN_FILENO : -1,
                               .output = STDOUT_FILENO,
                               .errors = STDERR_FILENO};
    return run_stream(&t, name, &q);
}

int cmd_attach(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct target_options t = {0};
    bool stdin_wanted = false, tty = false;
    const struct option options[] = {
        TARGET_OPTIONS(t),
        {"stdin", 'i', OPTION_FLAG, &stdin_wanted, NULL, "Pass standard input"},
        {"tty", 't', OPTION_FLAG, &tty, NULL, "The process has a terminal"},
    };
    int rest;

    if (options_parse("holt attach [OPTIONS] SANDBOX [PROCESS]", options, ARRAY_LEN(options), argc, argv, &rest, &err) <
        0)
        return fail(EXIT_USAGE, &err);
    if (rest >= argc || argc - rest > 2)
        return failf(EXIT_USAGE,
                     "holt attach: name the sandbox, and a process of \"holt ps\" unless the main one is meant");
    struct stream_request q = {.process = argv[rest + 1],
                               .tty = tty,
                               .input = stdin_wanted ? STDIN_FILENO : -1,
                               .output = STDOUT_FILENO,
                               .errors = STDERR_FILENO};
    return run_stream(&t, argv[rest], &q);
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
    struct target_options t = {0};
    const struct option options[] = {TARGET_OPTIONS(t)};
    struct client c;
    int rest;

    if (options_parse("holt ps [OPTIONS] SANDBOX", options, ARRAY_LEN(options), argc, argv, &rest, &err) < 0)
        return fail(EXIT_USAGE, &err);
    if (rest + 1 != argc)
        return failf(EXIT_USAGE, "holt ps: name one sandbox");
    int r = client_open(&c, t.kubeconfig, t.ns, &err);
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
