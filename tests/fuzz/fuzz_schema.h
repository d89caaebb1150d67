/* A small recursive schema with every kind of list and map, for fuzzing what walks schemas. */
#pragma once

#include "apiserver/schema_walk.h"
#include "fuzz.h"

#define FUZZ_NODE                                                                                                      \
    "{\"type\":\"object\",\"properties\":{"                                                                            \
    "\"a\":{\"$ref\":\"#/components/schemas/node\"},"                                                                  \
    "\"b\":{\"allOf\":[{\"$ref\":\"#/components/schemas/node\"}],\"x-kubernetes-patch-strategy\":\"retainKeys\"},"     \
    "\"l\":{\"type\":\"array\",\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"name\",\"port\"]," \
    "\"x-kubernetes-patch-strategy\":\"merge\",\"x-kubernetes-patch-merge-key\":\"name\","                             \
    "\"items\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},"                                   \
    "\"port\":{\"type\":\"integer\",\"default\":1},\"a\":{\"$ref\":\"#/components/schemas/node\"}}}},"                 \
    "\"s\":{\"type\":\"array\",\"x-kubernetes-list-type\":\"set\",\"x-kubernetes-patch-strategy\":\"merge\","          \
    "\"items\":{\"type\":\"string\"}},"                                                                                \
    "\"t\":{\"type\":\"object\",\"x-kubernetes-map-type\":\"atomic\"},"                                                \
    "\"m\":{\"type\":\"object\",\"additionalProperties\":{\"$ref\":\"#/components/schemas/node\"}},"                   \
    "\"spec\":{\"$ref\":\"#/components/schemas/node\"},\"status\":{\"$ref\":\"#/components/schemas/node\"},"           \
    "\"metadata\":{\"properties\":{\"l\":{\"x-kubernetes-list-type\":\"set\"}}}}}"

static const struct json *fuzz_resolve(void *arg, const char *name)
{
    return strcmp(name, "node") == 0 ? arg : NULL;
}

static inline struct json *fuzz_schema(struct schema_context *context)
{
    struct json *node = json_parse(FUZZ_NODE, strlen(FUZZ_NODE), NULL);

    if (!node)
        abort();
    *context = (struct schema_context){fuzz_resolve, node};
    return node;
}
