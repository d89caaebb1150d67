/* What is accepted must come back the same after being written and read again. */
#include "fuzz.h"

#include "wire/json.h"

static void ignore(void *arg, const char *path)
{
    (void)arg;
    (void)path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_parse_options options = {.duplicate = ignore};
    struct error err = ERROR_INIT;
    struct json *v = json_parse_with((const char *)data, size, &options, &err);

    if (!err.code) {
        char *text = json_text(v);
        struct json *again = json_parse(text, strlen(text), &err);
        if (err.code || !json_equal(v, again))
            abort();
        json_unref(again);
        free(text);
    }
    json_unref(v);
    error_clear(&err);
    return 0;
}
