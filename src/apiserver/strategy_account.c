/* ServiceAccounts and requests for their tokens. */
#include "apiserver/jwt.h"
#include "apiserver/permits.h"
#include "apiserver/service_token.h"
#include "apiserver/strategy.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/strutil.h"
#include "kube/object.h"

#define DEFAULT_SECONDS 3600
#define MIN_SECONDS 600
#define MAX_SECONDS ((int64_t)1 << 32)
/* So a token stays shorter than JWT_MAX. */
#define AUDIENCES_MAX 32
#define AUDIENCE_BYTES_MAX 4096

static const char AUTHENTICATION[] = "authentication.k8s.io";

/* --- token requests --- */

static void check_spec(const struct json *spec, struct field_errors *errors)
{
    const struct json *seconds = json_get(spec, "expirationSeconds"), *audiences = json_get(spec, "audiences");
    int64_t value = json_int_or(seconds, 0);
    size_t bytes = 0;

    if (seconds && !json_is(seconds, JSON_INT))
        field_type_invalid(errors, "spec.expirationSeconds", seconds, "must be an integer");
    else if (seconds && value < MIN_SECONDS)
        field_invalid(errors, "spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes");
    else if (seconds && value > MAX_SECONDS)
        field_invalid(errors, "spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds");
    if (audiences && !json_is(audiences, JSON_ARRAY))
        field_type_invalid(errors, "spec.audiences", audiences, "must be an array");
    for (size_t i = 0; i < json_size(audiences); i++) {
        _cleanup_free_ char *field = xasprintf("spec.audiences[%zu]", i);
        if (!json_str(json_item(audiences, i)))
            field_type_invalid(errors, field, json_item(audiences, i), "must be a string");
        bytes += json_string_len(json_item(audiences, i));
    }
    if (json_size(audiences) > AUDIENCES_MAX)
        field_too_many(errors, "spec.audiences", (int64_t)json_size(audiences), AUDIENCES_MAX);
    else if (bytes > AUDIENCE_BYTES_MAX)
        field_too_long(errors, "spec.audiences", AUDIENCE_BYTES_MAX);
}

static int check_request(struct api_call *c)
{
    _cleanup_(field_errors_clear) struct field_errors errors = {0};
    const char *name = object_name(c->body), *ns = object_namespace(c->body);

    if (!json_is(c->body, JSON_OBJECT))
        return api_fail(c, status_bad_request("the body of the request is not an object"));
    if (*name && !streq(name, c->name))
        return api_fail(c, status_bad_request("metadata.name must match the ServiceAccount's name"));
    if (*ns && !streq(ns, c->ns))
        return api_fail(c, status_bad_request("metadata.namespace must match the ServiceAccount's namespace"));
    check_spec(json_get(c->body, "spec"), &errors);
    if (field_errors_empty(&errors))
        return 0;
    _cleanup_free_ char *summary = field_errors_summary(&errors, AUTHENTICATION, "TokenRequest", "");
    return api_fail(c, status_failure(422, "Invalid", summary,
                                      json_build("{s:s, s:s, s:o}", "group", AUTHENTICATION, "kind", "TokenRequest",
                                                 "causes", field_errors_causes(&errors))));
}

static struct json *claim_ref(const struct json *object)
{
    return json_build("{s:s, s:s}", "name", object_name(object), "uid", object_uid(object));
}

/* A token bound to a pod tells its node too. */
static int bind_pod(struct api_call *c, const struct json *pod, struct json *own)
{
    const char *node = json_str(json_at(pod, "spec", "nodeName", NULL));
    const char *account = json_str_or(json_at(pod, "spec", "serviceAccountName", NULL), "default");
    const struct stored *o = node ? store_get(c->server->store, "/nodes", node) : NULL;

    if (!streq(account, c->name))
        return api_fail(c, status_bad_request("cannot bind token for serviceaccount \"%s\" to pod running with "
                                              "different serviceaccount name.",
                                              c->name));
    if (o)
        json_set(own, "node", claim_ref(o->value));
    return 0;
}

static int bind_object(struct api_call *c, const struct json *ref, struct json *own)
{
    static const struct {
        const char *kind, *plural, *store_name, *claim;
    } kinds[] = {{"Pod", "pods", "/pods", "pod"},
                 {"Secret", "secrets", "/secrets", "secret"},
                 {"Node", "nodes", "/nodes", "node"}};
    const char *kind = json_str_or(json_get(ref, "kind"), ""), *version = json_str_or(json_get(ref, "apiVersion"), ""),
               *name = json_str_or(json_get(ref, "name"), ""), *uid = json_str_or(json_get(ref, "uid"), "");
    size_t i = 0;

    while (i < ARRAY_LEN(kinds) && !streq(kinds[i].kind, kind))
        i++;
    if (i == ARRAY_LEN(kinds) || (*version && !streq(version, "v1")))
        return api_fail(c, status_bad_request("cannot bind token to object of type %s, Kind=%s", version, kind));
    _cleanup_free_ char *key = key_make(streq(kind, "Node") ? "" : c->ns, name);
    const struct stored *o = store_get(c->server->store, kinds[i].store_name, key);
    struct api_subject s = {.group = "", .plural = kinds[i].plural, .kind = kind, .name = name};
    if (!o)
        return api_fail(c, status_not_found(&s));
    if (*uid && !streq(uid, object_uid(o->value))) {
        _cleanup_free_ char *text =
            xasprintf("the UID in the bound object reference (%s) does not match the UID in record. The object might "
                      "have been deleted and then recreated",
                      uid);
        s.plural = kind;
        return api_fail(c, status_conflict(&s, text));
    }
    if (streq(kind, "Pod") && bind_pod(c, o->value, own) < 0)
        return -1;
    json_set(own, kinds[i].claim, claim_ref(o->value));
    return 0;
}

static struct json *make_claims(const struct api_call *c, const struct json *audiences, int64_t now, int64_t expires,
                                struct json *own)
{
    char id[UUID_TEXT_SIZE];
    _cleanup_free_ char *subject = xasprintf("system:serviceaccount:%s:%s", c->ns, c->name);

    random_uuid(id);
    return json_build("{s:O, s:i, s:i, s:s, s:s, s:O, s:i, s:s}", "aud", audiences, "exp", expires, "iat", now, "iss",
                      SERVICE_TOKEN_ISSUER, "jti", id, "kubernetes.io", own, "nbf", now, "sub", subject);
}

static void answer(struct api_call *c, const struct json *spec, const char *token, int64_t expires)
{
    char now[TIME_RFC3339_MAX], end[TIME_RFC3339_MAX];

    api_time_text(c->server, now);
    time_format_rfc3339(expires * NSEC_PER_SEC, 0, end);
    (void)api_answer(c, 201,
                     json_build("{s:s, s:s, s:{s:s, s:s, s:s}, s:O, s:{s:s, s:s}}", "kind", "TokenRequest",
                                "apiVersion", "authentication.k8s.io/v1", "metadata", "name", c->name, "namespace",
                                c->ns, "creationTimestamp", now, "spec", spec, "status", "token", token,
                                "expirationTimestamp", end));
}

static void issue(struct api_call *c, const struct json *account)
{
    int64_t now = clock_now(c->server->clock) / NSEC_PER_SEC;
    _cleanup_json_ struct json *spec = json_is(json_get(c->body, "spec"), JSON_OBJECT)
                                           ? json_copy_shallow(json_get(c->body, "spec"))
                                           : json_object_make();
    _cleanup_json_ struct json *own =
        json_build("{s:s, s:o}", "namespace", c->ns, "serviceaccount", claim_ref(account));
    const struct json *ref = json_get(spec, "boundObjectRef");
    struct error err = ERROR_INIT;

    if (ref && bind_object(c, ref, own) < 0)
        return;
    if (json_size(json_get(spec, "audiences")) == 0)
        json_set(spec, "audiences", json_build("[s]", SERVICE_TOKEN_ISSUER));
    if (!json_get(spec, "expirationSeconds"))
        json_set_int(spec, "expirationSeconds", DEFAULT_SECONDS);
    int64_t expires = now + json_int_or(json_get(spec, "expirationSeconds"), DEFAULT_SECONDS);
    _cleanup_json_ struct json *claims = make_claims(c, json_get(spec, "audiences"), now, expires, own);
    /* A trial gives nobody the means to act. */
    _cleanup_free_ char *token = c->options.dry_run ? xstrdup("") : jwt_sign(c->server->token_keys, claims, &err);
    if (token)
        answer(c, spec, token, expires);
    else
        (void)api_fail(c, status_internal("%s", error_text(&err)));
    error_clear(&err);
}

static bool act_account(struct api_call *c)
{
    struct api_subject s = api_subject(c);

    if (!streq(c->subresource, "token"))
        return false;
    const struct stored *account = api_current(c);
    if (!account || check_request(c) < 0)
        return true;
    if (object_deleting(account->value))
        (void)api_fail(c, status_not_found(&s));
    else if (!c->server->token_keys)
        (void)api_fail(c, status_internal("the server has no key for tokens"));
    else
        issue(c, account->value);
    return true;
}

/* --- accounts --- */

void service_account_make_default(struct apiserver *s, const char *ns)
{
    const struct resource *accounts = resource_by_plural(s->resources, "", "v1", "serviceaccounts");
    struct api_call c = api_internal_call(s, VERB_CREATE, accounts, ns, "");
    _cleanup_json_ struct json *body = json_build("{s:{s:s}}", "metadata", "name", "default");

    c.body = body;
    api_create(&c); /* fails when the namespace is going, and when the store does, and then the cause is lost with it */
    api_result_clear(&c.result);
}

/* Pods run as the ServiceAccount "default" unless they name another: it is always there. */
static void after_account(struct apiserver *s, const struct json *old, const struct json *new)
{
    if (new)
        return;
    permits_review(s->permits);
    if (streq(object_name(old), "default"))
        service_account_make_default(s, object_namespace(old));
}

const struct strategy strategy_accounts = {
    .group = "", .plural = "serviceaccounts", .act = act_account, .after = after_account};
