#include "fuzz.h"

#include "base/memory.h"
#include "kube/object.h"
#include "kube/quantity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xstrndup((const char *)data, size);
    struct json *object = json_build("{s:{s:s}, s:s}", "metadata", "name", "a", "b", "c");
    struct selector *s = selector_parse(text, NULL);
    struct field_selector *f = field_selector_parse(text, NULL);
    struct quantity q;

    (void)selector_matches(s, json_get(object, "metadata"));
    (void)field_selector_matches(f, object);
    if (quantity_parse(text, &q, NULL) == 0) {
        struct quantity again;
        char *canonical = quantity_format(&q);
        if (quantity_parse(canonical, &again, NULL) < 0 || quantity_compare(&q, &again) != 0)
            abort();
        free(canonical);
    }
    selector_free(s);
    field_selector_free(f);
    json_unref(object);
    free(text);
    return 0;
}
