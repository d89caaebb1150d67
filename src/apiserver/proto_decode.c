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

struct bytes {
    const unsigned char *p, *end;
};

struct value {
    uint64_t number;
    enum proto_wire wire;
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
    *v = (struct value){.number = tag >> 3, .wire = (enum proto_wire)(tag & 7)};
    switch (tag & 7) {
    case PROTO_VARINT:
        return read_varint(b, &v->scalar) ? 1 : malformed(d, "broken number");
    case PROTO_FIXED64:
        return read_fixed(b, 8, &v->scalar) ? 1 : malformed(d, "broken number");
    case PROTO_FIXED32:
        return read_fixed(b, 4, &v->scalar) ? 1 : malformed(d, "broken number");
    case PROTO_LENGTH:
        if (!read_varint(b, &len) || len > (uint64_t)(b->end - b->p))
            return malformed(d, "broken length");
        v->bytes = (struct bytes){b->p, b->p + len};
        b->p += len;
        return 1;
    default:
        return malformed(d, "unknown wire type");
    }
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
    if (b.end - b.p >= 4 && memcmp(b.p, PROTO_MAGIC, PROTO_MAGIC_LEN) == 0)
        return decode_envelope(d, b);
    return parse_json(d, b);
}

/* NULL for "not set", and with the error set. */
static struct json *decode_special(struct decoder *d, enum proto_type type, struct bytes b)
{
    struct special s = {0};

    if (read_special(d, b, &s) < 0)
        return NULL;
    struct bytes one = s.bytes[1];
    switch (type) {
    case PROTO_TIME:
        return time_json(d, &s, 0);
    case PROTO_MICRO_TIME:
        return time_json(d, &s, 6);
    case PROTO_QUANTITY:
        return s.has[1] ? read_text(d, one) : NULL;
    case PROTO_INT_OR_STRING:
        return s.numbers[1] == 1 ? read_text(d, s.bytes[3]) : json_int((int32_t)s.numbers[2]);
    case PROTO_DURATION:
        return duration_json(s.numbers[1]);
    case PROTO_RAW:
        return raw_extension(d, one);
    default:
        return parse_json(d, one);
    }
}

static int decode_message(struct decoder *d, const struct proto_message *m, struct bytes b, struct json *object);

static struct json *decode_object(struct decoder *d, const struct proto_message *m, struct bytes b)
{
    struct json *object = json_object_make();

    if (decode_message(d, m, b, object) == 0)
        return object;
    json_unref(object);
    return NULL;
}

/* Arrays of strings; a schema, or what may stand in its place. NULL for "not set", and with the error set. */
static struct json *decode_choice(struct decoder *d, const struct proto_field *f, struct bytes b)
{
    enum proto_type type = f->type;
    _cleanup_json_ struct json *items = type == PROTO_STRINGS ? json_array_make() : NULL, *one = NULL;
    struct value v;
    int r;

    while ((r = next_value(d, &b, &v)) > 0) {
        bool in_list = type == PROTO_STRINGS || (type != PROTO_SCHEMA_OR_BOOL && v.number == 2);
        bool text = type == PROTO_STRINGS || (type == PROTO_SCHEMA_OR_STRINGS && v.number == 2);
        if (type == PROTO_SCHEMA_OR_BOOL && v.number == 1) {
            if (!one)
                one = json_boolean(v.scalar != 0);
            continue;
        }
        if (v.wire != PROTO_LENGTH)
            continue;
        if (in_list && !items)
            items = json_array_make();
        struct json *value = text ? read_text(d, v.bytes) : decode_object(d, f->message, v.bytes);
        if (!value)
            return NULL;
        if (in_list) {
            json_push(items, value);
        } else {
            json_unref(one);
            one = value;
        }
    }
    return r < 0 ? NULL : take_ptr(*(items ? &items : &one));
}

static struct json *decode_scalar(struct decoder *d, const struct proto_field *f, uint64_t scalar)
{
    double number;

    switch (f->type) {
    case PROTO_BOOL:
        return json_boolean(scalar != 0);
    case PROTO_INT32:
        return json_int((int32_t)scalar);
    case PROTO_INT64:
        return json_int((int64_t)scalar);
    default:
        memcpy(&number, &scalar, sizeof(number));
        if (isfinite(number))
            return json_double(number);
        (void)malformed(d, "a number is not finite");
        return NULL;
    }
}

/* *ret is NULL when the value is to be left out. */
static int decode_value(struct decoder *d, const struct proto_field *f, const struct value *v, struct json **ret)
{
    bool keep = f->keep_zero || f->always || f->repeated || f->map, scalar = v->wire != PROTO_LENGTH;
    size_t len = scalar ? 0 : (size_t)(v->bytes.end - v->bytes.p);
    _cleanup_free_ char *encoded = NULL;

    *ret = NULL;
    switch (f->type) {
    case PROTO_BOOL:
    case PROTO_INT32:
    case PROTO_INT64:
    case PROTO_DOUBLE:
        if (v->wire != (f->type == PROTO_DOUBLE ? PROTO_FIXED64 : PROTO_VARINT))
            return malformed(d, "another wire type where a number belongs");
        if (v->scalar || keep)
            *ret = decode_scalar(d, f, v->scalar);
        return d->err->code ? -EINVAL : 0;
    default:
        break;
    }
    if (scalar)
        return malformed(d, "a number where bytes belong");
    switch (f->type) {
    case PROTO_STRING:
        *ret = len || keep ? read_text(d, v->bytes) : NULL;
        break;
    case PROTO_BYTES:
        encoded = base64_encode(v->bytes.p, len);
        *ret = len || keep ? json_string(encoded) : NULL;
        break;
    case PROTO_MESSAGE:
        *ret = decode_object(d, f->message, v->bytes);
        if (json_size(*ret) == 0 && !keep) {
            json_unref(*ret);
            *ret = NULL;
        }
        break;
    case PROTO_UNKNOWN:
        return malformed(d, "a message of unknown type");
    case PROTO_STRINGS:
    case PROTO_SCHEMA_OR_ARRAY:
    case PROTO_SCHEMA_OR_BOOL:
    case PROTO_SCHEMA_OR_STRINGS:
        *ret = decode_choice(d, f, v->bytes);
        break;
    default:
        *ret = decode_special(d, f->type, v->bytes);
    }
    if (!d->err->code)
        return 0;
    json_unref(*ret);
    *ret = NULL;
    return -EINVAL;
}

/* Entries are messages of their own: 1 key, 2 value. */
static int decode_map_entry(struct decoder *d, const struct proto_field *f, struct bytes b, struct json *map)
{
    struct value v, held = {.wire = PROTO_LENGTH};
    _cleanup_free_ char *key = xstrdup("");
    struct json *value;
    int r;

    while ((r = next_value(d, &b, &v)) > 0) {
        if (v.number == 1 && v.wire == PROTO_LENGTH) {
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
    r = decode_value(d, f, &held, &value);
    if (r < 0)
        return r;
    json_set(map, key, value);
    return 0;
}

static int decode_field(struct decoder *d, const struct proto_field *f, const struct value *v, struct json *object)
{
    struct json *value;

    if (f->map) {
        if (v->wire != PROTO_LENGTH)
            return malformed(d, "a number where a map belongs");
        return decode_map_entry(d, f, v->bytes, json_ensure_object(object, f->name));
    }
    if (f->inlined) {
        const struct proto_message *sub = f->message;
        return sub && v->wire == PROTO_LENGTH ? decode_message(d, sub, v->bytes, object)
                                              : malformed(d, "a message of unknown type");
    }
    int r = decode_value(d, f, v, &value);
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
        const struct proto_field *f = proto_find_field(m, v.number);
        if (!f)
            continue; /* of a newer version */
        r = decode_field(d, f, &v, object);
        if (r < 0)
            break;
    }
    d->depth--;
    return r;
}

static int read_envelope(struct decoder *d, struct bytes b, char **ret_version, char **ret_kind, struct bytes *ret_raw)
{
    struct value v, t;
    int r;

    while ((r = next_value(d, &b, &v)) > 0) {
        if (v.wire != PROTO_LENGTH)
            continue;
        if (v.number == 2)
            *ret_raw = v.bytes;
        while (v.number == 1 && (r = next_value(d, &v.bytes, &t)) > 0)
            if (t.wire == PROTO_LENGTH && (t.number == 1 || t.number == 2)) {
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

    if (all.end - all.p < 4 || memcmp(all.p, PROTO_MAGIC, PROTO_MAGIC_LEN) != 0) {
        (void)malformed(d, "the body does not begin as one");
        return NULL;
    }
    all.p += PROTO_MAGIC_LEN;
    if (read_envelope(d, all, &version, &kind, &raw) < 0)
        return NULL;
    const struct proto_message *m = version && kind ? proto_find_kind(version, kind) : NULL;
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
