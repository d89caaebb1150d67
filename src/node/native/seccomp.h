/*
 * The system calls a payload may make: an allow-list, compiled to a classic BPF program that is a search tree over
 * ranges of call numbers, so that installing it is cheap (about 50 us) and running it costs a few comparisons at most.
 *
 * What is not listed answers ENOSYS, as a kernel without the call would, so that programs fall back; calls that exist
 * for administration answer EPERM. A foreign ABI (int 0x80, that is AUDIT_ARCH other than the native one) kills the
 * process; x32 numbers answer ENOSYS. Some calls are allowed by their arguments; see the RULE_ actions in seccomp.c.
 */
#pragma once

#include "base/error.h"

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#define SECCOMP_PROGRAM_MAX 1024

/* Writes the program and returns its length in instructions (at most SECCOMP_PROGRAM_MAX). */
size_t seccomp_compile(struct sock_filter program[SECCOMP_PROGRAM_MAX]);

/* Installs the filter in the calling process. Needs no_new_privs. */
int seccomp_install(struct error *err);
/* Whether the kernel takes filters. */
bool seccomp_supported(void);
