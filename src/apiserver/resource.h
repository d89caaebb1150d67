/*
 * The resource table: what the API server serves, and the schemas of it. Built-in kinds come from the packed files of
 * api/ (described in api/README.md); custom kinds come and go with CustomResourceDefinition objects.
 *
 * A `struct resource` is one resource of one version. It never changes: when a definition changes, new ones take its
 * place. The table lends them; who keeps one longer than until the next change of the table takes a reference. All
 * strings and JSON values in it live as long as it does.
 *
 * Schemas are OpenAPI v3 with x-kubernetes extensions. Other definitions are referred to by
 * {"$ref": "#/components/schemas/NAME"}, possibly with description, default and x-kubernetes-map-type beside it;
 * resource_schema_definition() resolves NAME. References may be recursive.
 */
#pragma once

#include "base/error.h"
#include "wire/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct resource_subresource {
    const char *name;                   /* "status" */
    const char *group, *version, *kind; /* of its body */
    const char *const *verbs;           /* ends with NULL, as all lists here */
};

struct resource_scale {
    const char *spec_path, *status_path; /* ".spec.replicas" */
    const char *selector_path;           /* NULL: none */
};

struct resource {
    unsigned refs;
    const char *group; /* "" = core */
    const char *version, *kind, *plural, *singular;
    char *list_kind;
    const char *const *short_names, *const *categories, *const *verbs;
    char *api_version; /* "v1", "apps/v1" */
    /*
     * Where its objects are in the store: "group/plural". Several versions of a custom kind share one, and so do the
     * two views of events; storage_group and storage_version tell in which form the objects lie there.
     */
    char *store_name;
    const char *storage_group, *storage_version;

    bool namespaced;
    bool is_custom;
    bool has_protobuf; /* its objects have a message in proto_messages.c */
    bool stored;       /* false: questions that are answered and not kept (SubjectAccessReview) */
    /* Why nothing of this kind can be made, in place of any other answer; NULL for kinds that are served. */
    const char *refused;
    bool has_status;           /* has a status subresource */
    bool has_generation;       /* metadata.generation counts changes of the wanted state */
    bool returns_deleted;      /* DELETE answers with the object instead of a Status */
    bool unconditional_update; /* PUT may omit metadata.resourceVersion */
    bool create_on_update;     /* PUT to a new name creates */
    bool has_scale;
    struct resource_scale scale;
    struct resource_subresource *subresources;
    size_t subresource_count;

    const char *schema_name; /* "io.k8s.api.core.v1.Pod", "io.x-k8s.agents.v1beta1.Sandbox" */
    /* Of the kind's objects, with apiVersion, kind and metadata. NULL: anything goes. */
    const struct json *schema;
    /* All columns of its table, the name first: {name, type, format, description, priority, jsonPath}. A column without
     * jsonPath is computed by the server. NULL for what is not stored. */
    const struct json *columns;
    /* Field selectors besides metadata.name and metadata.namespace; for custom kinds paths without the leading dot. */
    const char *const *selectable_fields;
    const char *deprecation_warning; /* NULL unless the version is deprecated */

    struct json
        *description; /* the BuiltinResource document, or one made alike from a definition: it holds the strings */
};

struct resource *resource_ref(const struct resource *r);
void resource_unref(struct resource *r);
DEFINE_CLEANUP(resource_unref, struct resource *);

bool resource_has_verb(const struct resource *r, const char *verb);
/* NULL when there is none of that name. */
const struct resource_subresource *resource_subresource(const struct resource *r, const char *name);

struct resource_table;

/* With the built-in kinds. An error means that the packed files are broken. */
struct resource_table *resource_table_new(struct error *err);
void resource_table_free(struct resource_table *t);
DEFINE_CLEANUP(resource_table_free, struct resource_table *);

/*
 * Serves every served version of a CustomResourceDefinition, in place of what an earlier one of the same name served.
 * Names come from status.acceptedNames, or from the spec while there are none. The object is expected to have passed
 * validation; what is missing all the same, an unknown x-holt-ref, or a name that a built-in kind has is EINVAL, and
 * nothing changes. A definition equal to the one in force changes nothing either. crd is referenced.
 */
int resource_table_add_crd(struct resource_table *t, const struct json *crd, struct error *err);
/* name: "sandboxes.agents.x-k8s.io". Returns whether there was one. */
bool resource_table_remove_crd(struct resource_table *t, const char *name);

/* NULL when there is none. */
const struct resource *resource_by_plural(const struct resource_table *t, const char *group, const char *version,
                                          const char *plural);
const struct resource *resource_by_kind(const struct resource_table *t, const char *group, const char *version,
                                        const char *kind);
/*
 * All, in order of preference: groups as discovery lists them (built-in ones first, then custom ones by name), the
 * versions of a group from the most to the least stable, resources by plural. Valid until the next change.
 */
const struct resource *const *resource_table_list(const struct resource_table *t, size_t *ret_count);
/* Grows with every change; 0 never occurs. */
uint64_t resource_table_changes(const struct resource_table *t);

/* The schema called name, or NULL. */
const struct json *resource_schema_definition(const struct resource_table *t, const char *name);

/* The CustomResourceDefinitions that come with the program: an array of objects as api/ has them. They contain
 * x-holt-ref (api/README.md), which only this table understands. */
const struct json *resource_table_bundled_crds(const struct resource_table *t);
/* An array of the objects that are made when a store is new (api/core/rbac-defaults.yaml). */
const struct json *resource_table_default_objects(const struct resource_table *t);

/* Kubernetes' order of versions: v2, v1, v1beta2, v1beta1, v1alpha1, then all others by name. <0: a comes first. */
int version_compare(const char *a, const char *b);
