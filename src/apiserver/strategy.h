/*
 * What is special about a kind. Everything that holds for all kinds, or that schemas say, is not here.
 *
 * Objects are in the form of the resource that was asked for; they may be changed down to metadata, deeper only after
 * json_own(). old is NULL when the object is new.
 */
#pragma once

#include "apiserver/names.h"
#include "apiserver/server_internal.h"

struct strategy {
    const char *group, *plural;
    /* Fills in what schemas cannot, before validation; not for the status subresource. -1: refused, see c. */
    int (*prepare)(struct api_call *c, struct json *object, const struct json *old);
    /* What schemas cannot check; not for subresources. */
    void (*validate)(const struct api_call *c, const struct json *object, const struct json *old,
                     struct field_errors *errors);
    /* The same for the status subresource. */
    void (*validate_status)(const struct api_call *c, const struct json *object, const struct json *old,
                            struct field_errors *errors);
    /* Names of objects: what is wrong with name, or NULL. NULL = DNS-1123 subdomains. */
    name_rule *check_name;
    /* Writes through c->subresource (other than status): old with what the subresource may change taken from object. */
    struct json *(*merge)(struct api_call *c, struct json *object, const struct json *old);
    /* Other things done with subresources ("binding", "eviction"). false: none of that name. */
    bool (*act)(struct api_call *c);
    /* -1: this one may not be deleted, see c. */
    int (*check_delete)(struct api_call *c, const struct json *object);
    /* Of a kind whose objects take time to end: how many seconds; wish is -1 when there is none. 0 = at once. */
    int64_t (*grace)(const struct apiserver *s, const struct json *object, int64_t wish);
    /* Marks an object whose deletion has begun. */
    void (*mark_deleted)(struct json *object);
    /* After a change, in storage form; old or new may be NULL. */
    void (*after)(struct apiserver *s, const struct json *old, const struct json *new);
};
/* Never NULL. */
const struct strategy *strategy_for(const struct resource *r);

extern const struct strategy strategy_pods, strategy_services, strategy_secrets, strategy_config_maps,
    strategy_namespaces, strategy_nodes, strategy_events, strategy_events_v1, strategy_crds, strategy_claims,
    strategy_network_policies, strategy_priority_classes, strategy_runtime_classes, strategy_storage_classes,
    strategy_revisions, strategy_quotas, strategy_limit_ranges, strategy_budgets, strategy_accounts, strategy_roles,
    strategy_cluster_roles, strategy_role_bindings, strategy_cluster_role_bindings;
