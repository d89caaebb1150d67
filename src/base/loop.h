/*
 * An event loop with two priorities. What is of low priority, as all events are that are not told otherwise, is done in
 * small portions, between which the loop looks whether something of high priority has come up.
 */
#pragma once

#include "base/macros.h"

struct event_base;

#define LOOP_HIGH 0 /* also the only priority of other loops */
#define LOOP_LOW 1

/* NULL: out of memory. event_base_free() it. */
struct event_base *loop_new(void);
