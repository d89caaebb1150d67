#include "base/hashmap.h"

#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

struct hashmap_entry {
    struct hashmap_entry *next;
    uint64_t hash;
    void *value;
    char key[];
};

static struct hashmap_entry **find(const struct hashmap *m, const char *key, uint64_t hash)
{
    struct hashmap_entry **p = &m->buckets[hash & (m->bucket_count - 1)];

    while (*p && ((*p)->hash != hash || strcmp((*p)->key, key) != 0))
        p = &(*p)->next;
    return p;
}

static void grow(struct hashmap *m)
{
    size_t count = m->bucket_count ? m->bucket_count * 2 : 16;
    struct hashmap_entry **buckets = xcalloc(count, sizeof(*buckets));

    for (size_t i = 0; i < m->bucket_count; i++) {
        for (struct hashmap_entry *e = m->buckets[i], *next; e; e = next) {
            struct hashmap_entry **to = &buckets[e->hash & (count - 1)];

            next = e->next;
            e->next = *to;
            *to = e;
        }
    }
    free(m->buckets);
    m->buckets = buckets;
    m->bucket_count = count;
}

void *hashmap_get(const struct hashmap *m, const char *key)
{
    if (!m->count)
        return NULL;
    struct hashmap_entry *e = *find(m, key, hash_bytes(key, strlen(key)));

    return e ? e->value : NULL;
}

void *hashmap_put(struct hashmap *m, const char *key, void *value)
{
    uint64_t hash = hash_bytes(key, strlen(key));

    if (m->count >= m->bucket_count)
        grow(m);
    struct hashmap_entry **p = find(m, key, hash);
    if (*p) {
        void *old = (*p)->value;
        (*p)->value = value;
        return old;
    }
    size_t len = strlen(key) + 1;
    struct hashmap_entry *e = xmalloc(sizeof(*e) + len);

    *e = (struct hashmap_entry){.hash = hash, .value = value};
    memcpy(e->key, key, len);
    *p = e;
    m->count++;
    return NULL;
}

void *hashmap_remove(struct hashmap *m, const char *key)
{
    if (!m->count)
        return NULL;
    struct hashmap_entry **p = find(m, key, hash_bytes(key, strlen(key))), *e = *p;

    if (!e)
        return NULL;
    void *value = e->value;
    *p = e->next;
    free(e);
    m->count--;
    return value;
}

bool hashmap_next(const struct hashmap *m, struct hashmap_iter *it)
{
    if (!it->started) {
        it->started = true;
        it->bucket = 0;
        it->next = m->bucket_count ? m->buckets[0] : NULL;
    }
    while (!it->next) {
        if (it->bucket + 1 >= m->bucket_count)
            return false;
        it->next = m->buckets[++it->bucket];
    }
    it->key = it->next->key;
    it->value = it->next->value;
    it->next = it->next->next;
    return true;
}

void hashmap_free(struct hashmap *m, void (*destroy)(void *value))
{
    for (size_t i = 0; i < m->bucket_count; i++) {
        for (struct hashmap_entry *e = m->buckets[i], *next; e; e = next) {
            next = e->next;
            if (destroy)
                destroy(e->value);
            free(e);
        }
    }
    free(m->buckets);
    *m = (struct hashmap){0};
}
