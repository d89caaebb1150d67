/* Tokens: which signatures are taken, and what a ServiceAccount's token must say and hold to. */
#include "quoted.h"
#include "test.h"

#include "apiserver/jwt.h"
#include "apiserver/service_token.h"
#include "base/base64.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <event2/event.h>
#include <fcntl.h>
#include <sys/stat.h>

static struct jwt_keys *new_keys(char **ret_pem)
{
    struct error err = ERROR_INIT;
    char *pem = jwt_make_key(&err);
    struct jwt_keys *k = pem ? jwt_keys_parse(pem, strlen(pem), &err) : NULL;

    if (!k)
        fail_msg("%s", error_text(&err));
    if (ret_pem)
        *ret_pem = pem;
    else
        free(pem);
    return k;
}

static char *part(const char *text)
{
    _cleanup_json_ struct json *v = parse(text);
    _cleanup_free_ char *plain = json_text(v);

    return base64_encode_url(plain, strlen(plain));
}

static const char *kid(const struct jwt_keys *k, struct json **hold)
{
    *hold = jwt_key_set(k);
    return json_str(json_get(json_item(json_get(*hold, "keys"), 0), "kid"));
}

static void test_signatures(void **state UNUSED)
{
    _cleanup_(jwt_keys_free_p) struct jwt_keys *keys = new_keys(NULL), *other = new_keys(NULL);
    _cleanup_json_ struct json *claims = parse("{'a':'b'}"), *set = NULL;
    struct error err = ERROR_INIT;
    _cleanup_free_ char *good = jwt_sign(keys, claims, &err), *foreign = jwt_sign(other, claims, &err);
    _cleanup_free_ char *none = part("{'alg':'none'}"), *body = part("{'a':'b'}");
    const char *id = kid(keys, &set), *signature = strrchr(good, '.') + 1,
               *foreign_signature = strrchr(foreign, '.') + 1;
    _cleanup_free_ char *head_text = xasprintf("{'alg':'ES256','kid':'%s'}", id);
    _cleanup_free_ char *none_kid_text = xasprintf("{'alg':'none','kid':'%s'}", id);
    _cleanup_free_ char *hs_text = xasprintf("{'alg':'HS256','kid':'%s'}", id);
    _cleanup_free_ char *crit_text = xasprintf("{'alg':'ES256','kid':'%s','crit':['x']}", id);
    _cleanup_free_ char *head = part(head_text), *none_kid = part(none_kid_text), *hs = part(hs_text),
                        *crit = part(crit_text), *other_body = part("{'a':'c'}"), *no_kid = part("{'alg':'ES256'}"),
                        *huge = xcalloc(JWT_MAX + 10, 1);
    char zeros[64] = {0}, ones[64];
    memset(ones, 0xff, sizeof(ones));
    _cleanup_free_ char *zero_signature = base64_encode_url(zeros, sizeof(zeros)),
                        *one_signature = base64_encode_url(ones, sizeof(ones)),
                        *short_signature = base64_encode_url(zeros, 63);
    memset(huge, 'a', JWT_MAX + 5);

    _cleanup_json_ struct json *back = jwt_verify(keys, good, &err);
    assert_true(json_equal(back, claims));
    _cleanup_json_ struct json *remembered = jwt_verify(keys, good, &err);
    assert_true(json_equal(remembered, claims));
    char *bad[] = {
        xstrdup(""),
        xstrdup("."),
        xstrdup(".."),
        xstrdup("a.b.c"),
        xstrdup("..."),
        xstrdup(foreign),
        xstrdup(huge),
        /* No signature, and other algorithms. */
        xasprintf("%s.%s.", none, body),
        xasprintf("%s.%s.", none_kid, body),
        xasprintf("%s.%s.%s", none_kid, body, signature),
        xasprintf("%s.%s.%s", hs, body, signature),
        xasprintf("%s.%s.%s", crit, body, signature),
        xasprintf("%s.%s.%s", no_kid, body, signature),
        /* Another's signature under this key's name, or of other claims. */
        xasprintf("%s.%s.%s", head, body, foreign_signature),
        xasprintf("%s.%s.%s", head, other_body, signature),
        xasprintf("%s.%s.%s", head, body, zero_signature),
        xasprintf("%s.%s.%s", head, body, one_signature),
        xasprintf("%s.%s.%s", head, body, short_signature),
        xasprintf("%s.%s.%s=", head, body, signature),
        xasprintf("%s.x", good),
        xasprintf(" %s", good),
        xasprintf("%s ", good),
        xasprintf("%s.%s", head, body),
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (jwt_verify(keys, bad[i], &err) || !err.code)
            fail_msg("%zu: %s", i, bad[i]);
        error_clear(&err);
        free(bad[i]);
    }
}

/* More good tokens than are remembered. */
static void test_many(void **state UNUSED)
{
    _cleanup_(jwt_keys_free_p) struct jwt_keys *keys = new_keys(NULL);
    _cleanup_json_ struct json *first_claims = parse("{'n':-1}");
    _cleanup_free_ char *first = jwt_sign(keys, first_claims, NULL);

    for (int i = 0; i < 1100; i++) {
        _cleanup_json_ struct json *claims = json_build("{s:i}", "n", (int64_t)i), *back = NULL;
        _cleanup_free_ char *t = jwt_sign(keys, claims, NULL);
        back = jwt_verify(keys, t, NULL);
        assert_true(json_equal(back, claims));
        _cleanup_json_ struct json *again = jwt_verify(keys, first, NULL);
        assert_true(json_equal(again, first_claims));
    }
}

/* A second key verifies what it once signed; keys of other kinds are none. */
static void test_keys(void **state UNUSED)
{
    _cleanup_free_ char *first = NULL, *second = NULL;
    _cleanup_(jwt_keys_free_p) struct jwt_keys *a = new_keys(&first), *b = new_keys(&second);
    _cleanup_free_ char *both = xasprintf("# comment\n%s%s", second, first);
    struct error err = ERROR_INIT;
    _cleanup_(jwt_keys_free_p) struct jwt_keys *k = jwt_keys_parse(both, strlen(both), &err);
    _cleanup_json_ struct json *claims = parse("{'a':'b'}"), *set = jwt_key_set(k);
    _cleanup_free_ char *old = jwt_sign(a, claims, &err), *new = jwt_sign(k, claims, &err);

    assert_int_equal(json_size(json_get(set, "keys")), 2);
    _cleanup_json_ struct json *x = jwt_verify(k, old, &err), *y = jwt_verify(b, new, &err);
    assert_true(json_equal(x, claims));
    assert_true(json_equal(y, claims));
    static const char *const bad[] = {
        "", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        /* Ed25519 */
        "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END "
        "PRIVATE "
        "KEY-----\n"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_null(jwt_keys_parse(bad[i], strlen(bad[i]), &err));
        assert_true(err.code != 0);
        error_clear(&err);
    }
}

/* --- tokens of ServiceAccounts --- */

struct fixture {
    char dir[32];
    char *path, *key_path;
    struct event_base *base;
    struct clock clock;
    struct apiserver *server;
};

static int64_t fixed_now(const struct clock *clock)
{
    return clock->fixed_ns;
}

static void start(struct fixture *f)
{
    struct error err = ERROR_INIT;
    const struct apiserver_options options = {.base = f->base,
                                              .store_path = f->path,
                                              .durability = STORE_DURABILITY_NORMAL,
                                              .clock = &f->clock,
                                              .token_key_file = f->key_path};

    f->server = apiserver_new(&options, &err);
    if (!f->server)
        fail_msg("%s", error_text(&err));
}

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/holt-jwt-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->path = xasprintf("%s/store.db", f->dir);
    f->key_path = xasprintf("%s/sa.key", f->dir);
    f->base = event_base_new();
    f->clock = (struct clock){.now_ns = fixed_now, .fixed_ns = 1767225600LL * NSEC_PER_SEC}; /* 2026-01-01 */
    start(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    apiserver_free(f->server);
    event_base_free(f->base);
    assert_int_equal(remove_tree_at(AT_FDCWD, f->dir, NULL), 0);
    free(f->path);
    free(f->key_path);
    free(f);
    return 0;
}

/* The answer of POST serviceaccounts/default/token; the caller's. */
static struct json *request_token(struct fixture *f, const char *body, int code)
{
    const struct resource *r = resource_by_plural(f->server->resources, "", "v1", "serviceaccounts");
    struct api_call c = api_internal_call(f->server, VERB_CREATE, r, "default", "default");
    _cleanup_json_ struct json *request = parse(body);

    c.subresource = "token";
    c.body = request;
    api_execute(&c);
    if (c.result.code != code)
        fail_msg("%d: %s", c.result.code, json_str_or(json_get(c.result.object, "message"), ""));
    struct json *answer = json_ref(c.result.object);
    api_result_clear(&c.result);
    return answer;
}

static char *token(struct fixture *f, const char *body)
{
    _cleanup_json_ struct json *answer = request_token(f, body, 201);

    return xstrdup(json_str_at(answer, "status", "token", NULL));
}

static void check(struct fixture *f, const char *t, const char *audiences, const char *want_error)
{
    struct error err = ERROR_INIT;
    _cleanup_json_ struct json *wanted = audiences ? parse(audiences) : NULL;
    _cleanup_(user_info_free_p) struct user_info *u = service_token_user(f->server, t, wanted, NULL, &err);

    if (!u != !!want_error)
        fail_msg("%s instead of %s", u ? u->name : error_text(&err), want_error ? want_error : "a user");
    if (u) {
        assert_string_equal(u->name, "system:serviceaccount:default:default");
        assert_true(user_in_group(u, "system:serviceaccounts:default"));
        assert_true(user_in_group(u, "system:authenticated"));
    } else {
        assert_string_equal(error_text(&err), want_error);
    }
    error_clear(&err);
}

static void test_service_tokens(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *plain = token(f, "{}"), *vault = token(f, "{'spec':{'audiences':['vault','x']}}");
    struct stat st;

    assert_int_equal(stat(f->key_path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    check(f, plain, NULL, NULL);
    check(f, plain, "['vault']", "the token is for another audience");
    check(f, vault, NULL, "the token is for another audience");
    check(f, vault, "['y','vault']", NULL);
    check(f, vault, "['']", "the token is for another audience");
    check(f, vault, "[1,null]", "the token is for another audience");
    check(f, "x", NULL, "it is no JSON web token");
    /* The key stays. */
    apiserver_free(f->server);
    start(f);
    check(f, plain, NULL, NULL);
    /* Time. */
    f->clock.fixed_ns -= NSEC_PER_SEC;
    check(f, plain, NULL, "the token is not valid yet");
    f->clock.fixed_ns += 3600 * NSEC_PER_SEC;
    check(f, plain, NULL, NULL);
    f->clock.fixed_ns += NSEC_PER_SEC;
    check(f, plain, NULL, "the token has expired");
}

/* What the key has signed and no ServiceAccount's token says. */
static void test_claims(void **state)
{
    struct fixture *f = *state;
    const struct stored *account = store_get(f->server->store, "/serviceaccounts", "default/default");
    const char *uid = object_uid(account->value);
    static const struct {
        const char *format, *error;
    } table[] = {
#define TIMES "'exp':9999999999,'nbf':1,"
#define AUD "'aud':['" SERVICE_TOKEN_ISSUER "'],"
#define ISS "'iss':'" SERVICE_TOKEN_ISSUER "',"
#define SUB "'sub':'system:serviceaccount:default:default',"
#define OWN "'kubernetes.io':{'namespace':'default','serviceaccount':{'name':'default','uid':'%s'}}"
        {"{" TIMES AUD ISS SUB OWN "}", NULL},
        {"{" TIMES ISS SUB OWN "}", "the token is for another audience"},
        {"{'aud':'" SERVICE_TOKEN_ISSUER "'," TIMES ISS SUB OWN "}", "the token is for another audience"},
        {"{" TIMES AUD SUB OWN "}", "the token is no ServiceAccount's"},
        {"{" TIMES AUD SUB "'iss':'https://other'," OWN "}", "the token is no ServiceAccount's"},
        {"{" TIMES AUD ISS OWN "}", "the token is no ServiceAccount's"},
        {"{" TIMES AUD ISS "'sub':'system:serviceaccount:kube-system:default'," OWN "}",
         "the token is no ServiceAccount's"},
        {"{" AUD ISS SUB OWN "}", "the token has expired"},
        {"{'exp':9999999999," AUD ISS SUB OWN "}", "the token is not valid yet"},
        {"{'exp':'9999999999','nbf':1," AUD ISS SUB OWN "}", "the token has expired"},
        {"{" TIMES AUD ISS SUB "'kubernetes.io':{'namespace':'default','serviceaccount':{'name':'default'}},'x':'%s'}",
         "the ServiceAccount of the token is gone"},
        {"{" TIMES AUD ISS SUB
         "'kubernetes.io':{'namespace':'default','serviceaccount':{'name':'default','uid':'%s'},'pod':{'name':'p'}}}",
         "the pod that the token is bound to is gone"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        _cleanup_(strbuf_free) struct strbuf text = {0};
        const char *at = strstr(table[i].format, "%s");
        strbuf_addf(&text, "%.*s%s%s", (int)(at - table[i].format), table[i].format, uid, at + 2);
        _cleanup_json_ struct json *claims = parse(strbuf_str(&text));
        _cleanup_free_ char *t = jwt_sign(f->server->token_keys, claims, NULL);
        check(f, t, NULL, table[i].error);
    }
}

static void create(struct fixture *f, const char *plural, const char *ns, const char *text)
{
    struct api_call c =
        api_internal_call(f->server, VERB_CREATE, resource_by_plural(f->server->resources, "", "v1", plural), ns, "");
    _cleanup_json_ struct json *body = parse(text);

    c.body = body;
    api_execute(&c);
    assert_int_equal(c.result.code, 201);
    api_result_clear(&c.result);
}

static void delete (struct fixture *f, const char *plural, const char *ns, const char *name)
{
    struct api_call c =
        api_internal_call(f->server, VERB_DELETE, resource_by_plural(f->server->resources, "", "v1", plural), ns, name);

    api_execute(&c);
    assert_true(c.result.code < 300);
    api_result_clear(&c.result);
}

static void test_bound_tokens(void **state)
{
    struct fixture *f = *state;
    static const char secret[] = "{'metadata':{'name':'s'}}";

    create(f, "secrets", "default", secret);
    create(f, "nodes", "", "{'metadata':{'name':'n'}}");
    _cleanup_free_ char *plain = token(f, "{}"),
                        *to_secret =
                            token(f, "{'spec':{'boundObjectRef':{'kind':'Secret','apiVersion':'v1','name':'s'}}}"),
                        *to_node = token(f, "{'spec':{'boundObjectRef':{'kind':'Node','name':'n'}}}");
    check(f, to_secret, NULL, NULL);
    check(f, to_node, NULL, NULL);
    /* One of the same name is another one. */
    delete (f, "secrets", "default", "s");
    check(f, to_secret, NULL, "the secret that the token is bound to is gone");
    create(f, "secrets", "default", secret);
    check(f, to_secret, NULL, "the secret that the token is bound to is gone");
    delete (f, "nodes", "", "n");
    check(f, to_node, NULL, "the node that the token is bound to is gone");
    /* "default" comes back at once, as another account. */
    check(f, plain, NULL, NULL);
    delete (f, "serviceaccounts", "default", "default");
    assert_non_null(store_get(f->server->store, "/serviceaccounts", "default/default"));
    check(f, plain, NULL, "the ServiceAccount of the token is gone");
}

static void test_bad_requests(void **state)
{
    struct fixture *f = *state;
    static const struct {
        int code;
        const char *body, *message;
    } table[] = {
        {422, "{'spec':{'expirationSeconds':60}}",
         "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 60: may not "
         "specify "
         "a duration less than 10 minutes"},
        {422, "{'spec':{'expirationSeconds':4294967297}}",
         "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may "
         "not "
         "specify a duration larger than 2^32 seconds"},
        {400, "{'metadata':{'name':'other'}}", "metadata.name must match the ServiceAccount's name"},
        {400, "{'spec':{'boundObjectRef':{'kind':'ConfigMap','apiVersion':'v1','name':'x'}}}",
         "cannot bind token to object of type v1, Kind=ConfigMap"},
        {404, "{'spec':{'boundObjectRef':{'kind':'Pod','apiVersion':'v1','name':'x'}}}", "pods \"x\" not found"},
        {409, "{'spec':{'boundObjectRef':{'kind':'Node','apiVersion':'v1','name':'n','uid':'u'}}}",
         "Operation cannot be fulfilled on Node \"n\": the UID in the bound object reference (u) does not match the "
         "UID "
         "in record. The object might have been deleted and then recreated"},
        {400, "[]", "the body of the request is not an object"},
    };

    create(f, "nodes", "", "{'metadata':{'name':'n'}}");
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        _cleanup_json_ struct json *status = request_token(f, table[i].body, table[i].code);
        assert_string_equal(json_str_at(status, "message", NULL), table[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signatures),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_many),
        cmocka_unit_test_setup_teardown(test_service_tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_claims, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bound_tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_requests, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
