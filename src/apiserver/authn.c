#include "apiserver/authn.h"

#include "base/fdio.h"
#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "wire/tls.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <strings.h>

#define TOKEN_FILE_MAX (1u << 20)
#define DIGEST_HEX 65

struct authenticator {
    struct hashmap tokens; /* digest in hex → struct user_info */
};

static void digest(const char *token, char out[DIGEST_HEX])
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (EVP_Digest(token, strlen(token), md, &len, EVP_sha256(), NULL) != 1 || len != 32)
        abort(); /* SHA-256 is always there */
    for (unsigned i = 0; i < len; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", md[i]);
}

void user_info_free(struct user_info *u)
{
    if (!u)
        return;
    free(u->name);
    free(u->uid);
    strv_free(u->groups);
    json_unref(u->extra);
    free(u);
}

bool user_in_group(const struct user_info *u, const char *group)
{
    for (size_t i = 0; u->groups && u->groups[i]; i++)
        if (streq(u->groups[i], group))
            return true;
    return false;
}

struct user_info *user_info_exact(const char *name, const char *uid, char *const *groups)
{
    struct user_info *u = xcalloc(1, sizeof(*u));

    u->name = xstrdup(name);
    u->uid = uid && *uid ? xstrdup(uid) : NULL;
    u->groups = groups ? strv_copy(groups) : NULL;
    u->expires_ns = INT64_MAX;
    return u;
}

void user_info_expire(struct user_info *u, int64_t seconds)
{
    if (__builtin_mul_overflow(seconds, NSEC_PER_SEC, &u->expires_ns))
        u->expires_ns = INT64_MAX;
}

struct user_info *user_info_new(const char *name, const char *uid, char *const *groups)
{
    struct user_info *u = user_info_exact(name, uid, groups);

    if (!user_in_group(u, "system:authenticated"))
        u->groups = strv_append(u->groups, xstrdup("system:authenticated"));
    return u;
}

struct authenticator *authenticator_new(void)
{
    return xcalloc(1, sizeof(struct authenticator));
}

static void free_user(void *user)
{
    user_info_free(user);
}

void authenticator_free(struct authenticator *a)
{
    if (!a)
        return;
    hashmap_free(&a->tokens, free_user);
    free(a);
}

void authenticator_add_token(struct authenticator *a, const char *token, const char *user, const char *uid,
                             char *const *groups)
{
    char key[DIGEST_HEX];

    digest(token, key);
    user_info_free(hashmap_put(&a->tokens, key, user_info_new(user, uid, groups)));
}

/* The next comma-separated field, quotes removed; NULL at the end. Changes the line. */
static char *next_field(char **line)
{
    char *p = *line, *end;

    if (!p)
        return NULL;
    if (*p == '"') {
        end = strchr(++p, '"');
        if (!end)
            return NULL;
        *end++ = '\0';
    } else {
        end = p + strcspn(p, ",");
    }
    *line = *end == ',' ? end + 1 : NULL;
    *end = '\0';
    return p;
}

static char **split_groups(char *text)
{
    char **groups = NULL;

    for (char *g; (g = next_field(&text));)
        if (*g)
            groups = strv_append(groups, xstrdup(g));
    return groups;
}

static int add_line(struct authenticator *a, char *line, struct error *err)
{
    char *token = next_field(&line), *user = next_field(&line), *uid = next_field(&line), *list = next_field(&line);
    _cleanup_strv_ char **groups = split_groups(list);

    if (!token || !*token || !user || !*user)
        return error_set(err, EINVAL, "a line must be token,user,uid,groups");
    authenticator_add_token(a, token, user, uid, groups);
    return 0;
}

int authenticator_load(struct authenticator *a, const char *path, struct error *err)
{
    _cleanup_free_ char *text = NULL;
    int line_number = 1;

    if (file_read_at(AT_FDCWD, path, TOKEN_FILE_MAX, &text, NULL, err) < 0)
        return error_wrap(err, "token file %s", path);
    for (char *line = text, *next; line; line = next, line_number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (*line && *line != '#' && add_line(a, line, err) < 0)
            return error_wrap(err, "token file %s line %d", path, line_number);
    }
    return 0;
}

struct user_info *authenticate_token(struct authenticator *a, const char *token)
{
    char key[DIGEST_HEX];

    digest(token, key);
    const struct user_info *u = hashmap_get(&a->tokens, key);
    return u ? user_info_new(u->name, u->uid, u->groups) : NULL;
}

static struct user_info *by_certificate(const struct http_request *req)
{
    _cleanup_free_ char *name = NULL;
    _cleanup_strv_ char **groups = NULL;
    struct ssl_st *ssl = http_tls(req);

    if (!ssl || !tls_peer_identity(ssl, &name, &groups) || !*name)
        return NULL;
    struct user_info *u = user_info_new(name, NULL, groups);
    user_info_expire(u, tls_peer_expiry(ssl));
    return u;
}

const char *bearer_token(const struct http_request *req)
{
    static const char scheme[] = "Bearer ";
    const char *header = http_header(req, "Authorization");

    return header && strncasecmp(header, scheme, sizeof(scheme) - 1) == 0 ? header + sizeof(scheme) - 1 : NULL;
}

struct user_info *authenticate(struct authenticator *a, const struct http_request *req)
{
    struct user_info *u = by_certificate(req);
    const char *token = bearer_token(req);

    return u || !token ? u : authenticate_token(a, token);
}

static const char SERVICE_ACCOUNT[] = "system:serviceaccount:";

const char *service_account_of(const char *user)
{
    const char *ns = str_skip_prefix(user, SERVICE_ACCOUNT), *colon = ns ? strchr(ns, ':') : NULL;

    return colon && colon > ns && colon[1] && !strchr(colon + 1, ':') ? ns : NULL;
}

char **service_account_groups(const char *user)
{
    const char *ns = service_account_of(user), *colon = ns ? strchr(ns, ':') : NULL;
    char **groups = NULL;

    if (!colon)
        return NULL;
    groups = strv_append(groups, xstrdup("system:serviceaccounts"));
    return strv_append(groups, xasprintf("system:serviceaccounts:%.*s", (int)(colon - ns), ns));
}
