/*
 * The worker of one Pod: carries out what the state machine decides, keeps the state over restarts of the node, and
 * reports the status. Everything runs on the node's loop.
 */
#pragma once

#include "node/node.h"

struct pod;

/* The Pod as the API has it now; the first call for a uid makes the worker and takes up what the run directory has. */
void pod_update(struct node *n, struct json *object);
/* The object is gone. */
void pod_gone(struct node *n, const char *uid);
/* Images or claims changed: those that wait for them look again. */
void pods_retry(struct node *n);
/* For node_free: forgets the worker, leaves the sandbox. */
void pod_detach(struct pod *p);
/* Ends it as if it was deleted, without deleting the object. */
void pod_stop_for_shutdown(struct pod *p);
/* Whether it keeps to its limits on disk (pod_storage.c). */
void pod_check_storage(struct pod *p);
bool pod_has_sandbox(const struct pod *p);
