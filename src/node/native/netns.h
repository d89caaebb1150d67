/* The network of a sandbox: a namespace with `lo` up and nothing else. */
#pragma once

#include "base/error.h"

#include <stdint.h>

/* A new network namespace, ready for a sandbox; the descriptor is owned by the caller. */
int netns_open(struct error *err);

/*
 * The same beside other work: it costs as much as all the rest of a start. netns_ahead_start() returns at once,
 * netns_ahead_take() waits and returns the descriptor, which is owned by the caller. When it could not be started,
 * take does all the work.
 */
struct netns_ahead {
    int pidfd; /* of the helper; -1 = none */
    volatile int fd;
};
void netns_ahead_start(struct netns_ahead *ahead);
int netns_ahead_take(struct netns_ahead *ahead, struct error *err);

/*
 * Moves the caller to a new namespace with `lo` up and returns a descriptor of it, without a procfs and so without
 * netns_sysctls().
 */
int netns_next(struct error *err);

/* Brings `lo` up in the calling process's network namespace. */
int netns_lo_up(struct error *err);

/*
 * Lets every user of the namespace bind ports below 1024 and send pings: the payload holds no capability over its
 * network namespace. proc: the root of a procfs; the caller is in the namespace.
 */
int netns_sysctls(int proc, struct error *err);
