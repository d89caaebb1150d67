#include "apiserver/service_token.h"

#include "apiserver/jwt.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

/* What is being deleted may still be used so long: what it runs has to end well. */
#define DELETION_LEEWAY_NS (60 * NSEC_PER_SEC)

static struct json *audience_match(const struct json *audiences, const struct json *of_token)
{
    _cleanup_json_ struct json *api = audiences ? NULL : json_build("[s]", SERVICE_TOKEN_ISSUER);
    const struct json *wanted = audiences ? audiences : api;
    struct json *both = json_array_make();

    for (size_t i = 0; i < json_size(wanted); i++)
        for (size_t k = 0; k < json_size(of_token); k++)
            if (json_str(json_item(wanted, i)) && json_equal(json_item(wanted, i), json_item(of_token, k))) {
                json_push(both, json_ref(json_item(wanted, i)));
                break;
            }
    return both;
}

/* Whether the object is there, is the same, and has not been deleted for long. */
static const struct json *live_object(struct apiserver *s, const char *store_name, const char *ns,
                                      const struct json *ref)
{
    _cleanup_free_ char *key = key_make(ns, json_str_or(json_get(ref, "name"), ""));
    const struct stored *o = store_get(s->store, store_name, key);
    const char *deleted = o ? json_str_at(o->value, "metadata", "deletionTimestamp", NULL) : NULL;
    int64_t when;

    if (!o || !streq(object_uid(o->value), json_str_or(json_get(ref, "uid"), "")) ||
        (deleted && (!time_parse_rfc3339(deleted, &when) || when + DELETION_LEEWAY_NS < clock_now(s->clock))))
        return NULL;
    return o->value;
}

static int check_times(struct apiserver *s, const struct json *claims, struct error *err)
{
    int64_t now = clock_now(s->clock) / NSEC_PER_SEC;

    if (json_int_or(json_get(claims, "exp"), 0) <= now)
        return error_set(err, EKEYEXPIRED, "the token has expired");
    if (json_int_or(json_get(claims, "nbf"), INT64_MAX) > now)
        return error_set(err, EKEYREJECTED, "the token is not valid yet");
    return 0;
}

static int check_objects(struct apiserver *s, const struct json *own, const char *ns, struct error *err)
{
    static const struct {
        const char *claim, *store_name;
        bool namespaced;
    } bound[] = {{"pod", "/pods", true}, {"secret", "/secrets", true}, {"node", "/nodes", false}};
    bool pod = json_get(own, "pod") != NULL;

    if (!live_object(s, "/serviceaccounts", ns, json_get(own, "serviceaccount")))
        return error_set(err, ENOENT, "the ServiceAccount of the token is gone");
    for (size_t i = 0; i < ARRAY_LEN(bound); i++) {
        const struct json *ref = json_get(own, bound[i].claim);
        if (!ref || (pod && streq(bound[i].claim, "node")))
            continue; /* the node of a pod is only told */
        if (!live_object(s, bound[i].store_name, bound[i].namespaced ? ns : "", ref))
            return error_set(err, ENOENT, "the %s that the token is bound to is gone", bound[i].claim);
    }
    return 0;
}

static void add_extra(struct json *extra, const char *key, const char *value)
{
    if (value)
        json_set(extra, key, json_build("[s]", value));
}

static struct json *extra_of(const struct json *claims, const struct json *own)
{
    struct json *extra = json_object_make();
    const char *id = json_str(json_get(claims, "jti"));
    _cleanup_free_ char *credential = id ? xasprintf("JTI=%s", id) : NULL;

    add_extra(extra, "authentication.kubernetes.io/credential-id", credential);
    add_extra(extra, "authentication.kubernetes.io/node-name", json_str_at(own, "node", "name", NULL));
    add_extra(extra, "authentication.kubernetes.io/node-uid", json_str_at(own, "node", "uid", NULL));
    add_extra(extra, "authentication.kubernetes.io/pod-name", json_str_at(own, "pod", "name", NULL));
    add_extra(extra, "authentication.kubernetes.io/pod-uid", json_str_at(own, "pod", "uid", NULL));
    return extra;
}

static struct user_info *user_of_claims(struct apiserver *s, const struct json *claims, struct error *err)
{
    const struct json *own = json_get(claims, "kubernetes.io");
    const char *ns = json_str_or(json_get(own, "namespace"), ""),
               *account = json_str_or(json_at(own, "serviceaccount", "name", NULL), "");
    _cleanup_free_ char *name = xasprintf("system:serviceaccount:%s:%s", ns, account);

    if (!streq(json_str_or(json_get(claims, "iss"), ""), SERVICE_TOKEN_ISSUER) ||
        !streq(json_str_or(json_get(claims, "sub"), ""), name)) {
        (void)error_set(err, EKEYREJECTED, "the token is no ServiceAccount's");
        return NULL;
    }
    if (check_times(s, claims, err) < 0 || check_objects(s, own, ns, err) < 0)
        return NULL;
    _cleanup_strv_ char **groups = service_account_groups(name);
    struct user_info *user = user_info_new(name, json_str_at(own, "serviceaccount", "uid", NULL), groups);
    user->extra = extra_of(claims, own);
    user_info_expire(user, json_int_or(json_get(claims, "exp"), 0));
    return user;
}

struct user_info *service_token_user(struct apiserver *s, const char *token, const struct json *audiences,
                                     struct json **ret_audiences, struct error *err)
{
    if (!s->token_keys) {
        (void)error_set(err, ENOENT, "there are no tokens of ServiceAccounts");
        return NULL;
    }
    _cleanup_json_ struct json *claims = jwt_verify(s->token_keys, token, err);
    if (!claims)
        return NULL;
    _cleanup_json_ struct json *both = audience_match(audiences, json_get(claims, "aud"));
    if (json_size(both) == 0) {
        (void)error_set(err, EKEYREJECTED, "the token is for another audience");
        return NULL;
    }
    struct user_info *user = user_of_claims(s, claims, err);
    if (user && ret_audiences)
        *ret_audiences = take_ptr(both);
    return user;
}

struct user_info *service_token_request_user(struct apiserver *s, const struct http_request *req)
{
    struct user_info *user = authenticate(s->authenticator, req);
    const char *token = bearer_token(req);

    return user || !token ? user : service_token_user(s, token, NULL, NULL, NULL);
}
