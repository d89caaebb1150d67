#include "guest/lifecycle.h"

#include "guest/connection.h"
#include "guest/tree.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define LAST_WORDS_MS 10000 /* for clients to come for the end of the main process */
#define KILL_AGAIN_MS 20

static bool single;
static bool ending;    /* everything is being killed */
static bool timed_up;  /* no more waiting for anything */
static bool abandoned; /* no client will come for the end of the main process */
static bool shutting;  /* everything was asked to end */
static int exit_code;
static struct timer kill_timer, last_timer, grace_timer;

void lifecycle_single(void)
{
    single = true;
}

bool lifecycle_is_single(void)
{
    return single;
}

bool lifecycle_ending(void)
{
    return ending || shutting;
}

void lifecycle_signal_all(int sig)
{
    if (getpid() == 1) {
        (void)kill(-1, sig); /* every process of the namespace but this one; none is no error */
        return;
    }
    struct tree all = {.root = getpid()};
    (void)tree_signal(&all, sig, false);
}

static void kill_all(struct timer *t)
{
    lifecycle_signal_all(SIGKILL);
    timer_set(t, KILL_AGAIN_MS, kill_all);
}

static void last_due(struct timer *t)
{
    (void)t;
    timed_up = true;
}

static void end_now(void)
{
    if (ending)
        return;
    ending = true;
    timer_stop(&grace_timer);
    timer_set(&last_timer, LAST_WORDS_MS, last_due);
    kill_all(&kill_timer);
}

void lifecycle_main_exited(int code)
{
    exit_code = code;
    end_now();
}

static void grace_due(struct timer *t)
{
    (void)t;
    end_now();
}

void lifecycle_shutdown(uint64_t grace_ms)
{
    struct process *p = process_main();
    int64_t grace = grace_ms < INT32_MAX ? (int64_t)grace_ms : INT32_MAX;
    bool first = !shutting;
    shutting = true;
    if (ending)
        return;
    /* A second one may shorten the time, not lengthen it. */
    if (first || now_ms() + grace < grace_timer.at_ms)
        timer_set(&grace_timer, grace, grace_due);
    if (!first)
        return;
    if (p != NULL)
        (void)process_signal(p, SIGTERM, GUEST_SCOPE_PROCESS); /* if it has ended, the rest follows by itself */
    else
        lifecycle_signal_all(SIGTERM);
}

void lifecycle_abandoned(void)
{
    abandoned = true;
    end_now();
}

bool lifecycle_over(bool nothing_to_reap, int *ret_code)
{
    const struct process *p = process_main();
    if (shutting && !ending && nothing_to_reap)
        end_now();
    if (!ending)
        return false;
    *ret_code = exit_code;
    if (nothing_to_reap)
        timer_stop(&kill_timer);
    bool told = p == NULL || p->told || shutting; /* who shuts it down need not come for the end */
    bool heard = abandoned || (process_all_finished() && told && !connection_any_busy());
    /* With pid 1 the kernel ends the namespace; elsewhere a process may have forked while the others were killed. */
    bool dead = nothing_to_reap || (abandoned && getpid() == 1);
    if (timed_up || (dead && heard)) {
        connection_finish_shutdown();
        return true;
    }
    return false;
}
