/* Expressions as a CustomResourceDefinition brings them, run on a small object. */
#include "fuzz.h"

#include "apiserver/cel/cel.h"
#include "base/memory.h"

static const char self_text[] =
    "{\"a\":1,\"b\":{\"c\":[1,2.5,\"x\"]},\"s\":\"h\u00e4llo\",\"n\":null,\"t\":\"2026-01-01T00:00:00Z\",\"l\":[1,2,3],"
    "\"m\":{\"x\":true}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const variables[] = {"self", "oldSelf", NULL};
    static struct json *self;
    _cleanup_free_ char *text = xstrndup((const char *)data, size);
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_(cel_free_p) struct cel_program *p = cel_compile(text, variables, &err);
    struct cel_budget budget = {20000};
    struct json *result = NULL;

    if (!p)
        return 0;
    if (!self)
        self = json_parse(self_text, strlen(self_text), NULL);
    struct cel_binding bindings[] = {{.value = self}, {.value = self}};
    if (cel_eval_json(p, bindings, &budget, &result, &err) == 0)
        json_unref(result);
    return 0;
}
