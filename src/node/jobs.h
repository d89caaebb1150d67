/*
 * Slow work off the event loop: removing trees, waiting for cgroups to empty. A few threads take functions from a
 * queue; what comes after runs on the loop again. The function may touch nothing but what it was given.
 */
#pragma once

#include "base/error.h"

struct event_base;
struct jobs;

struct jobs *jobs_new(struct event_base *base, struct error *err);
/* work(arg) on a thread, then done(arg) on the loop; done may be NULL. */
void jobs_run(struct jobs *j, void (*work)(void *arg), void (*done)(void *arg), void *arg);
/* Waits for what is running; what waits is dropped without done. */
void jobs_free(struct jobs *j);
