#include "apiserver/structural_internal.h"

#include "base/memory.h"
#include "base/strutil.h"

/* What a walk changes: a copy of one level, made when the first change comes. */
struct change {
    struct json *value; /* borrowed */
    struct json *copy;  /* NULL: nothing has changed */
};

static struct json *changing(struct change *c)
{
    if (!c->copy)
        c->copy = json_copy_shallow(c->value);
    return c->copy;
}

/* Takes member, which is another reference to what is there if nothing has changed in it. */
static void set_member(struct change *c, const char *key, struct json *old, struct json *member)
{
    if (member == old)
        json_unref(member);
    else
        json_set(changing(c), key, member);
}

static void set_item(struct change *c, size_t i, struct json *item)
{
    if (item == json_item(c->value, i))
        json_unref(item);
    else
        json_set_item(changing(c), i, item);
}

static struct json *result(const struct change *c)
{
    return c->copy ? c->copy : json_ref(c->value);
}

/* --- unknown fields --- */

struct pruning {
    void (*unknown)(void *arg, const char *path);
    void *arg;
};

static struct json *prune(const struct pruning *p, const struct structural *s, struct json *value,
                          const struct field_path *path);

/* Members every object has, whatever its schema says. */
static bool always_known(const struct structural *s, const char *name)
{
    return s->whole_object && (streq(name, "apiVersion") || streq(name, "kind") || streq(name, "metadata"));
}

static void report(const struct pruning *p, const struct field_path *path)
{
    if (!p->unknown)
        return;
    _cleanup_free_ char *text = field_path_text(path);
    p->unknown(p->arg, text);
}

static struct json *prune_object(const struct pruning *p, const struct structural *s, struct json *value,
                                 const struct field_path *path)
{
    struct change c = {.value = value};

    for (struct json_iter it = {0}; json_each(value, &it);) {
        struct field_path here = {.parent = path, .name = it.key};
        bool named;
        const struct structural_place *place = structural_member(s, it.key, &named);

        if (!named && !s->open && !always_known(s, it.key)) {
            report(p, &here);
            json_remove(changing(&c), it.key);
        } else if (place->node) {
            set_member(&c, it.key, it.value, prune(p, place->node, it.value, &here));
        }
    }
    return result(&c);
}

static struct json *prune_array(const struct pruning *p, const struct structural *s, struct json *value,
                                const struct field_path *path)
{
    struct change c = {.value = value};

    for (size_t i = 0; s->items.node && i < json_size(value); i++) {
        struct field_path here = {.parent = path, .index = i};
        set_item(&c, i, prune(p, s->items.node, json_item(value, i), &here));
    }
    return result(&c);
}

static struct json *prune(const struct pruning *p, const struct structural *s, struct json *value,
                          const struct field_path *path)
{
    if (json_is(value, JSON_OBJECT))
        return prune_object(p, s, value, path);
    if (json_is(value, JSON_ARRAY))
        return prune_array(p, s, value, path);
    return json_ref(value);
}

struct json *structural_prune(const struct structural_schema *s, struct json *value,
                              void (*unknown)(void *arg, const char *path), void *arg)
{
    const struct pruning p = {unknown, arg};

    return s->root.node ? prune(&p, s->root.node, value, NULL) : json_ref(value);
}

/* --- defaults --- */

static struct json *fill(const struct structural *s, struct json *value);

static void fill_missing(const struct structural *s, struct change *c)
{
    for (size_t i = 0; i < s->default_count; i++) {
        const struct structural_property *p = s->with_default[i];

        if (json_get(c->value, p->name) || (p->place.nullable && json_has(c->value, p->name)))
            continue;
        json_set(changing(c), p->name, fill(p->place.node, (struct json *)p->place.fallback));
    }
}

static struct json *fill_object(const struct structural *s, struct json *value)
{
    struct change c = {.value = value};

    for (struct json_iter it = {0}; json_each(value, &it);) {
        bool named;
        const struct structural_place *place = structural_member(s, it.key, &named);

        if (!place->node)
            continue;
        if (it.value)
            set_member(&c, it.key, it.value, fill(place->node, it.value));
        else if (!place->nullable && !place->node->preserve)
            json_remove(changing(&c), it.key);
    }
    fill_missing(s, &c);
    return result(&c);
}

static struct json *fill_array(const struct structural *s, struct json *value)
{
    struct change c = {.value = value};

    for (size_t i = 0; s->items.node && i < json_size(value); i++)
        set_item(&c, i, fill(s->items.node, json_item(value, i)));
    return result(&c);
}

static struct json *fill(const struct structural *s, struct json *value)
{
    if (json_is(value, JSON_OBJECT))
        return fill_object(s, value);
    if (json_is(value, JSON_ARRAY))
        return fill_array(s, value);
    return json_ref(value);
}

struct json *structural_default(const struct structural_schema *s, struct json *value)
{
    return s->root.node ? fill(s->root.node, value) : json_ref(value);
}
