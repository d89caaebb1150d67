/* Any JSON as a schema, and any as a value of it: nothing crashes, values stay as they are, pruning is done at once. */
#include "fuzz_value.h"

#include "apiserver/structural.h"
#include "apiserver/structural_check.h"

static const char *const words[] = {
    "a",
    "b",
    "type",
    "object",
    "array",
    "integer",
    "number",
    "string",
    "properties",
    "additionalProperties",
    "items",
    "required",
    "default",
    "nullable",
    "enum",
    "minimum",
    "maxLength",
    "maxItems",
    "multipleOf",
    "pattern",
    "^(a|b)+$",
    "format",
    "date-time",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "metadata",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "set",
    "map",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-validations",
    "rule",
    "self.a == oldSelf.a",
    "has(self.a) && self.b.all(x, x == 1)",
    "messageExpression",
};

static void count_unknown(void *arg, const char *path)
{
    *(size_t *)arg += strlen(path) > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size, words, ARRAY_LEN(words)};
    struct json *schema = fuzz_value(&in, 0), *value = fuzz_value(&in, 0), *old = fuzz_value(&in, 0);
    struct json *before = json_copy(value);
    struct structural_set *set = structural_set_new(NULL);
    struct structural_schema *s = structural_compile(set, schema, size & 1);
    struct field_errors errors = {0};
    size_t unknown = 0;

    structural_check_schema(schema, "schema", &errors);
    struct json *pruned = structural_prune(s, value, NULL, NULL);
    struct json *again = structural_prune(s, pruned, count_unknown, &unknown);
    struct json *filled = structural_default(s, pruned);
    structural_validate(s, filled, old, &errors);
    structural_validate(s, value, NULL, &errors);
    if (unknown || again != pruned || !json_equal(value, before))
        abort();
    fuzz_check_value(filled);
    field_errors_clear(&errors);
    json_unref(filled);
    json_unref(again);
    json_unref(pruned);
    structural_schema_free(s);
    structural_set_free(set);
    json_unref(before);
    json_unref(old);
    json_unref(value);
    json_unref(schema);
    return 0;
}
