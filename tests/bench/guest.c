/*
 * What holt-guest costs, outside of any sandbox: the round trip of a ping, of a process (START to EXIT), the bandwidth
 * of its output, and the memory it holds idle and with processes. Usage: bench_guest [ROUNDS [PROGRAM]].
 */
#include "base/error.h"
#include "base/timeutil.h"
#include "guest/image.h"
#include "wire/guest_request.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static pid_t guest;

static void die(const char *what)
{
    perror(what);
    if (guest > 0)
        (void)kill(guest, SIGKILL);
    exit(1);
}

static void start_guest(void)
{
    static char *const argv[] = {(char *)"holt-guest", NULL}, *const env[] = {NULL};
    int n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "holt-bench-%d", (int)getpid());
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), image = guest_image_memfd(NULL);
    if (n < 0 || bind(sock, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(sock, 64) < 0 || image < 0)
        die("listen");
    guest = fork();
    if (guest == 0) {
        int exe = fcntl(image, F_DUPFD_CLOEXEC, 10);
        if (dup2(fcntl(sock, F_DUPFD_CLOEXEC, 10), 3) == 3)
            fexecve(exe, argv, env);
        _exit(126);
    }
    (void)close(sock);
    (void)close(image);
}

/* Sends the request on a new connection and reads until the end; bytes of output. */
static size_t call(struct guest_buffer *request, enum guest_frame_type last)
{
    static char data[1 << 17];
    struct guest_buffer in = {0};
    struct guest_frame frame;
    size_t size, total = 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        die("connect");
    if (write(fd, request->data, guest_buffer_len(request)) < 0)
        die("write");
    for (;;) {
        ssize_t n = read(fd, data, sizeof(data));
        if (n <= 0)
            die("the guest closed the connection");
        guest_buffer_add(&in, data, (size_t)n);
        while ((r = guest_frame_parse(in.data + in.start, guest_buffer_len(&in), GUEST_REPLY_MAX, &frame, &size)) > 0) {
            if (frame.type == GUEST_STDOUT)
                total += frame.len - 8;
            if (frame.type == last || frame.type == GUEST_ERROR) {
                if (frame.type != last)
                    die("the guest answered with an error");
                guest_buffer_free(&in);
                (void)close(fd);
                return total;
            }
            guest_buffer_consume(&in, size);
        }
        if (r < 0)
            die("bad frame");
    }
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void measure(const char *name, struct guest_buffer *request, enum guest_frame_type last, size_t rounds)
{
    int64_t *ns = calloc(rounds, sizeof(*ns));
    for (size_t i = 0; i < rounds; i++) {
        int64_t before = time_monotonic_ns();
        (void)call(request, last);
        ns[i] = time_monotonic_ns() - before;
    }
    qsort(ns, rounds, sizeof(*ns), compare);
    printf("%-34s min %4lld us   median %4lld us   p99 %4lld us\n", name, (long long)ns[0] / 1000,
           (long long)ns[rounds / 2] / 1000, (long long)ns[rounds * 99 / 100] / 1000);
    free(ns);
}

/* KiB of a line of smaps_rollup. */
static void print_memory(const char *when)
{
    char path[64], line[256];
    long rss = 0, anonymous = 0;
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)guest);
    FILE *s = fopen(path, "re");
    if (s == NULL)
        die(path);
    while (fgets(line, sizeof(line), s) != NULL) {
        (void)sscanf(line, "Rss: %ld", &rss);
        (void)sscanf(line, "Anonymous: %ld", &anonymous);
    }
    (void)fclose(s);
    /* The rest is the image, whose pages all guests share. */
    printf("%-34s rss %ld KiB, of it its own %ld KiB\n", when, rss, anonymous);
}

static struct guest_buffer start_request(const char *const *argv, uint32_t flags)
{
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    struct guest_buffer b = {0};
    if (guest_request_start(&b, &(struct guest_start_request){.argv = argv, .env = env, .flags = flags}, NULL) < 0)
        die("request");
    return b;
}

/* For comparison: the same without a guest. */
static void measure_fork(const char *program, size_t rounds)
{
    int64_t *ns = calloc(rounds, sizeof(*ns));
    for (size_t i = 0; i < rounds; i++) {
        int64_t before = time_monotonic_ns();
        char *const args[] = {(char *)(uintptr_t)program, NULL}, *const env[] = {NULL};
        pid_t pid;
        if (posix_spawn(&pid, program, NULL, NULL, args, env) != 0)
            die(program);
        (void)waitpid(pid, NULL, 0);
        ns[i] = time_monotonic_ns() - before;
    }
    qsort(ns, rounds, sizeof(*ns), compare);
    printf("%-34s min %4lld us   median %4lld us   p99 %4lld us\n", "posix_spawn to exit, no guest",
           (long long)ns[0] / 1000, (long long)ns[rounds / 2] / 1000, (long long)ns[rounds * 99 / 100] / 1000);
    free(ns);
}

int main(int argc, char **argv)
{
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 500;
    const char *program = argc > 2 ? argv[2] : "/bin/true";
    const char *const run[] = {program, NULL}, *const sleeping[] = {"sh", "-c", "sleep 1000 >/dev/null 2>&1 &", NULL};
    const char *const flood[] = {"head", "-c", "1G", "/dev/zero", NULL};
    struct guest_buffer ping = {0};
    if (rounds == 0 || guest_request_plain(&ping, GUEST_PING, NULL) < 0)
        return 2;
    start_guest();
    (void)call(&ping, GUEST_PONG);
    printf("image of %zu bytes\n", holt_guest_image_size);
    print_memory("idle, after the first ping");
    measure("ping, with its connection", &ping, GUEST_PONG, rounds);
    struct guest_buffer b = start_request(run, 0);
    measure_fork(program, rounds);
    measure("START to EXIT, with its connection", &b, GUEST_EXIT, rounds);
    guest_buffer_free(&b);
    print_memory("after these");
    b = start_request(sleeping, 0);
    for (int i = 0; i < 10; i++)
        (void)call(&b, GUEST_EXIT);
    guest_buffer_free(&b);
    print_memory("with 10 daemons");
    b = start_request(flood, GUEST_FLAG_LOSSLESS);
    int64_t before = time_monotonic_ns();
    size_t bytes = call(&b, GUEST_EXIT);
    printf("%-34s %.0f MB/s\n", "output, lossless", (double)bytes * 1000 / (double)(time_monotonic_ns() - before));
    guest_buffer_free(&b);
    print_memory("after 1 GiB of output");
    struct guest_buffer end = {0};
    if (guest_request_shutdown(&end, 0, NULL) == 0)
        (void)call(&end, GUEST_DONE);
    guest_buffer_free(&end);
    guest_buffer_free(&ping);
    (void)waitpid(guest, NULL, 0);
    return 0;
}
