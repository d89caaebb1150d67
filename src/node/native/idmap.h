/*
 * The user namespace of a range of ids. Inside, ids 0..65535 are base..base+65535 outside; the same descriptor serves
 * to map the owners of mounts and to be entered by the sandbox.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

/* Returns a descriptor owned by the caller. */
int idmap_open(uint32_t base, struct error *err);
/*
 * For a volume that belongs to somebody: owner, outside, is root inside and the other way round for what is created;
 * ids 1..65535 but owner are as with idmap_open(); id 0 of the volume is nobody, so that nothing inside can make a file
 * of the host's root. owner 0 = idmap_open().
 */
int idmap_open_owner(uint32_t base, uint32_t owner, struct error *err);
/* As idmap_open, remembering the last IDMAP_CACHE_SIZE ranges; the descriptor is borrowed until the next call. */
#define IDMAP_CACHE_SIZE 64
int idmap_get(uint32_t base, struct error *err);
