/*
 * The API client's transport into the API server of the same process: no HTTP, no copies. Objects are the store's own
 * values. A request takes effect within the call, and its callback runs later in the same turn of the loop; watches
 * see a change before it is on disk.
 *
 * Requests are made as a trusted part of the server: no authorisation, no field ownership.
 */
#pragma once

#include "apiserver/server.h"
#include "kube/kube.h"

/* Must be freed before the server. */
struct kube *inproc_new(struct apiserver *server);
