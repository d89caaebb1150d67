/* proxy of Pods and Services: which port of which Pod is meant, before the stream backend passes the request on. */
#pragma once

#include "apiserver/exchange.h"

bool proxy_wants(const struct api_call *c);
/* Takes x. */
void proxy_handle(struct exchange *x);
