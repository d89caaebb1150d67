/* JSON patches and merge patches: inputs stay as they are, results are sound. */
#include "fuzz_value.h"

#include "apiserver/json_patch.h"
#include "apiserver/merge_patch.h"

static const char *const words[] = {
    "op",     "path",  "from", "value", "add",  "remove", "replace", "move",   "copy",
    "test",   "",      "/a",   "/a/b",  "/a/0", "/a/-",   "/a/-1",   "/b",     "/b/a/1",
    "/a/a/a", "/~0~1", "a",    "b",     "~/",   "/a/00",  "-1",      "/a/b/a", "/",
};

static struct json *fuzz_operation(struct fuzz_input *in)
{
    struct json *operation = json_object_make();

    json_set_str(operation, "op", words[4 + fuzz_byte(in) % 6]);
    json_set_str(operation, "path", fuzz_word(in));
    json_set_str(operation, "from", fuzz_word(in));
    json_set(operation, "value", fuzz_value(in, 4));
    return operation;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size, words, ARRAY_LEN(words)};
    struct json *doc = fuzz_value(&in, 0), *doc_before = json_copy(doc);
    struct json *patch = fuzz_byte(&in) % 8 ? json_array_make() : fuzz_value(&in, 0);

    while (json_is(patch, JSON_ARRAY) && in.size && json_size(patch) < 64)
        json_push(patch, fuzz_operation(&in));
    struct json *patch_before = json_copy(patch);
    struct error err = ERROR_INIT;
    struct json *result = json_patch_apply(doc, patch, &err);
    struct json *merged = merge_patch_apply(doc, patch, NULL);

    if (!json_equal(doc, doc_before) || !json_equal(patch, patch_before) || (err.code && result))
        abort();
    fuzz_check_value(result);
    fuzz_check_value(merged);
    struct json *merged_again = merged ? merge_patch_apply(merged, patch, NULL) : NULL;
    if (!json_equal(merged, merged_again))
        abort();
    json_unref(merged_again);
    json_unref(merged);
    json_unref(result);
    json_unref(patch_before);
    json_unref(patch);
    json_unref(doc_before);
    json_unref(doc);
    error_clear(&err);
    return 0;
}
