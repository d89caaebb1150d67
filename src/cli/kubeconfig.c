/* `holt kubeconfig`: access for somebody else, as a client certificate in a kubeconfig. Needs the CA's key, not a
 * running server. */
#include "cli/cli.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "cli/pki.h"
#include "kube/kube_http.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_TTL_SECONDS (30LL * 24 * 3600)
#define TTL_MAX_SECONDS (3650LL * 24 * 3600)
/* As the longest that OpenSSL and audit logs take without trouble. */
#define NAME_MAX_BYTES 256

static const char USAGE[] =
    "holt kubeconfig --user NAME [OPTIONS]\n\n"
    "Prints a kubeconfig with which NAME reaches this holt. It holds a client certificate, which is good until\n"
    "it expires; what it may do is up to roles: `kubectl create rolebinding NAME --clusterrole=edit --user=NAME`.";

struct kubeconfig_command {
    const char *user, *data_dir, *output, *server;
    char **groups;
    int64_t ttl_ns;
};

static int check_name(const char *option, const char *name, struct error *err)
{
    size_t len = strlen(name);

    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return error_set(err, EINVAL, "%s: a name has no control characters", option);
    if (len == 0 || len > NAME_MAX_BYTES || !utf8_valid(name, len))
        return error_set(err, EINVAL, "%s: a name is 1 to %d bytes of UTF-8", option, NAME_MAX_BYTES);
    return 0;
}

static int check(const struct kubeconfig_command *c, struct error *err)
{
    if (!c->user)
        return error_set(err, EINVAL, "--user: say who the kubeconfig is for");
    if (check_name("--user", c->user, err) < 0)
        return -EINVAL;
    for (char **g = c->groups; g && *g; g++)
        if (check_name("--group", *g, err) < 0)
            return -EINVAL;
    if (c->ttl_ns < NSEC_PER_SEC || c->ttl_ns / NSEC_PER_SEC > TTL_MAX_SECONDS)
        return error_set(err, EINVAL, "--ttl: must be from 1s to %lldh", TTL_MAX_SECONDS / 3600);
    if (c->server && !str_skip_prefix(c->server, "https://"))
        return error_set(err, EINVAL, "--server: \"%s\" is no https:// URL", c->server);
    return 0;
}

/* What holt itself uses. */
static char *find_server(const struct kubeconfig_command *c, struct error *err)
{
    static const char *const files[] = {"node.kubeconfig", "admin.kubeconfig"};

    for (size_t i = 0; !c->server && i < ARRAY_LEN(files); i++) {
        _cleanup_free_ char *path = xasprintf("%s/%s", c->data_dir, files[i]);
        struct kubeconfig config = {0};
        char *server = kubeconfig_load(path, &config, NULL) == 0 ? xstrdup(config.server) : NULL;
        kubeconfig_free(&config);
        if (server)
            return server;
    }
    if (!c->server)
        (void)error_set(err, ENOENT, "cannot tell where the server of %s is: name it with --server", c->data_dir);
    return c->server ? xstrdup(c->server) : NULL;
}

static int run(const struct kubeconfig_command *c, struct error *err)
{
    _cleanup_(pki_paths_free) struct pki_paths pki = pki_paths_of(c->data_dir);
    _cleanup_free_ char *server = find_server(c, err);
    char *text = NULL;

    if (!server)
        return -err->code;
    int r = pki_kubeconfig(&pki, server, c->user, (const char *const *)c->groups, c->ttl_ns / NSEC_PER_SEC, &text, err);
    if (r < 0)
        return error_wrap(err, "is %s the data directory of holt, and may you read it?", c->data_dir);
    if (c->output)
        r = file_write_atomic_at(AT_FDCWD, c->output, text, strlen(text), 0600, err);
    else if (puts(text) < 0 || fflush(stdout) != 0)
        r = error_set_errno(err, errno, "write to stdout");
    explicit_bzero(text, strlen(text));
    free(text);
    return r;
}

int cmd_kubeconfig(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct kubeconfig_command c = {.data_dir = "/var/lib/holt", .ttl_ns = DEFAULT_TTL_SECONDS * NSEC_PER_SEC};
    const struct option options[] = {
        {"user", 0, OPTION_STRING, &c.user, "NAME", "Who it is for"},
        {"group", 0, OPTION_LIST, &c.groups, "GROUP", "A group that NAME is in; may be repeated"},
        {"ttl", 0, OPTION_DURATION, &c.ttl_ns, "DURATION", "How long it is good (720h)"},
        {"output", 0, OPTION_STRING, &c.output, "FILE",
         "Write it there (readable for you alone) instead of printing it"},
        {"server", 0, OPTION_STRING, &c.server, "URL", "Where the server is (as in DATA-DIR/node.kubeconfig)"},
        {"data-dir", 0, OPTION_STRING, &c.data_dir, "DIR", "That of holt (/var/lib/holt)"},
    };
    int rest, status = 0;

    if (options_parse(USAGE, options, ARRAY_LEN(options), argc, argv, &rest, &err) < 0 || check(&c, &err) < 0)
        status = fail(EXIT_USAGE, &err);
    else if (rest < argc)
        status = failf(EXIT_USAGE, "usage: %.*s", (int)strcspn(USAGE, "\n"), USAGE);
    else if (run(&c, &err) < 0)
        status = fail(1, &err);
    strv_free(c.groups);
    return status;
}
