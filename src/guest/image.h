/* The host's side of src/guest: holt-guest as part of this program. */
#pragma once

#include "base/error.h"

#include <stddef.h>

extern const unsigned char holt_guest_image[]; /* a static executable */
extern const size_t holt_guest_image_size;

/*
 * A new memfd with the guest, to be executed by fexecve(3) or execveat(2): close-on-exec, and sealed, so that nobody
 * can change what runs in other sandboxes by way of /proc/PID/exe. One serves for all sandboxes: they share its pages.
 */
int guest_image_memfd(struct error *err);
