/*
 * `holt run` removes its sandbox when it ends; when it is killed, something must do it for it. The reaper is a second
 * process that shares the memory of the first (so it costs next to nothing), sleeps until the first is gone, and then
 * kills what is left of the sandbox and removes its control groups. It touches no memory before that.
 */
#pragma once

#include "base/error.h"

/* guest: a pidfd of the sandbox's first process. range: held until all is removed. */
int run_reaper_start(const char *id, int guest, int range, struct error *err);
