#include "apiserver/metadata.h"

#include "apiserver/metadata_validate.h"
#include "apiserver/strategy.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/strutil.h"
#include "kube/object.h"

#define GENERATED_PREFIX_MAX 58
#define SUFFIX_LEN 5

char *metadata_generate_name(const char *prefix)
{
    char suffix[SUFFIX_LEN + 1];

    random_name_suffix(suffix, SUFFIX_LEN);
    return xasprintf("%.*s%s", GENERATED_PREFIX_MAX, prefix, suffix);
}

void metadata_make_new(const struct api_call *c, struct json *metadata)
{
    static const char *const dropped[] = {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
                                          "resourceVersion", "generation"};
    char uid[UUID_TEXT_SIZE], now[TIME_RFC3339_MAX];

    for (size_t i = 0; i < ARRAY_LEN(dropped); i++)
        json_remove(metadata, dropped[i]);
    if (!c->fields_tracked)
        json_remove(metadata, "managedFields");
    random_uuid(uid);
    api_time_text(c->server, now);
    json_set_str(metadata, "uid", uid);
    json_set_str(metadata, "creationTimestamp", now);
    if (c->resource->has_generation)
        json_set_int(metadata, "generation", 1);
}

void metadata_keep_old(struct json *metadata, const struct json *old)
{
    static const char *const kept[] = {"name",
                                       "namespace",
                                       "uid",
                                       "creationTimestamp",
                                       "deletionTimestamp",
                                       "deletionGracePeriodSeconds",
                                       "generation",
                                       "selfLink",
                                       "generateName"};
    const struct json *before = json_get(old, "metadata");

    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        if (json_has(before, kept[i]))
            json_set(metadata, kept[i], json_ref(json_get(before, kept[i])));
        else
            json_remove(metadata, kept[i]);
    }
}

static name_rule *rule_of(const struct resource *r)
{
    const struct strategy *strategy = strategy_for(r);

    return strategy->check_name ? strategy->check_name : name_check_subdomain;
}

void metadata_check(const struct resource *r, const struct json *object, const struct json *old,
                    struct field_errors *errors)
{
    const struct metadata_rules rules = {.namespaced = r->namespaced,
                                         .any_finalizer = r->is_custom || streq(r->group, "apiextensions.k8s.io"),
                                         .name = rule_of(r)};

    if (old)
        metadata_validate_update(object, old, errors);
    else
        metadata_validate(object, &rules, errors);
}
