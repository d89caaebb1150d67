#include "apiserver/request_info.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "wire/http.h"

#include <strings.h>

/* The longest is /apis/G/V/namespaces/NS/plural/name/subresource; only a proxy path goes on. */
#define SEGMENTS_MAX 64

const char *verb_name(enum api_verb verb)
{
    static const char *const names[VERB_COUNT] = {"get",    "list",  "watch",  "create",
                                                  "update", "patch", "delete", "deletecollection"};
    return names[verb];
}

bool query_bool(const char *value)
{
    return value && !streq(value, "0") && strcasecmp(value, "false") != 0;
}

void request_info_free(struct request_info *i)
{
    free(i->path);
    free(i->group);
    free(i->version);
    free(i->ns);
    free(i->plural);
    free(i->name);
    free(i->subresource);
    *i = (struct request_info){0};
}

/* Decoded segments; empty ones (doubled or trailing slashes) are left out. */
static char **split(const char *path)
{
    char **v = xcalloc(1, sizeof(*v));
    size_t n = 0;

    while (*path) {
        size_t len = strcspn(path, "/");
        if (len > 0) {
            char *segment = n < SEGMENTS_MAX ? url_decode(path, len, false) : NULL;
            if (!segment) {
                strv_free(v);
                return NULL;
            }
            v = strv_append(v, segment);
            n++;
        }
        path += len;
        path += *path == '/';
    }
    return v;
}

static int verb_of(const char *method, bool has_name, bool watch, bool proxy, enum api_verb *ret)
{
    if (streq(method, "GET") || streq(method, "HEAD") || (proxy && streq(method, "OPTIONS")))
        *ret = watch ? VERB_WATCH : has_name ? VERB_GET : VERB_LIST;
    else if (streq(method, "POST"))
        *ret = VERB_CREATE;
    else if (streq(method, "PUT"))
        *ret = VERB_UPDATE;
    else if (streq(method, "PATCH"))
        *ret = VERB_PATCH;
    else if (streq(method, "DELETE"))
        *ret = has_name ? VERB_DELETE : VERB_DELETE_COLLECTION;
    else
        return -EOPNOTSUPP;
    return 0;
}

static bool namespace_subresource(const char *s)
{
    return streq(s, "status") || streq(s, "finalize");
}

/* rest: what follows the version. Takes strings out of it. */
static int parse_resource(char **rest, struct request_info *i)
{
    size_t n = strv_len(rest);

    if (n >= 1 && streq(rest[0], "watch")) { /* the old form of ?watch=true */
        i->verb = VERB_WATCH;
        rest++;
        n--;
    }
    if (n == 0)
        return -ENOENT;
    if (streq(rest[0], "namespaces") && n >= 2) {
        i->ns = xstrdup(rest[1]);
        if (n >= 3 && !namespace_subresource(rest[2])) {
            i->in_namespace_path = true;
            rest += 2;
            n -= 2;
        }
    }
    i->plural = xstrdup(rest[0]);
    if (n >= 2)
        i->name = xstrdup(rest[1]);
    if (n >= 3)
        i->subresource = xstrdup(rest[2]);
    for (size_t k = 3; k < n && !streq(i->subresource, "proxy"); k++) {
        char *longer = xasprintf("%s/%s", i->subresource, rest[k]);
        free(i->subresource);
        i->subresource = longer;
    }
    return 0;
}

static char *or_empty(char *s)
{
    return s ? s : xstrdup("");
}

int request_info_parse(const char *method, const char *path, bool watch, struct request_info *ret)
{
    struct request_info i = {0};
    _cleanup_strv_ char **parts = split(path);
    int r = 0;

    if (!parts || !(i.path = url_decode(path, strlen(path), false))) {
        request_info_free(&i);
        *ret = i;
        return -EINVAL;
    }
    size_t n = strv_len(parts);
    bool core = n >= 1 && streq(parts[0], "api"), group = n >= 1 && streq(parts[0], "apis");
    size_t head = core ? 2 : 3; /* api/v1, apis/G/V */
    i.verb = VERB_COUNT;
    if ((core || group) && n > head) {
        i.group = xstrdup(core ? "" : parts[1]);
        i.version = xstrdup(parts[head - 1]);
        r = parse_resource(parts + head, &i);
        i.is_resource = r == 0;
    } else if (core || group) {
        r = -ENOENT;
    }
    i.ns = or_empty(i.ns);
    i.plural = or_empty(i.plural);
    i.name = or_empty(i.name);
    i.subresource = or_empty(i.subresource);
    if (i.is_resource) {
        enum api_verb verb;
        r = verb_of(method, *i.name, (watch || i.verb == VERB_WATCH) && !*i.subresource, streq(i.subresource, "proxy"),
                    &verb);
        i.verb = r == 0 ? verb : VERB_GET;
    }
    *ret = i;
    return r;
}
