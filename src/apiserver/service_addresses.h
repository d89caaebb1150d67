/*
 * Cluster addresses (of 10.96.0.0/16) and node ports (30000-32767) in use by services. They are found again from the
 * services when the server starts.
 */
#pragma once

#include "apiserver/store.h"

#define SERVICE_RANGE "10.96.0.0/16"
/* The API server's, by custom the first of the range; never chosen. */
#define SERVICE_API_ADDRESS "10.96.0.1"
#define SERVICE_ADDRESS_SIZE 16
#define NODE_PORT_FIRST 30000
#define NODE_PORT_LAST 32767

struct service_addresses;
struct service_addresses *service_addresses_new(struct store *store);
void service_addresses_free(struct service_addresses *a);
/* Counts anew: the store has taken writes back. */
void service_addresses_recount(struct service_addresses *a, struct store *store);
/* A service has changed; old or new may be NULL. */
void service_addresses_change(struct service_addresses *a, const struct json *old, const struct json *new);

/* A free one, without taking it: that is service_addresses_change()'s business. false: all are in use. */
bool service_address_choose(const struct service_addresses *a, char out[SERVICE_ADDRESS_SIZE]);
bool service_address_used(const struct service_addresses *a, const char *ip);
/* Whether a service may have it. */
bool service_address_in_range(const char *ip);

/* The same; taken are the node ports a service is about to take, an array of numbers. 0: all are in use. */
int service_node_port_choose(const struct service_addresses *a, const struct json *taken);
bool service_node_port_used(const struct service_addresses *a, int64_t port);
