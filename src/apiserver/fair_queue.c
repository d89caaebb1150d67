#include "apiserver/fair_queue.h"

#include "base/hashmap.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/timeutil.h"

#include <event2/event.h>

/* Of one turn of the loop: whichever is reached first. */
#define TURN_ITEMS 16
#define TURN_NS (50 * 1000)
/* A user may take this part of a processor for ever, and so much at once, without being heavy. */
#define SHARE 20 /* a twentieth */
#define BURST_NS (5 * 1000 * 1000)
/* Users with nothing waiting and nothing on their account are forgotten when there are more than this. */
#define USERS_KEPT 64

struct fair_user {
    char *name;
    struct fair_item *first, **last;
    struct fair_user *next;  /* in its rotation, where it is while something of it waits */
    int64_t spent_ns, at_ns; /* the account, as it was at that time */
};

struct rotation {
    struct fair_user *first, **last;
};

struct fair_queue {
    void (*run)(void *arg, struct fair_item *item);
    void *arg;
    struct event *now[2], *later[2]; /* by priority: high while light users wait */
    struct hashmap users;            /* name → struct fair_user */
    size_t forget_at;
    struct rotation light, heavy;
    size_t length;
};

static int64_t account(struct fair_user *u, int64_t now)
{
    u->spent_ns = MAX(u->spent_ns - (now - u->at_ns) / SHARE, (int64_t)0);
    u->at_ns = now;
    return u->spent_ns;
}

static bool is_heavy(struct fair_user *u, int64_t now)
{
    return account(u, now) > BURST_NS;
}

static void rotate_in(struct fair_queue *q, struct fair_user *u, int64_t now)
{
    struct rotation *r = is_heavy(u, now) ? &q->heavy : &q->light;

    u->next = NULL;
    if (!r->first)
        r->last = &r->first;
    *r->last = u;
    r->last = &u->next;
}

/* Returns the time after it. */
static int64_t run_one(struct fair_queue *q, int64_t now)
{
    struct rotation *r = q->light.first ? &q->light : &q->heavy;
    struct fair_user *u = r->first;
    struct fair_item *item = u->first;

    q->length--;
    r->first = u->next;
    u->first = item->next;
    if (u->first)
        rotate_in(q, u, now);
    q->run(q->arg, item); /* may push */
    int64_t after = time_monotonic_ns();
    u->spent_ns += after - now;
    return after;
}

static void free_user(void *arg)
{
    struct fair_user *u = arg;

    free(u->name);
    free(u);
}

static void forget_users(struct fair_queue *q, int64_t now)
{
    for (struct hashmap_iter it = {0}; hashmap_next(&q->users, &it);) {
        struct fair_user *u = it.value;
        if (u->first || account(u, now) > 0)
            continue;
        (void)hashmap_remove(&q->users, u->name);
        free_user(u);
    }
    q->forget_at = MAX(q->users.count * 2, (size_t)USERS_KEPT);
}

static int priority(const struct fair_queue *q)
{
    return q->light.first ? LOOP_HIGH : LOOP_LOW;
}

static void on_turn(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct fair_queue *q = arg;
    int64_t now = time_monotonic_ns(), end = now + TURN_NS;

    for (int i = 0; q->length && i < TURN_ITEMS && now < end; i++)
        now = run_one(q, now);
    if (q->users.count > q->forget_at)
        forget_users(q, now);
    if (q->length) /* when the loop has looked at its sockets */
        (void)evtimer_add(q->later[priority(q)], &(struct timeval){0});
}

struct fair_queue *fair_queue_new(struct event_base *base, void (*run)(void *arg, struct fair_item *item), void *arg)
{
    struct fair_queue *q = xcalloc(1, sizeof(*q));

    q->run = run;
    q->arg = arg;
    q->forget_at = USERS_KEPT;
    for (int p = LOOP_HIGH; p <= LOOP_LOW; p++) {
        q->now[p] = event_new(base, -1, 0, on_turn, q);
        q->later[p] = evtimer_new(base, on_turn, q);
        if (!q->now[p] || !q->later[p])
            abort();                            /* out of memory */
        (void)event_priority_set(q->now[p], p); /* refused by a loop that has but one: then all is the same */
        (void)event_priority_set(q->later[p], p);
    }
    return q;
}

void fair_queue_free(struct fair_queue *q)
{
    if (!q)
        return;
    while (q->length)
        (void)run_one(q, time_monotonic_ns());
    for (int p = LOOP_HIGH; p <= LOOP_LOW; p++) {
        event_free(q->now[p]);
        event_free(q->later[p]);
    }
    hashmap_free(&q->users, free_user);
    free(q);
}

bool fair_queue_push(struct fair_queue *q, const char *user, struct fair_item *item)
{
    struct fair_user *u = hashmap_get(&q->users, user);
    int64_t now = time_monotonic_ns();

    if (!u) {
        u = xcalloc(1, sizeof(*u));
        u->name = xstrdup(user);
        u->at_ns = now;
        (void)hashmap_put(&q->users, u->name, u);
    }
    q->length++;
    item->next = NULL;
    if (!u->first) {
        u->last = &u->first;
        rotate_in(q, u, now);
    }
    *u->last = item;
    u->last = &item->next;
    int p = priority(q);
    if (!evtimer_pending(q->later[p], NULL))
        event_active(q->now[p], 0, 0);
    return is_heavy(u, now);
}

size_t fair_queue_length(const struct fair_queue *q)
{
    return q->length;
}
