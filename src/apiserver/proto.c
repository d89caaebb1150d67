#include "apiserver/proto.h"

#include "apiserver/proto_internal.h"
#include "base/base64.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"

#include <math.h>
#include <stdbool.h>

/* Of messages within messages, also across envelopes within a RawExtension. */
#define DEPTH_MAX 64

static const char magic[] = {'k', '8', 's', '\0'};

struct bytes {
    const unsigned char *p, *end;
};

struct field {
    uint64_t number;
    char name[64], type[64];
    bool repeated, map, keep_zero, always, inlined;
    const struct proto_message *message; /* of type; NULL when it is none of the table */
};

enum wire_type { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct value {
    uint64_t number;
    enum wire_type wire;
    uint64_t scalar;
    struct bytes bytes;
};

struct decoder {
    struct error *err;
    int depth;
};

static int malformed(struct decoder *d, const char *what)
{
    return error_set(d->err, EINVAL, "protobuf: %s", what);
}

static bool read_varint(struct bytes *b, uint64_t *ret)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 70 && b->p < b->end; shift += 7) {
        unsigned char c = *b->p++;
        if (shift < 64)
            v |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80)) {
            *ret = v;
            return true;
        }
    }
    return false;
}

static bool read_fixed(struct bytes *b, size_t n, uint64_t *ret)
{
    if ((size_t)(b->end - b->p) < n)
        return false;
    *ret = 0;
    for (size_t i = n; i-- > 0;)
        *ret = *ret << 8 | b->p[i];
    b->p += n;
    return true;
}

/* 1 = a value, 0 = the end. */
static int next_value(struct decoder *d, struct bytes *b, struct value *v)
{
    uint64_t tag, len;

    if (b->p == b->end)
        return 0;
    if (!read_varint(b, &tag))
        return malformed(d, "broken tag");
    *v = (struct value){.number = tag >> 3, .wire = (enum wire_type)(tag & 7)};
    switch (tag & 7) {
    case WIRE_VARINT:
        return read_varint(b, &v->scalar) ? 1 : malformed(d, "broken number");
    case WIRE_64:
        return read_fixed(b, 8, &v->scalar) ? 1 : malformed(d, "broken number");
    case WIRE_32:
        return read_fixed(b, 4, &v->scalar) ? 1 : malformed(d, "broken number");
    case WIRE_BYTES:
        if (!read_varint(b, &len) || len > (uint64_t)(b->end - b->p))
            return malformed(d, "broken length");
        v->bytes = (struct bytes){b->p, b->p + len};
        b->p += len;
        return 1;
    default:
        return malformed(d, "unknown wire type");
    }
}

static int by_name(const void *key, const void *item)
{
    return strcmp(key, ((const struct proto_message *)item)->name);
}

static const struct proto_message *lookup(const char *name)
{
    return bsearch(name, proto_messages, proto_message_count, sizeof(proto_messages[0]), by_name);
}

/* A type named inside package: its own, meta/v1's, or one with its package in front. */
static const struct proto_message *find_message(const struct proto_message *from, const char *type)
{
    char name[128];
    const char *dot = strrchr(from->name, '.');

    if (strchr(type, '/'))
        return lookup(type);
    (void)snprintf(name, sizeof(name), "%.*s.%s", (int)(dot - from->name), from->name, type);
    const struct proto_message *m = lookup(name);
    if (m)
        return m;
    (void)snprintf(name, sizeof(name), "meta/v1.%s", type);
    return lookup(name);
}

/* Reads one field description and moves *p behind it. */
static bool parse_field(const char **p, struct field *f)
{
    char type[64];
    unsigned long long number;
    int used = 0;

    *f = (struct field){0};
    if (sscanf(*p, "%llu %63[^ ] %63[^ ,]%n", &number, f->name, type, &used) != 3)
        return false;
    *p += used;
    *p += strspn(*p, ", ");
    f->number = number;
    const char *t = type;
    f->repeated = strncmp(t, "[]", 2) == 0;
    f->map = strncmp(t, "{}", 2) == 0;
    t += f->repeated || f->map ? 2 : 0;
    size_t len = strcspn(t, "*!~");
    f->keep_zero = strchr(t + len, '*') != NULL;
    f->always = strchr(t + len, '!') != NULL;
    f->inlined = strchr(t + len, '~') != NULL;
    (void)snprintf(f->type, sizeof(f->type), "%.*s", (int)len, t);
    return true;
}

/* The fields of each message, read from its text when it is first met: bodies name fields by the million. */
static struct fields {
    struct field *items;
    size_t count;
} * fields_of_messages;

static const struct fields *fields_of(const struct proto_message *m)
{
    if (!fields_of_messages)
        fields_of_messages = xcalloc(proto_message_count, sizeof(*fields_of_messages));
    struct fields *all = &fields_of_messages[m - proto_messages];
    struct field f;

    if (all->items)
        return all;
    for (const char *p = m->fields; parse_field(&p, &f);) {
        f.message = find_message(m, f.type);
        all->items = xreallocarray(all->items, all->count + 1, sizeof(f));
        all->items[all->count++] = f;
    }
    return all;
}

static const struct field *find_field(const struct proto_message *m, uint64_t number)
{
    const struct fields *all = fields_of(m);

    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].number == number)
            return &all->items[i];
    return NULL;
}

static char *text_of(struct bytes b)
{
    return xstrndup((const char *)b.p, (size_t)(b.end - b.p));
}

/* NULL with the error set when b is no text. */
static struct json *read_text(struct decoder *d, struct bytes b)
{
    size_t len = (size_t)(b.end - b.p);

    if (len == 0)
        return json_string("");
    if (!utf8_valid((const char *)b.p, len)) {
        (void)malformed(d, "a string is not UTF-8");
        return NULL;
    }
    return json_string_n((const char *)b.p, len);
}

static struct json *parse_json(struct decoder *d, struct bytes b)
{
    if (b.p == b.end)
        return NULL;
    return json_parse((const char *)b.p, (size_t)(b.end - b.p), d->err);
}

/* Messages whose JSON is not an object of their fields. */
struct special {
    int64_t numbers[4];
    struct bytes bytes[4];
    bool has[4];
};

static int read_special(struct decoder *d, struct bytes b, struct special *s)
{
    struct value v;
    int r;

    while ((r = next_value(d, &b, &v)) > 0)
        if (v.number < 4) {
            s->has[v.number] = true;
            s->numbers[v.number] = (int64_t)v.scalar;
            s->bytes[v.number] = v.bytes;
        }
    return r;
}

static struct json *time_json(struct decoder *d, const struct special *s, int digits)
{
    char text[TIME_RFC3339_MAX];
    int64_t ns;

    if (!s->has[1] && !s->has[2])
        return NULL;
    if (s->numbers[2] < 0 || s->numbers[2] >= NSEC_PER_SEC ||
        __builtin_mul_overflow(s->numbers[1], NSEC_PER_SEC, &ns) || __builtin_add_overflow(ns, s->numbers[2], &ns)) {
        (void)malformed(d, "a time is out of range");
        return NULL;
    }
    time_format_rfc3339(ns, digits, text);
    return json_string(text);
}

/* As Go reads it back: "90s", "-1.5s". */
static struct json *duration_json(int64_t ns)
{
    uint64_t positive = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    char text[64];
    int len = snprintf(text, sizeof(text), "%s%llu.%09llu", ns < 0 ? "-" : "",
                       (unsigned long long)(positive / NSEC_PER_SEC), (unsigned long long)(positive % NSEC_PER_SEC));

    while (text[len - 1] == '0')
        len--;
    len -= text[len - 1] == '.';
    (void)snprintf(text + len, sizeof(text) - (size_t)len, "s"); /* in place of a zero or a point, or behind 31 of 64 */
    return json_string(text);
}

static struct json *decode_envelope(struct decoder *d, struct bytes all);

static struct json *raw_extension(struct decoder *d, struct bytes b)
{
    if (b.end - b.p >= 4 && memcmp(b.p, magic, sizeof(magic)) == 0)
        return decode_envelope(d, b);
    return parse_json(d, b);
}

/* Returns whether type is special; *ret may be NULL for "not set". */
static bool decode_special(struct decoder *d, const char *type, struct bytes b, struct json **ret)
{
    static const char *const types[] = {"Time",     "MicroTime", "Timestamp",    "Quantity", "IntOrString",
                                        "Duration", "FieldsV1",  "RawExtension", "JSON"};
    struct special s = {0};
    size_t i = 0;

    while (i < ARRAY_LEN(types) && !streq(type, types[i]))
        i++;
    *ret = NULL;
    if (i == ARRAY_LEN(types))
        return false;
    if (read_special(d, b, &s) < 0)
        return true;
    struct bytes one = s.bytes[1];
    if (i <= 2)
        *ret = time_json(d, &s, i == 1 ? 6 : 0);
    else if (i == 3)
        *ret = s.has[1] ? read_text(d, one) : NULL;
    else if (i == 4)
        *ret = s.numbers[1] == 1 ? read_text(d, s.bytes[3]) : json_int((int32_t)s.numbers[2]);
    else if (i == 5)
        *ret = duration_json(s.numbers[1]);
    else
        *ret = i == 7 ? raw_extension(d, one) : parse_json(d, one);
    return true;
}

static int decode_message(struct decoder *d, const struct proto_message *m, struct bytes b, struct json *object);

/* Verbs and ExtraValue: plain arrays of strings. The OrX messages are what is set in them. */
static bool decode_choice(struct decoder *d, const struct proto_message *from, const char *type, struct bytes b,
                          struct json **ret)
{
    bool strings = streq(type, "Verbs") || streq(type, "ExtraValue");
    bool array = streq(type, "JSONSchemaPropsOrArray"), boolean = streq(type, "JSONSchemaPropsOrBool");
    bool string_array = streq(type, "JSONSchemaPropsOrStringArray");
    struct value v;
    struct json *items = NULL;
    int r;

    *ret = NULL;
    if (!strings && !array && !boolean && !string_array)
        return false;
    const struct proto_message *schema = strings ? NULL : find_message(from, "JSONSchemaProps");
    if (strings)
        items = json_array_make();
    while ((r = next_value(d, &b, &v)) > 0) {
        bool list_item = strings || ((array || string_array) && v.number == 2);
        if (boolean && v.number == 1) {
            if (!*ret)
                *ret = json_boolean(v.scalar != 0);
            continue;
        }
        if (v.wire != WIRE_BYTES)
            continue;
        if (list_item && !items)
            items = json_array_make();
        if (strings || (string_array && v.number == 2)) {
            struct json *text = read_text(d, v.bytes);
            if (!text)
                break;
            json_push(items, text);
            continue;
        }
        struct json *object = json_object_make();
        if (decode_message(d, schema, v.bytes, object) < 0) {
            json_unref(object);
            break;
        }
        if (list_item) {
            json_push(items, object);
        } else {
            json_unref(*ret);
            *ret = object;
        }
    }
    if (items) {
        json_unref(*ret);
        *ret = items;
    }
    return true;
}

/* *ret is NULL when the value is to be left out. */
static int decode_value(struct decoder *d, const struct proto_message *m, const struct field *f, const struct value *v,
                        struct json **ret)
{
    const char *type = f->type;
    bool keep = f->keep_zero || f->always || f->repeated || f->map, scalar = v->wire != WIRE_BYTES;
    size_t len = scalar ? 0 : (size_t)(v->bytes.end - v->bytes.p);

    *ret = NULL;
    if (streq(type, "b") || streq(type, "i32") || streq(type, "i64") || streq(type, "double")) {
        if (v->wire != (streq(type, "double") ? WIRE_64 : WIRE_VARINT))
            return malformed(d, "another wire type where a number belongs");
        if (!v->scalar && !keep)
            return 0;
        double number;
        memcpy(&number, &v->scalar, sizeof(number));
        if (streq(type, "double") && !isfinite(number))
            return malformed(d, "a number is not finite");
        *ret = streq(type, "b")        ? json_boolean(v->scalar != 0)
               : streq(type, "double") ? json_double(number)
               : streq(type, "i32")    ? json_int((int32_t)v->scalar)
                                       : json_int((int64_t)v->scalar);
        return 0;
    }
    if (scalar)
        return malformed(d, "a number where bytes belong");
    if (streq(type, "s")) {
        *ret = len || keep ? read_text(d, v->bytes) : NULL;
        return d->err->code ? -EINVAL : 0;
    }
    if (streq(type, "y")) {
        _cleanup_free_ char *encoded = base64_encode(v->bytes.p, len);
        *ret = len || keep ? json_string(encoded) : NULL;
        return 0;
    }
    if (decode_special(d, type, v->bytes, ret) || decode_choice(d, m, type, v->bytes, ret)) {
        if (!d->err->code)
            return 0;
        json_unref(*ret);
        *ret = NULL;
        return -EINVAL;
    }
    const struct proto_message *sub = f->message;
    if (!sub)
        return malformed(d, "a message of unknown type");
    struct json *object = json_object_make();
    int r = decode_message(d, sub, v->bytes, object);
    if (r < 0 || (json_size(object) == 0 && !keep)) {
        json_unref(object);
        return r;
    }
    *ret = object;
    return 0;
}

/* Entries are messages of their own: 1 key, 2 value. */
static int decode_map_entry(struct decoder *d, const struct proto_message *m, const struct field *f, struct bytes b,
                            struct json *map)
{
    struct value v, held = {.wire = WIRE_BYTES};
    _cleanup_free_ char *key = xstrdup("");
    struct json *value;
    int r;

    while ((r = next_value(d, &b, &v)) > 0) {
        if (v.number == 1 && v.wire == WIRE_BYTES) {
            if (memchr(v.bytes.p, '\0', (size_t)(v.bytes.end - v.bytes.p)))
                return malformed(d, "a key holds a zero byte");
            free(key);
            key = text_of(v.bytes);
        } else if (v.number == 2) {
            held = v;
        }
    }
    if (r < 0)
        return r;
    if (!utf8_valid(key, strlen(key)))
        return malformed(d, "a key is not UTF-8");
    r = decode_value(d, m, f, &held, &value);
    if (r < 0)
        return r;
    json_set(map, key, value);
    return 0;
}

static int decode_field(struct decoder *d, const struct proto_message *m, const struct field *f, const struct value *v,
                        struct json *object)
{
    struct json *value;

    if (f->map) {
        if (v->wire != WIRE_BYTES)
            return malformed(d, "a number where a map belongs");
        return decode_map_entry(d, m, f, v->bytes, json_ensure_object(object, f->name));
    }
    if (f->inlined) {
        const struct proto_message *sub = f->message;
        return sub && v->wire == WIRE_BYTES ? decode_message(d, sub, v->bytes, object)
                                            : malformed(d, "a message of unknown type");
    }
    int r = decode_value(d, m, f, v, &value);
    if (r < 0)
        return r;
    if (f->repeated)
        json_push(json_ensure_array(object, f->name), value);
    else if (value)
        json_set(object, f->name, value);
    return 0;
}

static int decode_message(struct decoder *d, const struct proto_message *m, struct bytes b, struct json *object)
{
    struct value v;
    int r;

    if (++d->depth > DEPTH_MAX)
        return malformed(d, "nested too deeply");
    while ((r = next_value(d, &b, &v)) > 0) {
        const struct field *f = find_field(m, v.number);
        if (!f)
            continue; /* of a newer version */
        r = decode_field(d, m, f, &v, object);
        if (r < 0)
            break;
    }
    d->depth--;
    return r;
}

/* "rbac.authorization.k8s.io/v1" and "Role" → "rbac/v1.Role"; options are meta's in every group. */
static const struct proto_message *find_kind(const char *api_version, const char *kind)
{
    const char *slash = strchr(api_version, '/');
    char name[160];

    if (streq(kind, "DeleteOptions"))
        return lookup("meta/v1.DeleteOptions");
    const char *dot = strchr(api_version, '.');
    if (slash && dot && dot < slash && (slash - dot < 7 || strncmp(slash - 7, ".k8s.io", 7) != 0))
        return NULL; /* a custom resource's group */
    if (slash)
        (void)snprintf(name, sizeof(name), "%.*s/%s.%s", (int)strcspn(api_version, "./"), api_version, slash + 1, kind);
    else
        (void)snprintf(name, sizeof(name), "core/%s.%s", api_version, kind);
    return lookup(name);
}

static int read_envelope(struct decoder *d, struct bytes b, char **ret_version, char **ret_kind, struct bytes *ret_raw)
{
    struct value v, t;
    int r;

    while ((r = next_value(d, &b, &v)) > 0) {
        if (v.wire != WIRE_BYTES)
            continue;
        if (v.number == 2)
            *ret_raw = v.bytes;
        while (v.number == 1 && (r = next_value(d, &v.bytes, &t)) > 0)
            if (t.wire == WIRE_BYTES && (t.number == 1 || t.number == 2)) {
                char **to = t.number == 1 ? ret_version : ret_kind;
                free(*to);
                *to = text_of(t.bytes);
            }
        if (r < 0)
            break;
    }
    return r;
}

static struct json *decode_envelope(struct decoder *d, struct bytes all)
{
    _cleanup_free_ char *version = NULL, *kind = NULL;
    struct bytes raw = {0};

    if (all.end - all.p < 4 || memcmp(all.p, magic, sizeof(magic)) != 0) {
        (void)malformed(d, "the body does not begin as one");
        return NULL;
    }
    all.p += sizeof(magic);
    if (read_envelope(d, all, &version, &kind, &raw) < 0)
        return NULL;
    const struct proto_message *m = version && kind ? find_kind(version, kind) : NULL;
    if (!m) {
        (void)error_set(d->err, EINVAL, "protobuf: no kind \"%s\" in version \"%s\"", kind ? kind : "",
                        version ? version : "");
        return NULL;
    }
    struct json *object = json_build("{s:s, s:s}", "apiVersion", version, "kind", kind);
    if (decode_message(d, m, raw, object) == 0)
        return object;
    json_unref(object);
    return NULL;
}

struct json *proto_decode(const void *data, size_t len, struct error *err)
{
    struct error ours = ERROR_INIT;
    struct decoder d = {.err = &ours};
    struct json *object = decode_envelope(&d, (struct bytes){data, (const unsigned char *)data + len});

    if (!object)
        (void)error_move(err, &ours);
    return object;
}
