#include "kube/informer.h"

#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <stdlib.h>

struct subscriber {
    informer_changed changed;
    void *arg;
};

/* Object keys under one index term; kept small and unordered. */
struct bucket {
    char **keys; /* strv */
};

struct informer {
    const struct kube_resource *resource;
    struct kube_watch *watch;
    struct hashmap objects; /* key → struct json */
    struct hashmap index;   /* term → struct bucket: "uid:<controller uid>", "label:<key>=<value>" */
    const char *const *index_labels;
    struct subscriber *subscribers;
    size_t subscriber_count, subscriber_capacity;
    int64_t revision;
    bool synced;
};

static void bucket_free(void *value)
{
    struct bucket *b = value;

    strv_free(b->keys);
    free(b);
}

static void index_add(struct informer *i, const char *term, const char *key)
{
    struct bucket *b = hashmap_get(&i->index, term);

    if (!b) {
        b = xcalloc(1, sizeof(*b));
        (void)hashmap_put(&i->index, term, b);
    }
    b->keys = strv_append(b->keys, xstrdup(key));
}

static void index_remove(struct informer *i, const char *term, const char *key)
{
    struct bucket *b = hashmap_get(&i->index, term);
    size_t n = b ? strv_len(b->keys) : 0;

    for (size_t k = 0; k < n; k++) {
        if (!streq(b->keys[k], key))
            continue;
        free(b->keys[k]);
        b->keys[k] = b->keys[n - 1];
        b->keys[n - 1] = NULL;
        if (n == 1)
            bucket_free(hashmap_remove(&i->index, term));
        return;
    }
}

static char *label_term(const char *key, const char *value)
{
    return xasprintf("label:%s=%s", key, value);
}

static void index_object(struct informer *i, const struct json *object, const char *key,
                         void (*change)(struct informer *, const char *term, const char *key))
{
    const char *uid = json_str(json_get(object_controller(object), "uid"));

    if (uid) {
        _cleanup_free_ char *term = xasprintf("uid:%s", uid);
        change(i, term, key);
    }
    for (size_t l = 0; i->index_labels && i->index_labels[l]; l++) {
        const char *value = object_label(object, i->index_labels[l]);
        if (value) {
            _cleanup_free_ char *term = label_term(i->index_labels[l], value);
            change(i, term, key);
        }
    }
}

static void on_event(void *arg, enum kube_event_type type, struct json *object)
{
    struct informer *i = arg;
    int64_t revision = object_revision(object);

    if (revision > i->revision)
        i->revision = revision;
    if (type == KUBE_BOOKMARK)
        return;
    _cleanup_free_ char *key = object_key(object);
    _cleanup_json_ struct json *old =
        type == KUBE_DELETED ? hashmap_remove(&i->objects, key) : hashmap_put(&i->objects, key, json_ref(object));
    if (old)
        index_object(i, old, key, index_remove);
    if (type != KUBE_DELETED)
        index_object(i, object, key, index_add);
    for (size_t s = 0; s < i->subscriber_count; s++)
        i->subscribers[s].changed(i->subscribers[s].arg, i->resource, type == KUBE_DELETED && !old ? object : old,
                                  type == KUBE_DELETED ? NULL : object);
}

static void on_synced(void *arg, int64_t revision)
{
    struct informer *i = arg;

    i->synced = true;
    if (revision > i->revision)
        i->revision = revision;
    /* NULL, NULL: nothing changed but the cache is complete now. */
    for (size_t s = 0; s < i->subscriber_count; s++)
        i->subscribers[s].changed(i->subscribers[s].arg, i->resource, NULL, NULL);
}

struct informer *informer_new(struct kube *k, const struct kube_resource *r, const char *ns, const char *field_selector,
                              const char *const *index_labels)
{
    static const struct kube_watch_callbacks callbacks = {.event = on_event, .synced = on_synced};
    struct informer *i = xcalloc(1, sizeof(*i));

    i->resource = r;
    i->index_labels = index_labels;
    i->watch = kube_watch_start(k, r, ns, NULL, field_selector, &callbacks, i);
    return i;
}

static void unref_json(void *value)
{
    json_unref(value);
}

void informer_free(struct informer *i)
{
    if (!i)
        return;
    kube_watch_stop(i->watch);
    hashmap_free(&i->objects, unref_json);
    hashmap_free(&i->index, bucket_free);
    free(i->subscribers);
    free(i);
}

void informer_subscribe(struct informer *i, informer_changed changed, void *arg)
{
    GROW(i->subscribers, i->subscriber_capacity, i->subscriber_count + 1);
    i->subscribers[i->subscriber_count++] = (struct subscriber){changed, arg};
}

bool informer_synced(const struct informer *i)
{
    return i->synced;
}

int64_t informer_revision(const struct informer *i)
{
    return i->revision;
}

const struct kube_resource *informer_resource(const struct informer *i)
{
    return i->resource;
}

struct json *informer_get(const struct informer *i, const char *ns, const char *name)
{
    _cleanup_free_ char *key = key_make(ns, name);

    return hashmap_get(&i->objects, key);
}

struct json *informer_list(const struct informer *i, const char *ns)
{
    struct json *list = json_array_make();

    for (struct hashmap_iter it = {0}; hashmap_next(&i->objects, &it);)
        if (!ns || !*ns || streq(object_namespace(it.value), ns))
            json_push(list, json_ref(it.value));
    return list;
}

static struct json *by_term(const struct informer *i, const char *term)
{
    struct json *list = json_array_make();
    const struct bucket *b = hashmap_get(&i->index, term);

    for (size_t k = 0; b && b->keys && b->keys[k]; k++)
        json_push(list, json_ref(hashmap_get(&i->objects, b->keys[k])));
    return list;
}

struct json *informer_owned(const struct informer *i, const char *owner_uid)
{
    _cleanup_free_ char *term = xasprintf("uid:%s", owner_uid);

    return by_term(i, term);
}

struct json *informer_labelled(const struct informer *i, const char *key, const char *value)
{
    _cleanup_free_ char *term = label_term(key, value);

    return by_term(i, term);
}

size_t informer_count(const struct informer *i)
{
    return i->objects.count;
}
