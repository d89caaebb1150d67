#include "apiserver/strategy.h"

#include "base/strutil.h"

static const struct strategy *const strategies[] = {
    &strategy_pods,
    &strategy_nodes,
    &strategy_services,
    &strategy_secrets,
    &strategy_config_maps,
    &strategy_namespaces,
    &strategy_events,
    &strategy_events_v1,
    &strategy_crds,
    &strategy_network_policies,
    &strategy_claims,
    &strategy_quotas,
    &strategy_limit_ranges,
    &strategy_budgets,
    &strategy_accounts,
    &strategy_roles,
    &strategy_cluster_roles,
    &strategy_role_bindings,
    &strategy_cluster_role_bindings,
    &strategy_priority_classes,
    &strategy_runtime_classes,
    &strategy_storage_classes,
    &strategy_revisions,
};

const struct strategy *strategy_for(const struct resource *r)
{
    static const struct strategy plain = {.group = "", .plural = ""};

    if (r->is_custom)
        return &plain;
    for (size_t i = 0; i < ARRAY_LEN(strategies); i++)
        if (streq(strategies[i]->plural, r->plural) && streq(strategies[i]->group, r->group))
            return strategies[i];
    return &plain;
}
