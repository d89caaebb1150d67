/*
 * `holt egress`: the only way out of a sandbox. Today it holds the closed door: sandboxes have no network but `lo`, so
 * there is nothing to forward, and nothing is.
 */
#include "cli/cli.h"
#include "cli/ready.h"

#include "base/log.h"

#include <event2/event.h>
#include <signal.h>

static void stop(evutil_socket_t fd UNUSED, short what UNUSED, void *base)
{
    (void)event_base_loopbreak(base);
}

int cmd_egress(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    const char *run_dir = "/run/holt";
    struct ready ready = {0};
    const struct option options[] = {
        {"run-dir", 0, OPTION_STRING, &run_dir, "DIR", "Run-time state"},
        READY_OPTIONS(&ready),
    };
    int rest;

    if (options_parse("holt egress [OPTIONS]", options, ARRAY_LEN(options), argc, argv, &rest, &err) < 0)
        return fail(EXIT_USAGE, &err);
    log_setup("egress", LOG_LEVEL_INFO);
    struct event_base *base = event_base_new();
    struct event *term = base ? evsignal_new(base, SIGTERM, stop, base) : NULL;
    struct event *interrupt = base ? evsignal_new(base, SIGINT, stop, base) : NULL;
    if (!term || !interrupt || evsignal_add(term, NULL) < 0 || evsignal_add(interrupt, NULL) < 0)
        return failf(EXIT_HOLT_FAILED, "egress: cannot make the event loop");
    log_info("egress is closed: sandboxes reach nothing outside", NULL);
    ready_tell(base, &ready);
    (void)event_base_dispatch(base);
    ready_end(&ready);
    event_free(term);
    event_free(interrupt);
    event_base_free(base);
    return 0;
}
