/* From CustomResourceDefinition objects to what the resource table keeps. Pure. */
#pragma once

#include "apiserver/resource.h"

/*
 * The version as a BuiltinResource document (api/README.md) with every name filled in, and `isCustom`,
 * `storageVersion`, `scale` and `deprecationWarning` besides. NULL and EINVAL when the definition lacks something.
 */
struct json *crd_describe(const struct json *crd, const struct json *version, struct error *err);

/*
 * Its schema, complete: apiVersion, kind and metadata are there, x-kubernetes-group-version-kind is set, and each
 * x-holt-ref has become a $ref to a definition of the table.
 */
struct json *crd_schema(const struct resource_table *t, const struct json *description, const struct json *version,
                        struct error *err);
