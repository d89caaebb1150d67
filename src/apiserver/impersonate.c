#include "apiserver/impersonate.h"

#include "apiserver/api_error.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <strings.h>

static const char PREFIX[] = "Impersonate-", EXTRA[] = "Impersonate-Extra-", AUTHENTICATION[] = "authentication.k8s.io";

struct wish {
    const char *user, *uid;
    char **groups;
    struct json *extra; /* key → values */
};

static void wish_clear(struct wish *w)
{
    strv_free(w->groups);
    json_unref(w->extra);
}

/* A key of extra: as the header has it, decoded, in lower case. */
static char *extra_key(const char *name)
{
    char *key = url_decode(name, strlen(name), false);

    if (!key)
        key = xstrdup(name);
    for (char *c = key; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
    return key;
}

static void read_header(struct wish *w, const char *name, const char *value)
{
    if (strcasecmp(name, "Impersonate-User") == 0) {
        w->user = w->user ? w->user : value;
    } else if (strcasecmp(name, "Impersonate-Uid") == 0) {
        w->uid = w->uid ? w->uid : value;
    } else if (strcasecmp(name, "Impersonate-Group") == 0) {
        w->groups = strv_append(w->groups, xstrdup(value));
    } else if (strncasecmp(name, EXTRA, sizeof(EXTRA) - 1) == 0) {
        _cleanup_free_ char *key = extra_key(name + sizeof(EXTRA) - 1);
        w->extra = w->extra ? w->extra : json_object_make();
        json_push(json_ensure_array(w->extra, key), json_string(value));
    }
}

static void read_headers(struct wish *w, const struct http_request *req)
{
    const struct http_headers *h = http_request_headers(req);

    for (size_t i = 0; i < h->count; i++)
        if (strncasecmp(h->items[i].name, PREFIX, sizeof(PREFIX) - 1) == 0)
            read_header(w, h->items[i].name, h->items[i].value);
}

/* --- rights --- */

static struct json *check(struct rbac *rbac, const struct user_info *user, struct access a)
{
    _cleanup_free_ char *reason = NULL;

    a.verb = "impersonate";
    a.ns = a.ns ? a.ns : "";
    a.subresource = a.subresource ? a.subresource : "";
    return authorize(rbac, user, &a, &reason) ? NULL : authz_refusal(user, &a, reason);
}

static struct json *check_user(struct rbac *rbac, const struct user_info *user, const char *name)
{
    const char *account = service_account_of(name), *colon = account ? strchr(account, ':') : NULL;

    if (!colon)
        return check(rbac, user, (struct access){.group = "", .plural = "users", .name = name});
    _cleanup_free_ char *ns = xstrndup(account, (size_t)(colon - account));
    return check(rbac, user, (struct access){.group = "", .plural = "serviceaccounts", .ns = ns, .name = colon + 1});
}

static struct json *check_extra(struct rbac *rbac, const struct user_info *user, const struct json *extra)
{
    for (struct json_iter it = {0}; json_each(extra, &it);)
        for (size_t i = 0; i < json_size(it.value); i++) {
            struct json *status = check(rbac, user,
                                        (struct access){.group = AUTHENTICATION,
                                                        .plural = "userextras",
                                                        .subresource = it.key,
                                                        .name = json_str_or(json_item(it.value, i), "")});
            if (status)
                return status;
        }
    return NULL;
}

static struct json *check_all(struct rbac *rbac, const struct user_info *user, const struct wish *w)
{
    struct json *status = check_user(rbac, user, w->user);

    for (size_t i = 0; !status && w->groups && w->groups[i]; i++)
        status = check(rbac, user, (struct access){.group = "", .plural = "groups", .name = w->groups[i]});
    if (!status && w->uid)
        status = check(rbac, user, (struct access){.group = AUTHENTICATION, .plural = "uids", .name = w->uid});
    return status ? status : check_extra(rbac, user, w->extra);
}

/* What was asked for without a user, in the order kind, namespace, name, uid, version, revision, field. */
static struct json *refuse_without_user(const struct wish *w)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};

    for (size_t i = 0; w->groups && w->groups[i]; i++)
        strbuf_addf(&b, "%s{Group  %s    }", b.len ? " " : "", w->groups[i]);
    for (struct json_iter it = {0}; json_each(w->extra, &it);)
        for (size_t i = 0; i < json_size(it.value); i++)
            strbuf_addf(&b, "%s{UserExtra  %s  %s/v1  %s}", b.len ? " " : "", json_str_or(json_item(it.value, i), ""),
                        AUTHENTICATION, it.key);
    if (w->uid)
        strbuf_addf(&b, "%s{UID  %s  %s/v1  }", b.len ? " " : "", w->uid, AUTHENTICATION);
    return status_internal("requested [%s] without impersonating a user", strbuf_str(&b));
}

static bool has(char *const *groups, const char *name)
{
    for (size_t i = 0; groups && groups[i]; i++)
        if (streq(groups[i], name))
            return true;
    return false;
}

struct json *impersonate(struct rbac *rbac, const struct http_request *req, struct user_info **user, bool *ret_done)
{
    _cleanup_(wish_clear) struct wish w = {0};

    *ret_done = false;
    read_headers(&w, req);
    if (!w.user || !*w.user)
        return w.groups || w.extra || w.uid ? refuse_without_user(&w) : NULL;
    struct json *status = check_all(rbac, *user, &w);
    if (status)
        return status;
    if (!w.groups)
        w.groups = service_account_groups(w.user);
    if (!has(w.groups, "system:authenticated") && !has(w.groups, "system:unauthenticated") &&
        !streq(w.user, "system:anonymous"))
        w.groups = strv_append(w.groups, xstrdup("system:authenticated"));
    struct user_info *other = user_info_exact(w.user, w.uid, w.groups);
    other->extra = take_ptr(w.extra);
    other->expires_ns = (*user)->expires_ns;
    user_info_free(*user);
    *user = other;
    *ret_done = true;
    return NULL;
}
