#include "node/image/unpack.h"

#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#define BLOCK (256 * 1024)
#define REPORT_MAX (64u << 20) /* opaque directories of one archive */
#define TARGET_FD 3

struct unpack {
    const struct unpack_request *request;
    pid_t pid;
    int to_helper, from_helper; /* -1 once closed */
    struct digest *digest;
    char *block;
    size_t block_len, block_sent;
    bool archive_ended;
    struct strbuf report;
};

void unpack_result_clear(struct unpack_result *r)
{
    free(r->kind);
    strv_free(r->opaque);
    strv_free(r->skipped);
    *r = (struct unpack_result){0};
}

char *unpack_default_helper(void)
{
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    exe[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(exe, '/');
    return slash ? xasprintf("%.*s/holt-extract", (int)(slash - exe), exe) : xstrdup("/usr/lib/holt/holt-extract");
}

static void close_p(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static int start_helper(struct unpack *u, struct error *err)
{
    static const char *const modes[] = {"layer", "files", "probe", "copy"};
    const struct unpack_request *q = u->request;
    _cleanup_free_ char *bytes = xasprintf("%" PRIu64, q->max_bytes);
    _cleanup_free_ char *entries = xasprintf("%" PRIu64, q->max_entries);
    bool probe = q->mode == UNPACK_PROBE;
    char *argv[] = {(char *)"holt-extract", (char *)modes[q->mode], probe ? NULL : bytes, entries, NULL};
    char *env[] = {NULL};
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;

    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0) {
        int code = errno;
        close_p(&in[0]);
        close_p(&in[1]);
        return error_set_errno(err, code, "create a pipe");
    }
    /* The pipes' ends must not lie on the numbers they are moved to. */
    int high = probe ? -1 : fcntl(q->target_fd, F_DUPFD_CLOEXEC, 10);
    int in_high = fcntl(in[0], F_DUPFD_CLOEXEC, 10), out_high = fcntl(out[1], F_DUPFD_CLOEXEC, 10);
    int r = posix_spawn_file_actions_init(&actions);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, in_high, STDIN_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, out_high, STDOUT_FILENO);
    if (r == 0 && !probe)
        r = posix_spawn_file_actions_adddup2(&actions, high, TARGET_FD);
    sigset_t none, defaults;
    (void)sigemptyset(&none); /* cannot fail, as the three below */
    (void)sigemptyset(&defaults);
    (void)sigaddset(&defaults, SIGPIPE);
    if (r == 0)
        r = posix_spawnattr_init(&attributes);
    if (r == 0) {
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        (void)posix_spawnattr_setsigmask(&attributes, &none);
        (void)posix_spawnattr_setsigdefault(&attributes, &defaults);
        r = posix_spawn(&u->pid, q->helper, &actions, &attributes, argv, env);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    close_p(&in[0]);
    close_p(&out[1]);
    close_p(&in_high);
    close_p(&out_high);
    close_p(&high);
    u->to_helper = in[1];
    u->from_helper = out[0];
    if (r != 0) {
        u->pid = -1;
        return error_set_errno(err, r, "start %s", q->helper);
    }
    if (fcntl(u->to_helper, F_SETFL, O_NONBLOCK) < 0)
        return error_set_errno(err, errno, "set a pipe non-blocking");
    return 0;
}

/* Reads the next block of the archive and adds it to the digest. */
static int read_archive(struct unpack *u, struct error *err)
{
    ssize_t n;

    do
        n = read(u->request->archive_fd, u->block, BLOCK);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_set_errno(err, errno, "read the archive");
    u->archive_ended = n == 0;
    u->block_len = (size_t)n;
    u->block_sent = 0;
    if (n)
        digest_add(u->digest, u->block, (size_t)n);
    return 0;
}

static int feed(struct unpack *u, struct error *err)
{
    ssize_t n = write(u->to_helper, u->block + u->block_sent, u->block_len - u->block_sent);

    if (n >= 0)
        u->block_sent += (size_t)n;
    else if (errno == EPIPE) /* the helper has seen the end of the archive, or failed and will say so */
        close_p(&u->to_helper);
    else if (errno != EAGAIN && errno != EINTR)
        return error_set_errno(err, errno, "feed the unpacking helper");
    return 0;
}

static int take_report(struct unpack *u, struct error *err)
{
    char buffer[4096];
    ssize_t n = read(u->from_helper, buffer, sizeof(buffer));

    if (n == 0)
        close_p(&u->from_helper);
    else if (n > 0)
        strbuf_add(&u->report, buffer, (size_t)n);
    else if (errno != EINTR)
        return error_set_errno(err, errno, "read from the unpacking helper");
    if (u->report.len > REPORT_MAX)
        return error_set(err, EFBIG, "the unpacking helper reports without end");
    return 0;
}

static int exchange(struct unpack *u, struct error *err)
{
    while (u->from_helper >= 0 || !u->archive_ended) {
        if (u->block_sent == u->block_len || u->to_helper < 0) {
            int r = u->archive_ended ? 0 : read_archive(u, err);
            if (r < 0)
                return r;
            if (u->archive_ended)
                close_p(&u->to_helper);
        }
        if (u->to_helper < 0 && (!u->archive_ended || u->from_helper < 0))
            continue; /* only the digest is still wanted, if anything */
        struct pollfd fds[] = {{.fd = u->to_helper, .events = POLLOUT}, {.fd = u->from_helper, .events = POLLIN}};
        if (poll(fds, ARRAY_LEN(fds), -1) < 0) {
            if (errno == EINTR)
                continue;
            return error_set_errno(err, errno, "poll");
        }
        int r = fds[1].revents ? take_report(u, err) : 0;
        if (r == 0 && fds[0].revents)
            r = feed(u, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* What came from the helper is as little trusted as the archive. */
static int read_report(struct unpack *u, struct unpack_result *ret, struct error *err)
{
    bool done = false;
    size_t capacity = 0, skipped_capacity = 0;

    for (size_t at = 0; at < u->report.len;) {
        const char *record = u->report.data + at;
        const char *end = memchr(record, '\0', u->report.len - at);
        if (!end)
            break;
        if (*record == 'o') {
            GROW(ret->opaque, capacity, ret->opaque_count + 2);
            ret->opaque[ret->opaque_count++] = xstrdup(record + 1);
            ret->opaque[ret->opaque_count] = NULL;
        } else if (*record == 's') {
            GROW(ret->skipped, skipped_capacity, ret->skipped_count + 2);
            ret->skipped[ret->skipped_count++] = xstrdup(record + 1);
            ret->skipped[ret->skipped_count] = NULL;
        } else if (*record == 'e') {
            return error_set(err, EINVAL, "%.1000s", record + 1);
        }
        done = done || *record == 'k' || *record == 'd';
        if (*record == 'k') {
            free(ret->kind);
            ret->kind = xstrdup(record + 1);
        } else if (*record == 'd') {
            ret->bytes = strtoull(record + 1, NULL, 10);
        }
        at += (size_t)(end - record) + 1;
    }
    if (!done)
        return error_set(err, EIO, "the unpacking helper ended without a word: out of memory or time?");
    return 0;
}

int unpack_run(const struct unpack_request *request, struct unpack_result *ret, struct error *err)
{
    struct unpack u = {.request = request, .pid = -1, .to_helper = -1, .from_helper = -1};
    struct unpack_result result = {0};
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old;

    if (sigaction(SIGPIPE, &ignore, &old) < 0)
        return error_set_errno(err, errno, "ignore SIGPIPE");
    u.digest = digest_new();
    u.block = xmalloc(BLOCK);
    int r = start_helper(&u, err);
    if (r == 0)
        r = exchange(&u, err);
    close_p(&u.to_helper);
    close_p(&u.from_helper);
    if (u.pid > 0) {
        if (r < 0)
            (void)kill(u.pid, SIGKILL); /* our own unreaped child */
        while (waitpid(u.pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (r == 0)
        r = read_report(&u, &result, err);
    digest_finish(u.digest, result.hex);
    free(u.block);
    strbuf_free(&u.report);
    (void)sigaction(SIGPIPE, &old, NULL); /* worked above */
    if (r < 0)
        unpack_result_clear(&result);
    else
        *ret = result;
    return r;
}
