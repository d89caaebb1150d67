#include "node/image/reference.h"

#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"

#include <ctype.h>

#define NAME_MAX_LEN 255
#define TAG_MAX_LEN 128
#define DEFAULT_DOMAIN "docker.io"
#define DEFAULT_NAMESPACE "library"
#define DEFAULT_TAG "latest"

static int invalid(struct error *err, const char *text, const char *why)
{
    int r = error_set(err, EINVAL, "\"%.300s\" is no image name: %s", text, why);
    error_set_reason(err, "InvalidImageName");
    return r;
}

/* [a-z0-9]+ joined by '.', '_', '__' or dashes. */
static bool path_component_valid(const char *s, size_t len)
{
    bool separator = true; /* so that none may come first */

    for (size_t i = 0; i < len; i++) {
        if (islower((unsigned char)s[i]) || isdigit((unsigned char)s[i])) {
            separator = false;
            continue;
        }
        if (!strchr("._-", s[i]))
            return false;
        bool doubled = i > 0 && s[i] == s[i - 1] && (s[i] == '-' || (s[i] == '_' && !(i > 1 && s[i - 2] == '_')));
        if (separator && !doubled)
            return false;
        separator = true;
    }
    return !separator;
}

static bool domain_valid(const char *s, size_t len)
{
    const char *colon = memchr(s, ':', len);
    size_t host = colon ? (size_t)(colon - s) : len;

    if (!host || s[0] == '.' || s[0] == '-')
        return false;
    for (size_t i = 0; i < host; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '.' && s[i] != '-')
            return false;
    if (!colon)
        return true;
    if (host + 1 == len || len - host - 1 > 5)
        return false;
    for (size_t i = host + 1; i < len; i++)
        if (!isdigit((unsigned char)s[i]))
            return false;
    return true;
}

static bool tag_valid(const char *s)
{
    size_t len = strlen(s);

    if (!len || len > TAG_MAX_LEN || *s == '.' || *s == '-')
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("._-", *s))
            return false;
    return true;
}

static bool digest_valid(const char *s)
{
    const char *hex = str_skip_prefix(s, "sha256:");

    return hex && strlen(hex) == 64 && strspn(hex, "0123456789abcdef") == 64;
}

static int parse_named(const char *text, struct image_ref *ret, struct error *err)
{
    _cleanup_free_ char *copy = xstrdup(text);
    char *digest = strchr(copy, '@'), *tag = NULL;

    if (strlen(text) > NAME_MAX_LEN + TAG_MAX_LEN + 72)
        return invalid(err, text, "it is too long");
    if (digest) {
        *digest++ = '\0';
        if (!digest_valid(digest))
            return invalid(err, text, "what follows '@' is no sha256 digest");
    }
    char *slash = strrchr(copy, '/'), *colon = strrchr(copy, ':');
    if (colon && (!slash || colon > slash)) {
        *colon = '\0';
        tag = colon + 1;
        if (!tag_valid(tag))
            return invalid(err, text, "its tag is malformed");
    }
    if (!*copy)
        return invalid(err, text, "the name is empty");

    _cleanup_(strbuf_free) struct strbuf name = {0};
    char *path = copy, *first = strchr(copy, '/');
    size_t domain_len = first ? (size_t)(first - copy) : 0;
    bool has_domain = first && (memchr(copy, '.', domain_len) || memchr(copy, ':', domain_len) ||
                                (domain_len == 9 && strncmp(copy, "localhost", 9) == 0));
    if (has_domain) {
        if (!domain_valid(copy, domain_len))
            return invalid(err, text, "its registry is malformed");
        strbuf_add(&name, copy, domain_len);
        path = first + 1;
    } else {
        strbuf_adds(&name, DEFAULT_DOMAIN);
    }
    if (streq(strbuf_str(&name), DEFAULT_DOMAIN) && !strchr(path, '/'))
        strbuf_adds(&name, "/" DEFAULT_NAMESPACE);
    for (char *save = NULL, *part = path; part;) {
        save = strchr(part, '/');
        size_t len = save ? (size_t)(save - part) : strlen(part);
        if (!path_component_valid(part, len))
            return invalid(err, text, "names hold lower case letters, digits and single separators . _ -");
        strbuf_addc(&name, '/');
        strbuf_add(&name, part, len);
        part = save ? save + 1 : NULL;
    }
    if (name.len > NAME_MAX_LEN)
        return invalid(err, text, "it is too long");
    if (digest)
        strbuf_addf(&name, "@%s", digest);
    else
        strbuf_addf(&name, ":%s", tag ? tag : DEFAULT_TAG);
    *ret = (struct image_ref){IMAGE_NAMED, strbuf_detach(&name)};
    return 0;
}

int image_ref_parse(const char *text, struct image_ref *ret, struct error *err)
{
    const char *path = str_skip_prefix(text, "dir:");

    if (path) {
        if (*path != '/')
            return invalid(err, text, "dir: takes an absolute path");
        *ret = (struct image_ref){IMAGE_DIR, xstrdup(path)};
        return 0;
    }
    if (streq(text, "host")) {
        *ret = (struct image_ref){IMAGE_HOST, xstrdup("host")};
        return 0;
    }
    return parse_named(text, ret, err);
}

void image_ref_clear(struct image_ref *ref)
{
    free(ref->name);
    *ref = (struct image_ref){0};
}
