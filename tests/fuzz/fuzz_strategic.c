/* Strategic merge patches: inputs stay as they are, results are sound and hold no directives that were not there. */
#include "fuzz_schema.h"
#include "fuzz_value.h"

#include "apiserver/strategic_patch.h"

static const char *const words[] = {
    "a",
    "b",
    "l",
    "s",
    "t",
    "m",
    "name",
    "port",
    "x",
    "$patch",
    "replace",
    "delete",
    "merge",
    "$retainKeys",
    "$setElementOrder/l",
    "$setElementOrder/s",
    "$deleteFromPrimitiveList/s",
    "$setElementOrder/a",
    "y",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size, words, ARRAY_LEN(words)};
    struct schema_context context;
    struct json *schema = fuzz_schema(&context);
    struct json *doc = fuzz_value(&in, 0), *doc_before = json_copy(doc);
    struct json *patch = fuzz_value(&in, 0), *patch_before = json_copy(patch);
    struct error err = ERROR_INIT;
    struct json *result = strategic_patch_apply(doc, patch, &context, schema, &err);

    if (!json_equal(doc, doc_before) || !json_equal(patch, patch_before) || !result == !err.code)
        abort();
    fuzz_check_value(result);
    json_unref(result);
    json_unref(patch_before);
    json_unref(patch);
    json_unref(doc_before);
    json_unref(doc);
    json_unref(schema);
    error_clear(&err);
    return 0;
}
