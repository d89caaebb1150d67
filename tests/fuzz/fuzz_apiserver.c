/* Protobuf bodies, JSONPath and URLs: the first byte chooses. */
#include "fuzz.h"

#include "apiserver/jsonpath.h"
#include "apiserver/negotiate.h"
#include "apiserver/proto.h"
#include "apiserver/request_info.h"
#include "base/base64.h"
#include "base/memory.h"

static void path(const char *text)
{
    struct jsonpath *p = jsonpath_compile(text, NULL);
    struct json *v =
        json_build("{s:[{s:s, s:i}, {s:s}], s:{s:{s:n}}}", "a", "b", "c", "d", (int64_t)1, "b", "e", "f", "g", "h");

    if (p)
        json_unref(jsonpath_find(p, v));
    jsonpath_free(p);
    json_unref(v);
}

static void url(const char *text)
{
    struct request_info i;
    enum answer_form form;
    bool stream;
    size_t len;

    (void)request_info_parse("GET", text, false, &i);
    request_info_free(&i);
    (void)negotiate_answer(text, &form, &stream);
    (void)negotiate_body(text);
    char *decoded = base64_decode(text, strlen(text), &len);
    if (decoded) {
        char *again = base64_encode(decoded, len);
        if (strcmp(again, text) != 0)
            abort();
        free(again);
    }
    free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text = xstrndup((const char *)data + 1, size - 1);
    switch (data[0] % 3) {
    case 0:
        json_unref(proto_decode(data + 1, size - 1, NULL));
        break;
    case 1:
        path(text);
        break;
    default:
        url(text);
        break;
    }
    free(text);
    return 0;
}
