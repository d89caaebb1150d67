/* Services: defaults, and cluster addresses, which are taken from 10.96.0.0/16 and given back with the service. */
#include "apiserver/service_addresses.h"
#include "apiserver/strategy.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <arpa/inet.h>

#define RANGE_PREFIX "10.96."
#define RANGE_FIRST 2u /* .0.0 is the network, .0.1 the API server's by custom */
#define RANGE_LAST 65534u
#define ADDRESS_MAX 16

struct service_addresses {
    struct hashmap used; /* address → itself */
};

struct service_addresses *service_addresses_new(struct store *store)
{
    struct service_addresses *a = xcalloc(1, sizeof(*a));
    size_t count;
    struct stored **services = store_list(store, "/services", NULL, &count);

    for (size_t i = 0; i < count; i++)
        service_addresses_change(a, NULL, services[i]->value);
    store_list_free(services, count);
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

void service_addresses_change(struct service_addresses *a, const struct json *old, const struct json *new)
{
    if (old && address_of(old))
        (void)hashmap_remove(&a->used, address_of(old));
    if (new &&address_of(new))
        (void)hashmap_put(&a->used, address_of(new), a);
}

static bool choose(struct service_addresses *a, char out[ADDRESS_MAX])
{
    uint16_t start;

    random_bytes(&start, sizeof(start));
    for (unsigned i = 0; i <= RANGE_LAST; i++) {
        unsigned n = (start + i) & 0xffff;
        if (n < RANGE_FIRST || n > RANGE_LAST)
            continue;
        (void)snprintf(out, ADDRESS_MAX, RANGE_PREFIX "%u.%u", n >> 8, n & 0xff);
        if (!hashmap_get(&a->used, out))
            return true;
    }
    return false;
}

static void set_default(struct json *spec, const char *key, const char *value)
{
    if (!json_str(json_get(spec, key)))
        json_set_str(spec, key, value);
}

static void default_ports(struct json *spec)
{
    if (!json_is(json_get(spec, "ports"), JSON_ARRAY))
        return;
    struct json *ports = json_own(spec, "ports");
    for (size_t i = 0; i < json_size(ports); i++)
        if (json_is(json_item(ports, i), JSON_OBJECT) && !json_get(json_item(ports, i), "targetPort"))
            json_set(json_own_item(ports, i), "targetPort", json_ref(json_get(json_item(ports, i), "port")));
}

static int set_address(struct api_call *c, struct json *spec, const struct json *old)
{
    const char *wanted = json_str_or(json_get(spec, "clusterIP"), "");
    char chosen[ADDRESS_MAX];

    if (!*wanted && json_size(json_get(spec, "clusterIPs")) > 0)
        wanted = json_str_or(json_item(json_get(spec, "clusterIPs"), 0), "");
    if (!*wanted)
        wanted = json_str_or(json_at(old, "spec", "clusterIP", NULL), "");
    if (!*wanted) {
        if (!choose(c->server->addresses, chosen))
            return api_fail(c, status_internal("failed to allocate a serviceIP: range is full"));
        wanted = chosen;
    }
    _cleanup_free_ char *copy = xstrdup(wanted);
    json_set_str(spec, "clusterIP", copy);
    json_set(spec, "clusterIPs", json_build("[s]", copy));
    if (!json_has(spec, "ipFamilies"))
        json_set(spec, "ipFamilies", json_build("[s]", "IPv4"));
    set_default(spec, "ipFamilyPolicy", "SingleStack");
    set_default(spec, "internalTrafficPolicy", "Cluster");
    return 0;
}

static int prepare(struct api_call *c, struct json *o, const struct json *old)
{
    if (!json_is(json_get(o, "spec"), JSON_OBJECT))
        return 0; /* validation will say so */
    struct json *spec = json_own(o, "spec");
    const char *type = json_str_or(json_get(spec, "type"), "ClusterIP");
    bool external_name = streq(type, "ExternalName");

    set_default(spec, "type", "ClusterIP");
    set_default(spec, "sessionAffinity", "None");
    default_ports(spec);
    if (streq(type, "NodePort") || streq(type, "LoadBalancer"))
        set_default(spec, "externalTrafficPolicy", "Cluster");
    if (!old)
        json_set(o, "status", json_build("{s:{}}", "loadBalancer"));
    return external_name ? 0 : set_address(c, spec, old);
}

/* A new address must be one that could have been chosen. */
static void check_address(const char *ip, struct field_errors *errors)
{
    struct in_addr a;

    if (inet_pton(AF_INET, ip, &a) != 1)
        field_invalid_str(errors, "spec.clusterIPs[0]", ip,
                          "must be empty, 'None', or a valid IPv4 address, e.g. 10.96.9.8");
    else if (!str_skip_prefix(ip, RANGE_PREFIX) || (ntohl(a.s_addr) & 0xffff) < RANGE_FIRST ||
             (ntohl(a.s_addr) & 0xffff) > RANGE_LAST)
        field_invalid_str(errors, "spec.clusterIPs", ip,
                          "failed to allocate IP %s: the provided IP is not in the valid range. The range of valid IPs "
                          "is 10.96.0.0/16",
                          ip);
}

static void validate(const struct api_call *c, const struct json *o, const struct json *old,
                     struct field_errors *errors)
{
    const struct json *spec = json_get(o, "spec"), *ports = json_get(spec, "ports");
    const char *ip = json_str_or(json_get(spec, "clusterIP"), ""), *type = json_str_or(json_get(spec, "type"), "");
    const char *old_ip = json_str_or(json_at(old, "spec", "clusterIP", NULL), "");
    struct hashmap seen = {0};

    if (json_size(ports) == 0 && !streq(ip, "None") && !streq(type, "ExternalName"))
        field_required(errors, "spec.ports", NULL);
    if (streq(type, "ExternalName") && !*json_str_or(json_get(spec, "externalName"), ""))
        field_required(errors, "spec.externalName", NULL);
    if (old && *old_ip && !streq(ip, old_ip) && !streq(type, "ExternalName"))
        field_invalid_str(errors, "spec.clusterIP", ip, "field is immutable");
    if (!old && address_of(o) && hashmap_get(&c->server->addresses->used, ip))
        field_invalid_str(errors, "spec.clusterIPs", ip, "failed to allocate IP %s: provided IP is already allocated",
                          ip);
    if (!old && address_of(o))
        check_address(ip, errors);
    for (size_t i = 0; i < json_size(ports); i++) {
        const struct json *p = json_item(ports, i);
        int64_t number = json_int_or(json_get(p, "port"), 0);
        _cleanup_free_ char *port_field = xasprintf("spec.ports[%zu].port", i);
        _cleanup_free_ char *name_field = xasprintf("spec.ports[%zu].name", i);
        const char *name = json_str_or(json_get(p, "name"), "");
        if (number < 1 || number > 65535)
            field_invalid(errors, port_field, json_get(p, "port"), "must be between 1 and 65535, inclusive");
        if (!*name && json_size(ports) > 1)
            field_required(errors, name_field, NULL);
        else if (*name && hashmap_put(&seen, name, &seen))
            field_duplicate_str(errors, name_field, name);
    }
    hashmap_free(&seen, NULL);
}

static void after(struct apiserver *s, const struct json *old, const struct json *new)
{
    service_addresses_change(s->addresses, old, new);
}

const struct strategy strategy_services = {
    .group = "",
    .plural = "services",
    .check_name = name_check_dns1035_label,
    .prepare = prepare,
    .validate = validate,
    .after = after,
};
