#include "apiserver/negotiate.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>
#include <strings.h>

struct clause {
    char *type;
    char *as, *group, *version; /* NULL = not given */
    bool stream;
    double quality;
};

static void clause_clear(struct clause *c)
{
    free(c->type);
    free(c->as);
    free(c->group);
    free(c->version);
}

static char *trimmed(const char *s, size_t len)
{
    while (len > 0 && isspace((unsigned char)s[0]))
        s++, len--;
    while (len > 0 && isspace((unsigned char)s[len - 1]))
        len--;
    if (len >= 2 && s[0] == '"' && s[len - 1] == '"')
        s++, len -= 2;
    return xstrndup(s, len);
}

static void take_parameter(struct clause *c, const char *s, size_t len)
{
    const char *eq = memchr(s, '=', len);

    if (!eq)
        return;
    _cleanup_free_ char *name = trimmed(s, (size_t)(eq - s));
    char *value = trimmed(eq + 1, len - (size_t)(eq + 1 - s)), **to = NULL;
    if (strcasecmp(name, "as") == 0)
        to = &c->as;
    else if (strcasecmp(name, "g") == 0)
        to = &c->group;
    else if (strcasecmp(name, "v") == 0)
        to = &c->version;
    else if (strcasecmp(name, "stream") == 0)
        c->stream = streq(value, "watch");
    else if (strcasecmp(name, "q") == 0)
        c->quality = strtod(value, NULL);
    if (to && !*to)
        *to = take_ptr(value);
    free(value);
}

static void parse_clause(const char *s, size_t len, struct clause *c)
{
    *c = (struct clause){.quality = 1};
    for (bool first = true; len > 0 || first; first = false) {
        const char *semicolon = memchr(s, ';', len);
        size_t n = semicolon ? (size_t)(semicolon - s) : len;
        if (first)
            c->type = trimmed(s, n);
        else
            take_parameter(c, s, n);
        if (!semicolon)
            return;
        s += n + 1;
        len -= n + 1;
    }
}

static bool encoding_of(const char *type, unsigned offer, enum answer_encoding *ret)
{
    static const struct {
        const char *type;
        enum answer_encoding encoding;
    } encodings[] = {
        {"application/json", ENCODING_JSON},
        {"application/*", ENCODING_JSON},
        {"*/*", ENCODING_JSON},
        {"", ENCODING_JSON},
        {"application/yaml", ENCODING_YAML},
        {"application/vnd.kubernetes.protobuf", ENCODING_PROTOBUF},
    };

    for (size_t i = 0; i < ARRAY_LEN(encodings); i++)
        if (strcasecmp(type, encodings[i].type) == 0) {
            *ret = encodings[i].encoding;
            return !(*ret == ENCODING_YAML && offer & OFFER_WATCH) &&
                   !(*ret == ENCODING_PROTOBUF && !(offer & OFFER_PROTOBUF));
        }
    return false;
}

static bool servable(const struct clause *c, unsigned offer, struct answer_type *ret)
{
    if (c->quality <= 0 || !encoding_of(c->type, offer, &ret->encoding))
        return false;
    ret->stream = c->stream || (ret->encoding == ENCODING_PROTOBUF && offer & OFFER_WATCH);
    ret->form = FORM_OBJECT;
    if (!c->as)
        return true;
    if (!c->group || !streq(c->group, "meta.k8s.io") || !c->version ||
        (!streq(c->version, "v1") && !streq(c->version, "v1beta1")))
        return false;
    if (streq(c->as, "Table"))
        ret->form = FORM_TABLE;
    else if (streq(c->as, "PartialObjectMetadata") || streq(c->as, "PartialObjectMetadataList"))
        ret->form = FORM_METADATA;
    return ret->form == FORM_METADATA || (ret->form == FORM_TABLE && ret->encoding == ENCODING_JSON);
}

bool negotiate_answer(const char *accept, unsigned offer, struct answer_type *ret)
{
    double best = 0;

    *ret = (struct answer_type){0};
    if (!accept || !*accept)
        return true;
    for (const char *p = accept; *p;) {
        size_t len = strcspn(p, ",");
        struct clause c;
        struct answer_type type;
        parse_clause(p, len, &c);
        if (servable(&c, offer, &type) && c.quality > best) {
            best = c.quality;
            *ret = type;
        }
        clause_clear(&c);
        p += len;
        p += *p == ',';
    }
    return best > 0;
}

const char *answer_media_type(const struct answer_type *t)
{
    switch (t->encoding) {
    case ENCODING_YAML:
        return "application/yaml";
    case ENCODING_PROTOBUF:
        return t->stream ? "application/vnd.kubernetes.protobuf;stream=watch" : "application/vnd.kubernetes.protobuf";
    default:
        return t->stream ? "application/json;stream=watch" : "application/json";
    }
}

enum body_form negotiate_body(const char *content_type)
{
    static const struct {
        const char *type;
        enum body_form form;
    } forms[] = {
        {"", BODY_JSON},
        {"application/json", BODY_JSON},
        {"application/yaml", BODY_YAML},
        {"application/vnd.kubernetes.protobuf", BODY_PROTOBUF},
        {"application/json-patch+json", BODY_JSON_PATCH},
        {"application/merge-patch+json", BODY_MERGE_PATCH},
        {"application/strategic-merge-patch+json", BODY_STRATEGIC_PATCH},
        {"application/apply-patch+yaml", BODY_APPLY},
    };
    _cleanup_free_ char *type = NULL;

    if (!content_type)
        return BODY_JSON;
    type = trimmed(content_type, strcspn(content_type, ";"));
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        if (strcasecmp(type, forms[i].type) == 0)
            return forms[i].form;
    return BODY_UNKNOWN;
}
