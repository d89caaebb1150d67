#include "wire/json_internal.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

/* These never change and are never freed: their count only has to stay away from 0. */
#define STATIC_REFS (UINT32_MAX / 2)
#define SMALL_INT_MIN (-1)
#define SMALL_INT_MAX 255

static struct json constants[2]; /* false, true */
static struct json_number small_ints[SMALL_INT_MAX - SMALL_INT_MIN + 1];

static bool is_static(const struct json *v)
{
    return v->refs >= STATIC_REFS / 2;
}

struct json *json_ref(struct json *v)
{
    if (v && !is_static(v))
        v->refs++;
    return v;
}

static void list_free(struct json_list *l)
{
    for (uint32_t i = 0; i < l->count; i++)
        json_unref(l->items[i]);
    if (l->items != l->room)
        free(l->items);
    free(l);
}

void json_unref(struct json *v)
{
    if (!v || is_static(v) || --v->refs > 0)
        return;
    if (v->kind == JSON_OBJECT)
        json_map_free(json_as_map(v));
    else if (v->kind == JSON_ARRAY)
        list_free(json_as_list(v));
    else
        free(v);
}

struct json *json_copy(const struct json *v)
{
    if (json_is(v, JSON_OBJECT)) {
        struct json *copy = json_map_make(json_size(v));
        for (struct json_iter it = {0}; json_each(v, &it);)
            json_set(copy, it.key, json_copy(it.value));
        return copy;
    }
    if (json_is(v, JSON_ARRAY)) {
        struct json *copy = json_list_make(json_size(v));
        for (size_t i = 0; i < json_size(v); i++)
            json_push(copy, json_copy(json_item(v, i)));
        return copy;
    }
    return json_ref((struct json *)(uintptr_t)v); /* scalars cannot be changed */
}

struct json *json_copy_shallow(const struct json *v)
{
    if (json_is(v, JSON_OBJECT)) {
        const struct json_map *m = json_as_map(v);
        struct json *copy = json_map_make(m->live);
        for (uint32_t i = 0; i < m->used; i++)
            if (m->members[i].key) {
                m->members[i].key->refs++;
                (void)json_map_put(copy, m->members[i].key, json_ref(m->members[i].value)); /* none is there twice */
            }
        return copy;
    }
    if (json_is(v, JSON_ARRAY)) {
        struct json *copy = json_list_make(json_size(v));
        for (size_t i = 0; i < json_size(v); i++)
            json_push(copy, json_ref(json_item(v, i)));
        return copy;
    }
    return json_copy(v);
}

/* --- making --- */

struct json *json_object_make(void)
{
    return json_map_make(0);
}

struct json *json_array_make(void)
{
    return json_list_make(0);
}

struct json *json_string(const char *s)
{
    return json_string_n(s, strlen(s));
}

struct json *json_string_n(const char *s, size_t len)
{
    if (len > UINT32_MAX)
        abort(); /* every source is bounded far below */
    struct json_text *t = xmalloc(offsetof(struct json_text, data) + len + 1);
    t->head = (struct json){.refs = 1, .kind = JSON_STRING};
    t->len = (uint32_t)len;
    memcpy(t->data, s, len);
    t->data[len] = '\0';
    return &t->head;
}

struct json *json_int(int64_t i)
{
    struct json_number *n;

    if (i >= SMALL_INT_MIN && i <= SMALL_INT_MAX) {
        n = &small_ints[i - SMALL_INT_MIN];
        n->head.refs = STATIC_REFS;
    } else {
        n = xmalloc(sizeof(*n));
        n->head.refs = 1;
    }
    n->head.kind = JSON_INT;
    n->i = i;
    return &n->head;
}

struct json *json_double(double d)
{
    struct json_number *n = xmalloc(sizeof(*n));

    n->head = (struct json){.refs = 1, .kind = JSON_DOUBLE};
    n->d = d;
    return &n->head;
}

struct json *json_boolean(bool b)
{
    struct json *v = &constants[b];

    v->refs = STATIC_REFS;
    v->kind = JSON_BOOL;
    return v;
}

/* --- looking --- */

enum json_kind json_kind(const struct json *v)
{
    return v ? (enum json_kind)v->kind : JSON_NULL;
}

bool json_is(const struct json *v, enum json_kind kind)
{
    return json_kind(v) == kind;
}

const char *json_str(const struct json *v)
{
    return json_is(v, JSON_STRING) ? json_as_text(v)->data : NULL;
}

size_t json_string_len(const struct json *v)
{
    return json_is(v, JSON_STRING) ? json_as_text(v)->len : 0;
}

const char *json_str_or(const struct json *v, const char *fallback)
{
    return json_is(v, JSON_STRING) ? json_as_text(v)->data : fallback;
}

int64_t json_int_or(const struct json *v, int64_t fallback)
{
    const struct json_number *n = (const void *)v;

    if (json_is(v, JSON_INT))
        return n->i;
    if (json_is(v, JSON_DOUBLE) && n->d == floor(n->d) && fabs(n->d) < 9.0e18)
        return (int64_t)n->d;
    return fallback;
}

double json_double_or(const struct json *v, double fallback)
{
    const struct json_number *n = (const void *)v;

    if (json_is(v, JSON_INT))
        return (double)n->i;
    return json_is(v, JSON_DOUBLE) ? n->d : fallback;
}

bool json_bool_or(const struct json *v, bool fallback)
{
    return json_is(v, JSON_BOOL) ? v == &constants[1] : fallback;
}

size_t json_size(const struct json *container)
{
    if (json_is(container, JSON_OBJECT))
        return json_as_map(container)->live;
    return json_is(container, JSON_ARRAY) ? json_as_list(container)->count : 0;
}

/* --- arrays --- */

struct json *json_list_make(size_t room)
{
    struct json_list *l = xmalloc(sizeof(*l) + room * sizeof(struct json *));

    if (room > JSON_CONTAINER_MAX)
        abort(); /* every source is bounded far below */
    l->head = (struct json){.refs = 1, .kind = JSON_ARRAY, .capacity = (uint32_t)room & JSON_CONTAINER_MAX};
    l->count = 0;
    l->items = l->room;
    return &l->head;
}

static void list_reserve(struct json_list *l, size_t need)
{
    if (need <= l->head.capacity)
        return;
    size_t capacity = MAX(need, MAX((size_t)l->head.capacity * 2, (size_t)4));
    if (capacity > JSON_CONTAINER_MAX)
        abort(); /* every source is bounded far below */
    struct json **items = l->items == l->room ? xreallocarray(NULL, capacity, sizeof(struct json *))
                                              : xreallocarray(l->items, capacity, sizeof(struct json *));
    if (l->items == l->room)
        memcpy(items, l->room, l->count * sizeof(struct json *));
    l->items = items;
    l->head.capacity = (uint32_t)capacity & JSON_CONTAINER_MAX;
}

static struct json_list *list_of(struct json *array)
{
    if (!json_may_change(array, JSON_ARRAY))
        abort(); /* the caller's mistake */
    return json_as_list(array);
}

struct json *json_item(const struct json *array, size_t index)
{
    if (!json_is(array, JSON_ARRAY) || index >= json_as_list(array)->count)
        return NULL;
    return json_as_list(array)->items[index];
}

void json_push(struct json *array, struct json *value)
{
    struct json_list *l = list_of(array);

    list_reserve(l, (size_t)l->count + 1);
    l->items[l->count++] = value;
}

void json_set_item(struct json *array, size_t index, struct json *value)
{
    struct json_list *l = list_of(array);

    while (l->count <= index)
        json_push(array, NULL);
    json_unref(l->items[index]);
    l->items[index] = value;
}

void json_insert_item(struct json *array, size_t index, struct json *value)
{
    struct json_list *l = list_of(array);

    index = MIN(index, (size_t)l->count);
    list_reserve(l, (size_t)l->count + 1);
    memmove(&l->items[index + 1], &l->items[index], (l->count - index) * sizeof(struct json *));
    l->items[index] = value;
    l->count++;
}

void json_remove_item(struct json *array, size_t index)
{
    struct json_list *l = list_of(array);

    if (index >= l->count)
        return;
    json_unref(l->items[index]);
    l->count--;
    memmove(&l->items[index], &l->items[index + 1], (l->count - index) * sizeof(struct json *));
}

/* --- comparing --- */

static bool maps_equal(const struct json *a, const struct json *b)
{
    if (json_size(a) != json_size(b))
        return false;
    for (struct json_iter it = {0}; json_each(a, &it);)
        if (!json_has(b, it.key) || !json_equal(it.value, json_get(b, it.key)))
            return false;
    return true;
}

static bool lists_equal(const struct json_list *a, const struct json_list *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!json_equal(a->items[i], b->items[i]))
            return false;
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
    case JSON_INT:
        return json_int_or(a, 0) == json_int_or(b, 0);
    case JSON_DOUBLE:
        return json_double_or(a, 0) == json_double_or(b, 0);
    case JSON_STRING:
        return json_as_text(a)->len == json_as_text(b)->len &&
               memcmp(json_as_text(a)->data, json_as_text(b)->data, json_as_text(a)->len) == 0;
    case JSON_ARRAY:
        return lists_equal(json_as_list(a), json_as_list(b));
    case JSON_OBJECT:
        return maps_equal(a, b);
    case JSON_NULL:
    case JSON_BOOL:
        break;
    }
    return false; /* two different booleans: there is one of each */
}
