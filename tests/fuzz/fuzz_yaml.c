/* What is accepted must come back the same after being written and read again. */
#include "fuzz.h"

#include "wire/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json *all = NULL;

    if (yaml_parse_all((const char *)data, size, NULL, &all, NULL) < 0)
        return 0;
    for (size_t i = 0; i < json_size(all); i++) {
        struct error err = ERROR_INIT;
        char *text = yaml_text(json_item(all, i));
        struct json *again = yaml_parse(text, strlen(text), NULL, &err);
        if (err.code || !json_equal(json_item(all, i), again))
            abort();
        json_unref(again);
        free(text);
    }
    json_unref(all);
    return 0;
}
