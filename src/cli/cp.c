/*
 * `holt cp`: files between here and a sandbox, as a tar stream made and unpacked by tar on both sides. The archive that
 * comes out of a sandbox is unpacked by the local tar with its protections on: no absolute names, no "..".
 */
#include "cli/client.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct place {
    char *sandbox; /* NULL = local */
    char *dir, *name;
};

static void place_free(struct place *p)
{
    free(p->sandbox);
    free(p->dir);
    free(p->name);
}

/* "SANDBOX:PATH" or "PATH"; a local path with a colon is written "./a:b". */
static int parse_place(const char *text, struct place *ret, struct error *err)
{
    const char *colon = strchr(text, ':'), *slash = strchr(text, '/');
    bool remote = colon && colon != text && (!slash || colon < slash);
    _cleanup_free_ char *path = xstrdup(remote ? colon + 1 : text);
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        path[--len] = '\0';
    if (!len)
        return error_set(err, EINVAL, "\"%s\" has no path", text);
    const char *base = strrchr(path, '/');
    *ret = (struct place){.sandbox = remote ? xstrndup(text, (size_t)(colon - text)) : NULL,
                          .dir = base ? (base == path ? xstrdup("/") : xstrndup(path, (size_t)(base - path)))
                                      : xstrdup("."),
                          .name = xstrdup(base ? base + 1 : path)};
    return 0;
}

/* Starts the local tar with one end of a pipe as its stdin (unpack) or stdout (pack). */
static pid_t start_tar(const char *const *argv, int from, int to)
{
    pid_t pid = fork();

    if (pid == 0) {
        if ((from >= 0 && dup2(from, STDIN_FILENO) < 0) || (to >= 0 && dup2(to, STDOUT_FILENO) < 0))
            _exit(127);
        (void)close_range(3, ~0u, 0);
        (void)execvp("tar", (char *const *)argv);
        _exit(127);
    }
    return pid;
}

static int finish_tar(pid_t pid, struct error *err)
{
    int status;

    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return error_set_errno(err, errno, "run tar");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return error_set(err, EIO, "the local tar failed");
    return 0;
}

/* What tar is told on each side: the name changes where the archive is made or unpacked here. */
struct copy {
    char *rename, *member;
};

static void copy_free(struct copy *c)
{
    free(c->rename);
    free(c->member);
}

/*
 * Runs the local tar and the one in the sandbox against each other. into: the local one packs. The remote command has
 * read its archive to the end, or written all of it, when its exit code comes.
 */
static int run_tars(struct client *c, const char *pod, const char *const *local, const char *const *remote, bool into,
                    struct error *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_set_errno(err, errno, "make a pipe");
    pid_t pid = into ? start_tar(local, -1, fds[1]) : start_tar(local, fds[0], -1);

    (void)close(into ? fds[1] : fds[0]);
    struct stream_request q = {.pod = pod,
                               .argv = remote,
                               .input = into ? fds[0] : -1,
                               .output = into ? STDERR_FILENO : fds[1],
                               .errors = STDERR_FILENO};
    int code = client_stream(c, &q, err);
    (void)close(into ? fds[0] : fds[1]);
    int r = finish_tar(pid, code == 0 ? err : NULL);
    if (code < 0)
        return code;
    return code ? error_set(err, EIO, "tar in the sandbox ended with %d", code) : r;
}

static int copy(struct client *c, const char *pod, const struct place *from, const struct place *to, struct error *err)
{
    _cleanup_(copy_free) struct copy names = {xasprintf("--transform=s,^\\./%s,./%s,", from->name, to->name),
                                              xasprintf("./%s", from->name)};
    if (to->sandbox) {
        const char *const pack[] = {"tar", "-C", from->dir, names.rename, "-cf", "-", "--", names.member, NULL};
        const char *const unpack[] = {"tar", "-xmf", "-", "-C", to->dir, NULL};
        return run_tars(c, pod, pack, unpack, true, err);
    }
    const char *const pack[] = {"tar", "-C", from->dir, "-cf", "-", "--", names.member, NULL};
    const char *const unpack[] = {
        "tar", "--no-same-owner", "--no-overwrite-dir", "-C", to->dir, names.rename, "-xf", "-", NULL};
    return run_tars(c, pod, unpack, pack, false, err);
}

/* "cp a dir/" and "cp a existing-dir" put a into the directory, as cp does. */
static void into_directory(struct place *to, const char *text, const struct place *from)
{
    struct stat st;
    bool dir = str_has_suffix(text, "/") || str_has_suffix(text, ":.") || streq(text, ".");
    _cleanup_free_ char *path = xasprintf("%s/%s", to->dir, to->name);

    if (!to->sandbox && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        dir = true;
    if (!dir)
        return;
    free(to->dir);
    to->dir = take_ptr(path);
    free(to->name);
    to->name = xstrdup(from->name);
}

int cmd_cp(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *pod = NULL;
    _cleanup_(place_free) struct place from = {0}, to = {0};
    const char *kubeconfig = NULL, *ns = NULL;
    const struct option options[] = {
        {"kubeconfig", 0, OPTION_STRING, &kubeconfig, "FILE", "How to reach holt ($KUBECONFIG, or that of holt up)"},
        {"namespace", 'n', OPTION_STRING, &ns, "NS", "Namespace of the sandbox"},
    };
    struct client c;
    int rest;

    if (options_parse("holt cp [OPTIONS] PATH SANDBOX:PATH | SANDBOX:PATH PATH", options, ARRAY_LEN(options), argc,
                      argv, &rest, &err) < 0)
        return fail(EXIT_USAGE, &err);
    if (argc - rest != 2)
        return failf(EXIT_USAGE, "holt cp: name what to copy and where to");
    if (parse_place(argv[rest], &from, &err) < 0 || parse_place(argv[rest + 1], &to, &err) < 0)
        return fail(EXIT_USAGE, &err);
    if (!from.sandbox == !to.sandbox)
        return failf(EXIT_USAGE, "holt cp: one side is SANDBOX:PATH, the other a local path");
    into_directory(&to, argv[rest + 1], &from);
    int r = client_open(&c, kubeconfig, ns, &err);
    if (r == 0)
        r = client_find_pod(&c, from.sandbox ? from.sandbox : to.sandbox, &pod, &err);
    if (r == 0)
        r = copy(&c, pod, &from, &to, &err);
    client_close(&c);
    return r < 0 ? fail(1, &err) : 0;
}
