/* The guest's event loop: descriptors watched by epoll, one-shot timers. One thread; nothing here blocks but loop_turn.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct watch {
    int fd; /* -1 = none; owned once watch_open succeeded */
    uint32_t events;
    void (*ready)(struct watch *w, uint32_t events);
};

/* A watch that is not open yet; closing it is allowed. */
#define WATCH_NONE                                                                                                     \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }

bool loop_init(void);
/* Waits for events or the next timer, at most until every ready one was served. */
void loop_turn(void);

/* Does not take fd when it fails. events 0 waits for nothing, not even for the end. */
bool watch_open(struct watch *w, int fd, uint32_t events, void (*ready)(struct watch *w, uint32_t events));
void watch_events(struct watch *w, uint32_t events);
void watch_close(struct watch *w);

struct timer {
    int64_t at_ms; /* 0 = not set */
    void (*fire)(struct timer *t);
    struct timer *next;
};

/* Sets or moves it. delay_ms >= 0. */
void timer_set(struct timer *t, int64_t delay_ms, void (*fire)(struct timer *t));
void timer_stop(struct timer *t);
static inline bool timer_is_set(const struct timer *t)
{
    return t->at_ms != 0;
}

int64_t now_ms(void); /* monotonic, > 0 */
