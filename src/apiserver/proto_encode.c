#include "apiserver/proto.h"

#include "apiserver/proto_internal.h"
#include "base/base64.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "kube/object.h"

#include <endian.h>

struct encoder {
    struct strbuf *out;
    const char *misfit; /* the innermost field whose value is not of its type */
};

static void put_varint(struct strbuf *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        strbuf_addc(out, (char)(v | 0x80));
    strbuf_addc(out, (char)v);
}

static void put_tag(struct strbuf *out, uint64_t number, enum proto_wire wire)
{
    put_varint(out, number << 3 | wire);
}

static void put_number(struct strbuf *out, uint64_t field, int64_t v)
{
    put_tag(out, field, PROTO_VARINT);
    put_varint(out, (uint64_t)v);
}

static void put_bytes(struct strbuf *out, uint64_t field, const void *data, size_t len)
{
    put_tag(out, field, PROTO_LENGTH);
    put_varint(out, len);
    strbuf_add(out, data, len);
}

/*
 * A message within another: one byte is left for its length, which most of them need; the longer ones are moved.
 *     size_t at = begin(out, 3);  ...  end(out, at);
 */
static size_t begin(struct strbuf *out, uint64_t field)
{
    put_tag(out, field, PROTO_LENGTH);
    strbuf_addc(out, 0);
    return out->len;
}

static void end(struct strbuf *out, size_t at)
{
    size_t len = out->len - at, extra = 0;
    char head[10];

    for (size_t rest = len >> 7; rest; rest >>= 7)
        extra++;
    for (size_t i = 0; i <= extra; i++)
        head[i] = (char)((len >> 7 * i & 0x7f) | (i < extra ? 0x80 : 0));
    if (extra) {
        strbuf_add(out, head, extra); /* makes room */
        memmove(out->data + at + extra, out->data + at, len);
    }
    memcpy(out->data + at - 1, head, extra + 1);
}

/* Appends v as the value of `field`. */
static int put_time(struct strbuf *out, uint64_t field, const struct json *v)
{
    int64_t ns;

    if (!json_str(v) || !time_parse_rfc3339(json_str(v), &ns))
        return -EINVAL;
    int64_t seconds = ns / NSEC_PER_SEC, rest = ns % NSEC_PER_SEC;
    if (rest < 0)
        seconds--, rest += NSEC_PER_SEC;
    size_t at = begin(out, field);
    put_number(out, 1, seconds);
    put_number(out, 2, rest);
    end(out, at);
    return 0;
}

static int put_string_message(struct strbuf *out, uint64_t field, const char *text, size_t len)
{
    size_t at = begin(out, field);

    put_bytes(out, 1, text, len);
    end(out, at);
    return 0;
}

static int put_json_text(struct strbuf *out, uint64_t field, const struct json *v)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};

    json_write(v, &text);
    return put_string_message(out, field, text.data, text.len);
}

static int put_quantity(struct strbuf *out, uint64_t field, const struct json *v)
{
    if (json_is(v, JSON_STRING))
        return put_string_message(out, field, json_str(v), json_string_len(v));
    return json_is(v, JSON_INT) || json_is(v, JSON_DOUBLE) ? put_json_text(out, field, v) : -EINVAL;
}

static int put_int_or_string(struct strbuf *out, uint64_t field, const struct json *v)
{
    bool text = json_is(v, JSON_STRING);

    if (!text && !json_is(v, JSON_INT))
        return -EINVAL;
    size_t at = begin(out, field);
    put_number(out, 1, text);
    put_number(out, 2, text ? 0 : json_int_or(v, 0));
    put_bytes(out, 3, text ? json_str(v) : "", text ? json_string_len(v) : 0);
    end(out, at);
    return 0;
}

static int put_strings(struct strbuf *out, uint64_t field, const struct json *array)
{
    for (size_t i = 0; i < json_size(array); i++) {
        const struct json *v = json_item(array, i);
        if (!json_is(v, JSON_STRING))
            return -EINVAL;
        put_bytes(out, field, json_str(v), json_string_len(v));
    }
    return 0;
}

static int put_base64(struct strbuf *out, uint64_t field, const struct json *v)
{
    size_t len;
    _cleanup_free_ char *data = json_str(v) ? base64_decode(json_str(v), json_string_len(v), &len) : NULL;

    if (!data)
        return -EINVAL;
    put_bytes(out, field, data, len);
    return 0;
}

static void put_double(struct strbuf *out, uint64_t field, double d)
{
    uint64_t bits;

    memcpy(&bits, &d, sizeof(bits));
    bits = htole64(bits);
    put_tag(out, field, PROTO_FIXED64);
    strbuf_add(out, &bits, sizeof(bits));
}

static int put_members(struct encoder *e, const struct proto_message *m, const struct json *object);

static int put_message(struct encoder *e, uint64_t field, const struct proto_message *m, const struct json *object)
{
    size_t at = begin(e->out, field);

    if (object && !json_is(object, JSON_OBJECT))
        return -EINVAL;
    int r = put_members(e, m, object);
    end(e->out, at);
    return r;
}

/* What may stand in a schema's place: 1 is the one, 2 the other (JSONSchemaPropsOrArray, OrBool, OrStringArray). */
static int put_choice(struct encoder *e, const struct proto_field *f, const struct json *v)
{
    bool object = json_is(v, JSON_OBJECT), array = json_is(v, JSON_ARRAY);
    int r = 0;

    if (f->type == PROTO_SCHEMA_OR_BOOL ? !object && !json_is(v, JSON_BOOL) : !object && !array)
        return -EINVAL;
    size_t at = begin(e->out, f->number);
    if (f->type == PROTO_SCHEMA_OR_BOOL) {
        put_number(e->out, 1, object || json_bool_or(v, false));
        r = object ? put_message(e, 2, f->message, v) : 0;
    } else if (object) {
        r = put_message(e, 1, f->message, v);
    } else if (f->type == PROTO_SCHEMA_OR_STRINGS) {
        r = put_strings(e->out, 2, v);
    }
    for (size_t i = 0; array && f->type == PROTO_SCHEMA_OR_ARRAY && r == 0 && i < json_size(v); i++)
        r = put_message(e, 2, f->message, json_item(v, i));
    end(e->out, at);
    return r;
}

/* v is not null. -EINVAL when it is not of the field's type. */
static int put_value(struct encoder *e, const struct proto_field *f, const struct json *v)
{
    uint64_t number = f->number;
    enum json_kind kind = json_kind(v);
    size_t at;
    int r;

    switch (f->type) {
    case PROTO_STRING:
        if (kind != JSON_STRING)
            return -EINVAL;
        put_bytes(e->out, number, json_str(v), json_string_len(v));
        return 0;
    case PROTO_BOOL:
        put_number(e->out, number, json_bool_or(v, false));
        return kind == JSON_BOOL ? 0 : -EINVAL;
    case PROTO_INT32:
    case PROTO_INT64:
        put_number(e->out, number, json_int_or(v, 0));
        return kind == JSON_INT || (kind == JSON_DOUBLE && json_int_or(v, 0) == json_int_or(v, 1)) ? 0 : -EINVAL;
    case PROTO_DOUBLE:
        put_double(e->out, number, json_double_or(v, 0));
        return kind == JSON_INT || kind == JSON_DOUBLE ? 0 : -EINVAL;
    case PROTO_BYTES:
        return put_base64(e->out, number, v);
    case PROTO_TIME:
    case PROTO_MICRO_TIME:
        return put_time(e->out, number, v);
    case PROTO_QUANTITY:
        return put_quantity(e->out, number, v);
    case PROTO_INT_OR_STRING:
        return put_int_or_string(e->out, number, v);
    case PROTO_JSON_TEXT:
    case PROTO_RAW:
        return put_json_text(e->out, number, v);
    case PROTO_STRINGS:
        at = begin(e->out, number);
        r = put_strings(e->out, 1, v);
        end(e->out, at);
        return kind == JSON_ARRAY ? r : -EINVAL;
    case PROTO_SCHEMA_OR_ARRAY:
    case PROTO_SCHEMA_OR_BOOL:
    case PROTO_SCHEMA_OR_STRINGS:
        return put_choice(e, f, v);
    case PROTO_MESSAGE:
        return put_message(e, number, f->message, v);
    case PROTO_DURATION: /* of no kind that is served */
    case PROTO_UNKNOWN:
        break;
    }
    return -EINVAL;
}

/* Entries of a map are messages of their own: 1 key, 2 value. */
static int put_map(struct encoder *e, const struct proto_field *f, const struct json *map)
{
    struct proto_field value = *f;
    int r = json_is(map, JSON_OBJECT) ? 0 : -EINVAL;

    value.number = 2;
    for (struct json_iter it = {0}; r == 0 && json_each(map, &it);) {
        size_t at = begin(e->out, f->number);
        put_bytes(e->out, 1, it.key, strlen(it.key));
        if (it.value)
            r = put_value(e, &value, it.value);
        end(e->out, at);
    }
    return r;
}

static int put_field(struct encoder *e, const struct proto_field *f, const struct json *v)
{
    int r = 0;

    if (f->map)
        return put_map(e, f, v);
    if (!f->repeated)
        return put_value(e, f, v);
    if (!json_is(v, JSON_ARRAY))
        return -EINVAL;
    for (size_t i = 0; r == 0 && i < json_size(v); i++)
        r = json_item(v, i) ? put_value(e, f, json_item(v, i)) : -EINVAL;
    return r;
}

static int put_members(struct encoder *e, const struct proto_message *m, const struct json *object)
{
    const struct proto_fields *fields = proto_fields(m);

    for (size_t i = 0; i < fields->count; i++) {
        const struct proto_field *f = &fields->items[i];
        const struct json *v = f->inlined ? object : json_get(object, f->name);
        if (!v)
            continue;
        int r = f->inlined ? put_message(e, f->number, f->message, v) : put_field(e, f, v);
        if (r < 0) {
            e->misfit = e->misfit ? e->misfit : f->name;
            return r;
        }
    }
    return 0;
}

/* The envelope up to the object's own message, which is the caller's to append. */
static void put_envelope(struct strbuf *out, const char *api_version, const char *kind)
{
    strbuf_add(out, PROTO_MAGIC, PROTO_MAGIC_LEN);
    size_t at = begin(out, 1);
    put_bytes(out, 1, api_version, strlen(api_version));
    put_bytes(out, 2, kind, strlen(kind));
    end(out, at);
}

static void put_envelope_end(struct strbuf *out)
{
    put_bytes(out, 3, "", 0);
    put_bytes(out, 4, "", 0);
}

static int misfit_error(const struct encoder *e, const char *kind, struct error *err)
{
    return error_set(err, EINVAL, "protobuf: %s: %s is not of the type that the kind has", kind,
                     e->misfit ? e->misfit : "the object");
}

static const struct proto_message *message_of(const struct json *object, struct error *err)
{
    const char *version = object_api_version(object), *kind = object_kind(object);
    const struct proto_message *m = proto_find_kind(version, kind);

    if (!m)
        (void)error_set(err, EINVAL, "protobuf: no kind \"%s\" in version \"%s\"", kind, version);
    return m;
}

bool proto_has_kind(const char *api_version, const char *kind)
{
    return proto_find_kind(api_version, kind) != NULL;
}

int proto_encode(const struct json *object, struct strbuf *out, struct error *err)
{
    const struct proto_message *m = message_of(object, err);
    struct encoder e = {.out = out};
    size_t before = out->len;

    if (!m)
        return -EINVAL;
    put_envelope(out, object_api_version(object), object_kind(object));
    int r = put_message(&e, 2, m, object);
    if (r < 0) {
        strbuf_truncate(out, before);
        return misfit_error(&e, object_kind(object), err);
    }
    put_envelope_end(out);
    return 0;
}

void proto_list_begin(const char *api_version, const char *list_kind, const struct json *metadata, size_t items_len,
                      struct strbuf *out)
{
    _cleanup_(strbuf_free) struct strbuf head = {0};
    struct encoder e = {.out = &head};

    (void)put_message(&e, 1, proto_find_kind("v1", "ListMeta"), metadata); /* ours: it fits */
    put_envelope(out, api_version, list_kind);
    put_tag(out, 2, PROTO_LENGTH);
    put_varint(out, head.len + items_len);
    strbuf_add(out, head.data, head.len);
}

int proto_list_item(const struct json *item, struct strbuf *out, struct error *err)
{
    const struct proto_message *m = message_of(item, err);
    struct encoder e = {.out = out};
    size_t before = out->len;

    if (!m)
        return -EINVAL;
    if (put_message(&e, 2, m, item) == 0)
        return 0;
    strbuf_truncate(out, before);
    return misfit_error(&e, object_kind(item), err);
}

int proto_watch_frame(const char *type, const struct json *object, struct strbuf *out, struct error *err)
{
    size_t before = out->len;

    strbuf_add(out, "\0\0\0\0", 4);
    put_bytes(out, 1, type, strlen(type));
    size_t raw = begin(out, 2), text = begin(out, 1);
    int r = proto_encode(object, out, err);
    end(out, text);
    end(out, raw);
    if (r < 0) {
        strbuf_truncate(out, before);
        return r;
    }
    uint32_t len = htobe32((uint32_t)(out->len - before - 4));
    memcpy(out->data + before, &len, sizeof(len));
    return 0;
}
