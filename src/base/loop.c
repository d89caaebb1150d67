#include "base/loop.h"

#include <event2/event.h>
#include <stddef.h>

/* A portion. */
#define CALLBACKS 4
#define MICROSECONDS 50

struct event_base *loop_new(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;
    const struct timeval portion = {.tv_usec = MICROSECONDS};

    if (config && event_config_set_max_dispatch_interval(config, &portion, CALLBACKS, LOOP_LOW) == 0)
        base = event_base_new_with_config(config);
    if (config)
        event_config_free(config);
    if (base && event_base_priority_init(base, LOOP_LOW + 1) < 0) {
        event_base_free(base);
        return NULL;
    }
    return base;
}
