/* Network policies. */
#include "apiserver/strategy.h"

#include "base/ip_range.h"
#include "base/memory.h"
#include "base/strutil.h"

#define NOT_A_RANGE "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"

static int prepare_network_policy(struct api_call *c, struct json *o, const struct json *old)
{
    (void)c;
    (void)old;
    if (!json_is(json_get(o, "spec"), JSON_OBJECT))
        return 0; /* validation will say so */
    struct json *spec = json_own(o, "spec");
    if (!json_get(spec, "podSelector"))
        json_set(spec, "podSelector", json_object_make()); /* all */
    if (json_size(json_get(spec, "policyTypes")) > 0)
        return 0;
    struct json *types = json_build("[s]", "Ingress");
    if (json_size(json_get(spec, "egress")) > 0)
        json_push(types, json_string("Egress"));
    json_set(spec, "policyTypes", types);
    return 0;
}

static void check_peers(const struct json *rule, const char *field, const char *list, struct field_errors *errors)
{
    const struct json *peers = json_get(rule, list);

    for (size_t i = 0; i < json_size(peers); i++) {
        const struct json *block = json_get(json_item(peers, i), "ipBlock"), *except = json_get(block, "except");
        _cleanup_free_ char *at = xasprintf("%s.%s[%zu].ipBlock", field, list, i), *cidr = xasprintf("%s.cidr", at);
        const char *text = json_str(json_get(block, "cidr"));
        struct ip_range range, hole;
        bool sound = text && ip_range_parse(text, strlen(text), &range);
        if (text && !sound)
            field_invalid_str(errors, cidr, text, NOT_A_RANGE);
        for (size_t k = 0; k < json_size(except); k++) {
            _cleanup_free_ char *item = xasprintf("%s.except[%zu]", at, k);
            const char *without = json_str_or(json_item(except, k), "");
            if (!ip_range_parse(without, strlen(without), &hole))
                field_invalid_str(errors, item, without, NOT_A_RANGE);
            else if (sound && (hole.bits == range.bits || !ip_range_holds(&range, &hole.ip, hole.bits)))
                field_invalid_str(errors, item, without, "must be a strict subset of `cidr`");
        }
    }
}

static void check_rule_ports(const struct json *rule, const char *field, struct field_errors *errors)
{
    const struct json *ports = json_get(rule, "ports");

    for (size_t i = 0; i < json_size(ports); i++) {
        const struct json *port = json_get(json_item(ports, i), "port"),
                          *end = json_get(json_item(ports, i), "endPort");
        _cleanup_free_ char *port_field = xasprintf("%s.ports[%zu].port", field, i),
                            *end_field = xasprintf("%s.ports[%zu].endPort", field, i);
        const char *name = json_str(port), *wrong = name ? name_check_port(name) : NULL;
        if (wrong)
            field_invalid_str(errors, port_field, name, "%s", wrong);
        if (json_is(port, JSON_INT) && (json_int_or(port, 0) < 1 || json_int_or(port, 0) > UINT16_MAX))
            field_invalid(errors, port_field, port, "must be between 1 and 65535, inclusive");
        if (!end)
            continue;
        if (!json_is(port, JSON_INT))
            field_required(errors, port_field, "must be specified as a number when `endPort` is");
        else if (json_int_or(end, 0) < json_int_or(port, 0))
            field_invalid(errors, end_field, end, "must be greater than or equal to `port`");
        else if (json_int_or(end, 0) > UINT16_MAX)
            field_invalid(errors, end_field, end, "must be between 1 and 65535, inclusive");
    }
}

static void validate_network_policy(const struct api_call *c UNUSED, const struct json *o,
                                    const struct json *old UNUSED, struct field_errors *errors)
{
    static const char *const directions[][2] = {{"ingress", "from"}, {"egress", "to"}};

    for (size_t d = 0; d < ARRAY_LEN(directions); d++) {
        const struct json *rules = json_at(o, "spec", directions[d][0], NULL);
        for (size_t i = 0; i < json_size(rules); i++) {
            _cleanup_free_ char *field = xasprintf("spec.%s[%zu]", directions[d][0], i);
            check_rule_ports(json_item(rules, i), field, errors);
            check_peers(json_item(rules, i), field, directions[d][1], errors);
        }
    }
}

const struct strategy strategy_network_policies = {.group = "networking.k8s.io",
                                                   .plural = "networkpolicies",
                                                   .prepare = prepare_network_policy,
                                                   .validate = validate_network_policy};
