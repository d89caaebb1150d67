/* `holt node`: runs the Pods of this machine. Root; started by `holt up` or by systemd. */
#include "cli/cli.h"
#include "cli/ready.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/kube_http.h"
#include "node/node.h"

#include <event2/event.h>
#include <grp.h>
#include <signal.h>

struct process {
    struct event_base *base;
    struct node *node;
    struct ready ready;
};

static void on_stop(evutil_socket_t sig UNUSED, short what UNUSED, void *arg)
{
    struct process *p = arg;

    (void)event_base_loopbreak(p->base);
}

static void on_stop_sandboxes(evutil_socket_t sig UNUSED, short what UNUSED, void *arg)
{
    struct process *p = arg;

    node_stop_sandboxes(p->node);
}

static void on_ready(void *arg)
{
    struct process *p = arg;

    ready_tell(p->base, &p->ready);
}

static int parse_group(const char *text, gid_t *ret, struct error *err)
{
    uint64_t gid;
    const struct group *g;

    *ret = (gid_t)-1;
    if (!text)
        return 0;
    if (parse_u64(text, &gid) && gid < UINT32_MAX) {
        *ret = (gid_t)gid;
        return 0;
    }
    g = getgrnam(text);
    if (!g)
        return error_set(err, ENOENT, "--group: there is no group \"%s\"", text);
    *ret = g->gr_gid;
    return 0;
}

static int run(struct process *p, const char *kubeconfig, struct zygote *zygote, struct node_options *options,
               struct error *err)
{
    _cleanup_(kubeconfig_free) struct kubeconfig config = {0};
    struct event *signals[3] = {NULL};
    int r = kubeconfig_load(kubeconfig, &config, err);

    p->base = r == 0 ? event_base_new() : NULL;
    struct kube *kube = p->base ? kube_http_new(p->base, &config, "holt-node", err) : NULL;
    if (!kube) {
        zygote_stop(zygote);
        return r < 0 ? r : -EIO;
    }
    options->ready = on_ready;
    options->arg = p;
    p->node = node_new(p->base, kube, zygote, options, err);
    if (p->node) {
        const struct {
            int number;
            event_callback_fn callback;
        } handlers[] = {{SIGTERM, on_stop}, {SIGINT, on_stop}, {SIGUSR1, on_stop_sandboxes}};
        for (size_t i = 0; i < ARRAY_LEN(handlers); i++) {
            signals[i] = evsignal_new(p->base, handlers[i].number, handlers[i].callback, p);
            if (!signals[i] || event_add(signals[i], NULL) < 0)
                r = error_set(err, ENOMEM, "create a signal handler");
        }
        if (r == 0)
            (void)event_base_dispatch(p->base);
        for (size_t i = 0; i < ARRAY_LEN(signals); i++)
            if (signals[i])
                event_free(signals[i]);
    }
    bool failed = !p->node;
    node_free(p->node);
    kube_free(kube);
    ready_end(&p->ready);
    event_base_free(p->base);
    return failed ? -EIO : r;
}

int cmd_node(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct process p = {0};
    struct node_options o = {.data_dir = "/var/lib/holt", .run_dir = "/run/holt"};
    const char *kubeconfig = NULL, *group = NULL;
    _cleanup_strv_ char **prefixes = NULL;
    const struct option options[] = {
        {"kubeconfig", 0, OPTION_STRING, &kubeconfig, "FILE", "How to reach the API server"},
        {"node-name", 0, OPTION_STRING, &o.name, "NAME", "The name of the Node object"},
        {"data-dir", 0, OPTION_STRING, &o.data_dir, "DIR", "Images, volumes, logs (/var/lib/holt)"},
        {"run-dir", 0, OPTION_STRING, &o.run_dir, "DIR", "Run-time state (/run/holt)"},
        {"node-ip", 0, OPTION_STRING, &o.ip, "ADDRESS", "The address to report (the first one)"},
        {"cgroup-parent", 0, OPTION_STRING, &o.cgroup_parent, "NAME", "Control group of all sandboxes (holt)"},
        {"group", 0, OPTION_STRING, &group, "GROUP", "May connect to guests and read logs"},
        {"allow-dir-images", 0, OPTION_FLAG, &o.allow_dir_images, NULL, "Allow images that are directories (dir:PATH)"},
        {"allow-host-path", 0, OPTION_LIST, &prefixes, "PREFIX", "Allow hostPath volumes there; may be repeated"},
        READY_OPTIONS(&p.ready),
    };
    int rest;

    if (options_parse("holt node [OPTIONS]", options, ARRAY_LEN(options), argc, argv, &rest, &err) < 0)
        return fail(EXIT_USAGE, &err);
    if (!kubeconfig || !o.name)
        return failf(EXIT_USAGE, "node needs --kubeconfig and --node-name");
    if (parse_group(group, &o.gid, &err) < 0)
        return fail(EXIT_USAGE, &err);
    if (geteuid() != 0)
        return failf(EXIT_HOLT_FAILED, "node runs as root");
    log_setup("node", LOG_LEVEL_INFO);
    (void)signal(SIGPIPE, SIG_IGN);
    o.host_path_prefixes = prefixes;
    /* First of all: it is a copy of this process, which is small now and has no threads. */
    struct zygote *zygote = zygote_start(&err);
    if (!zygote || run(&p, kubeconfig, zygote, &o, &err) < 0)
        return fail(EXIT_HOLT_FAILED, &err);
    return 0;
}
