#include "apiserver/cel/internal.h"
#include "base/base64.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <math.h>

static const char *const type_names[CEL_TYPE_COUNT] = {
    [CEL_DYN] = "dyn",
    [CEL_ERROR] = "error",
    [CEL_NULL] = "null_type",
    [CEL_BOOL] = "bool",
    [CEL_INT] = "int",
    [CEL_UINT] = "uint",
    [CEL_DOUBLE] = "double",
    [CEL_STRING] = "string",
    [CEL_BYTES] = "bytes",
    [CEL_LIST] = "list",
    [CEL_MAP] = "map",
    [CEL_TIMESTAMP] = "google.protobuf.Timestamp",
    [CEL_DURATION] = "google.protobuf.Duration",
    [CEL_TYPE] = "type",
    [CEL_OPTIONAL] = "optional_type",
    [CEL_QUANTITY] = "kubernetes.Quantity",
    [CEL_URL] = "kubernetes.URL",
    [CEL_IP] = "net.IP",
    [CEL_CIDR] = "net.CIDR",
    [CEL_FORMAT] = "kubernetes.NamedFormat",
};

const char *cel_type_name(enum cel_type t)
{
    return type_names[t];
}

bool cel_type_by_name(const char *name, enum cel_type *ret)
{
    for (enum cel_type t = CEL_NULL; t < CEL_TYPE_COUNT; t++)
        if (streq(type_names[t], name)) {
            *ret = t;
            return true;
        }
    return false;
}

/* ---- making ---- */

static struct cel_value error_value(const char *text, size_t len)
{
    return (struct cel_value){.type = CEL_ERROR, .s = {text, len}};
}

struct cel_value cel_errorf(struct cel_eval *ev, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *text = xvasprintf(fmt, ap);
    va_end(ap);
    size_t len = strlen(text);
    return error_value(arena_strndup(&ev->arena, text, len), len);
}

struct cel_value cel_no_overload(void)
{
    static const char text[] = "no such overload";

    return error_value(text, sizeof(text) - 1);
}

struct cel_value cel_string_value(const char *data, size_t len)
{
    return (struct cel_value){.type = CEL_STRING, .s = {data, len}};
}

struct cel_value cel_string_take(struct cel_eval *ev, struct strbuf *b)
{
    size_t len = b->len;

    if (cel_charge(ev, len / 10 + 1))
        return cel_exhausted();
    struct cel_value v = cel_string_value(arena_strndup(&ev->arena, strbuf_str(b), len), len);
    strbuf_free(b);
    return v;
}

struct cel_value cel_list_value(struct cel_eval *ev, const struct cel_value *items, size_t count)
{
    struct cel_list *l = arena_alloc(&ev->arena, sizeof(*l));

    *l = (struct cel_list){.items = items, .count = count};
    return (struct cel_value){.type = CEL_LIST, .list = l};
}

struct cel_value cel_optional_of(struct cel_eval *ev, struct cel_value v)
{
    struct cel_value *copy = arena_alloc(&ev->arena, sizeof(*copy));

    *copy = v;
    return (struct cel_value){.type = CEL_OPTIONAL, .optional = copy};
}

struct cel_value cel_time_value(struct cel_eval *ev, struct cel_time t)
{
    struct cel_time *copy = arena_alloc(&ev->arena, sizeof(*copy));

    *copy = t;
    return (struct cel_value){.type = CEL_TIMESTAMP, .time = copy};
}

/* ---- JSON ---- */

static struct cel_value bytes_from_base64(struct cel_eval *ev, struct cel_string s)
{
    size_t len;
    _cleanup_free_ char *bytes = base64_decode(s.data, s.len, &len);

    if (!bytes)
        return cel_errorf(ev, "invalid base64");
    return (struct cel_value){.type = CEL_BYTES, .s = {arena_strndup(&ev->arena, bytes, len), len}};
}

/* A string that its schema gives another type. */
static struct cel_value typed_string(struct cel_eval *ev, struct cel_string s, enum cel_shape t)
{
    struct cel_time time;
    int64_t ns;

    switch (t) {
    case CEL_SHAPE_TIMESTAMP:
        return cel_parse_timestamp(s, &time) ? cel_time_value(ev, time) : cel_errorf(ev, "invalid date-time");
    case CEL_SHAPE_DATE:
        return cel_parse_date(s, &time) ? cel_time_value(ev, time) : cel_errorf(ev, "invalid date");
    case CEL_SHAPE_DURATION:
        return cel_parse_duration(s, &ns) ? (struct cel_value){.type = CEL_DURATION, .i = ns}
                                          : cel_errorf(ev, "invalid duration");
    case CEL_SHAPE_BYTES:
        return bytes_from_base64(ev, s);
    default:
        return cel_string_value(s.data, s.len);
    }
}

struct cel_value cel_from_json(struct cel_eval *ev, const struct json *v, struct schema_node schema)
{
    enum cel_shape t;

    switch (json_kind(v)) {
    case JSON_NULL:
        break;
    case JSON_BOOL:
        return cel_bool(json_bool_or(v, false));
    case JSON_INT:
        return cel_shape(schema) == CEL_SHAPE_DOUBLE ? cel_double(json_double_or(v, 0)) : cel_int(json_int_or(v, 0));
    case JSON_DOUBLE: {
        double d = json_double_or(v, 0);
        return cel_shape(schema) == CEL_SHAPE_INT && json_int_or(v, 0) == d ? cel_int(json_int_or(v, 0))
                                                                            : cel_double(d);
    }
    case JSON_STRING: {
        struct cel_string s = {json_str(v), json_string_len(v)};
        t = cel_shape(schema);
        return t == CEL_SHAPE_PLAIN ? cel_string_value(s.data, s.len) : typed_string(ev, s, t);
    }
    case JSON_ARRAY: {
        struct cel_list *l = arena_alloc(&ev->arena, sizeof(*l));
        *l = (struct cel_list){.json = v, .schema = schema, .count = json_size(v)};
        return (struct cel_value){.type = CEL_LIST, .list = l};
    }
    case JSON_OBJECT: {
        struct cel_map *m = arena_alloc(&ev->arena, sizeof(*m));
        *m = (struct cel_map){.json = v, .schema = schema, .count = json_size(v)};
        return (struct cel_value){.type = CEL_MAP, .map = m};
    }
    }
    return cel_null();
}

static bool list_to_json(struct cel_eval *ev, const struct cel_list *l, struct json **ret, struct error *err)
{
    if (l->json) {
        *ret = json_ref((struct json *)l->json);
        return true;
    }
    _cleanup_json_ struct json *array = json_array_make();
    for (size_t i = 0; i < l->count; i++) {
        struct json *item = NULL;
        if (!cel_to_json(ev, &l->items[i], &item, err))
            return false;
        json_push(array, item);
    }
    *ret = take_ptr(array);
    return true;
}

static bool map_to_json(struct cel_eval *ev, const struct cel_map *m, struct json **ret, struct error *err)
{
    if (m->json) {
        *ret = json_ref((struct json *)m->json);
        return true;
    }
    _cleanup_json_ struct json *object = json_object_make();
    for (size_t i = 0; i < m->count; i++) {
        _cleanup_(strbuf_free) struct strbuf key = {0};
        struct json *value = NULL;
        if (!cel_write_text(&m->pairs[i].key, &key)) {
            error_set(err, EINVAL, "a map with such a key cannot become JSON");
            return false;
        }
        if (!cel_to_json(ev, &m->pairs[i].value, &value, err))
            return false;
        json_set(object, strbuf_str(&key), value);
    }
    *ret = take_ptr(object);
    return true;
}

bool cel_to_json(struct cel_eval *ev, const struct cel_value *v, struct json **ret, struct error *err)
{
    *ret = NULL;
    switch (v->type) {
    case CEL_NULL:
        return true;
    case CEL_BOOL:
        *ret = json_boolean(v->b);
        return true;
    case CEL_INT:
        *ret = json_int(v->i);
        return true;
    case CEL_UINT:
        *ret = v->u <= INT64_MAX ? json_int((int64_t)v->u) : json_double((double)v->u);
        return true;
    case CEL_DOUBLE:
        if (!isfinite(v->d))
            break;
        *ret = json_double(v->d);
        return true;
    case CEL_LIST:
        return list_to_json(ev, v->list, ret, err);
    case CEL_MAP:
        return map_to_json(ev, v->map, ret, err);
    case CEL_OPTIONAL:
        return v->optional ? cel_to_json(ev, v->optional, ret, err) : true;
    case CEL_QUANTITY: {
        _cleanup_free_ char *text = quantity_format(v->quantity);
        *ret = json_string(text);
        return true;
    }
    default: {
        _cleanup_(strbuf_free) struct strbuf text = {0};
        if (!cel_write_text(v, &text))
            break;
        *ret = json_string_n(strbuf_str(&text), text.len);
        return true;
    }
    }
    error_set(err, EINVAL, "a value of type %s cannot become JSON", cel_type_name(v->type));
    return false;
}

/* ---- lists and maps ---- */

size_t cel_list_size(const struct cel_list *l)
{
    return l->count;
}

struct cel_value cel_list_at(struct cel_eval *ev, const struct cel_list *l, size_t i)
{
    if (!l->json)
        return l->items[i];
    return cel_from_json(ev, json_item(l->json, i), schema_items(l->schema));
}

size_t cel_map_size(const struct cel_map *m)
{
    return m->count;
}

static bool json_member(struct cel_eval *ev, const struct cel_map *m, const char *key, struct cel_value *ret)
{
    struct schema_node schema = {0};

    if (!json_has(m->json, key))
        return false;
    (void)cel_shape_member(m->schema, key, &schema); /* unknown members have no schema */
    *ret = cel_from_json(ev, json_get(m->json, key), schema);
    return true;
}

bool cel_map_find(struct cel_eval *ev, const struct cel_map *m, const struct cel_value *key, struct cel_value *ret)
{
    if (m->json) {
        if (!cel_is(key, CEL_STRING) || memchr(key->s.data, 0, key->s.len))
            return false;
        char *name = arena_strndup(&ev->arena, key->s.data, key->s.len);
        return json_member(ev, m, name, ret);
    }
    for (size_t i = 0; i < m->count; i++)
        if (cel_equal(ev, &m->pairs[i].key, key)) {
            *ret = m->pairs[i].value;
            return true;
        }
    return false;
}

bool cel_map_member(struct cel_eval *ev, const struct cel_map *m, const char *name, const char *unescaped,
                    struct cel_value *ret)
{
    if (m->json)
        return (unescaped && json_member(ev, m, unescaped, ret)) || json_member(ev, m, name, ret);
    struct cel_value key = cel_string_value(name, strlen(name));
    return cel_map_find(ev, m, &key, ret);
}

const struct cel_pair *cel_map_pairs(struct cel_eval *ev, const struct cel_map *m)
{
    if (!m->json)
        return m->pairs;
    struct cel_pair *pairs = arena_array(&ev->arena, m->count, sizeof(*pairs));
    size_t i = 0;
    for (struct json_iter it = {0}; json_each(m->json, &it); i++) {
        struct schema_node schema = {0};
        (void)cel_shape_member(m->schema, it.key, &schema); /* unknown members have no schema */
        pairs[i].key = cel_string_value(it.key, strlen(it.key));
        pairs[i].value = cel_from_json(ev, it.value, schema);
    }
    return pairs;
}

/* ---- equality and order ---- */

static bool is_number(const struct cel_value *v)
{
    return cel_is(v, CEL_INT) || cel_is(v, CEL_UINT) || cel_is(v, CEL_DOUBLE);
}

/* A long double holds every int64 and uint64 exactly. */
static long double number(const struct cel_value *v)
{
    return cel_is(v, CEL_INT) ? (long double)v->i : cel_is(v, CEL_UINT) ? (long double)v->u : (long double)v->d;
}

static bool strings_equal(struct cel_string a, struct cel_string b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* The item of l that a's keys belong to, in a list that is a map. */
static bool find_by_keys(struct cel_eval *ev, const struct cel_list *l, const struct cel_value *a,
                         struct schema_node schema, struct cel_value *ret)
{
    for (size_t i = 0; i < l->count; i++) {
        if (cel_charge(ev, 1))
            return false;
        if (schema_same_item(schema, json_item(l->json, i), a->map->json)) {
            *ret = cel_list_at(ev, l, i);
            return true;
        }
    }
    return false;
}

/* Every item of a has its equal in b. */
static bool contained(struct cel_eval *ev, const struct cel_list *a, const struct cel_list *b)
{
    bool by_keys = a->json && b->json && schema_list_type(a->schema) == SCHEMA_LIST_MAP;

    for (size_t i = 0; i < a->count; i++) {
        struct cel_value item = cel_list_at(ev, a, i), other;
        bool found = false;
        if (by_keys && cel_is(&item, CEL_MAP)) {
            found = find_by_keys(ev, b, &item, a->schema, &other) && cel_equal(ev, &item, &other);
        } else {
            for (size_t k = 0; k < b->count && !found; k++) {
                other = cel_list_at(ev, b, k);
                found = cel_equal(ev, &item, &other);
            }
        }
        if (!found || ev->exhausted)
            return false;
    }
    return true;
}

static bool lists_equal(struct cel_eval *ev, const struct cel_list *a, const struct cel_list *b)
{
    if (a->count != b->count)
        return false;
    if (a->json && a->json == b->json)
        return true;
    bool unordered =
        schema_list_type(a->schema) != SCHEMA_LIST_ATOMIC || schema_list_type(b->schema) != SCHEMA_LIST_ATOMIC;
    if (unordered)
        return contained(ev, a, b) && contained(ev, b, a);
    for (size_t i = 0; i < a->count; i++) {
        struct cel_value x = cel_list_at(ev, a, i), y = cel_list_at(ev, b, i);
        if (!cel_equal(ev, &x, &y))
            return false;
    }
    return true;
}

static bool maps_equal(struct cel_eval *ev, const struct cel_map *a, const struct cel_map *b)
{
    if (a->count != b->count)
        return false;
    if (a->json && a->json == b->json)
        return true;
    const struct cel_pair *pairs = cel_map_pairs(ev, a);
    for (size_t i = 0; i < a->count; i++) {
        struct cel_value other;
        if (!cel_map_find(ev, b, &pairs[i].key, &other) || !cel_equal(ev, &pairs[i].value, &other))
            return false;
    }
    return true;
}

bool cel_equal(struct cel_eval *ev, const struct cel_value *a, const struct cel_value *b)
{
    if (cel_charge(ev, 1))
        return false;
    if (is_number(a) && is_number(b))
        return number(a) == number(b);
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case CEL_NULL:
        return true;
    case CEL_BOOL:
        return a->b == b->b;
    case CEL_STRING:
    case CEL_BYTES:
    case CEL_FORMAT:
        if (cel_charge(ev, MIN(a->s.len, b->s.len) / 10))
            return false;
        return strings_equal(a->s, b->s);
    case CEL_LIST:
        return lists_equal(ev, a->list, b->list);
    case CEL_MAP:
        return maps_equal(ev, a->map, b->map);
    case CEL_TIMESTAMP:
        return a->time->seconds == b->time->seconds && a->time->nanos == b->time->nanos;
    case CEL_DURATION:
        return a->i == b->i;
    case CEL_TYPE:
        return a->t == b->t;
    case CEL_OPTIONAL:
        return a->optional && b->optional ? cel_equal(ev, a->optional, b->optional) : a->optional == b->optional;
    case CEL_QUANTITY:
        return quantity_compare(a->quantity, b->quantity) == 0;
    case CEL_URL:
        return cel_url_equal(a->url, b->url);
    case CEL_IP:
        return ip_equal(a->ip, b->ip);
    case CEL_CIDR:
        return cel_cidr_equal(a->cidr, b->cidr);
    default:
        return false;
    }
}

#define ORDER(a, b) ((a) < (b) ? -1 : (a) > (b))

bool cel_compare(const struct cel_value *a, const struct cel_value *b, int *ret)
{
    if (is_number(a) && is_number(b)) {
        long double x = number(a), y = number(b);
        *ret = isnan(x) || isnan(y) ? 2 : ORDER(x, y);
        return true;
    }
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case CEL_BOOL:
        *ret = (int)a->b - (int)b->b;
        return true;
    case CEL_STRING:
    case CEL_BYTES: {
        size_t common = MIN(a->s.len, b->s.len);
        int c = common ? memcmp(a->s.data, b->s.data, common) : 0;
        *ret = c ? c : ORDER(a->s.len, b->s.len);
        return true;
    }
    case CEL_DURATION:
        *ret = ORDER(a->i, b->i);
        return true;
    case CEL_TIMESTAMP:
        *ret = a->time->seconds != b->time->seconds ? ORDER(a->time->seconds, b->time->seconds)
                                                    : ORDER(a->time->nanos, b->time->nanos);
        return true;
    default:
        return false;
    }
}
