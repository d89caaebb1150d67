/*
 * Who has which range of user ids. Ranges are slots of NATIVE_UID_RANGE ids from UID_RANGE_FIRST up, far above the ids
 * of people and of subuid files. All instances of holt on the machine share the directory, so their ranges are
 * disjoint.
 *
 * Two kinds of owners:
 *   - a process (`holt run`): holds a slot by a lock that the kernel takes away when the process ends, however it ends;
 *   - a record (`holt node`): a file named after the slot, which outlives the process with the sandbox.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define UID_RANGE_FIRST 0x10000000u
#define UID_RANGE_DIR "/run/holt/uid"
#define UID_RANGE_PROCESS_SLOTS 2048u /* the first ones are for processes, the rest for records */

/* Takes a slot for the life of the process. Returns the descriptor that holds it; *ret_slot counts from 0. */
int uid_range_hold(const char *dir, uint32_t *ret_base, uint32_t *ret_slot, struct error *err);

/* Takes a slot in the name of owner (a line of text); it stays taken until uid_range_release(). */
int uid_range_claim(const char *dir, const char *owner, uint32_t *ret_base, struct error *err);
/* Not an error when it is free already. */
int uid_range_release(const char *dir, uint32_t base, struct error *err);
/* Calls fn for every claimed range. For clean-up after a crash. */
int uid_range_list(const char *dir, void (*fn)(void *arg, uint32_t base, const char *owner), void *arg,
                   struct error *err);
