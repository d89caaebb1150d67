/*
 * Requests that wait for their turn, fairly: each turn of the loop takes one of each user in rotation, and no more than
 * is worth a fraction of a millisecond. A user with a thousand connections delays the others by no more than a user
 * with one; and since a client sends its next request when it has an answer, what the loop reads and writes on one turn
 * is bounded along with it.
 *
 * The time a user's requests take is on an account, which time itself pays back. Who has taken much is heavy, and comes
 * behind the others.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct fair_queue;

/* Part of what waits. */
struct fair_item {
    struct fair_item *next;
};

struct fair_queue *fair_queue_new(struct event_base *base, void (*run)(void *arg, struct fair_item *item), void *arg);
/* Runs everything that waits, then frees. NULL is fine. */
void fair_queue_free(struct fair_queue *q);
/* run is called with it on this turn of the loop or a later one, never from here. Returns whether the user is heavy. */
bool fair_queue_push(struct fair_queue *q, const char *user, struct fair_item *item);
/* How many wait. */
size_t fair_queue_length(const struct fair_queue *q);
