#include "apiserver/service_addresses.h"

#include "base/hashmap.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/strutil.h"

#include <arpa/inet.h>

#define RANGE_PREFIX "10.96."
#define RANGE_FIRST 2u /* .0.0 is the network, .0.1 the API server's */
#define RANGE_LAST 65534u
#define NODE_PORTS (NODE_PORT_LAST - NODE_PORT_FIRST + 1)

struct service_addresses {
    struct hashmap used;             /* address → itself */
    unsigned port_users[NODE_PORTS]; /* a service may have one for TCP and for UDP */
};

void service_addresses_recount(struct service_addresses *a, struct store *store)
{
    size_t count;
    struct stored **services = store_list(store, "/services", NULL, &count);

    hashmap_free(&a->used, NULL);
    *a = (struct service_addresses){0};
    for (size_t i = 0; i < count; i++)
        service_addresses_change(a, NULL, services[i]->value);
    store_list_free(services, count);
}

struct service_addresses *service_addresses_new(struct store *store)
{
    struct service_addresses *a = xcalloc(1, sizeof(*a));

    service_addresses_recount(a, store);
    return a;
}

void service_addresses_free(struct service_addresses *a)
{
    if (!a)
        return;
    hashmap_free(&a->used, NULL);
    free(a);
}

static const char *address_of(const struct json *service)
{
    const char *ip = json_str_or(json_at(service, "spec", "clusterIP", NULL), "");

    return *ip && !streq(ip, "None") ? ip : NULL;
}

static bool is_node_port(int64_t port)
{
    return port >= NODE_PORT_FIRST && port <= NODE_PORT_LAST;
}

static void count_ports(struct service_addresses *a, const struct json *service, bool add)
{
    const struct json *ports = json_at(service, "spec", "ports", NULL);

    for (size_t i = 0; i < json_size(ports); i++) {
        int64_t port = json_int_or(json_get(json_item(ports, i), "nodePort"), 0);
        if (is_node_port(port) && add)
            a->port_users[port - NODE_PORT_FIRST]++;
        else if (is_node_port(port) && a->port_users[port - NODE_PORT_FIRST] > 0)
            a->port_users[port - NODE_PORT_FIRST]--;
    }
}

void service_addresses_change(struct service_addresses *a, const struct json *old, const struct json *new)
{
    if (old && address_of(old))
        (void)hashmap_remove(&a->used, address_of(old));
    if (new &&address_of(new))
        (void)hashmap_put(&a->used, address_of(new), a);
    count_ports(a, old, false);
    count_ports(a, new, true);
}

bool service_address_choose(const struct service_addresses *a, char out[SERVICE_ADDRESS_SIZE])
{
    uint16_t start;

    random_bytes(&start, sizeof(start));
    for (unsigned i = 0; i <= RANGE_LAST; i++) {
        unsigned n = (start + i) & 0xffff;
        if (n < RANGE_FIRST || n > RANGE_LAST)
            continue;
        (void)snprintf(out, SERVICE_ADDRESS_SIZE, RANGE_PREFIX "%u.%u", n >> 8, n & 0xff);
        if (!hashmap_get(&a->used, out))
            return true;
    }
    return false;
}

bool service_address_used(const struct service_addresses *a, const char *ip)
{
    return hashmap_get(&a->used, ip) != NULL;
}

bool service_address_in_range(const char *ip)
{
    struct in_addr a;

    return inet_pton(AF_INET, ip, &a) == 1 && str_skip_prefix(ip, RANGE_PREFIX) &&
           (ntohl(a.s_addr) & 0xffff) >= RANGE_FIRST && (ntohl(a.s_addr) & 0xffff) <= RANGE_LAST;
}

static bool has_number(const struct json *array, int64_t number)
{
    for (size_t i = 0; i < json_size(array); i++)
        if (json_int_or(json_item(array, i), 0) == number)
            return true;
    return false;
}

int service_node_port_choose(const struct service_addresses *a, const struct json *taken)
{
    uint16_t start;

    random_bytes(&start, sizeof(start));
    for (int i = 0; i < NODE_PORTS; i++) {
        int port = NODE_PORT_FIRST + (start + i) % NODE_PORTS;
        if (!service_node_port_used(a, port) && !has_number(taken, port))
            return port;
    }
    return 0;
}

bool service_node_port_used(const struct service_addresses *a, int64_t port)
{
    return is_node_port(port) && a->port_users[port - NODE_PORT_FIRST] > 0;
}
