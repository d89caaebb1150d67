/*
 * What of a Pod can be made before there is one: its directories with the upper layers in them, the guest's socket, a
 * range of user ids, a network namespace. Creating directories is the slowest part of a start, so the node keeps a few
 * of these ready; a start without one makes the same by itself.
 *
 *     D/blank/<hex>/  becomes D/pods/<uid>/      R/blank/<hex>/  becomes R/pods/<uid>/
 *
 * Made by jobs; taken and returned on the loop. None outlives the node: what a crash leaves is removed by the sweep.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct node;
struct blanks;

struct blank {
    int socket;        /* listening at R/pods/<uid>/guest.sock; owned */
    int net_ns;        /* owned; 0 = none was made */
    uint32_t uid_base; /* claimed; the Pod's from now on */
};

struct blanks *blanks_new(struct node *n);
void blanks_free(struct blanks *b);
/* Gives one to a Pod; false when none is ready or one of the directories is there already. b may be NULL, here and
 * below. */
bool blanks_take(struct blanks *b, const char *pod_data, const char *pod_run, struct blank *ret);
/* Whether a range of ids belongs to a blank that waits. */
bool blanks_hold(const struct blanks *b, uint32_t uid_base);

/* For blank.c and for starts without a blank: the files of a Pod's directories that do not depend on the Pod. */
int blank_make_data(const char *dir, struct error *err);
/* gid: may connect to the guest; (gid_t)-1 = root alone. */
int blank_make_run(const char *dir, gid_t gid, struct error *err);
int blank_make_socket(const char *run_dir, gid_t gid, struct error *err);
/* Names below D/pods/<uid> and R/pods/<uid>. */
#define POD_ROOT "root"               /* data: upper and work directories of the root */
#define POD_MESSAGE "termination-log" /* data: the container's last words */
#define POD_BEGUN "begun"             /* run: the sandbox that was told to run its process */
#define POD_LOWER "lower"             /* run: a lower above the image, with the node's files of /etc */
