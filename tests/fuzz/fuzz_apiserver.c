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

/* What has been read can be written, and is then read as the same. */
static void protobuf(const void *data, size_t size)
{
    struct strbuf out = {0};
    struct json *v = proto_decode(data, size, NULL);

    if (v && proto_encode(v, &out, NULL) == 0) {
        struct json *again = proto_decode(out.data, out.len, NULL);
        if (!again)
            abort();
        json_unref(again);
    }
    json_unref(v);
    strbuf_free(&out);
}

static void url(const char *text)
{
    struct request_info i;
    struct answer_type type;
    size_t len;

    (void)request_info_parse("GET", text, false, &i);
    request_info_free(&i);
    (void)negotiate_answer(text, 0, &type);
    (void)negotiate_answer(text, OFFER_PROTOBUF | OFFER_WATCH, &type);
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
        protobuf(data + 1, size - 1);
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
