/* `holt control`: the API server, the controllers and the gateway, in one process on one loop. */
#include "cli/cli.h"
#include "cli/pki.h"
#include "cli/ready.h"

#include "apiserver/inproc.h"
#include "apiserver/server.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "controllers/disruption.h"
#include "controllers/endpoints.h"
#include "controllers/sandbox.h"
#include "gateway/gateway.h"
#include "wire/http.h"
#include "wire/tls.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#define PEM_MAX_BYTES 65536
#define BACKLOG 1024
/* Requests in work when the process is told to end may take so long; streams (logs, terminals) are cut then. */
#define DRAIN_SECONDS 3

struct control_options {
    const char *data_dir, *run_dir, *listen, *kubeconfig, *durability, *node_name, *token_file, *keys_dir,
        *secrets_keys;
    const char *audit_log, *audit_policy;
    int64_t audit_max_size, audit_backups;
    struct ready ready;
};

struct control {
    struct event_base *base;
    struct event *term, *interrupt, *overdue;
    struct ssl_ctx_st *tls;
    struct apiserver *server;
    struct kube *kube;
    struct runner *runner;
    struct informer *pods; /* for the gateway */
    struct gateway *gateway;
    struct http_server *http;
};

static void on_ended(void *base)
{
    (void)event_base_loopbreak(base);
}

static void on_overdue(evutil_socket_t fd UNUSED, short what UNUSED, void *base)
{
    on_ended(base);
}

/* Answers what has been asked, then ends: soon, or at once when told a second time. */
static void on_stop(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct control *c = arg;

    if (!c->http || c->overdue) {
        on_ended(c->base);
        return;
    }
    c->overdue = evtimer_new(c->base, on_overdue, c->base);
    if (!c->overdue || evtimer_add(c->overdue, &(struct timeval){.tv_sec = DRAIN_SECONDS}) < 0) {
        on_ended(c->base);
        return;
    }
    apiserver_drain(c->server);
    http_server_drain(c->http, on_ended, c->base);
}

/* "ADDR:PORT" or "[ADDR]:PORT". */
static int parse_listen(const char *text, char **ret_host, uint16_t *ret_port, struct error *err)
{
    const char *colon = strrchr(text, ':');
    uint64_t port;

    if (!colon || colon == text || !parse_u64(colon + 1, &port) || port > 65535)
        return error_set(err, EINVAL, "--listen: \"%s\" is not ADDRESS:PORT", text);
    bool brackets = *text == '[' && colon[-1] == ']';
    *ret_host = xstrndup(text + brackets, (size_t)(colon - text) - 2 * (size_t)brackets);
    *ret_port = (uint16_t)port;
    return 0;
}

static int open_listener(const char *host, uint16_t port, struct error *err)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    bool is_v4 = inet_pton(AF_INET, host, &v4.sin_addr) == 1;

    if (!is_v4 && inet_pton(AF_INET6, host, &v6.sin6_addr) != 1)
        return error_set(err, EINVAL, "--listen: \"%s\" is not an IP address", host);
    const struct sockaddr *address = is_v4 ? (const void *)&v4 : (const void *)&v6;
    _cleanup_close_ int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, address, is_v4 ? sizeof(v4) : sizeof(v6)) < 0 || listen(fd, BACKLOG) < 0)
        return error_set_errno(err, errno, "listen on %s port %u", host, port);
    return take_fd(fd);
}

static int read_file(const char *path, char **ret, struct error *err)
{
    return file_read_at(AT_FDCWD, path, PEM_MAX_BYTES, ret, NULL, err);
}

static struct ssl_ctx_st *make_tls(const char *dir, struct error *err)
{
    _cleanup_(tls_cert_free) struct tls_cert cert = {0};
    _cleanup_free_ char *ca = NULL, *ca_path = xasprintf("%s/ca.crt", dir);
    _cleanup_free_ char *cert_path = xasprintf("%s/server.crt", dir), *key_path = xasprintf("%s/server.key", dir);

    if (read_file(cert_path, &cert.cert_pem, err) < 0 || read_file(key_path, &cert.key_pem, err) < 0 ||
        read_file(ca_path, &ca, err) < 0)
        return NULL;
    return tls_server_context(&cert, ca, err);
}

/* Without a supervisor that has made them, the keys are made here. */
static int own_keys(const struct control_options *o, const char *host, char **ret_dir, struct error *err)
{
    static const char *const groups[] = {"system:masters", NULL};
    _cleanup_(pki_paths_free) struct pki_paths pki = {0};
    int r = pki_prepare(o->data_dir, host, &pki, err);

    if (r == 0)
        *ret_dir = xstrdup(pki.dir);
    if (r == 0 && o->kubeconfig) {
        _cleanup_free_ char *server = xasprintf("https://%s", o->listen);
        r = pki_write_kubeconfig(&pki, server, "admin", groups, o->kubeconfig, err);
    }
    return r;
}

static int start_server(struct control *c, const struct control_options *o, struct error *err)
{
    _cleanup_free_ char *dir = xasprintf("%s/control", o->data_dir), *path = xasprintf("%s/store.db", dir);
    _cleanup_free_ char *keys = o->secrets_keys ? xstrdup(o->secrets_keys) : xasprintf("%s/secrets.keys", dir);
    _cleanup_free_ char *token_keys = xasprintf("%s/sa.key", dir);
    _cleanup_free_ char *audit = o->audit_log ? xstrdup(o->audit_log) : xasprintf("%s/audit.log", dir);
    const struct apiserver_options options = {
        .base = c->base,
        .store_path = path,
        .durability = streq(o->durability, "normal") ? STORE_DURABILITY_NORMAL : STORE_DURABILITY_FULL,
        .node_name = o->node_name,
        .server_address = o->listen,
        .token_file = o->token_file,
        .token_key_file = token_keys,
        .secrets_key_file = keys,
        .audit = {.path = streq(audit, "none") ? NULL : audit,
                  .policy_path = o->audit_policy,
                  .max_bytes = o->audit_max_size,
                  .backups = o->audit_backups},
    };
    int fd = mkdirs_at(AT_FDCWD, dir, 0700, err);

    if (fd < 0)
        return fd;
    (void)close(fd);
    c->server = apiserver_new(&options, err);
    return c->server ? 0 : -err->code;
}

/* The controllers and the gateway, on the API server's own transport. */
static void start_controllers(struct control *c, const struct control_options *o)
{
    c->kube = inproc_new(c->server);
    c->runner = runner_new(c->base, c->kube, &clock_system);
    runner_add(c->runner, &sandbox_controller);
    runner_add(c->runner, &disruption_controller);
    runner_add(c->runner, &endpoints_controller);
    runner_start(c->runner);
    c->pods = informer_new(c->kube, &KUBE_PODS, NULL, NULL, NULL);
    c->gateway = gateway_new(c->base, c->pods, o->data_dir, o->run_dir);
    apiserver_set_streams(c->server, gateway_streams(c->gateway));
}

static int start(struct control *c, const struct control_options *o, struct error *err)
{
    static const struct http_server_options http = {0};
    _cleanup_free_ char *host = NULL, *keys = o->keys_dir ? xstrdup(o->keys_dir) : NULL;
    uint16_t port = 0;

    if (parse_listen(o->listen, &host, &port, err) < 0 || (!keys && own_keys(o, host, &keys, err) < 0))
        return -err->code;
    c->tls = make_tls(keys, err);
    if (!c->tls || start_server(c, o, err) < 0)
        return -err->code;
    int fd = open_listener(host, port, err);
    if (fd < 0)
        return fd;
    start_controllers(c, o);
    c->http = http_server_new(c->base, fd, c->tls, &http, apiserver_handle, c->server);
    return 0;
}

static void stop(struct control *c)
{
    gateway_free(c->gateway);
    informer_free(c->pods);
    runner_free(c->runner);
    kube_free(c->kube);
    apiserver_free(c->server); /* answers what waits for the disk */
    http_server_free(c->http);
    tls_context_free(c->tls);
    if (c->term)
        event_free(c->term);
    if (c->interrupt)
        event_free(c->interrupt);
    if (c->overdue)
        event_free(c->overdue);
    if (c->base)
        event_base_free(c->base);
}

int cmd_control(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct control_options o = {.data_dir = "/var/lib/holt",
                                .run_dir = "/run/holt",
                                .listen = "127.0.0.1:6443",
                                .durability = "full",
                                .audit_backups = 5};
    const struct option options[] = {
        {"data-dir", 0, OPTION_STRING, &o.data_dir, "DIR", "State that must be kept"},
        {"run-dir", 0, OPTION_STRING, &o.run_dir, "DIR", "Run-time state"},
        {"listen", 0, OPTION_STRING, &o.listen, "ADDR:PORT", "Where the API is served"},
        {"keys", 0, OPTION_STRING, &o.keys_dir, "DIR", "ca.crt, server.crt and server.key; made when not given"},
        {"kubeconfig", 0, OPTION_STRING, &o.kubeconfig, "FILE", "Write an administrator's kubeconfig here"},
        {"durability", 0, OPTION_STRING, &o.durability, "full|normal", "Whether each write waits for the disk"},
        {"node-name", 0, OPTION_STRING, &o.node_name, "NAME", "The node that pods are put on"},
        {"token-file", 0, OPTION_STRING, &o.token_file, "FILE", "Lines of token,user,uid,\"group,...\""},
        {"secrets-keys", 0, OPTION_STRING, &o.secrets_keys, "FILE", "Keys that Secrets are encrypted with on disk"},
        {"audit-log", 0, OPTION_STRING, &o.audit_log, "FILE", "Audit log (DATA/control/audit.log), or none"},
        {"audit-policy", 0, OPTION_STRING, &o.audit_policy, "FILE", "What is recorded: an audit.k8s.io/v1 Policy"},
        {"audit-max-size", 0, OPTION_SIZE, &o.audit_max_size, "SIZE", "Rotate the audit log beyond this (100Mi)"},
        {"audit-backups", 0, OPTION_INT, &o.audit_backups, "N", "Old audit logs to keep (5)"},
        READY_OPTIONS(&o.ready),
    };
    struct control c = {0};
    int rest;

    if (options_parse("holt control [OPTIONS]", options, ARRAY_LEN(options), argc, argv, &rest, &err) < 0)
        return fail(EXIT_USAGE, &err);
    log_setup("control", LOG_LEVEL_INFO);
    c.base = loop_new();
    c.term = c.base ? evsignal_new(c.base, SIGTERM, on_stop, &c) : NULL;
    c.interrupt = c.base ? evsignal_new(c.base, SIGINT, on_stop, &c) : NULL;
    if (!c.term || !c.interrupt || evsignal_add(c.term, NULL) < 0 || evsignal_add(c.interrupt, NULL) < 0)
        return failf(EXIT_HOLT_FAILED, "control: cannot make the event loop");
    (void)signal(SIGPIPE, SIG_IGN);
    files_limit_raise();
    int r = start(&c, &o, &err);
    if (r == 0) {
        log_info("serving", "address", o.listen, NULL);
        ready_tell(c.base, &o.ready);
        (void)event_base_dispatch(c.base);
    }
    stop(&c);
    return r < 0 ? fail(EXIT_HOLT_FAILED, &err) : 0;
}
