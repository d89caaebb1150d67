/* Services: what follows from their type, and the addresses and ports that go with it. */
#include "apiserver/metadata_validate.h"
#include "apiserver/service_addresses.h"
#include "apiserver/strategy.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <arpa/inet.h>

static const char *type_of(const struct json *service)
{
    return json_str_or(json_at(service, "spec", "type", NULL), "ClusterIP");
}

static bool is_external_name(const struct json *service)
{
    return streq(type_of(service), "ExternalName");
}

static const char *address_of(const struct json *service)
{
    const char *ip = json_str_or(json_at(service, "spec", "clusterIP", NULL), "");

    return *ip && !streq(ip, "None") ? ip : NULL;
}

static bool may_have_node_ports(const struct json *service)
{
    return streq(type_of(service), "NodePort") || streq(type_of(service), "LoadBalancer");
}

static bool needs_node_ports(const struct json *service)
{
    return streq(type_of(service), "NodePort") ||
           (streq(type_of(service), "LoadBalancer") &&
            json_bool_or(json_at(service, "spec", "allocateLoadBalancerNodePorts", NULL), true));
}

static int64_t node_port(const struct json *port)
{
    return json_int_or(json_get(port, "nodePort"), 0);
}

/* --- defaults --- */

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

static void drop_unchanged(struct json *spec, const struct json *old, const char *key)
{
    if (json_equal(json_get(spec, key), json_at(old, "spec", key, NULL)))
        json_remove(spec, key);
}

/* Who changes the type alone means that what the old one had brought with it goes. */
static void drop_for_type(struct json *o, const struct json *old)
{
    static const char *const addresses[] = {"clusterIPs", "clusterIP", "ipFamilies", "ipFamilyPolicy",
                                            "internalTrafficPolicy"};
    struct json *spec = json_get(o, "spec");

    if (is_external_name(o) && !is_external_name(old))
        for (size_t i = 0; i < ARRAY_LEN(addresses); i++)
            drop_unchanged(spec, old, addresses[i]);
    if (!is_external_name(o) && is_external_name(old))
        drop_unchanged(spec, old, "externalName");
    if (may_have_node_ports(o) || !may_have_node_ports(old))
        return;
    drop_unchanged(spec, old, "externalTrafficPolicy");
    drop_unchanged(spec, old, "allocateLoadBalancerNodePorts");
    if (!json_is(json_get(spec, "ports"), JSON_ARRAY))
        return;
    struct json *ports = json_own(spec, "ports");
    const struct json *old_ports = json_at(old, "spec", "ports", NULL);
    for (size_t i = 0; i < json_size(ports); i++)
        for (size_t k = 0; k < json_size(old_ports); k++)
            if (node_port(json_item(ports, i)) &&
                node_port(json_item(ports, i)) == node_port(json_item(old_ports, k))) {
                json_remove(json_own_item(ports, i), "nodePort");
                break;
            }
}

/* --- addresses and node ports --- */

static int set_address(struct api_call *c, struct json *spec, const struct json *old)
{
    const char *wanted = json_str_or(json_get(spec, "clusterIP"), "");
    char chosen[SERVICE_ADDRESS_SIZE];

    if (!*wanted && json_size(json_get(spec, "clusterIPs")) > 0)
        wanted = json_str_or(json_item(json_get(spec, "clusterIPs"), 0), "");
    if (!*wanted)
        wanted = json_str_or(json_at(old, "spec", "clusterIP", NULL), "");
    if (!*wanted) {
        if (!service_address_choose(c->server->addresses, chosen))
            return api_fail(c, status_internal("failed to allocate a serviceIP: range is full"));
        wanted = chosen;
    }
    _cleanup_free_ char *copy = xstrdup(wanted);
    json_set_str(spec, "clusterIP", copy);
    if (json_size(json_get(spec, "clusterIPs")) < 2) /* more of them are validation's business */
        json_set(spec, "clusterIPs", json_build("[s]", copy));
    if (!json_has(spec, "ipFamilies"))
        json_set(spec, "ipFamilies", json_build("[s]", "IPv4"));
    set_default(spec, "ipFamilyPolicy", "SingleStack");
    set_default(spec, "internalTrafficPolicy", "Cluster");
    return 0;
}

/* What the port of the old service had that leads the same way; 0 = nothing. */
static int64_t old_node_port(const struct json *old, const struct json *port)
{
    const struct json *ports = json_at(old, "spec", "ports", NULL);

    for (size_t i = 0; i < json_size(ports); i++)
        if (json_equal(json_get(json_item(ports, i), "port"), json_get(port, "port")) &&
            json_equal(json_get(json_item(ports, i), "protocol"), json_get(port, "protocol")))
            return node_port(json_item(ports, i));
    return 0;
}

static int set_node_ports(struct api_call *c, struct json *spec, const struct json *old)
{
    struct json *ports = json_own(spec, "ports");
    _cleanup_json_ struct json *taken = json_array_make();

    for (size_t i = 0; i < json_size(ports); i++)
        json_push(taken, json_int(node_port(json_item(ports, i))));
    for (size_t i = 0; i < json_size(ports); i++) {
        if (node_port(json_item(ports, i)) || !json_is(json_item(ports, i), JSON_OBJECT))
            continue;
        int64_t port = old_node_port(old, json_item(ports, i));
        if (!port)
            port = service_node_port_choose(c->server->addresses, taken);
        if (!port)
            return api_fail(c, status_internal("failed to allocate a nodePort: range is full"));
        json_push(taken, json_int(port));
        json_set_int(json_own_item(ports, i), "nodePort", port);
    }
    return 0;
}

static int prepare(struct api_call *c, struct json *o, const struct json *old)
{
    if (!json_is(json_get(o, "spec"), JSON_OBJECT))
        return 0; /* validation will say so */
    struct json *spec = json_own(o, "spec");

    set_default(spec, "type", "ClusterIP");
    set_default(spec, "sessionAffinity", "None");
    default_ports(spec);
    if (old)
        drop_for_type(o, old);
    else
        json_set(o, "status", json_build("{s:{}}", "loadBalancer"));
    if (may_have_node_ports(o))
        set_default(spec, "externalTrafficPolicy", "Cluster");
    if (streq(type_of(o), "LoadBalancer") && !json_has(spec, "allocateLoadBalancerNodePorts"))
        json_set_bool(spec, "allocateLoadBalancerNodePorts", true);
    if (is_external_name(o))
        return 0;
    if (needs_node_ports(o) && json_is(json_get(spec, "ports"), JSON_ARRAY) && set_node_ports(c, spec, old) < 0)
        return -1;
    return set_address(c, spec, old);
}

/* --- validation --- */

/* A new address must be one that could have been chosen. */
static void check_new_address(const struct api_call *c, const char *ip, struct field_errors *errors)
{
    struct in_addr a;

    if (service_address_used(c->server->addresses, ip))
        field_invalid_str(errors, "spec.clusterIPs", ip, "failed to allocate IP %s: provided IP is already allocated",
                          ip);
    if (inet_pton(AF_INET, ip, &a) != 1)
        field_invalid_str(errors, "spec.clusterIPs[0]", ip,
                          "must be empty, 'None', or a valid IPv4 address, e.g. 10.96.9.8");
    else if (!service_address_in_range(ip) && !(c->internal && streq(ip, SERVICE_API_ADDRESS)))
        field_invalid_str(errors, "spec.clusterIPs", ip,
                          "failed to allocate IP %s: the provided IP is not in the valid range. The range of valid IPs "
                          "is " SERVICE_RANGE,
                          ip);
}

static void check_address(const struct api_call *c, const struct json *o, const struct json *old,
                          struct field_errors *errors)
{
    const struct json *spec = json_get(o, "spec");
    const char *ip = json_str_or(json_get(spec, "clusterIP"), "");
    const char *old_ip = json_str_or(json_at(old, "spec", "clusterIP", NULL), "");

    if (is_external_name(o)) {
        if (*ip)
            field_forbidden(errors, "spec.clusterIPs", "may not be set for ExternalName services");
        return;
    }
    if (json_size(json_get(spec, "clusterIPs")) > 1)
        field_invalid(errors, "spec.clusterIPs", json_get(spec, "clusterIPs"),
                      "may only hold one address: services are IPv4 only");
    else if (!streq(json_str_or(json_item(json_get(spec, "clusterIPs"), 0), ""), ip))
        field_invalid(errors, "spec.clusterIPs", json_get(spec, "clusterIPs"), "first value must match `clusterIP`");
    if (*old_ip && !streq(ip, old_ip))
        field_invalid_str(errors, "spec.clusterIP", ip, "field is immutable");
    else if (!*old_ip && address_of(o))
        check_new_address(c, ip, errors);
    if (streq(ip, "None") && may_have_node_ports(o)) {
        _cleanup_free_ char *text = xasprintf("may not be set to 'None' for %s services", type_of(o));
        field_invalid_str(errors, "spec.clusterIPs[0]", ip, "%s", text);
    }
}

static void check_families(const struct json *spec, struct field_errors *errors)
{
    const struct json *families = json_get(spec, "ipFamilies");
    const char *policy = json_str_or(json_get(spec, "ipFamilyPolicy"), "");

    for (size_t i = 0; i < json_size(families); i++) {
        const char *family = json_str_or(json_item(families, i), "");
        _cleanup_free_ char *field = xasprintf("spec.ipFamilies[%zu]", i);
        if (streq(family, "IPv6"))
            field_invalid_str(errors, field, family, "not configured on this cluster: services are IPv4 only");
        else if (i > 0)
            field_duplicate_str(errors, field, family);
    }
    if (streq(policy, "RequireDualStack"))
        field_invalid_str(errors, "spec.ipFamilyPolicy", policy,
                          "this cluster is not configured for dual-stack services");
}

static bool had_node_port(const struct json *old, int64_t port)
{
    const struct json *ports = json_at(old, "spec", "ports", NULL);

    for (size_t i = 0; i < json_size(ports); i++)
        if (node_port(json_item(ports, i)) == port)
            return true;
    return false;
}

static void check_node_port(const struct api_call *c, const struct json *o, const struct json *old, size_t i,
                            struct field_errors *errors)
{
    const struct json *ports = json_at(o, "spec", "ports", NULL), *port = json_item(ports, i);
    const struct json *value = json_get(port, "nodePort");
    _cleanup_free_ char *field = xasprintf("spec.ports[%zu].nodePort", i);

    if (!node_port(port))
        return;
    if (!may_have_node_ports(o)) {
        field_forbidden(errors, field, "may not be used when `type` is '%s'", type_of(o));
        return;
    }
    for (size_t k = 0; k < i; k++)
        if (node_port(json_item(ports, k)) == node_port(port) &&
            json_equal(json_get(json_item(ports, k), "protocol"), json_get(port, "protocol")))
            field_duplicate(errors, field, value);
    if (node_port(port) < NODE_PORT_FIRST || node_port(port) > NODE_PORT_LAST)
        field_invalid(errors, field, value,
                      "provided port is not in the valid range. The range of valid ports is %d-%d", NODE_PORT_FIRST,
                      NODE_PORT_LAST);
    else if (!had_node_port(old, node_port(port)) && service_node_port_used(c->server->addresses, node_port(port)))
        field_invalid(errors, field, value, "provided port is already allocated");
}

static void check_ports(const struct api_call *c, const struct json *o, const struct json *old,
                        struct field_errors *errors)
{
    const struct json *ports = json_at(o, "spec", "ports", NULL);
    const char *ip = json_str_or(json_at(o, "spec", "clusterIP", NULL), "");
    struct hashmap seen = {0};

    if (json_size(ports) == 0 && !streq(ip, "None") && !is_external_name(o))
        field_required(errors, "spec.ports", NULL);
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
        const char *target = json_str(json_get(p, "targetPort")), *bad = target ? name_check_port(target) : NULL;
        _cleanup_free_ char *target_field = xasprintf("spec.ports[%zu].targetPort", i);
        if (bad)
            field_invalid_str(errors, target_field, target, "%s", bad);
        check_node_port(c, o, old, i, errors);
    }
    hashmap_free(&seen, NULL);
}

static void validate(const struct api_call *c, const struct json *o, const struct json *old,
                     struct field_errors *errors)
{
    const struct json *spec = json_get(o, "spec");
    const char *external = json_str_or(json_get(spec, "externalName"), "");
    const char *wrong = name_check_subdomain(external);

    check_ports(c, o, old, errors);
    labels_validate(json_get(spec, "selector"), "spec.selector", errors);
    if (is_external_name(o) && !*external)
        field_required(errors, "spec.externalName", NULL);
    else if (is_external_name(o) && wrong)
        field_invalid_str(errors, "spec.externalName", external, "%s", wrong);
    check_address(c, o, old, errors);
    check_families(spec, errors);
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
