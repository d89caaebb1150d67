/*
 * Two namespaces of a sandbox, made by a helper beside the other work of a start, of which they are half: a mount
 * namespace with an empty root, and a network namespace with `lo` up.
 */
#pragma once

#include "base/error.h"

/* pidfd: of the helper; done: a pipe with what became of each step. Both -1 = none is being made. */
struct ahead {
    int pidfd, done, done_write;
};
#define AHEAD_NONE ((struct ahead){.pidfd = -1, .done = -1, .done_write = -1})

/* Returns at once. Where no helper can be started it stays AHEAD_NONE, and the start does all itself. */
void ahead_start(struct ahead *ahead);
/* Moves the caller, a child of the process that called ahead_start(), there, in this order. Waits for the helper. */
int ahead_enter_mounts(int pidfd, int done, struct error *err);
int ahead_enter_net(int pidfd, int done, struct error *err);
/* The helper goes, taken or not. */
void ahead_end(struct ahead *ahead);
