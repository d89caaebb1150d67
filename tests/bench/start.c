/*
 * Times commands from spawn to exit, interleaved, so that whatever else the machine does hits all of them alike:
 *
 *     bench_start ROUNDS LABEL COMMAND ARG... --- LABEL COMMAND ARG... --- ...
 *
 * Prints one line of JSON a command: {"label":, "n":, "min_us":, "median_us":, "p90_us":, "failed":}. Input and output
 * of the commands are /dev/null. The commands are started by posix_spawn, whose cost is in all numbers (about 60 us).
 */
#include "base/macros.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#define COMMANDS_MAX 32
#define WARM_UP_ROUNDS 5

extern char **environ;

struct timed {
    char *label;
    char **argv;
    int64_t *ns;
    size_t failed;
};

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static int64_t run_once(const struct timed *c, const posix_spawn_file_actions_t *actions, bool *ret_failed)
{
    pid_t pid;
    int status = 0;
    int64_t start = time_monotonic_ns();

    int r = posix_spawnp(&pid, c->argv[0], actions, NULL, c->argv, environ);
    if (r == 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    *ret_failed = r != 0 || status != 0;
    return time_monotonic_ns() - start;
}

static size_t parse(int argc, char **argv, struct timed *commands, size_t rounds)
{
    size_t count = 0;

    for (int i = 2; i + 1 < argc && count < COMMANDS_MAX;) {
        commands[count++] =
            (struct timed){.label = argv[i], .argv = argv + i + 1, .ns = xcalloc(rounds, sizeof(int64_t))};
        for (i++; i < argc && !streq(argv[i], "---"); i++)
            ;
        if (i < argc)
            argv[i++] = NULL;
    }
    return count;
}

int main(int argc, char **argv)
{
    struct timed commands[COMMANDS_MAX];
    posix_spawn_file_actions_t actions;
    uint64_t rounds;

    if (argc < 4 || !parse_u64(argv[1], &rounds) || rounds == 0) {
        fputs("usage: bench_start ROUNDS LABEL COMMAND ARG... [--- LABEL COMMAND ARG...]...\n", stderr);
        return 2;
    }
    size_t count = parse(argc, argv, commands, rounds);
    if (posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) != 0 ||
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0) != 0 ||
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) != 0)
        return 1;
    for (uint64_t round = 0; round < rounds + WARM_UP_ROUNDS; round++) {
        for (size_t i = 0; i < count; i++) {
            bool failed;
            int64_t ns = run_once(&commands[i], &actions, &failed);
            if (round >= WARM_UP_ROUNDS) {
                commands[i].ns[round - WARM_UP_ROUNDS] = ns;
                commands[i].failed += failed;
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct timed *c = &commands[i];
        qsort(c->ns, rounds, sizeof(*c->ns), compare);
        printf("{\"label\":\"%s\",\"n\":%llu,\"min_us\":%.1f,\"median_us\":%.1f,\"p90_us\":%.1f,\"failed\":%zu}\n",
               c->label, (unsigned long long)rounds, (double)c->ns[0] / 1000, (double)c->ns[rounds / 2] / 1000,
               (double)c->ns[rounds * 9 / 10] / 1000, c->failed);
        free(c->ns);
    }
    posix_spawn_file_actions_destroy(&actions);
    return 0;
}
