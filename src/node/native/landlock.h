/*
 * The second wall around the file system, for the day when a hole is found in the mount or capability rules.
 * Confined processes make no device nodes, use no device outside /dev, change no mounts, trace and signal nothing
 * outside the sandbox, connect to no abstract socket of another, and write to a read-only root nowhere but
 * below the writable mounts.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* The kernel's ABI version; 0 = not there. */
int landlock_abi(void);

/*
 * Confines the calling process. root: the sandbox's root; dev: its /dev; writable: directories (and files) that may be
 * written although read_only is set. Needs no_new_privs or CAP_SYS_ADMIN.
 */
int landlock_confine(int root, int dev, bool read_only, const int *writable, size_t writable_count, struct error *err);
