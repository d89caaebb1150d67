/*
 * The gateway: front doors to sandboxes, translated to the guest protocol. Today those of the Kubernetes API: exec,
 * attach and log of Pods (streams.h); each is a file of its own.
 *
 * Control can die at any time: processes in sandboxes do not notice. Only a client that goes away ends what it started.
 */
#pragma once

#include "apiserver/streams.h"
#include "kube/informer.h"

struct event_base;
struct gateway;

/* pods: the cache that tells when a container has ended; borrowed. The directories are those of `holt node`. */
struct gateway *gateway_new(struct event_base *base, struct informer *pods, const char *data_dir, const char *run_dir);
void gateway_free(struct gateway *g);
/* To be handed to the API server. */
const struct stream_backend *gateway_streams(struct gateway *g);
