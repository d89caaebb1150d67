#include "apiserver/redefault.h"

#include "apiserver/object_schemas.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <event2/event.h>

#define CRDS "apiextensions.k8s.io/customresourcedefinitions"
#define OBJECTS_PER_TURN 500

struct redefaults {
    struct apiserver *server;
    struct hashmap definitions; /* name → key of the last object looked at, owned; "" = none yet */
    struct event *turn;
};

static void schedule(struct redefaults *d)
{
    if (d->definitions.count > 0 && !evtimer_pending(d->turn, NULL))
        (void)evtimer_add(d->turn, &(struct timeval){0}); /* fails only without memory */
}

static void give_defaults(struct redefaults *d, const struct resource *r, const struct json *stored)
{
    struct api_call c = api_internal_call(d->server, VERB_UPDATE, r, object_namespace(stored), object_name(stored));
    _cleanup_json_ struct json *shown = object_shown(r, stored);

    if (object_is_defaulted(&c, shown))
        return;
    c.body = shown;
    api_update(&c);
    if (c.result.code >= 400)
        log_warn("an object does not get the defaults of its definition", "kind", r->kind, "name", object_name(stored),
                 "error", json_str_or(json_get(c.result.object, "message"), ""), NULL);
    api_result_clear(&c.result);
}

/* The resource in whose form the objects of a definition are stored; NULL: none that is served. */
static const struct resource *storage_resource(const struct redefaults *d, const char *name)
{
    struct stored *crd = store_get(d->server->store, CRDS, name);
    const struct json *spec = crd && !object_deleting(crd->value) ? json_get(crd->value, "spec") : NULL;
    const struct json *versions = json_get(spec, "versions");

    for (size_t i = 0; i < json_size(versions); i++)
        if (json_bool_or(json_get(json_item(versions, i), "storage"), false))
            return resource_by_plural(d->server->resources, json_str_or(json_get(spec, "group"), ""),
                                      json_str_or(json_get(json_item(versions, i), "name"), ""),
                                      json_str_or(json_at(spec, "names", "plural", NULL), ""));
    return NULL;
}

/* The next objects after the key; a new key, or NULL when all have been looked at. */
static char *look_at_some(struct redefaults *d, const char *name, const char *after)
{
    const struct resource *served = storage_resource(d, name);
    size_t count, seen = 0;
    char *last = NULL;

    if (!served)
        return NULL;
    struct resource *r = resource_ref(served);
    struct stored **list = store_list(d->server->store, r->store_name, NULL, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i]->key, after) <= 0)
            continue;
        if (seen++ == OBJECTS_PER_TURN) {
            last = xstrdup(list[i - 1]->key);
            break;
        }
        if (store_get(d->server->store, r->store_name, list[i]->key) == list[i])
            give_defaults(d, r, list[i]->value);
    }
    store_list_free(list, count);
    resource_unref(r);
    return last;
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct redefaults *d = arg;
    struct hashmap_iter it = {0};

    (void)fd;
    (void)what;
    if (!hashmap_next(&d->definitions, &it))
        return;
    _cleanup_free_ char *name = xstrdup(it.key), *after = hashmap_remove(&d->definitions, name);
    char *next = look_at_some(d, name, after);
    if (next)
        free(hashmap_put(&d->definitions, name, next));
    schedule(d);
}

void redefaults_check(struct redefaults *d, const struct json *crd)
{
    free(hashmap_put(&d->definitions, object_name(crd), xstrdup("")));
    schedule(d);
}

struct redefaults *redefaults_new(struct apiserver *s)
{
    struct redefaults *d = xcalloc(1, sizeof(*d));
    size_t count;
    struct stored **list = store_list(s->store, CRDS, NULL, &count);

    d->server = s;
    d->turn = evtimer_new(s->base, on_turn, d);
    if (!d->turn)
        abort(); /* out of memory */
    for (size_t i = 0; i < count; i++)
        redefaults_check(d, list[i]->value);
    store_list_free(list, count);
    return d;
}

void redefaults_free(struct redefaults *d)
{
    if (!d)
        return;
    event_free(d->turn);
    hashmap_free(&d->definitions, free);
    free(d);
}
