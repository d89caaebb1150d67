#include "apiserver/fair_queue.h"

#include "base/hashmap.h"
#include "base/memory.h"
#include "base/timeutil.h"

#include <event2/event.h>
#include <stdbool.h>

/* Of one turn of the loop: whichever is reached first. */
#define TURN_ITEMS 16
#define TURN_NS (200 * 1000)

struct fair_user {
    char *name;
    struct fair_item *first, **last;
    struct fair_user *next; /* in the rotation */
};

struct fair_queue {
    void (*run)(void *arg, struct fair_item *item);
    void *arg;
    struct event *now, *later;
    struct hashmap users; /* name → struct fair_user with something waiting */
    struct fair_user *first, **last;
    size_t length;
};

static void rotate_in(struct fair_queue *q, struct fair_user *u)
{
    u->next = NULL;
    if (!q->first)
        q->last = &q->first;
    *q->last = u;
    q->last = &u->next;
}

static void run_one(struct fair_queue *q)
{
    struct fair_user *u = q->first;
    struct fair_item *item = u->first;

    q->length--;
    q->first = u->next;
    u->first = item->next;
    if (u->first) {
        rotate_in(q, u);
    } else {
        (void)hashmap_remove(&q->users, u->name);
        free(u->name);
        free(u);
    }
    q->run(q->arg, item);
}

static void on_turn(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct fair_queue *q = arg;
    int64_t end = time_monotonic_ns() + TURN_NS;

    for (int i = 0; q->first && i < TURN_ITEMS && (i == 0 || time_monotonic_ns() < end); i++)
        run_one(q);
    if (q->first) /* when the loop has looked at its sockets */
        (void)evtimer_add(q->later, &(struct timeval){0});
}

struct fair_queue *fair_queue_new(struct event_base *base, void (*run)(void *arg, struct fair_item *item), void *arg)
{
    struct fair_queue *q = xcalloc(1, sizeof(*q));

    q->run = run;
    q->arg = arg;
    q->now = event_new(base, -1, 0, on_turn, q);
    q->later = evtimer_new(base, on_turn, q);
    if (!q->now || !q->later)
        abort(); /* out of memory */
    return q;
}

void fair_queue_free(struct fair_queue *q)
{
    if (!q)
        return;
    while (q->first)
        run_one(q);
    event_free(q->now);
    event_free(q->later);
    hashmap_free(&q->users, NULL);
    free(q);
}

void fair_queue_push(struct fair_queue *q, const char *user, struct fair_item *item)
{
    struct fair_user *u = hashmap_get(&q->users, user);

    if (!u) {
        u = xcalloc(1, sizeof(*u));
        u->name = xstrdup(user);
        u->last = &u->first;
        (void)hashmap_put(&q->users, u->name, u);
        rotate_in(q, u);
    }
    q->length++;
    item->next = NULL;
    *u->last = item;
    u->last = &item->next;
    if (!evtimer_pending(q->later, NULL))
        event_active(q->now, 0, 0);
}

size_t fair_queue_length(const struct fair_queue *q)
{
    return q->length;
}
