/* Tokens of strangers: none is believed, whatever it says about itself; and key files. */
#include "fuzz.h"

#include "apiserver/jwt.h"
#include "base/base64.h"
#include "base/memory.h"

#include <string.h>

static struct jwt_keys *keys;
static char *head; /* of tokens that the key signs */

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    char *pem = jwt_make_key(NULL);
    keys = pem ? jwt_keys_parse(pem, strlen(pem), NULL) : NULL;
    struct json *claims = json_object_make();
    char *token = keys ? jwt_sign(keys, claims, NULL) : NULL;
    struct json *back = token ? jwt_verify(keys, token, NULL) : NULL;

    if (!json_equal(claims, back))
        abort();
    head = xstrndup(token, strcspn(token, "."));
    json_unref(claims);
    json_unref(back);
    free(token);
    free(pem);
    return 0;
}

static void must_fail(const char *token)
{
    struct error err = ERROR_INIT;
    struct json *claims = jwt_verify(keys, token, &err);

    if (claims || !err.code)
        abort();
    error_clear(&err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xstrndup((const char *)data, size);
    struct jwt_keys *others = jwt_keys_parse(text, strlen(text), NULL);

    must_fail(text);
    /* With a good head, so that claims and signature are looked at. */
    char *forged = xasprintf("%s.%s", head, text);
    must_fail(forged);
    free(forged);
    /* Any head, and a signature of the right length. */
    char *any = base64_encode_url(data, size), *signature = size >= 64 ? base64_encode_url(data, 64) : xstrdup("");
    forged = xasprintf("%s.%s.%s", any, any, signature);
    must_fail(forged);
    free(forged);
    forged = xasprintf("%s.%s.%s", head, any, signature);
    must_fail(forged);
    free(forged);
    free(any);
    free(signature);
    jwt_keys_free(others);
    free(text);
    return 0;
}
