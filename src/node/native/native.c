#include "node/native/native.h"

#include "node/native/ahead.h"
#include "node/native/clone.h"
#include "node/native/setup.h"

int native_spawn(const struct native_spec *spec, struct native_sandbox *ret, struct error *err)
{
    _cleanup_(setup_plan_done) struct setup_plan plan = {0};
    int r = setup_prepare(spec, &plan, err);
    if (r < 0)
        return error_wrap(err, "prepare sandbox %s", spec->id ? spec->id : "");

    int pidfd;
    pid_t pid = setup_clone(plan.setup, plan.fds, false, false, &pidfd, err);
    if (spec->ahead)
        ahead_end(spec->ahead);
    if (pid < 0) {
        if (pidfd >= 0)
            clone_reap(pidfd);
        (void)native_destroy(spec->id, 1000, NULL); /* the failure above is what counts */
        return error_wrap(err, "start sandbox %s", spec->id);
    }
    *ret = (struct native_sandbox){.pid = pid, .pidfd = pidfd};
    return 0;
}
