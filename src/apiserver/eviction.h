/* pods/eviction: a deletion that asks the disruption budgets first. */
#pragma once

#include "apiserver/server_internal.h"

void eviction_execute(struct api_call *c);
