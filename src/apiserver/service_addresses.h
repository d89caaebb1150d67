/* Cluster addresses in use by services. They are found again from the services when the server starts. */
#pragma once

#include "apiserver/store.h"

struct service_addresses;
struct service_addresses *service_addresses_new(struct store *store);
void service_addresses_free(struct service_addresses *a);
/* A service has changed; old or new may be NULL. */
void service_addresses_change(struct service_addresses *a, const struct json *old, const struct json *new);
