/* The network of a sandbox: a namespace with `lo` up and nothing else. */
#pragma once

#include "base/error.h"

#include <stdint.h>

/* A new network namespace, ready for a sandbox; the descriptor is owned by the caller. */
int netns_open(struct error *err);

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
