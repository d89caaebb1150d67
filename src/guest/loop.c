#include "guest/loop.h"

#include <time.h>
#include <unistd.h>

#define EVENTS_PER_TURN 32

static int epoll_fd = -1;
static struct timer *timers;
static struct epoll_event events[EVENTS_PER_TURN];
static int event_count;

bool loop_init(void)
{
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return epoll_fd >= 0;
}

int64_t now_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts); /* cannot fail for this clock */
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + 1;
}

bool watch_open(struct watch *w, int fd, uint32_t wanted, void (*ready)(struct watch *w, uint32_t events))
{
    *w = (struct watch){.fd = fd, .ready = ready};
    watch_events(w, wanted);
    if (w->events == wanted)
        return true;
    w->fd = -1;
    return false;
}

void watch_events(struct watch *w, uint32_t wanted)
{
    if (w->fd < 0 || w->events == wanted)
        return;
    struct epoll_event e = {.events = wanted, .data.ptr = w};
    int op = wanted == 0 ? EPOLL_CTL_DEL : w->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(epoll_fd, op, w->fd, &e) == 0)
        w->events = wanted;
}

void watch_close(struct watch *w)
{
    if (w->fd < 0)
        return;
    watch_events(w, 0);
    (void)close(w->fd); /* nothing of a pipe or socket is lost by an error here */
    w->fd = -1;
    /* It may be among the events of this turn that are still to be served, and its memory may go away. */
    for (int i = 0; i < event_count; i++) {
        if (events[i].data.ptr == w)
            events[i].data.ptr = NULL;
    }
}

void timer_set(struct timer *t, int64_t delay_ms, void (*fire)(struct timer *t))
{
    timer_stop(t);
    t->at_ms = now_ms() + delay_ms;
    t->fire = fire;
    t->next = timers;
    timers = t;
}

void timer_stop(struct timer *t)
{
    if (!timer_is_set(t))
        return;
    struct timer **p = &timers;
    while (*p != t)
        p = &(*p)->next;
    *p = t->next;
    t->at_ms = 0;
}

/* Milliseconds until the first timer, -1 without one. */
static int next_timeout(void)
{
    int64_t first = 0;
    for (struct timer *t = timers; t != NULL; t = t->next) {
        if (first == 0 || t->at_ms < first)
            first = t->at_ms;
    }
    if (first == 0)
        return -1;
    int64_t left = first - now_ms();
    return left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
}

static struct timer *first_due(int64_t now)
{
    for (struct timer *t = timers; t != NULL; t = t->next) {
        if (t->at_ms <= now)
            return t;
    }
    return NULL;
}

void loop_turn(void)
{
    event_count = epoll_wait(epoll_fd, events, EVENTS_PER_TURN, next_timeout());
    for (int i = 0; i < event_count; i++) {
        struct watch *w = events[i].data.ptr;
        if (w != NULL)
            w->ready(w, events[i].events);
    }
    event_count = 0;
    if (timers == NULL)
        return;
    int64_t now = now_ms();
    for (struct timer *t; (t = first_due(now)) != NULL;) {
        timer_stop(t);
        t->fire(t);
    }
}
