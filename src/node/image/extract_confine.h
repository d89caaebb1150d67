/*
 * Takes from the unpacking helper all it does not need: capabilities but those that set owners and modes, new
 * privileges, every path but the target directory (Landlock), every system call but those of writing files (seccomp),
 * memory, CPU time and descriptors without end (rlimits). What is refused afterwards fails with EPERM or EACCES.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

/*
 * target_fd -1: no path at all stays within reach. A kernel without Landlock is accepted: what unpacks uses the calls
 * that remain below target_fd only.
 */
int extract_confine(int target_fd, uint64_t max_bytes, struct error *err);
