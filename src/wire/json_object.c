/* Objects, and the atoms that are their keys. */
#include "wire/json_internal.h"

#include "base/hash.h"
#include "base/memory.h"

#include <stdarg.h>
#include <string.h>

/* --- atoms --- */

/* Open addressing; never more than half full. */
static struct {
    struct json_atom **slots;
    size_t mask, count;
} atoms;

static void atoms_grow(void)
{
    size_t slots = atoms.slots ? (atoms.mask + 1) * 2 : 512;
    struct json_atom **old = atoms.slots;
    size_t old_slots = old ? atoms.mask + 1 : 0;

    atoms.slots = xcalloc(slots, sizeof(struct json_atom *));
    atoms.mask = slots - 1;
    for (size_t i = 0; i < old_slots; i++) {
        if (!old[i])
            continue;
        size_t at = old[i]->hash & atoms.mask;
        while (atoms.slots[at])
            at = (at + 1) & atoms.mask;
        atoms.slots[at] = old[i];
    }
    free(old);
}

/* The slot of the atom, or the empty one where it would go. */
static size_t atoms_find(const char *text, size_t len, uint64_t hash)
{
    size_t at = hash & atoms.mask;

    while (atoms.slots[at]) {
        const struct json_atom *a = atoms.slots[at];
        if (a->hash == hash && a->len == len && memcmp(a->text, text, len) == 0)
            break;
        at = (at + 1) & atoms.mask;
    }
    return at;
}

struct json_atom *json_atom_get(const char *text, size_t len)
{
    uint64_t hash = hash_bytes(text, len);

    if (len > UINT32_MAX)
        abort(); /* every source is bounded far below */
    if (!atoms.slots || atoms.count * 2 > atoms.mask)
        atoms_grow();
    size_t at = atoms_find(text, len, hash);
    struct json_atom *a = atoms.slots[at];
    if (a) {
        a->refs++;
        return a;
    }
    a = xmalloc(sizeof(*a) + len + 1);
    *a = (struct json_atom){.refs = 1, .len = (uint32_t)len, .hash = hash};
    memcpy(a->text, text, len);
    a->text[len] = '\0';
    atoms.slots[at] = a;
    atoms.count++;
    return a;
}

/* What stood behind the freed slot moves up, so that no search ends too early. */
static void atoms_remove(size_t at)
{
    size_t next = at;

    atoms.slots[at] = NULL;
    for (;;) {
        next = (next + 1) & atoms.mask;
        struct json_atom *a = atoms.slots[next];
        if (!a)
            return;
        size_t home = a->hash & atoms.mask;
        if (((next - home) & atoms.mask) >= ((next - at) & atoms.mask)) {
            atoms.slots[at] = a;
            atoms.slots[next] = NULL;
            at = next;
        }
    }
}

void json_atom_put(struct json_atom *a)
{
    if (--a->refs > 0)
        return;
    atoms_remove(atoms_find(a->text, a->len, a->hash));
    atoms.count--;
    free(a);
}

/* --- objects --- */

#define NOT_FOUND UINT32_MAX

static bool has_index(const struct json_map *m)
{
    return m->head.capacity > JSON_INDEX_FROM;
}

static size_t index_slots(size_t capacity)
{
    return (size_t)1 << (64 - __builtin_clzll(capacity * 2 - 1)); /* capacity * 2, rounded up to a power of two */
}

static uint32_t *index_of(const struct json_map *m)
{
    return (uint32_t *)(void *)(m->members + m->head.capacity);
}

static size_t storage_size(size_t capacity)
{
    size_t size = capacity * sizeof(struct json_member);

    return capacity > JSON_INDEX_FROM ? size + index_slots(capacity) * sizeof(uint32_t) : size;
}

struct json *json_map_make(size_t room)
{
    if (room > JSON_CONTAINER_MAX / 4)
        abort(); /* every source is bounded far below */
    struct json_map *m = xmalloc(sizeof(*m) + storage_size(room));
    m->head = (struct json){.refs = 1, .kind = JSON_OBJECT, .capacity = (uint32_t)room & JSON_CONTAINER_MAX};
    m->used = m->live = 0;
    m->members = m->room;
    if (has_index(m))
        memset(index_of(m), 0, index_slots(room) * sizeof(uint32_t));
    return &m->head;
}

void json_map_free(struct json_map *m)
{
    for (uint32_t i = 0; i < m->used; i++) {
        if (!m->members[i].key)
            continue;
        json_atom_put(m->members[i].key);
        json_unref(m->members[i].value);
    }
    if (m->members != m->room)
        free(m->members);
    free(m);
}

static void index_add(struct json_map *m, uint32_t position)
{
    size_t mask = index_slots(m->head.capacity) - 1, at = m->members[position].key->hash & mask;
    uint32_t *index = index_of(m);

    while (index[at])
        at = (at + 1) & mask;
    index[at] = position + 1;
}

/* Moves the members, without the removed ones, to storage for capacity. */
static void map_move(struct json_map *m, size_t capacity)
{
    if (capacity > JSON_CONTAINER_MAX / 4)
        abort(); /* every source is bounded far below */
    struct json_member *old = m->members;
    uint32_t count = 0;

    m->members = xmalloc(storage_size(capacity));
    for (uint32_t i = 0; i < m->used; i++)
        if (old[i].key)
            m->members[count++] = old[i];
    m->used = count;
    m->head.capacity = (uint32_t)capacity & JSON_CONTAINER_MAX;
    if (old != m->room)
        free(old);
    if (!has_index(m))
        return;
    memset(index_of(m), 0, index_slots(capacity) * sizeof(uint32_t));
    for (uint32_t i = 0; i < count; i++)
        index_add(m, i);
}

static bool same_text(const struct json_atom *a, const char *text, size_t len)
{
    return a->len == len && memcmp(a->text, text, len) == 0;
}

static uint32_t find_indexed(const struct json_map *m, const char *text, size_t len, uint64_t hash)
{
    size_t mask = index_slots(m->head.capacity) - 1, at = hash & mask;
    const uint32_t *index = index_of(m);

    for (; index[at]; at = (at + 1) & mask) {
        const struct json_atom *a = m->members[index[at] - 1].key;
        if (a && a->hash == hash && same_text(a, text, len))
            return index[at] - 1;
    }
    return NOT_FOUND;
}

static uint32_t find_text(const struct json_map *m, const char *text)
{
    size_t len = strlen(text);

    if (has_index(m))
        return find_indexed(m, text, len, hash_bytes(text, len));
    for (uint32_t i = 0; i < m->used; i++)
        if (m->members[i].key && same_text(m->members[i].key, text, len))
            return i;
    return NOT_FOUND;
}

static uint32_t find_atom(const struct json_map *m, const struct json_atom *key)
{
    if (has_index(m))
        return find_indexed(m, key->text, key->len, key->hash);
    for (uint32_t i = 0; i < m->used; i++)
        if (m->members[i].key == key)
            return i;
    return NOT_FOUND;
}

bool json_map_put(struct json *map, struct json_atom *key, struct json *value)
{
    struct json_map *m = json_as_map(map);
    uint32_t i = find_atom(m, key);

    if (i != NOT_FOUND) {
        struct json *old = m->members[i].value;
        m->members[i].value = value;
        json_unref(old);
        json_atom_put(key);
        return true;
    }
    if (m->used == m->head.capacity) /* removed members alone may have filled it */
        map_move(m, MAX((size_t)m->live * 2, (size_t)4));
    m->members[m->used] = (struct json_member){key, value};
    m->live++;
    if (has_index(m))
        index_add(m, m->used);
    m->used++;
    return false;
}

static struct json_map *map_of(struct json *object)
{
    if (!json_may_change(object, JSON_OBJECT))
        abort(); /* the caller's mistake */
    return json_as_map(object);
}

static const struct json_member *find(const struct json *object, const char *key)
{
    if (!json_is(object, JSON_OBJECT))
        return NULL;
    const struct json_map *m = json_as_map(object);
    uint32_t i = find_text(m, key);
    return i == NOT_FOUND ? NULL : &m->members[i];
}

struct json *json_get(const struct json *object, const char *key)
{
    const struct json_member *m = find(object, key);

    return m ? m->value : NULL;
}

bool json_has(const struct json *object, const char *key)
{
    return find(object, key) != NULL;
}

static struct json *at(const struct json *v, va_list ap)
{
    for (const char *key; v && (key = va_arg(ap, const char *));)
        v = json_get(v, key);
    return (struct json *)(uintptr_t)v;
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

void json_set(struct json *object, const char *key, struct json *value)
{
    (void)json_map_put(&map_of(object)->head, json_atom_get(key, strlen(key)), value); /* replaced or not: it is set */
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
    struct json_map *m = map_of(object);
    uint32_t i = find_text(m, key);

    if (i == NOT_FOUND)
        return;
    struct json_member gone = m->members[i];
    m->live--;
    if (has_index(m)) {
        m->members[i] = (struct json_member){0}; /* the index still points here */
    } else {
        m->used--;
        memmove(&m->members[i], &m->members[i + 1], (m->used - i) * sizeof(struct json_member));
    }
    json_atom_put(gone.key);
    json_unref(gone.value);
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
    uintptr_t i = it->started ? (uintptr_t)it->entry : 0;

    it->started = true;
    if (!json_is(object, JSON_OBJECT))
        return false;
    const struct json_map *m = json_as_map(object);
    while (i < m->used && !m->members[i].key)
        i++;
    if (i >= m->used)
        return false;
    it->key = m->members[i].key->text;
    it->value = m->members[i].value;
    it->entry = (void *)(i + 1);
    return true;
}
