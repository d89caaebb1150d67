#include "wire/json.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <json-c/json.h>
#include <math.h>
#include <stdarg.h>

/* struct json is json-c's object under our name: this file and json_parse.c alone know it. */
static struct json_object *raw(const struct json *v)
{
    return (struct json_object *)v;
}

static struct json *wrap(struct json_object *o)
{
    if (!o)
        abort(); /* json-c returns NULL only without memory here */
    return (struct json *)o;
}

struct json *json_ref(struct json *v)
{
    return (struct json *)json_object_get(raw(v));
}

void json_unref(struct json *v)
{
    (void)json_object_put(raw(v));
}

struct json *json_copy(const struct json *v)
{
    struct json_object *copy = NULL;

    if (v && json_object_deep_copy(raw(v), &copy, NULL) < 0)
        abort();
    return (struct json *)copy;
}

struct json *json_copy_shallow(const struct json *v)
{
    if (json_is(v, JSON_OBJECT)) {
        struct json *copy = json_object_make();
        for (struct json_iter it = {0}; json_each(v, &it);)
            json_set(copy, it.key, json_ref(it.value));
        return copy;
    }
    if (json_is(v, JSON_ARRAY)) {
        struct json *copy = json_array_make();
        for (size_t i = 0; i < json_size(v); i++)
            json_push(copy, json_ref(json_item(v, i)));
        return copy;
    }
    return json_copy(v);
}

struct json *json_object_make(void)
{
    return wrap(json_object_new_object());
}

struct json *json_array_make(void)
{
    return wrap(json_object_new_array_ext(4));
}

struct json *json_string(const char *s)
{
    return wrap(json_object_new_string(s));
}

struct json *json_string_n(const char *s, size_t len)
{
    return wrap(json_object_new_string_len(s, (int)len));
}

struct json *json_int(int64_t i)
{
    return wrap(json_object_new_int64(i));
}

struct json *json_double(double d)
{
    return wrap(json_object_new_double(d));
}

struct json *json_boolean(bool b)
{
    return wrap(json_object_new_boolean(b));
}

enum json_kind json_kind(const struct json *v)
{
    switch (json_object_get_type(raw(v))) {
    case json_type_boolean:
        return JSON_BOOL;
    case json_type_int:
        return JSON_INT;
    case json_type_double:
        return JSON_DOUBLE;
    case json_type_string:
        return JSON_STRING;
    case json_type_array:
        return JSON_ARRAY;
    case json_type_object:
        return JSON_OBJECT;
    case json_type_null:
        break;
    }
    return JSON_NULL;
}

bool json_is(const struct json *v, enum json_kind kind)
{
    return json_kind(v) == kind;
}

const char *json_str(const struct json *v)
{
    return json_is(v, JSON_STRING) ? json_object_get_string(raw(v)) : NULL;
}

size_t json_string_len(const struct json *v)
{
    return json_is(v, JSON_STRING) ? (size_t)json_object_get_string_len(raw(v)) : 0;
}

const char *json_str_or(const struct json *v, const char *fallback)
{
    const char *s = json_str(v);

    return s ? s : fallback;
}

int64_t json_int_or(const struct json *v, int64_t fallback)
{
    if (json_is(v, JSON_INT))
        return json_object_get_int64(raw(v));
    if (json_is(v, JSON_DOUBLE)) {
        double d = json_object_get_double(raw(v));
        if (d == floor(d) && fabs(d) < 9.0e18)
            return (int64_t)d;
    }
    return fallback;
}

double json_double_or(const struct json *v, double fallback)
{
    if (json_is(v, JSON_INT) || json_is(v, JSON_DOUBLE))
        return json_object_get_double(raw(v));
    return fallback;
}

bool json_bool_or(const struct json *v, bool fallback)
{
    return json_is(v, JSON_BOOL) ? json_object_get_boolean(raw(v)) : fallback;
}

struct json *json_get(const struct json *object, const char *key)
{
    struct json_object *v = NULL;

    if (!json_is(object, JSON_OBJECT) || !json_object_object_get_ex(raw(object), key, &v))
        return NULL;
    return (struct json *)v;
}

bool json_has(const struct json *object, const char *key)
{
    return json_is(object, JSON_OBJECT) && json_object_object_get_ex(raw(object), key, NULL);
}

static struct json *at(const struct json *v, va_list ap)
{
    for (const char *key; v && (key = va_arg(ap, const char *));)
        v = json_get(v, key);
    return (struct json *)v;
}

struct json *json_at(const struct json *object, ...)
{
    va_list ap;

    va_start(ap, object);
    struct json *v = at(object, ap);
    va_end(ap);
    return v;
}

const char *json_str_at(const struct json *object, ...)
{
    va_list ap;

    va_start(ap, object);
    struct json *v = at(object, ap);
    va_end(ap);
    return json_str(v);
}

size_t json_size(const struct json *container)
{
    if (json_is(container, JSON_OBJECT))
        return (size_t)json_object_object_length(raw(container));
    if (json_is(container, JSON_ARRAY))
        return json_object_array_length(raw(container));
    return 0;
}

void json_set(struct json *object, const char *key, struct json *value)
{
    if (json_object_object_add(raw(object), key, raw(value)) < 0)
        abort();
}

void json_set_str(struct json *object, const char *key, const char *value)
{
    if (value)
        json_set(object, key, json_string(value));
    else
        json_remove(object, key);
}

void json_set_int(struct json *object, const char *key, int64_t value)
{
    json_set(object, key, json_int(value));
}

void json_set_bool(struct json *object, const char *key, bool value)
{
    json_set(object, key, json_boolean(value));
}

void json_remove(struct json *object, const char *key)
{
    json_object_object_del(raw(object), key);
}

struct json *json_ensure_object(struct json *object, const char *key)
{
    struct json *v = json_get(object, key);

    if (!json_is(v, JSON_OBJECT)) {
        v = json_object_make();
        json_set(object, key, v);
    }
    return v;
}

struct json *json_ensure_array(struct json *object, const char *key)
{
    struct json *v = json_get(object, key);

    if (!json_is(v, JSON_ARRAY)) {
        v = json_array_make();
        json_set(object, key, v);
    }
    return v;
}

bool json_each(const struct json *object, struct json_iter *it)
{
    struct lh_entry *entry = it->entry;

    if (!it->started) {
        it->started = true;
        entry = json_is(object, JSON_OBJECT) ? lh_table_head(json_object_get_object(raw(object))) : NULL;
    }
    if (!entry)
        return false;
    it->key = lh_entry_k(entry);
    it->value = lh_entry_v(entry);
    it->entry = lh_entry_next(entry);
    return true;
}

struct json *json_item(const struct json *array, size_t index)
{
    return json_is(array, JSON_ARRAY) ? (struct json *)json_object_array_get_idx(raw(array), index) : NULL;
}

void json_push(struct json *array, struct json *value)
{
    if (json_object_array_add(raw(array), raw(value)) < 0)
        abort();
}

void json_set_item(struct json *array, size_t index, struct json *value)
{
    if (json_object_array_put_idx(raw(array), index, raw(value)) < 0)
        abort();
}

void json_insert_item(struct json *array, size_t index, struct json *value)
{
    size_t n = json_size(array);

    json_push(array, NULL);
    for (size_t i = n; i > index; i--)
        json_set_item(array, i, json_ref(json_item(array, i - 1)));
    json_set_item(array, MIN(index, n), value);
}

void json_remove_item(struct json *array, size_t index)
{
    (void)json_object_array_del_idx(raw(array), index, 1);
}

static bool objects_equal(const struct json *a, const struct json *b)
{
    if (json_size(a) != json_size(b))
        return false;
    /* Equal objects mostly have their members in one order: then no member has to be looked up. */
    struct json_iter other = {0};
    for (struct json_iter it = {0}; json_each(a, &it);) {
        bool aligned = json_each(b, &other) && streq(it.key, other.key);
        const struct json *v = aligned ? other.value : json_get(b, it.key);
        if (!json_equal(it.value, v) || (!v && !aligned && !json_has(b, it.key)))
            return false;
    }
    return true;
}

bool json_equal(const struct json *a, const struct json *b)
{
    if (a == b)
        return true;
    enum json_kind ka = json_kind(a), kb = json_kind(b);
    if ((ka == JSON_INT && kb == JSON_DOUBLE) || (ka == JSON_DOUBLE && kb == JSON_INT))
        return json_double_or(a, 0) == json_double_or(b, 1);
    if (ka != kb)
        return false;
    switch (ka) {
    case JSON_NULL:
        return true;
    case JSON_BOOL:
        return json_bool_or(a, false) == json_bool_or(b, false);
    case JSON_INT:
        return json_int_or(a, 0) == json_int_or(b, 0);
    case JSON_DOUBLE:
        return json_double_or(a, 0) == json_double_or(b, 0);
    case JSON_STRING: {
        int len = json_object_get_string_len(raw(a));
        return len == json_object_get_string_len(raw(b)) &&
               memcmp(json_object_get_string(raw(a)), json_object_get_string(raw(b)), (size_t)len) == 0;
    }
    case JSON_ARRAY: {
        size_t n = json_object_array_length(raw(a));
        if (n != json_object_array_length(raw(b)))
            return false;
        for (size_t i = 0; i < n; i++)
            if (!json_equal((struct json *)json_object_array_get_idx(raw(a), i),
                            (struct json *)json_object_array_get_idx(raw(b), i)))
                return false;
        return true;
    }
    case JSON_OBJECT:
        return objects_equal(a, b);
    }
    return false;
}

/* Builder: a recursive walk over the literal format. */
struct builder {
    const char *p;
    va_list ap;
};

static void skip(struct builder *b)
{
    while (*b->p == ' ' || *b->p == ',' || *b->p == ':')
        b->p++;
}

/* drop is set when the member is to be left out (NULL string, NULL object). */
static struct json *build_value(struct builder *b, bool *drop)
{
    *drop = false;
    skip(b);
    switch (*b->p++) {
    case 's': {
        const char *s = va_arg(b->ap, const char *);
        *drop = !s;
        return s ? json_string(s) : NULL;
    }
    case 'i':
        return json_int(va_arg(b->ap, int64_t));
    case 'b':
        return json_boolean(va_arg(b->ap, int) != 0);
    case 'o': {
        struct json *v = va_arg(b->ap, struct json *);
        *drop = !v;
        return v;
    }
    case 'O': {
        struct json *v = va_arg(b->ap, struct json *);
        *drop = !v;
        return json_ref(v);
    }
    case 'n':
        return NULL;
    case '{': {
        struct json *object = json_object_make();
        for (skip(b); *b->p && *b->p != '}'; skip(b)) {
            if (*b->p++ != 's')
                abort();
            const char *key = va_arg(b->ap, const char *);
            bool leave_out;
            struct json *v = build_value(b, &leave_out);
            if (!leave_out)
                json_set(object, key, v);
        }
        b->p++;
        return object;
    }
    case '[': {
        struct json *array = json_array_make();
        for (skip(b); *b->p && *b->p != ']'; skip(b)) {
            bool leave_out;
            struct json *v = build_value(b, &leave_out);
            if (!leave_out)
                json_push(array, v);
        }
        b->p++;
        return array;
    }
    default:
        abort();
    }
}

struct json *json_build(const char *format, ...)
{
    struct builder b = {.p = format};
    bool drop;

    va_start(b.ap, format);
    struct json *v = build_value(&b, &drop);
    va_end(b.ap);
    if (*b.p)
        abort();
    return v;
}
