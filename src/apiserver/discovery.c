#include "apiserver/discovery.h"

#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"

struct discovery {
    const struct resource_table *table;
    char *server_address;
    uint64_t changes;         /* of the table, when the documents were made */
    struct hashmap documents; /* path → struct document */
};

static void free_document(void *d)
{
    document_free(d);
}

struct discovery *discovery_new(const struct resource_table *table, const char *server_address)
{
    struct discovery *d = xcalloc(1, sizeof(*d));

    d->table = table;
    d->server_address = xstrdup(server_address);
    return d;
}

void discovery_free(struct discovery *d)
{
    hashmap_free(&d->documents, free_document);
    free(d->server_address);
    free(d);
}

/* The document kept under key, if the table is still the same. */
static const struct document *kept(struct discovery *d, const char *key)
{
    if (d->changes != resource_table_changes(d->table)) {
        hashmap_free(&d->documents, free_document);
        d->documents = (struct hashmap){0};
        d->changes = resource_table_changes(d->table);
    }
    return hashmap_get(&d->documents, key);
}

/* Takes v. */
static const struct document *keep(struct discovery *d, const char *key, struct json *v)
{
    struct document *document = document_from_json(v);

    json_unref(v);
    document_free(hashmap_put(&d->documents, key, document));
    return document;
}

static struct json *string_array(const char *const *list)
{
    struct json *array = json_array_make();

    for (; *list; list++)
        json_push(array, json_string(*list));
    return array;
}

static void set_strings(struct json *object, const char *key, const char *const *list)
{
    if (*list)
        json_set(object, key, string_array(list));
}

/* Forms. */

/* Whether a clause of an Accept header has the parameter name=value. clause is what follows the media type. */
static bool has_parameter(const char *parameters, size_t len, const char *wanted)
{
    size_t wanted_len = strlen(wanted);

    for (size_t i = 0; i < len;) {
        size_t start = i;
        while (i < len && parameters[i] != ';')
            i++;
        size_t end = i++;
        while (start < end && parameters[start] == ' ')
            start++;
        while (end > start && parameters[end - 1] == ' ')
            end--;
        if (end - start == wanted_len && memcmp(parameters + start, wanted, wanted_len) == 0)
            return true;
    }
    return false;
}

enum discovery_form discovery_form_for(const char *accept)
{
    for (const char *p = accept ? accept : ""; *p;) {
        p += strspn(p, ", ");
        size_t len = strcspn(p, ","), type = strcspn(p, ";,");
        const char *parameters = p + type;
        size_t rest = len - type;
        bool json = type == strlen("application/json") && memcmp(p, "application/json", type) == 0;
        bool aggregated = has_parameter(parameters, rest, "as=APIGroupDiscoveryList") &&
                          has_parameter(parameters, rest, "g=apidiscovery.k8s.io");
        if (json && aggregated && has_parameter(parameters, rest, "v=v2"))
            return DISCOVERY_V2;
        if (json && aggregated && has_parameter(parameters, rest, "v=v2beta1"))
            return DISCOVERY_V2BETA1;
        if (json && !aggregated)
            return DISCOVERY_LEGACY;
        p += len;
    }
    return DISCOVERY_LEGACY;
}

const char *discovery_content_type(enum discovery_form form)
{
    switch (form) {
    case DISCOVERY_V2:
        return "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    case DISCOVERY_V2BETA1:
        return "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    case DISCOVERY_LEGACY:
        break;
    }
    return "application/json";
}

/* The aggregated document. */

static struct json *gvk(const char *group, const char *version, const char *kind)
{
    return json_build("{s:s, s:s, s:s}", "group", group, "version", version, "kind", kind);
}

static struct json *aggregated_resource(const struct resource *r)
{
    struct json *v = json_build("{s:s, s:o, s:s, s:s, s:o}", "resource", r->plural, "responseKind",
                                gvk(r->group, r->version, r->kind), "scope", r->namespaced ? "Namespaced" : "Cluster",
                                "singularResource", r->singular, "verbs", string_array(r->verbs));

    set_strings(v, "shortNames", r->short_names);
    set_strings(v, "categories", r->categories);
    for (size_t i = 0; i < r->subresource_count; i++) {
        const struct resource_subresource *s = &r->subresources[i];
        json_push(json_ensure_array(v, "subresources"),
                  json_build("{s:s, s:o, s:o}", "subresource", s->name, "responseKind",
                             gvk(s->group, s->version, s->kind), "verbs", string_array(s->verbs)));
    }
    return v;
}

/* The groups of the core API, or all others, each with its versions, each with its resources. */
static struct json *aggregated_groups(const struct resource_table *t, bool core)
{
    struct json *groups = json_array_make(), *group = NULL, *version = NULL;
    size_t count;
    const struct resource *const *list = resource_table_list(t, &count);
    const struct resource *before = NULL;

    for (size_t i = 0; i < count; i++) {
        const struct resource *r = list[i];
        if (core != !*r->group)
            continue;
        bool new_group = !before || !streq(before->group, r->group);
        if (new_group) {
            group = json_build("{s:{s:s, s:n}, s:[]}", "metadata", "name", *r->group ? r->group : NULL,
                               "creationTimestamp", "versions");
            json_push(groups, group);
        }
        if (new_group || !streq(before->version, r->version)) {
            version = json_build("{s:s, s:s, s:[]}", "version", r->version, "freshness", "Current", "resources");
            json_push(json_get(group, "versions"), version);
        }
        json_push(json_get(version, "resources"), aggregated_resource(r));
        before = r;
    }
    return groups;
}

static const struct document *aggregated(struct discovery *d, bool core, enum discovery_form form)
{
    const char *version = form == DISCOVERY_V2 ? "v2" : "v2beta1";
    _cleanup_free_ char *key = xasprintf("%s as %s", core ? "/api" : "/apis", version);
    const struct document *document = kept(d, key);

    if (document)
        return document;
    _cleanup_free_ char *api_version = xasprintf("apidiscovery.k8s.io/%s", version);
    return keep(d, key,
                json_build("{s:s, s:s, s:{}, s:o}", "kind", "APIGroupDiscoveryList", "apiVersion", api_version,
                           "metadata", "items", aggregated_groups(d->table, core)));
}

/* Legacy documents. */

static struct json *group_version(const struct resource *r)
{
    return json_build("{s:s, s:s}", "groupVersion", r->api_version, "version", r->version);
}

/* Every group but the core's, in order; the first version is the preferred one. */
static struct json *legacy_groups(const struct resource_table *t)
{
    struct json *groups = json_array_make(), *group = NULL;
    size_t count;
    const struct resource *const *list = resource_table_list(t, &count);
    const struct resource *before = NULL;

    for (size_t i = 0; i < count; i++) {
        const struct resource *r = list[i];
        if (!*r->group)
            continue;
        bool new_group = !before || !streq(before->group, r->group);
        if (new_group) {
            group = json_build("{s:s, s:[], s:o}", "name", r->group, "versions", "preferredVersion", group_version(r));
            json_push(groups, group);
        }
        if (new_group || !streq(before->version, r->version))
            json_push(json_get(group, "versions"), group_version(r));
        before = r;
    }
    return groups;
}

/* What stands in a list of resources for a resource or one of its subresources (s). */
static struct json *legacy_resource(const struct resource *r, const struct resource_subresource *s)
{
    _cleanup_free_ char *name = s ? xasprintf("%s/%s", r->plural, s->name) : xstrdup(r->plural);
    bool foreign = s && !(streq(s->group, r->group) && streq(s->version, r->version));
    struct json *v = json_build("{s:s, s:s, s:b, s:s, s:s, s:s, s:o}", "name", name, "singularName",
                                s ? "" : r->singular, "namespaced", r->namespaced, "group", foreign ? s->group : NULL,
                                "version", foreign ? s->version : NULL, "kind", s ? s->kind : r->kind, "verbs",
                                string_array(s ? s->verbs : r->verbs));

    if (!s) {
        set_strings(v, "shortNames", r->short_names);
        set_strings(v, "categories", r->categories);
    }
    return v;
}

static struct json *legacy_resources(const struct resource_table *t, const char *group, const char *version)
{
    struct json *resources = json_array_make();
    size_t count;
    const struct resource *const *list = resource_table_list(t, &count);

    for (size_t i = 0; i < count; i++) {
        if (!streq(list[i]->group, group) || !streq(list[i]->version, version))
            continue;
        json_push(resources, legacy_resource(list[i], NULL));
        for (size_t j = 0; j < list[i]->subresource_count; j++)
            json_push(resources, legacy_resource(list[i], &list[i]->subresources[j]));
    }
    return resources;
}

const struct document *discovery_api(struct discovery *d, enum discovery_form form)
{
    if (form != DISCOVERY_LEGACY)
        return aggregated(d, true, form);
    const struct document *document = kept(d, "/api");
    if (document)
        return document;
    return keep(d, "/api",
                json_build("{s:s, s:[s], s:[{s:s, s:s}]}", "kind", "APIVersions", "versions", "v1",
                           "serverAddressByClientCIDRs", "clientCIDR", "0.0.0.0/0", "serverAddress",
                           d->server_address));
}

const struct document *discovery_apis(struct discovery *d, enum discovery_form form)
{
    if (form != DISCOVERY_LEGACY)
        return aggregated(d, false, form);
    const struct document *document = kept(d, "/apis");
    if (document)
        return document;
    return keep(
        d, "/apis",
        json_build("{s:s, s:s, s:o}", "kind", "APIGroupList", "apiVersion", "v1", "groups", legacy_groups(d->table)));
}

const struct document *discovery_group(struct discovery *d, const char *group)
{
    _cleanup_free_ char *key = xasprintf("/apis/%s", group);
    const struct document *document = kept(d, key);

    if (document)
        return document;
    _cleanup_json_ struct json *groups = legacy_groups(d->table);
    for (size_t i = 0; i < json_size(groups); i++) {
        const struct json *g = json_item(groups, i);
        if (streq(json_str_or(json_get(g, "name"), ""), group))
            return keep(d, key,
                        json_build("{s:s, s:s, s:O, s:O, s:O}", "kind", "APIGroup", "apiVersion", "v1", "name",
                                   json_get(g, "name"), "versions", json_get(g, "versions"), "preferredVersion",
                                   json_get(g, "preferredVersion")));
    }
    return NULL;
}

const struct document *discovery_resources(struct discovery *d, const char *group, const char *version)
{
    _cleanup_free_ char *key = *group ? xasprintf("/apis/%s/%s", group, version) : xasprintf("/api/%s", version);
    const struct document *document = kept(d, key);

    if (document)
        return document;
    struct json *resources = legacy_resources(d->table, group, version);
    if (!json_size(resources)) {
        json_unref(resources);
        return NULL;
    }
    _cleanup_free_ char *name = *group ? xasprintf("%s/%s", group, version) : xstrdup(version);
    return keep(d, key,
                json_build("{s:s, s:s, s:s, s:o}", "kind", "APIResourceList", "apiVersion", "v1", "groupVersion", name,
                           "resources", resources));
}
