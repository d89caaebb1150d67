/* exec, attach, log, port-forward: checks before the stream backend takes over. */
#pragma once

#include "apiserver/exchange.h"

bool pod_streams_wants(const struct api_call *c);
/* Takes x. */
void pod_streams_handle(struct exchange *x);
