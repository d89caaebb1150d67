/*
 * What a process of holt tells whoever started it, on a descriptor: "ready" once, and with --alive a dot every
 * READY_BEAT_S seconds from then on, by which a supervisor sees that its event loop still turns.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define READY_BEAT_S 5

struct event;
struct event_base;

struct ready {
    int64_t fd; /* 0 = nobody wants to know */
    bool alive;
    struct event *beat;
};

/* For the table of options of a command. */
#define READY_OPTIONS(r)                                                                                               \
    {"ready-fd", 0, OPTION_INT, &(r)->fd, "N", "Write \"ready\" to this descriptor when ready"},                       \
    {                                                                                                                  \
        "alive", 0, OPTION_FLAG, &(r)->alive, NULL, "Keep that descriptor, and write a dot to it every five seconds"   \
    }

void ready_tell(struct event_base *base, struct ready *r);
/* Before the event base is freed. */
void ready_end(struct ready *r);
