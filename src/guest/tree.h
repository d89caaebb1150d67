/*
 * Which processes of the sandbox belong to a started one.
 *
 * Parent ids are not enough: a daemon that forked twice is a child of pid 1 like every other. So each started process
 * carries a mark that its descendants inherit whatever they do to their session, their user and their environment: its
 * limit of RLIMIT_LOCKS, which the kernel has not enforced since Linux 2.4, hands on at fork and exec, and shows to
 * everyone in /proc/PID/limits. A process may lower it, so this finds ordinary programs, not an adversary; what bounds
 * an adversary is the end of the sandbox. Where the mark cannot be set or read, session and parents decide.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tree {
    pid_t root;    /* also its session, and its process group */
    uint64_t mark; /* 0 = none: all descendants of root, without root itself */
};

/* The mark of the serial-th process of this guest. */
uint64_t tree_mark(uint32_t serial);
/* For the child: carry it. */
void tree_mark_self(uint64_t mark);

/* Sends sig to every living member (of the process group of root only, if so asked); returns how many there are. */
int tree_signal(const struct tree *t, int sig, bool group_only);
