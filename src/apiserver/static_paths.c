#include "apiserver/static_paths.h"

#include "apiserver/api_error.h"
#include "apiserver/discovery.h"
#include "apiserver/exchange.h"
#include "apiserver/jwt.h"
#include "apiserver/openapi.h"
#include "apiserver/service_token.h"
#include "base/memory.h"
#include "base/strutil.h"

/* kubectl picks its behaviour by the minor version. */
static const char VERSION[] =
    "{\"major\":\"1\",\"minor\":\"32\",\"gitVersion\":\"v1.32.0\",\"gitCommit\":\"holt\","
    "\"gitTreeState\":\"clean\",\"buildDate\":\"2025-01-01T00:00:00Z\",\"goVersion\":\"none\","
    "\"compiler\":\"none\",\"platform\":\"linux/amd64\"}\n";

struct static_paths {
    struct discovery *discovery;
    struct openapi *openapi;
    char *issuer, *key_set; /* about tokens of ServiceAccounts; NULL = there are none */
};

/* For those who want to verify tokens of ServiceAccounts themselves (OpenID Connect Discovery). */
static struct json *describe_issuer(const char *server_address)
{
    _cleanup_free_ char *keys = xasprintf("https://%s/openid/v1/jwks", server_address);

    return json_build("{s:s, s:s, s:[s], s:[s], s:[s]}", "issuer", SERVICE_TOKEN_ISSUER, "jwks_uri", keys,
                      "response_types_supported", "id_token", "subject_types_supported", "public",
                      "id_token_signing_alg_values_supported", "ES256");
}

struct static_paths *static_paths_new(const struct resource_table *table, const char *server_address,
                                      const struct jwt_keys *keys)
{
    struct static_paths *p = xcalloc(1, sizeof(*p));

    p->discovery = discovery_new(table, server_address);
    p->openapi = openapi_new(table);
    if (keys) {
        _cleanup_json_ struct json *set = jwt_key_set(keys), *issuer = describe_issuer(server_address);
        p->key_set = json_text(set);
        p->issuer = json_text(issuer);
    }
    return p;
}

void static_paths_free(struct static_paths *p)
{
    if (!p)
        return;
    discovery_free(p->discovery);
    openapi_free(p->openapi);
    free(p->issuer);
    free(p->key_set);
    free(p);
}

static void answer_document(struct http_request *req, const struct document *d, const char *type, const char *cache)
{
    char etag[DOCUMENT_HASH_SIZE + 2];
    const char *known = http_header(req, "If-None-Match");

    if (!d) {
        answer_status(req, status_no_resource());
        return;
    }
    (void)snprintf(etag, sizeof(etag), "\"%s\"", d->hash);
    http_add_header(req, "ETag", etag);
    http_add_header(req, "Vary", "Accept");
    http_add_header(req, "Cache-Control", cache);
    if (known && streq(known, etag))
        http_respond(req, 304, NULL, "", 0);
    else
        http_respond(req, 200, type, d->text, d->len);
}

static void answer_root(struct static_paths *p, struct http_request *req, bool groups)
{
    enum discovery_form form = discovery_form_for(http_header(req, "Accept"));
    const struct document *d = groups ? discovery_apis(p->discovery, form) : discovery_api(p->discovery, form);

    answer_document(req, d, discovery_content_type(form), "public");
}

/* "G" or "G/V" */
static void answer_group(struct static_paths *p, struct http_request *req, const char *rest)
{
    const char *slash = strchr(rest, '/');
    _cleanup_free_ char *group = slash ? xstrndup(rest, (size_t)(slash - rest)) : xstrdup(rest);
    const struct document *d =
        slash ? discovery_resources(p->discovery, group, slash + 1) : discovery_group(p->discovery, group);

    answer_document(req, d, "application/json", "no-cache, private");
}

/* A document asked for by its current hash may be kept for ever; one asked for by another is to be found elsewhere. */
static void answer_openapi(struct static_paths *p, struct http_request *req, const char *path)
{
    const struct document *d = openapi_document(p->openapi, path);
    const char *hash = http_query(req, "hash");

    if (d && hash && *hash && !streq(hash, d->hash)) {
        _cleanup_free_ char *location = xasprintf("/openapi/v3/%s?hash=%s", path, d->hash);
        http_add_header(req, "Location", location);
        http_respond(req, 301, "text/plain; charset=utf-8", "", 0);
        return;
    }
    answer_document(req, d, "application/json", hash && *hash ? "public, immutable" : "no-cache, private");
}

static void answer_openapi_v2(struct static_paths *p, struct http_request *req)
{
    const char *accept = http_header(req, "Accept");

    if (accept && strstr(accept, "proto-openapi"))
        http_respond(req, 200, OPENAPI_V2_CONTENT_TYPE, "", 0);
    else
        answer_document(req, openapi_v2(p->openapi), "application/json", "no-cache, private");
}

void static_paths_answer(struct static_paths *p, struct http_request *req, const char *path)
{
    _cleanup_free_ char *clean = xstrdup(path);
    const char *rest;

    for (size_t len = strlen(clean); len > 1 && clean[len - 1] == '/'; len--)
        clean[len - 1] = '\0'; /* some clients add one */
    if (!streq(http_method(req), "GET") && !streq(http_method(req), "HEAD"))
        answer_status(req, status_no_resource());
    else if (streq(clean, "/version"))
        http_respond(req, 200, "application/json", VERSION, sizeof(VERSION) - 1);
    else if (streq(clean, "/api"))
        answer_root(p, req, false);
    else if (streq(clean, "/apis"))
        answer_root(p, req, true);
    else if (p->issuer && streq(clean, "/.well-known/openid-configuration"))
        http_respond(req, 200, "application/json", p->issuer, strlen(p->issuer));
    else if (p->key_set && streq(clean, "/openid/v1/jwks"))
        http_respond(req, 200, "application/jwk-set+json", p->key_set, strlen(p->key_set));
    else if (streq(clean, "/openapi/v2"))
        answer_openapi_v2(p, req);
    else if (streq(clean, "/openapi/v3"))
        answer_document(req, openapi_root(p->openapi), "application/json", "no-cache, private");
    else if ((rest = str_skip_prefix(clean, "/openapi/v3/")))
        answer_openapi(p, req, rest);
    else if ((rest = str_skip_prefix(clean, "/apis/")))
        answer_group(p, req, rest);
    else if ((rest = str_skip_prefix(clean, "/api/")))
        answer_document(req, discovery_resources(p->discovery, "", rest), "application/json", "no-cache, private");
    else
        answer_status(req, status_no_resource());
}
