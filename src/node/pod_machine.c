#include "node/pod_machine.h"

#include "base/timeutil.h"

#define RESTART_FIRST_S 10
#define RESTART_MAX_S 300

int64_t restart_delay_ns(int64_t ends_in_a_row)
{
    int64_t s = RESTART_FIRST_S;

    if (ends_in_a_row <= 1)
        return 0;
    for (int64_t i = 2; i < ends_in_a_row && s < RESTART_MAX_S; i++)
        s *= 2;
    return MIN(s, RESTART_MAX_S) * NSEC_PER_SEC;
}

const char *pod_action_name(enum pod_action a)
{
    static const char *const names[] = {
        [POD_WAIT] = "WAIT",     [POD_FETCH] = "FETCH", [POD_START] = "START",   [POD_STOP] = "STOP",
        [POD_KILL] = "KILL",     [POD_CLEAN] = "CLEAN", [POD_NEXT] = "NEXT",     [POD_RESTART] = "RESTART",
        [POD_FINISH] = "FINISH", [POD_FAIL] = "FAIL",   [POD_DELETE] = "DELETE", [POD_FORGET] = "FORGET",
    };

    return names[a];
}

static struct pod_decision act(enum pod_action action)
{
    return (struct pod_decision){.action = action};
}

static struct pod_decision wait_until(int64_t wake_ns)
{
    return (struct pod_decision){.action = POD_WAIT, .wake_ns = wake_ns};
}

static bool past_deadline(const struct pod_facts *f)
{
    return f->failed_outside || (f->deadline_ns && f->now_ns >= f->deadline_ns);
}

static struct pod_decision decide_alive(const struct pod_facts *f)
{
    if (f->killed) /* again, should it have failed */
        return f->now_ns >= f->stop_deadline_ns ? act(POD_KILL) : wait_until(f->stop_deadline_ns);
    if (f->gone)
        return act(POD_KILL);
    bool end = f->deleting || f->replace || past_deadline(f);
    int64_t grace_ends = f->now_ns + f->grace_s * NSEC_PER_SEC;
    if (f->sandbox == SANDBOX_STOPPING) {
        if (f->now_ns >= f->stop_deadline_ns)
            return act(POD_KILL);
        /* A second deletion may be less patient. */
        return grace_ends < f->stop_deadline_ns && end && f->grace_s == 0 ? act(POD_KILL)
                                                                          : wait_until(f->stop_deadline_ns);
    }
    if (end)
        return act(f->grace_s > 0 ? POD_STOP : POD_KILL);
    return wait_until(f->deadline_ns);
}

/* No sandbox: the object decides, then the last exit, then the clock. */
static struct pod_decision decide_idle(const struct pod_facts *f)
{
    if (f->gone)
        return act(POD_FORGET);
    if (f->deleting)
        return act(POD_DELETE);
    if (f->finished)
        return wait_until(0);
    if (past_deadline(f))
        return act(POD_FAIL);
    if (f->has_exited) {
        bool again = f->restart_policy == RESTART_ALWAYS || (f->restart_policy == RESTART_ON_FAILURE && f->exit_code);
        if (f->is_init && f->exit_code == 0)
            return act(POD_NEXT);
        if (f->is_init)
            again = f->restart_policy != RESTART_NEVER;
        return act(again || f->replace ? POD_RESTART : POD_FINISH);
    }
    if (f->refused)
        return wait_until(f->deadline_ns);
    if (f->now_ns < f->not_before_ns)
        return wait_until(f->deadline_ns ? MIN(f->deadline_ns, f->not_before_ns) : f->not_before_ns);
    if (!f->inputs_ready)
        return f->inputs_pending ? wait_until(f->deadline_ns) : act(POD_FETCH);
    return act(POD_START);
}

struct pod_decision pod_decide(const struct pod_facts *f)
{
    switch (f->sandbox) {
    case SANDBOX_STARTING:
    case SANDBOX_RUNNING:
    case SANDBOX_STOPPING:
        return decide_alive(f);
    case SANDBOX_ENDED:
        return act(POD_CLEAN);
    case SANDBOX_CLEANING:
        return wait_until(0);
    case SANDBOX_NONE:
        break;
    }
    return decide_idle(f);
}
