/*
 * Lives of one object under several managers: whatever they apply and write, inputs stay as they are, the record of
 * managers can be read, nobody is in it without fields, and applying the same again changes nothing.
 */
#include "fuzz_schema.h"
#include "fuzz_value.h"

#include "apiserver/apply_patch.h"
#include "apiserver/field_set.h"

static const char *const words[] = {
    "a", "b", "l", "s", "t", "m", "name", "port", "x", "spec", "status", "metadata", "y", "z", "w", "v",
};
static const char *const managers[] = {"one", "two", "kubectl", "three"};

static void check_managers(const struct json *object)
{
    const struct json *list = json_at(object, "metadata", "managedFields", NULL);

    if (list && json_size(list) == 0)
        abort();
    for (size_t i = 0; i < json_size(list); i++) {
        struct field_set *set = field_set_parse(json_get(json_item(list, i), "fieldsV1"), NULL);
        if (field_set_is_empty(set))
            abort();
        struct json *again = field_set_to_json(set);
        if (!json_equal(again, json_get(json_item(list, i), "fieldsV1")))
            abort();
        json_unref(again);
        field_set_free(set);
    }
}

static struct json *fuzz_object(struct fuzz_input *in)
{
    struct json *object = json_build("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "K", "metadata", "name", "x");

    json_set(json_get(object, "metadata"), "l", fuzz_value(in, 5));
    json_set(object, "spec", fuzz_value(in, 2));
    json_set(object, fuzz_word(in), fuzz_value(in, 4));
    return object;
}

static struct json *apply(struct apply_request *r)
{
    struct json *result = apply_patch(r, NULL, NULL);

    if (!result)
        return NULL;
    r->live = result;
    struct json *again = apply_patch(r, NULL, NULL);
    if (again != result)
        abort();
    json_unref(again);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size, words, ARRAY_LEN(words)};
    struct schema_context context;
    struct json *schema = fuzz_schema(&context), *live = NULL;

    while (in.size) {
        uint8_t choice = fuzz_byte(&in);
        struct managed_write w = {&context,
                                  schema,
                                  managers[choice & 3],
                                  "v1",
                                  choice & 4 ? "status" : NULL,
                                  "2026-01-01T00:00:00Z",
                                  choice & 4 ? MANAGED_RESET_ALL_BUT_STATUS : MANAGED_RESET_STATUS};
        struct json *body = fuzz_object(&in), *body_before = json_copy(body), *live_before = json_copy(live), *next;

        if (choice & 8) {
            next = managed_fields_put(body, managed_fields_after_write(&w, live, body));
        } else {
            struct apply_request request = {w, live, body, choice & 16};
            next = apply(&request);
        }
        if (!json_equal(body, body_before) || !json_equal(live, live_before))
            abort();
        if (next) {
            check_managers(next);
            fuzz_check_value(next);
            json_unref(live);
            live = next;
        }
        json_unref(live_before);
        json_unref(body_before);
        json_unref(body);
    }
    json_unref(live);
    json_unref(schema);
    return 0;
}
