#include "cli/up_prepare.h"

#include "cli/pki.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>

/* One supervisor per directory: the lock goes with the process, however it ends. */
int up_lock_dir(const char *option, const char *path, mode_t mode, struct error *err)
{
    int dir = mkdirs_at(AT_FDCWD, path, mode, err);
    if (dir < 0)
        return dir;
    int fd = openat(dir, "up.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int code = errno;
    (void)close(dir);
    if (fd < 0)
        return error_set_errno(err, code, "open %s/up.lock", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        (void)close(fd);
        return error_set(err, EBUSY, "holt is already running with %s %s", option, path);
    }
    return fd;
}

static char *host_of(const char *listen)
{
    const char *colon = strrchr(listen, ':');

    if (*listen == '[' && colon && colon[-1] == ']')
        return xstrndup(listen + 1, (size_t)(colon - listen) - 2);
    return xstrndup(listen, colon ? (size_t)(colon - listen) : strlen(listen));
}

int up_check_listen(const char *listen, struct error *err)
{
    const char *colon = strrchr(listen, ':');
    uint64_t port;

    if (!colon || colon == listen || !parse_u64(colon + 1, &port) || port == 0 || port > 65535)
        return error_set(err, EINVAL, "--listen: \"%s\" is not ADDRESS:PORT", listen);
    _cleanup_free_ char *host = host_of(listen);
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, address) != 1 && inet_pton(AF_INET6, host, address) != 1)
        return error_set(err, EINVAL, "--listen: \"%s\" is not an IP address", host);
    return 0;
}

/* At once and by name, instead of by a process that cannot start. */
int up_check_free(const char *listen, struct error *err)
{
    const char *colon = strrchr(listen, ':');
    _cleanup_free_ char *host = host_of(listen);
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    uint64_t port = 0;
    int on = 1;

    (void)parse_u64(colon + 1, &port); /* up_check_listen() has seen it */
    bool is_v4 = inet_pton(AF_INET, host, &v4.sin_addr) == 1;
    (void)inet_pton(AF_INET6, host, &v6.sin6_addr);
    v4.sin_port = v6.sin6_port = htons((uint16_t)port);
    const struct sockaddr *address = is_v4 ? (const void *)&v4 : (const void *)&v6;
    _cleanup_close_ int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, address, is_v4 ? sizeof(v4) : sizeof(v6)) < 0)
        return error_set_errno(err, errno, "--listen %s", listen);
    return 0;
}

/* The host's name as a DNS label, which is what a Node may be called. */
char *up_node_name(void)
{
    char name[65] = "";

    if (gethostname(name, sizeof(name) - 1) < 0 || !*name)
        return xstrdup("holt");
    name[strcspn(name, ".")] = '\0';
    for (char *c = name; *c; c++)
        *c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '-';
    return xstrdup(isalnum((unsigned char)name[0]) ? name : "holt");
}

/* Whether the user may pass through every directory of the path. */
static bool can_reach(const struct up_config *o, const char *path)
{
    _cleanup_free_ char *real = realpath(path, NULL);

    for (char *slash = real; slash && (slash = strchr(slash + 1, '/'));) {
        struct stat st;
        *slash = '\0';
        if (stat(real, &st) < 0)
            return false;
        mode_t needed = st.st_uid == o->uid ? S_IXUSR : st.st_gid == o->gid ? S_IXGRP : S_IXOTH;
        if (!(st.st_mode & needed))
            return false;
        *slash = '/';
    }
    return real != NULL;
}

/* Directories under a private one (a test's, a home's) are out of the user's reach: said at once, not found out later.
 */
static int check_reach(struct up_config *o, struct error *err)
{
    const char *const dirs[] = {o->data_dir, o->run_dir};

    for (size_t i = 0; o->uid && i < ARRAY_LEN(dirs); i++) {
        if (can_reach(o, dirs[i]))
            continue;
        if (o->user)
            return error_set(err, EACCES,
                             "user %s cannot reach %s: give its parents the mode o+x, or choose another place", o->user,
                             dirs[i]);
        log_warn("the API server runs as root: user " UP_DEFAULT_USER " cannot reach its directory", "directory",
                 dirs[i], NULL);
        o->uid = 0;
        o->gid = 0;
    }
    return 0;
}

/* The user for what needs no root. The default one is used when it exists; one that was asked for must. */
int up_find_user(struct up_config *o, struct error *err)
{
    const char *name = o->user ? o->user : UP_DEFAULT_USER;

    errno = 0;
    const struct passwd *pw = getpwnam(name);
    if (pw && pw->pw_uid) {
        o->uid = pw->pw_uid;
        o->gid = pw->pw_gid;
        return 0;
    }
    if (o->user)
        return error_set(err, ENOENT, "--user: there is no user \"%s\" other than root", name);
    log_warn("there is no user " UP_DEFAULT_USER ": the API server runs as root (useradd --system " UP_DEFAULT_USER ")",
             NULL);
    return 0;
}

/* Copies one file into control's own directory, readable by its user alone. */
static int give(const struct up_config *o, const char *from, const char *dir, const char *name, struct error *err)
{
    _cleanup_free_ char *text = NULL, *to = xasprintf("%s/%s", dir, name);
    size_t len;
    int r = file_read_at(AT_FDCWD, from, 1 << 20, &text, &len, err);

    if (r == 0)
        r = file_write_atomic_at(AT_FDCWD, to, text, len, 0600, err);
    if (r == 0 && lchown(to, o->uid, o->gid) < 0)
        r = error_set_errno(err, errno, "chown %s", to);
    if (text)
        explicit_bzero(text, len);
    return r;
}

/*
 * What control owns: its state, and copies of the keys it needs. The CA's key is not among them: who breaks into the
 * API server cannot make certificates.
 */
static int prepare_control(const struct up_config *o, const struct pki_paths *pki, struct error *err)
{
    _cleanup_free_ char *dir = xasprintf("%s/control", o->data_dir);
    int fd = mkdirs_at(AT_FDCWD, dir, 0700, err);

    if (fd < 0)
        return fd;
    (void)close(fd);
    if (lchown(dir, o->uid, o->gid) < 0)
        return error_set_errno(err, errno, "chown %s", dir);
    int r = give(o, pki->ca_cert, dir, "ca.crt", err);
    if (r == 0)
        r = give(o, pki->server_cert, dir, "server.crt", err);
    if (r == 0)
        r = give(o, pki->server_key, dir, "server.key", err);
    return r;
}

int up_prepare(struct up_config *o, char **ret_node_config, struct error *err)
{
    static const char *const admins[] = {"system:masters", NULL}, *const nodes[] = {"system:nodes", NULL};
    _cleanup_free_ char *host = host_of(o->listen);
    bool wildcard = streq(host, "0.0.0.0") || streq(host, "::");
    _cleanup_(pki_paths_free) struct pki_paths pki = {0};

    if (check_reach(o, err) < 0)
        return -EACCES;
    int r = pki_prepare(o->data_dir, host, &pki, err);
    if (r < 0)
        return r;
    o->server =
        wildcard ? xasprintf("https://127.0.0.1%s", strrchr(o->listen, ':')) : xasprintf("https://%s", o->listen);
    o->admin_config = o->kubeconfig ? xstrdup(o->kubeconfig) : xasprintf("%s/admin.kubeconfig", o->data_dir);
    *ret_node_config = xasprintf("%s/node.kubeconfig", o->data_dir);
    _cleanup_free_ char *node_user = xasprintf("system:node:%s", o->node_name);
    r = prepare_control(o, &pki, err);
    if (r == 0)
        r = pki_write_kubeconfig(&pki, o->server, "admin", admins, o->admin_config, err);
    if (r == 0)
        r = pki_write_kubeconfig(&pki, o->server, node_user, nodes, *ret_node_config, err);
    return r;
}