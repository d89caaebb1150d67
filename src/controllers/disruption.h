/*
 * Keeps the status of PodDisruptionBudgets (policy/v1): how many of the Pods they cover are healthy, and how many may
 * be taken away. Who evicts (the API server) takes one from disruptionsAllowed and notes the Pod in disruptedPods; it
 * is struck out here when the Pod goes, or when it has not gone after two minutes.
 */
#pragma once

#include "kube/runner.h"

extern const struct controller disruption_controller;

/* The status of a budget that covers these Pods (an array of all Pods its selector matches); the caller owns it.
 * *ret_again_ns: when it changes by itself, 0 = never. */
struct json *disruption_status(const struct json *budget, const struct json *pods, int64_t now_ns,
                               int64_t *ret_again_ns);
