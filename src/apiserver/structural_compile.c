#include "apiserver/structural_internal.h"

#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"

/* Deeper than any schema that passes for a definition; what is deeper is unknown, so that anything goes. */
#define SCHEMA_DEPTH_MAX 200

const char *const structural_rule_variables[] = {"self", "oldSelf", NULL};

struct structural_set {
    struct schema_context context;
    struct structural_owner owner;
    struct hashmap definitions; /* by the address of their JSON, as text: struct structural */
};

struct compiler {
    struct structural_set *set;
    struct structural_owner *owner;
    unsigned depth;
};

static struct structural_place compile_place(struct compiler *c, struct schema_node schema);
static const struct structural *compile_node(struct compiler *c, struct schema_node schema);

static bool is_true(struct schema_node schema, const char *keyword)
{
    return json_bool_or(schema_keyword(schema, keyword), false);
}

static struct structural *new_node(struct compiler *c, struct schema_node schema)
{
    struct structural_owner *o = c->owner;
    struct structural *s = arena_alloc(&o->arena, sizeof(*s));

    s->schema = schema;
    GROW(o->nodes, o->capacity, o->count + 1);
    o->nodes[o->count++] = s;
    return s;
}

/* --- properties --- */

static struct structural_property *slot(const struct structural *s, const char *name)
{
    size_t i = fnv1a32(name) & (s->slot_count - 1);

    while (s->properties[i].name && !streq(s->properties[i].name, name))
        i = (i + 1) & (s->slot_count - 1);
    return &s->properties[i];
}

const struct structural_property *structural_property(const struct structural *s, const char *name)
{
    const struct structural_property *p = s->slot_count ? slot(s, name) : NULL;

    return p && p->name ? p : NULL;
}

const struct structural_place *structural_member(const struct structural *s, const char *name, bool *ret_named)
{
    const struct structural_property *p = structural_property(s, name);

    *ret_named = p != NULL;
    return p ? &p->place : &s->additional;
}

static void compile_properties(struct compiler *c, struct structural *s)
{
    const struct json *properties = schema_keyword(s->schema, "properties");
    bool metadata = s->whole_object && !json_has(properties, "metadata");
    size_t count = json_size(properties) + metadata, defaults = 0;

    if (count == 0)
        return;
    for (s->slot_count = 2; s->slot_count < count * 2; s->slot_count *= 2)
        ;
    s->properties = arena_array(&c->owner->arena, s->slot_count, sizeof(*s->properties));
    s->with_default = arena_array(&c->owner->arena, count, sizeof(*s->with_default));
    for (struct json_iter it = {0}; json_each(properties, &it);) {
        struct structural_property *p = slot(s, it.key);
        p->name = it.key;
        p->place = compile_place(c, schema_property(s->schema, it.key));
        if (p->place.fallback)
            s->with_default[defaults++] = p;
    }
    if (metadata)
        *slot(s, "metadata") =
            (struct structural_property){"metadata", compile_place(c, schema_property(s->schema, "metadata"))};
    s->default_count = defaults;
}

static void compile_object(struct compiler *c, struct structural *s)
{
    const struct json *additional = schema_keyword(s->schema, "additionalProperties");
    const struct json *required = schema_keyword(s->schema, "required");

    s->open = s->preserve || json_is(additional, JSON_OBJECT) || json_bool_or(additional, false);
    if (json_is(additional, JSON_OBJECT))
        s->additional = compile_place(c, schema_node_make(s->schema.context, additional));
    compile_properties(c, s);
    s->required = arena_array(&c->owner->arena, json_size(required), sizeof(*s->required));
    for (size_t i = 0; i < json_size(required); i++) {
        const char *name = json_str(json_item(required, i));
        if (!name)
            continue;
        const struct structural_property *p = structural_property(s, name);
        s->required[s->required_count++] = (struct structural_required){name, p && p->place.nullable};
    }
}

static void compile_array(struct compiler *c, struct structural *s)
{
    const struct json *keys = schema_list_keys(s->schema);
    struct schema_node items = schema_items(s->schema);

    s->list_type = schema_list_type(s->schema);
    s->duplicates = is_true(s->schema, "x-holt-duplicates");
    if (schema_is_known(items))
        s->items = compile_place(c, items);
    s->keys = arena_array(&c->owner->arena, json_size(keys), sizeof(*s->keys));
    for (size_t i = 0; i < json_size(keys); i++) {
        const char *name = json_str(json_item(keys, i));
        if (name)
            s->keys[s->key_count++] =
                (struct structural_key){name, schema_keyword(schema_property(items, name), "default")};
    }
}

bool structural_same_item(const struct structural *list, const struct json *a, const struct json *b)
{
    for (size_t i = 0; i < list->key_count; i++) {
        const struct structural_key *k = &list->keys[i];
        const struct json *x = json_get(a, k->name), *y = json_get(b, k->name);
        if (!json_equal(x ? x : k->fallback, y ? y : k->fallback))
            return false;
    }
    return true;
}

const struct json *structural_old_item(const struct structural *list, const struct json *old, const struct json *item)
{
    if (list->list_type != SCHEMA_LIST_MAP)
        return NULL;
    for (size_t i = 0; i < json_size(old); i++)
        if (structural_same_item(list, json_item(old, i), item))
            return json_item(old, i);
    return NULL;
}

/* --- limits --- */

static int64_t bound(struct schema_node schema, const char *keyword, bool *any)
{
    const struct json *v = schema_keyword(schema, keyword);

    *any |= v != NULL;
    return v ? json_int_or(v, -1) : -1;
}

static void compile_limits(struct compiler *c, struct structural *s)
{
    struct schema_node n = s->schema;
    const char *format = json_str(schema_keyword(n, "format"));
    bool any = false;
    struct structural_limits l = {
        .values = schema_keyword(n, "enum"),
        .minimum = schema_keyword(n, "minimum"),
        .maximum = schema_keyword(n, "maximum"),
        .multiple = schema_keyword(n, "multipleOf"),
        .exclusive_minimum = is_true(n, "exclusiveMinimum"),
        .exclusive_maximum = is_true(n, "exclusiveMaximum"),
        .int32 = format && streq(format, "int32"),
        .pattern = json_str(schema_keyword(n, "pattern")),
        .format_name = format,
        .format = format ? format_find(format) : NULL,
        .min_length = bound(n, "minLength", &any),
        .max_length = bound(n, "maxLength", &any),
        .min_items = bound(n, "minItems", &any),
        .max_items = bound(n, "maxItems", &any),
        .min_properties = bound(n, "minProperties", &any),
        .max_properties = bound(n, "maxProperties", &any),
    };

    if (!any && !l.values && !l.minimum && !l.maximum && !l.multiple && !l.int32 && !l.pattern && !l.format)
        return;
    l.regex = l.pattern ? regex_compile(l.pattern, NULL) : NULL;
    struct structural_limits *copy = arena_alloc(&c->owner->arena, sizeof(*copy));
    *copy = l;
    s->limits = copy;
}

/* --- combinations and rules --- */

static struct structural_list compile_list(struct compiler *c, struct schema_node schema, const char *keyword)
{
    const struct json *list = schema_keyword(schema, keyword);
    const struct structural **items = arena_array(&c->owner->arena, json_size(list), sizeof(*items));
    size_t count = 0;

    for (size_t i = 0; i < json_size(list); i++) {
        /* One lone reference in allOf is how a schema is named, and was followed already. */
        if (streq(keyword, "allOf") && json_has(json_item(list, i), "$ref"))
            continue;
        items[count++] = compile_node(c, schema_node_make(schema.context, json_item(list, i)));
    }
    return (struct structural_list){items, count};
}

static void compile_rules(struct compiler *c, struct structural *s)
{
    const struct json *rules = schema_keyword(s->schema, "x-kubernetes-validations");

    s->rules = arena_array(&c->owner->arena, json_size(rules), sizeof(*s->rules));
    for (size_t i = 0; i < json_size(rules); i++) {
        struct structural_rule *r = &s->rules[s->rule_count++];
        _cleanup_error_ struct error err = ERROR_INIT;
        const char *message;

        r->json = json_item(rules, i);
        message = json_str(json_get(r->json, "messageExpression"));
        r->program = cel_compile(json_str_or(json_get(r->json, "rule"), ""), structural_rule_variables, &err);
        if (!r->program)
            r->broken = arena_strndup(&c->owner->arena, error_text(&err), strlen(error_text(&err)));
        r->message = message ? cel_compile(message, structural_rule_variables, NULL) : NULL;
        r->transition = r->program && cel_mentions(r->program, "oldSelf");
        r->optional_old = json_bool_or(json_get(r->json, "optionalOldSelf"), false);
    }
    s->rules_below = s->rule_count > 0;
}

/* --- nodes --- */

static void fill(struct compiler *c, struct structural *s)
{
    struct schema_node n = s->schema;

    if (c->depth >= SCHEMA_DEPTH_MAX) {
        s->open = true;
        return;
    }
    c->depth++;
    s->type = json_str(schema_keyword(n, "type"));
    s->int_or_string = is_true(n, "x-kubernetes-int-or-string");
    s->preserve = is_true(n, "x-kubernetes-preserve-unknown-fields");
    s->embedded = is_true(n, "x-kubernetes-embedded-resource");
    s->whole_object = n.whole_object || s->embedded;
    compile_object(c, s);
    compile_array(c, s);
    compile_limits(c, s);
    s->all = compile_list(c, n, "allOf");
    s->any = compile_list(c, n, "anyOf");
    s->one = compile_list(c, n, "oneOf");
    const struct json *negated = schema_keyword(n, "not");
    s->negated = negated ? compile_node(c, schema_node_make(n.context, negated)) : NULL;
    compile_rules(c, s);
    c->depth--;
}

/* Keywords beside a reference that leave the definition as it is. */
static bool is_plain_reference(struct schema_node schema)
{
    static const char *const harmless[] = {"$ref",     "allOf", "description", "default",
                                           "nullable", "title", "example",     "x-kubernetes-map-type"};

    if (schema.inner == schema.outer || schema.whole_object)
        return false;
    for (struct json_iter it = {0}; json_each(schema.outer, &it);) {
        size_t i = 0;
        while (i < ARRAY_LEN(harmless) && !streq(harmless[i], it.key))
            i++;
        if (i == ARRAY_LEN(harmless))
            return false;
    }
    return true;
}

/* The definition a reference leads to: compiled once, and for whoever may refer to it. It may refer to itself. */
static const struct structural *definition(struct compiler *c, struct schema_node schema)
{
    struct compiler own = {.set = c->set, .owner = &c->set->owner, .depth = c->depth};
    _cleanup_free_ char *address = xasprintf("%p", (const void *)schema.inner);
    struct structural *s = hashmap_get(&c->set->definitions, address);

    if (s)
        return s;
    s = new_node(&own, schema_node_make(schema.context, schema.inner));
    (void)hashmap_put(&c->set->definitions, address, s); /* there was none */
    fill(&own, s);
    return s;
}

static const struct structural *compile_node(struct compiler *c, struct schema_node schema)
{
    if (is_plain_reference(schema))
        return definition(c, schema);
    struct structural *s = new_node(c, schema);
    fill(c, s);
    return s;
}

static struct structural_place compile_place(struct compiler *c, struct schema_node schema)
{
    if (!schema_is_known(schema))
        return (struct structural_place){0};
    return (struct structural_place){
        .node = compile_node(c, schema),
        .fallback = schema_keyword(schema, "default"),
        .nullable = is_true(schema, "nullable"),
    };
}

/* --- the whole --- */

static bool below(const struct structural_place *p)
{
    return p->node && p->node->rules_below;
}

static bool contains_rules(const struct structural *s)
{
    if (below(&s->additional) || below(&s->items))
        return true;
    for (size_t i = 0; i < s->slot_count; i++)
        if (s->properties[i].name && below(&s->properties[i].place))
            return true;
    return false;
}

/* Until nothing changes any more, for definitions may contain each other. */
static void spread_rules_below(struct structural_owner *o)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = o->count; i-- > 0;)
            if (!o->nodes[i]->rules_below && contains_rules(o->nodes[i]))
                changed = o->nodes[i]->rules_below = true;
    }
}

static void owner_clear(struct structural_owner *o)
{
    for (size_t i = 0; i < o->count; i++) {
        struct structural *s = o->nodes[i];
        if (s->limits)
            regex_free(s->limits->regex);
        for (size_t k = 0; k < s->rule_count; k++) {
            cel_free(s->rules[k].program);
            cel_free(s->rules[k].message);
        }
    }
    free(o->nodes);
    arena_free(&o->arena);
}

struct structural_set *structural_set_new(const struct schema_context *context)
{
    struct structural_set *set = xcalloc(1, sizeof(*set));

    if (context)
        set->context = *context;
    return set;
}

void structural_set_free(struct structural_set *set)
{
    if (!set)
        return;
    hashmap_free(&set->definitions, NULL);
    owner_clear(&set->owner);
    free(set);
}

struct structural_schema *structural_compile(struct structural_set *set, const struct json *schema, bool whole_object)
{
    struct structural_schema *s = xcalloc(1, sizeof(*s));
    struct compiler c = {.set = set, .owner = &s->owner};
    size_t known = set->owner.count;

    if (schema)
        s->root = compile_place(&c, whole_object ? schema_root(&set->context, schema)
                                                 : schema_node_make(&set->context, schema));
    if (set->owner.count > known)
        spread_rules_below(&set->owner);
    spread_rules_below(&s->owner);
    return s;
}

void structural_schema_free(struct structural_schema *s)
{
    if (!s)
        return;
    owner_clear(&s->owner);
    free(s);
}
