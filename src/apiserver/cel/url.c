/* URLs: absolute ones, and paths from the root. */
#include "apiserver/cel/internal.h"
#include "base/strutil.h"

#include <ctype.h>

struct cel_url {
    struct cel_string text, scheme, host, hostname, port, path, query; /* empty when missing */
};

static struct cel_string cut(const char *from, const char *to)
{
    return (struct cel_string){from, (size_t)(to - from)};
}

static bool valid_escapes(struct cel_string s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.data[i] == '%' &&
            (i + 2 >= s.len || !isxdigit((unsigned char)s.data[i + 1]) || !isxdigit((unsigned char)s.data[i + 2])))
            return false;
    return true;
}

/* host[:port], [v6][:port] */
static bool parse_host(struct cel_string s, struct cel_url *u)
{
    const char *end = s.data + s.len, *colon = NULL;

    u->host = s;
    if (s.len && s.data[0] == '[') {
        const char *close = memchr(s.data, ']', s.len);
        if (!close || (close + 1 < end && close[1] != ':'))
            return false;
        u->hostname = cut(s.data + 1, close);
        colon = close + 1 < end ? close + 1 : NULL;
    } else {
        colon = memchr(s.data, ':', s.len);
        u->hostname = cut(s.data, colon ? colon : end);
    }
    u->port = colon ? cut(colon + 1, end) : cut(end, end);
    for (size_t i = 0; i < u->port.len; i++)
        if (!isdigit((unsigned char)u->port.data[i]))
            return false;
    for (size_t i = 0; i < s.len; i++)
        if (strchr(" <>\"\\^`{|}", s.data[i]))
            return false;
    return true;
}

static bool parse_url(struct cel_string s, struct cel_url *u)
{
    const char *p = s.data, *end = s.data + s.len;

    *u = (struct cel_url){.text = s, .scheme = cut(p, p), .host = cut(p, p), .hostname = cut(p, p), .port = cut(p, p)};
    for (const char *c = p; c < end; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return false;
    if (s.len == 0)
        return false;
    if (*p != '/') {
        const char *c = p;
        while (c < end && (isalnum((unsigned char)*c) || strchr("+-.", *c)))
            c++;
        if (!isalpha((unsigned char)*p) || c >= end || *c != ':')
            return false;
        u->scheme = cut(p, c);
        p = c + 1;
        if (p >= end || *p != '/') { /* mailto:x: nothing but a scheme and something opaque */
            u->path = u->query = cut(end, end);
            return p < end;
        }
    }
    if (u->scheme.len && end - p >= 2 && p[1] == '/') {
        const char *from = p + 2, *to = from;
        while (to < end && *to != '/' && *to != '?')
            to++;
        const char *user = memrchr(from, '@', (size_t)(to - from));
        if (!parse_host(cut(user ? user + 1 : from, to), u))
            return false;
        p = to;
    }
    const char *question = memchr(p, '?', (size_t)(end - p));
    u->path = cut(p, question ? question : end);
    u->query = question ? cut(question + 1, end) : cut(end, end);
    return valid_escapes(u->path) && valid_escapes(u->host);
}

bool cel_url_equal(const struct cel_url *a, const struct cel_url *b)
{
    return a->text.len == b->text.len && memcmp(a->text.data, b->text.data, a->text.len) == 0;
}

static struct cel_value is_url(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_url u;

    if (!cel_is(a, CEL_STRING))
        return cel_no_overload();
    return cel_charge(ev, a->s.len / 10) ? cel_exhausted() : cel_bool(parse_url(a->s, &u));
}

static struct cel_value make_url(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_url *u = arena_alloc(&ev->arena, sizeof(*u));

    if (!cel_is(a, CEL_STRING))
        return cel_no_overload();
    if (cel_charge(ev, a->s.len / 10))
        return cel_exhausted();
    if (!parse_url(a->s, u))
        return cel_errorf(ev, "URL parse error during conversion from string: %.*s",
                          (int)utf8_cut(a->s.data, a->s.len, 200), a->s.data);
    return (struct cel_value){.type = CEL_URL, .url = u};
}

static char hex_value(char c)
{
    return (char)(isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10);
}

static struct cel_value unescape(struct cel_eval *ev, struct cel_string s)
{
    char *text = arena_alloc(&ev->arena, s.len + 1);
    size_t n = 0;

    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] == '%') {
            text[n++] = (char)(hex_value(s.data[i + 1]) << 4 | hex_value(s.data[i + 2]));
            i += 2;
        } else {
            text[n++] = (char)(s.data[i] == '+' ? ' ' : s.data[i]);
        }
    }
    return utf8_valid(text, n) ? cel_string_value(text, n) : cel_errorf(ev, "the query of a URL is not UTF-8");
}

/* name=a&name=b → {"name": ["a", "b"]} */
static struct cel_value query_map(struct cel_eval *ev, struct cel_string query)
{
    size_t most = 1, count = 0;

    for (size_t i = 0; i < query.len; i++)
        most += query.data[i] == '&';
    if (cel_charge(ev, most * 2 + query.len / 10))
        return cel_exhausted();
    struct cel_pair *pairs = arena_array(&ev->arena, most, sizeof(*pairs));
    for (const char *p = query.data, *end = p + query.len, *to; p < end; p = to + 1) {
        to = memchr(p, '&', (size_t)(end - p));
        to = to ? to : end;
        const char *equals = memchr(p, '=', (size_t)(to - p));
        struct cel_string name = cut(p, equals ? equals : to), text = cut(equals ? equals + 1 : to, to);
        if (to == p || !valid_escapes(name) || !valid_escapes(text))
            continue;
        struct cel_value key = unescape(ev, name), value = unescape(ev, text);
        if (cel_is(&key, CEL_ERROR) || cel_is(&value, CEL_ERROR))
            return cel_is(&key, CEL_ERROR) ? key : value;
        size_t k = 0;
        while (k < count && !cel_equal(ev, &pairs[k].key, &key))
            k++;
        if (ev->exhausted)
            return cel_exhausted();
        struct cel_value one = cel_list_value(ev, arena_array(&ev->arena, 1, sizeof(value)), 1);
        *(struct cel_value *)one.list->items = value;
        if (k == count) {
            pairs[count++] = (struct cel_pair){key, one};
            continue;
        }
        struct cel_value both[2] = {pairs[k].value, one};
        pairs[k].value = cel_operator_functions[0].call(ev, both, 2); /* "+" comes first */
        if (cel_is(&pairs[k].value, CEL_ERROR))
            return pairs[k].value;
    }
    struct cel_map *m = arena_alloc(&ev->arena, sizeof(*m));
    *m = (struct cel_map){.pairs = pairs, .count = count};
    return (struct cel_value){.type = CEL_MAP, .map = m};
}

static struct cel_value get_query(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return cel_is(a, CEL_URL) ? query_map(ev, a->url->query) : cel_no_overload();
}

#define GETTER(name, field)                                                                                            \
    static struct cel_value name(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)           \
    {                                                                                                                  \
        return cel_is(a, CEL_URL) ? cel_string_value(a->url->field.data, a->url->field.len) : cel_no_overload();       \
    }
GETTER(get_scheme, scheme)
GETTER(get_host, host)
GETTER(get_hostname, hostname)
GETTER(get_port, port)
GETTER(get_escaped_path, path)

const struct cel_function cel_url_functions[] = {
    {"isURL", false, 1, 1, CEL_BOOL, is_url},
    {"url", false, 1, 1, CEL_URL, make_url},
    {"getScheme", true, 1, 1, CEL_STRING, get_scheme},
    {"getHost", true, 1, 1, CEL_STRING, get_host},
    {"getHostname", true, 1, 1, CEL_STRING, get_hostname},
    {"getPort", true, 1, 1, CEL_STRING, get_port},
    {"getEscapedPath", true, 1, 1, CEL_STRING, get_escaped_path},
    {"getQuery", true, 1, 1, CEL_MAP, get_query},
    {0},
};
