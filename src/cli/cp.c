/* `holt cp`: files between here and a sandbox, as a tar stream. What comes out of a sandbox: cp_receive.h. */
#include "cli/client.h"
#include "cli/cp_receive.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define COMPLAINT_MAX 4096

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
                          .name = xstrdup(!base     ? path
                                          : base[1] ? base + 1
                                                    : ".")};
    return 0;
}

/* The local side runs in a process of its own, with one end of a pipe: tar packs what goes in. */
static pid_t start_packing(const char *const *argv, int to)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (dup2(to, STDOUT_FILENO) < 0)
            _exit(127);
        (void)close_range(3, ~0u, 0);
        (void)execvp("tar", (char *const *)argv);
        _exit(127);
    }
    return pid;
}

/* What comes out is not tar's to unpack: it would write wherever names and links lead. */
static pid_t start_receiving(const struct cp_receive *q, int other_end)
{
    pid_t pid = fork();

    if (pid == 0) {
        _cleanup_error_ struct error err = ERROR_INIT;
        (void)close(other_end);
        _exit(cp_receive(q, &err) < 0 ? fail(1, &err) : 0);
    }
    return pid;
}

static int finish_local(pid_t pid, const char *what, struct error *err)
{
    int status;

    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return error_set_errno(err, errno, "run the local side");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return error_set(err, EIO, "%s", what);
    return 0;
}

/* A backslash in front of each of the special characters, for the two sides of an expression of sed. */
static char *quote(const char *text, const char *special)
{
    struct strbuf out = {0};

    for (; *text; text++) {
        if (strchr(special, *text))
            strbuf_addc(&out, '\\');
        strbuf_addc(&out, *text);
    }
    return strbuf_detach(&out);
}

/* The first line of what tar has said, without its name and ours. */
static char *tar_complaint(int fd)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};

    strbuf_reserve(&b, COMPLAINT_MAX);
    ssize_t n = pread(fd, b.data, COMPLAINT_MAX, 0);
    b.len = n > 0 ? (size_t)n : 0;
    b.data[b.len] = '\0';
    const char *line = strbuf_str(&b), *rest = str_skip_prefix(line, "tar: ");
    line = rest ? rest : line;
    rest = str_skip_prefix(line, "./");
    line = rest ? rest : line;
    return xstrndup(line, strcspn(line, "\n"));
}

/*
 * Runs the tar in the sandbox against the local side. It has read its archive to the end, or written all of it, when
 * its exit code comes.
 */
static int run_remote(struct client *c, const char *pod, const char *const *argv, int input, int output,
                      struct error *err)
{
    _cleanup_close_ int complaints = memfd_create("complaints", MFD_CLOEXEC);

    if (complaints < 0)
        return error_set_errno(err, errno, "create a file in memory");
    struct stream_request q = {
        .pod = pod, .argv = argv, .input = input, .output = output >= 0 ? output : complaints, .errors = complaints};
    int code = client_stream(c, &q, err);
    if (code <= 0)
        return code;
    _cleanup_free_ char *complaint = tar_complaint(complaints);
    return error_set(err, EIO, "tar in the sandbox ended with %d%s%s", code, *complaint ? ": " : "", complaint);
}

static int copy_into(struct client *c, const char *pod, const struct place *from, const struct place *to,
                     struct error *err)
{
    _cleanup_free_ char *old = quote(from->name, ".[]*^$\\,"), *new = quote(to->name, "\\,&");
    _cleanup_free_ char *rename = xasprintf("--transform=s,^\\./%s,./%s,", old, new);
    _cleanup_free_ char *member = xasprintf("./%s", from->name);
    const char *const pack[] = {"tar", "-C", from->dir, rename, "-cf", "-", "--", member, NULL};
    const char *const unpack[] = {"tar", "-xmf", "-", "-C", to->dir, NULL};
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_set_errno(err, errno, "make a pipe");
    pid_t pid = start_packing(pack, fds[1]);
    (void)close(fds[1]);
    int r = run_remote(c, pod, unpack, fds[0], -1, err);
    (void)close(fds[0]);
    int local = finish_local(pid, "the local tar failed", r == 0 ? err : NULL);
    return r < 0 ? r : local;
}

static int copy_out(struct client *c, const char *pod, const struct place *from, const struct place *to,
                    struct error *err)
{
    _cleanup_free_ char *member = xasprintf("./%s", from->name);
    const char *const pack[] = {"tar", "-C", from->dir, "-cf", "-", "--", member, NULL};
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_set_errno(err, errno, "make a pipe");
    const struct cp_receive q = {.archive = fds[0], .dir = to->dir, .name = to->name, .wanted = from->name};
    pid_t pid = start_receiving(&q, fds[1]);
    (void)close(fds[0]);
    int r = run_remote(c, pod, pack, -1, fds[1], err);
    (void)close(fds[1]);
    int local = finish_local(pid, "nothing more was copied", r == 0 ? err : NULL);
    return r < 0 ? r : local;
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

    if (options_parse("holt cp [OPTIONS] PATH SANDBOX:PATH | SANDBOX:PATH PATH\n\n"
                      "Copies a file or a directory. Out of a sandbox only files and directories come: links and the "
                      "like are left out. A\n"
                      "local path with a colon is written ./a:b. The sandbox needs tar.",
                      options, ARRAY_LEN(options), argc, argv, &rest, &err) < 0)
        return fail(EXIT_USAGE, &err);
    if (argc - rest != 2)
        return failf(EXIT_USAGE, "cp: name what to copy and where to");
    if (parse_place(argv[rest], &from, &err) < 0 || parse_place(argv[rest + 1], &to, &err) < 0)
        return fail(EXIT_USAGE, &err);
    if (!from.sandbox == !to.sandbox)
        return failf(EXIT_USAGE, "cp: one side is SANDBOX:PATH, the other a local path");
    into_directory(&to, argv[rest + 1], &from);
    int r = client_open(&c, kubeconfig, ns, &err);
    if (r == 0)
        r = client_find_pod(&c, from.sandbox ? from.sandbox : to.sandbox, &pod, &err);
    if (r == 0)
        r = to.sandbox ? copy_into(&c, pod, &from, &to, &err) : copy_out(&c, pod, &from, &to, &err);
    client_close(&c);
    return r < 0 ? fail(1, &err) : 0;
}
