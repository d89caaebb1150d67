/*
 * Garbage collection: dependents follow their owners (background), hold them back (foreground), or are set free
 * (orphan). It keeps a graph of uids, fed by watches of everything that is stored; it acts on events and never polls.
 *
 * An owner is what its uid says; one of a kind that is not served here counts as alive, one in another namespace
 * as absent.
 */
#pragma once

#include "apiserver/server_internal.h"

struct garbage_collector *gc_new(struct apiserver *s);
void gc_free(struct garbage_collector *gc);
/* Watches resources that are new in the table. */
void gc_track_resources(struct garbage_collector *gc);
