/*
 * The program `holt` where it is built in two parts: this small static one, which has `holt run` in it and starts in a
 * tenth of the time, and holt-core beside it, which has everything, `holt run` included. holt-core alone, under the
 * name of holt, does the same.
 */
#include "base/memory.h"
#include "base/strutil.h"
#include "cli/cli.h"
#include "cli/run_image.h"

#include <limits.h>
#include <stdio.h>

#define CORE_NAME "holt-core"
#define CORE_ELSEWHERE "/usr/lib/holt/" CORE_NAME

static char *beside_us(void)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    if (n < 0)
        return NULL;
    exe[n] = '\0';
    char *slash = strrchr(exe, '/');
    return slash ? xasprintf("%.*s/" CORE_NAME, (int)(slash - exe), exe) : NULL;
}

int main(int argc, char **argv)
{
    if (argc >= 2 && streq(argv[1], "run")) {
        int status = cmd_run(argc - 1, argv + 1);
        if (status != RUN_NEEDS_CORE)
            return status;
    }
    _cleanup_free_ char *core = beside_us();
    if (core)
        (void)execv(core, argv); /* what follows is for when it is not there */
    (void)execv(CORE_ELSEWHERE, argv);
    return failf(EXIT_HOLT_FAILED, "cannot start %s: %s", core ? core : CORE_ELSEWHERE, strerror(errno));
}
