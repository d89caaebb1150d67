#include "guest_fixture.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/timeutil.h"
#include "guest/image.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

void fixture_start(struct guest_fixture *f, bool listening, int *ret_fd)
{
    struct error err = ERROR_INIT;
    static char *const argv[] = {(char *)"holt-guest", NULL}, *const env[] = {NULL};
    int pair[2], sock;
    *f = (struct guest_fixture){.base = event_base_new(), .path = "/tmp/holt-test-guest-XXXXXX"};
    (void)signal(SIGPIPE, SIG_IGN);
    assert_non_null(mkdtemp(f->path));
    f->dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (listening) {
        sock = unix_listen_at(f->dir, "guest.sock", 512, &err);
    } else {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        *ret_fd = pair[0];
        sock = pair[1];
    }
    assert_true(sock >= 0);
    int image = guest_image_memfd(&err);
    assert_true(image >= 0);
    f->pid = fork();
    assert_true(f->pid >= 0);
    if (f->pid == 0) {
        int high = fcntl(sock, F_DUPFD_CLOEXEC, 10), exe = fcntl(image, F_DUPFD_CLOEXEC, 10);
        if (dup2(high, 3) == 3)
            fexecve(exe, argv, env);
        _exit(126);
    }
    close(image);
    close(sock);
}

int fixture_wait_guest(struct guest_fixture *f, int timeout_ms)
{
    int64_t deadline = time_monotonic_ns() + timeout_ms * NSEC_PER_MSEC;
    int status;
    while (time_monotonic_ns() < deadline) {
        if (waitpid(f->pid, &status, WNOHANG) == f->pid) {
            f->pid = 0;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
        }
        fixture_turn(f, 5);
    }
    return -1;
}

void fixture_stop(struct guest_fixture *f)
{
    if (f->pid > 0) {
        struct run r = {.f = f};
        struct error err = ERROR_INIT;
        r.client = guest_shutdown(f->base, fixture_connect(f), 0, &run_callbacks, &r, &err);
        run_wait(&r, 5000);
        run_free(&r);
        assert_true(fixture_wait_guest(f, 5000) >= 0);
    }
    event_base_free(f->base);
    assert_int_equal(remove_tree_at(AT_FDCWD, f->path, NULL), 0);
    close(f->dir);
}

int fixture_setup(void **state)
{
    struct guest_fixture *f = xcalloc(1, sizeof(*f));
    fixture_start(f, true, NULL);
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    fixture_stop(*state);
    free(*state);
    return 0;
}

int fixture_connect(struct guest_fixture *f)
{
    struct error err = ERROR_INIT;
    int fd = unix_connect_at(f->dir, "guest.sock", &err);
    if (fd < 0)
        fail_msg("%s", error_text(&err));
    return fd;
}

static void on_started(void *arg, const char *id, uint32_t pid)
{
    struct run *r = arg;
    assert_false(r->started);
    r->started = true;
    snprintf(r->id, sizeof(r->id), "%s", id);
    r->pid = pid;
}

static void on_output(void *arg, enum guest_stream stream, uint64_t offset, const void *data, size_t len)
{
    struct run *r = arg;
    assert_true(r->started);
    assert_true(offset == r->next[stream]);
    r->next[stream] += len;
    r->bytes[stream] += len;
    if (r->keep)
        strbuf_add(&r->out[stream], data, len);
}

static void on_dropped(void *arg, enum guest_stream stream, uint64_t bytes)
{
    struct run *r = arg;
    assert_true(bytes > 0);
    r->dropped[stream] += bytes;
    r->next[stream] += bytes;
}

static void on_pong(void *arg, const struct guest_pong *pong)
{
    ((struct run *)arg)->pong = *pong;
}

static void on_process(void *arg, const struct guest_process_info *info)
{
    struct run *r = arg;
    strbuf_addf(&r->list, "%s %s %s\n", info->id, info->flags & GUEST_FLAG_EXITED ? "exited" : "running",
                info->argv[0]);
}

static void ended(struct run *r)
{
    assert_false(r->exited || r->done || r->failed);
    r->ended_ns = time_monotonic_ns();
}

static void on_exited(void *arg, const struct guest_exit *e)
{
    struct run *r = arg;
    ended(r);
    r->exited = true;
    r->exit = *e;
}

static void on_done(void *arg)
{
    struct run *r = arg;
    ended(r);
    r->done = true;
}

static void on_failed(void *arg, const struct error *err)
{
    struct run *r = arg;
    ended(r);
    r->failed = true;
    error_set(&r->error, err->code, "%s", error_text(err));
}

const struct guest_callbacks run_callbacks = {.started = on_started,
                                              .output = on_output,
                                              .dropped = on_dropped,
                                              .pong = on_pong,
                                              .process = on_process,
                                              .exited = on_exited,
                                              .done = on_done,
                                              .failed = on_failed};

void run_request(struct guest_fixture *f, struct run *r, const struct guest_start_request *request)
{
    struct error err = ERROR_INIT;
    *r = (struct run){.f = f, .keep = true};
    r->client = guest_start(f->base, fixture_connect(f), request, &run_callbacks, r, &err);
    assert_non_null(r->client);
}

void run_sh(struct guest_fixture *f, struct run *r, const char *script, const struct guest_start_request *request)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct guest_start_request q = request != NULL ? *request : (struct guest_start_request){0};
    q.argv = argv;
    run_request(f, r, &q);
}

void run_attach(struct guest_fixture *f, struct run *r, const char *id, uint64_t out, uint64_t err_offset,
                uint32_t flags)
{
    struct error err = ERROR_INIT;
    *r = (struct run){.f = f, .keep = true, .next = {out, err_offset}};
    r->client = guest_attach(f->base, fixture_connect(f), id, out, err_offset, flags, &run_callbacks, r, &err);
    assert_non_null(r->client);
}

void run_list(struct guest_fixture *f, struct run *r)
{
    struct error err = ERROR_INIT;
    *r = (struct run){.f = f};
    r->client = guest_list(f->base, fixture_connect(f), &run_callbacks, r, &err);
    assert_non_null(r->client);
    run_wait(r, 5000);
    assert_true(r->done);
}

static void on_tick(evutil_socket_t fd UNUSED, short what UNUSED, void *arg UNUSED)
{
}

/* One turn of the loop, of at most ms. */
static void turn(struct guest_fixture *f, int64_t ms)
{
    struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    struct event *tick = event_new(f->base, -1, 0, on_tick, NULL);
    event_add(tick, &tv);
    event_base_loop(f->base, EVLOOP_ONCE);
    event_free(tick);
}

void fixture_turn(struct guest_fixture *f, int ms)
{
    int64_t deadline = time_monotonic_ns() + ms * NSEC_PER_MSEC;
    for (int64_t left; (left = deadline - time_monotonic_ns()) > 0;)
        turn(f, left / NSEC_PER_MSEC + 1);
}

void run_wait_flag(struct run *r, const bool *flag, int timeout_ms)
{
    int64_t deadline = time_monotonic_ns() + timeout_ms * NSEC_PER_MSEC;
    while (!*flag && time_monotonic_ns() < deadline)
        turn(r->f, 20);
    if (!*flag)
        fail_msg("no answer after %d ms; out: %s; err: %s; error: %s", timeout_ms, strbuf_str(&r->out[0]),
                 strbuf_str(&r->out[1]), error_text(&r->error));
}

void run_wait(struct run *r, int timeout_ms)
{
    int64_t deadline = time_monotonic_ns() + timeout_ms * NSEC_PER_MSEC;
    while (!r->exited && !r->done && !r->failed && time_monotonic_ns() < deadline)
        turn(r->f, 20);
    if (!r->exited && !r->done && !r->failed)
        fail_msg("no end after %d ms; out: %s; err: %s", timeout_ms, strbuf_str(&r->out[0]), strbuf_str(&r->out[1]));
}

void run_wait_text(struct run *r, enum guest_stream stream, const char *text, int timeout_ms)
{
    int64_t deadline = time_monotonic_ns() + timeout_ms * NSEC_PER_MSEC;
    while (strstr(strbuf_str(&r->out[stream]), text) == NULL && time_monotonic_ns() < deadline)
        turn(r->f, 20);
    if (strstr(strbuf_str(&r->out[stream]), text) == NULL)
        fail_msg("no \"%s\" after %d ms in: %s", text, timeout_ms, strbuf_str(&r->out[stream]));
}

void run_free(struct run *r)
{
    guest_client_free(r->client);
    for (int i = 0; i < GUEST_STREAM_COUNT; i++)
        strbuf_free(&r->out[i]);
    strbuf_free(&r->list);
    error_clear(&r->error);
    *r = (struct run){0};
}

const char *run_out(const struct run *r)
{
    return strbuf_str(&r->out[GUEST_STREAM_STDOUT]);
}

int count_marked(const char *value)
{
    _cleanup_free_ char *wanted = xasprintf("HOLT_TEST=%s", value);
    int count = 0;
    DIR *d = opendir("/proc");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] < '0' || e->d_name[0] > '9')
            continue;
        _cleanup_free_ char *path = xasprintf("%s/environ", e->d_name);
        char *env = NULL;
        size_t len;
        if (file_read_at(dirfd(d), path, 1 << 20, &env, &len, NULL) < 0)
            continue;
        count += memmem(env, len, wanted, strlen(wanted) + 1) != NULL;
        free(env);
    }
    closedir(d);
    return count;
}
