/* How values lie in memory: json.c (values), json_object.c (objects and their keys), json_parse.c, json_write.c. */
#pragma once

#include "wire/json.h"

#include <stddef.h>

/* Every value begins so. What follows depends on the kind. */
struct json {
    uint32_t refs;
    uint32_t kind : 4;
    uint32_t capacity : 28; /* of containers */
};

struct json_text {
    struct json head;
    uint32_t len;
    char data[]; /* NUL behind it */
};

struct json_number {
    struct json head;
    union {
        int64_t i;
        double d;
    };
};

/* Items lie right behind the head until there is no room; then elsewhere. */
struct json_list {
    struct json head;
    uint32_t count;
    struct json **items;
    struct json *room[];
};

/*
 * Keys are atoms: one copy of each text in the process, counted. A sandbox's managedFields, its pod's and those of ten
 * thousand others hold the same few hundred names.
 */
struct json_atom {
    uint32_t refs;
    uint32_t len;
    uint64_t hash;
    char text[];
};

struct json_member {
    struct json_atom *key; /* NULL: removed */
    struct json *value;
};

/*
 * Members in order of insertion, lying like a list's items. Beyond JSON_INDEX_FROM of them a hash index lies behind
 * the members: twice as many slots as there is room for members, each the position of a member + 1.
 */
#define JSON_INDEX_FROM 16
struct json_map {
    struct json head;
    uint32_t used; /* slots, removed ones included */
    uint32_t live;
    struct json_member *members;
    struct json_member room[];
};

/* A container about to be changed must be one, and in builds without optimisation nobody else may hold it. */
static inline bool json_may_change(const struct json *v, enum json_kind kind)
{
#ifdef __OPTIMIZE__
    return json_is(v, kind);
#else
    return json_is(v, kind) && v->refs == 1;
#endif
}

#define JSON_CONTAINER_MAX ((1u << 28) - 1)

static inline struct json_text *json_as_text(const struct json *v)
{
    return (struct json_text *)(uintptr_t)v;
}
static inline struct json_list *json_as_list(const struct json *v)
{
    return (struct json_list *)(uintptr_t)v;
}
static inline struct json_map *json_as_map(const struct json *v)
{
    return (struct json_map *)(uintptr_t)v;
}

/* A reference to the atom of a text. */
struct json_atom *json_atom_get(const char *text, size_t len);
void json_atom_put(struct json_atom *a);

/* Empty ones with room for that many. */
struct json *json_map_make(size_t room);
struct json *json_list_make(size_t room);
/* Takes key and value. Returns whether the key was there before (its value is replaced). */
bool json_map_put(struct json *map, struct json_atom *key, struct json *value);
void json_map_free(struct json_map *map);
