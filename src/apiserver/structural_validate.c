#include "apiserver/structural_internal.h"

#include "apiserver/formats.h"
#include "apiserver/regex.h"
#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <inttypes.h>
#include <math.h>

/* Patterns are few and come back with every object: each is compiled once. Cleared when it has grown too large. */
#define PATTERNS_MAX 2000

static struct regex *compiled(const char *pattern)
{
    static struct hashmap cache;
    struct regex *re = hashmap_get(&cache, pattern);

    if (re)
        return re;
    if (cache.count >= PATTERNS_MAX)
        hashmap_free(&cache, (void (*)(void *))regex_free);
    re = regex_compile(pattern, NULL);
    if (re)
        (void)hashmap_put(&cache, pattern, re);
    return re;
}

static void validate(struct schema_node node, const struct json *value, const struct json *old,
                     const struct field_path *path, struct field_errors *errors);

static bool keyword_true(struct schema_node node, const char *keyword)
{
    return json_bool_or(schema_keyword(node, keyword), false);
}

static const char *type_name(const struct json *v)
{
    switch (json_kind(v)) {
    case JSON_BOOL:
        return "boolean";
    case JSON_INT:
        return "integer";
    case JSON_DOUBLE:
        return "number";
    case JSON_STRING:
        return "string";
    case JSON_ARRAY:
        return "array";
    case JSON_OBJECT:
        return "object";
    case JSON_NULL:
        break;
    }
    return "null";
}

static bool type_matches(const char *type, const struct json *value)
{
    const char *found = type_name(value);

    if (streq(type, "number"))
        return streq(found, "number") || streq(found, "integer");
    if (streq(type, "integer") && streq(found, "number")) {
        double d = json_double_or(value, 0.5);
        return d == floor(d) && fabs(d) < 9.0e18;
    }
    return streq(type, found);
}

/* False: the value is of another type; nothing else about it can be said. */
static bool check_type(struct schema_node node, const struct json *value, const char *where,
                       struct field_errors *errors)
{
    const char *type = json_str(schema_keyword(node, "type"));
    const char *format = json_str_or(schema_keyword(node, "format"), "");

    if (keyword_true(node, "x-kubernetes-int-or-string")) {
        if (json_is(value, JSON_INT) || json_is(value, JSON_STRING) ||
            (json_is(value, JSON_DOUBLE) && streq(format, "quantity")))
            return true;
        type = "integer,string";
    } else if (!type || type_matches(type, value)) {
        return true;
    }
    _cleanup_json_ struct json *found = json_string(type_name(value));
    field_type_invalid(errors, where, found, "%s in body must be of type %s: \"%s\"", where, type, type_name(value));
    return false;
}

static void check_enum(struct schema_node node, const struct json *value, const char *where,
                       struct field_errors *errors)
{
    const struct json *allowed = schema_keyword(node, "enum");

    if (!allowed)
        return;
    for (size_t i = 0; i < json_size(allowed); i++)
        if (json_equal(value, json_item(allowed, i)))
            return;
    field_not_supported(errors, where, value, allowed);
}

static void check_number(struct schema_node node, const struct json *value, const char *where,
                         struct field_errors *errors)
{
    const struct json *min = schema_keyword(node, "minimum"), *max = schema_keyword(node, "maximum");
    const struct json *multiple = schema_keyword(node, "multipleOf");
    const char *format = json_str_or(schema_keyword(node, "format"), "");
    double v = json_double_or(value, 0);

    if (min) {
        bool exclusive = keyword_true(node, "exclusiveMinimum");
        double m = json_double_or(min, 0);
        _cleanup_free_ char *text = json_text(min);
        if (exclusive ? v <= m : v < m)
            field_invalid(errors, where, value, "%s in body should be greater than %s%s", where,
                          exclusive ? "" : "or equal to ", text);
    }
    if (max) {
        bool exclusive = keyword_true(node, "exclusiveMaximum");
        double m = json_double_or(max, 0);
        _cleanup_free_ char *text = json_text(max);
        if (exclusive ? v >= m : v > m)
            field_invalid(errors, where, value, "%s in body should be less than %s%s", where,
                          exclusive ? "" : "or equal to ", text);
    }
    if (multiple && json_double_or(multiple, 0) > 0 && fmod(v, json_double_or(multiple, 1)) != 0) {
        _cleanup_free_ char *text = json_text(multiple);
        field_invalid(errors, where, value, "%s in body should be a multiple of %s", where, text);
    }
    if (streq(format, "int32") && json_is(value, JSON_INT) &&
        (json_int_or(value, 0) > INT32_MAX || json_int_or(value, 0) < INT32_MIN))
        field_type_invalid(errors, where, value, "%s in body must be of type int32: \"%" PRId64 "\"", where,
                           json_int_or(value, 0));
}

static int64_t characters(const char *s, size_t len)
{
    int64_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

static void check_pattern(struct schema_node node, const struct json *value, const char *where,
                          struct field_errors *errors)
{
    const char *pattern = json_str(schema_keyword(node, "pattern"));
    struct regex *re = pattern ? compiled(pattern) : NULL;
    int r;

    if (!pattern)
        return;
    r = re ? regex_find(re, json_str(value), json_string_len(value), 0, NULL, NULL) : 1;
    if (r < 0)
        field_invalid(errors, where, value, "%s in body takes too long to match '%s'", where, pattern);
    else if (r == 0)
        field_invalid(errors, where, value, "%s in body should match '%s'", where, pattern);
}

static void check_string(struct schema_node node, const struct json *value, const char *where,
                         struct field_errors *errors)
{
    const struct json *min = schema_keyword(node, "minLength"), *max = schema_keyword(node, "maxLength");
    const char *format_name = json_str(schema_keyword(node, "format")), *s = json_str(value);
    const struct format *format = format_name ? format_find(format_name) : NULL;
    int64_t length = min || max ? characters(s, json_string_len(value)) : 0;

    if (min && length < json_int_or(min, 0))
        field_invalid(errors, where, value, "%s in body should be at least %" PRId64 " chars long", where,
                      json_int_or(min, 0));
    if (max && length > json_int_or(max, INT64_MAX))
        field_too_long(errors, where, json_int_or(max, 0));
    check_pattern(node, value, where, errors);
    if (format && !format_check(format, s, json_string_len(value)))
        field_invalid(errors, where, value, "%s in body must be of type %s: \"%s\"", where, format_name, s);
}

/* The key of a list item as text: its key members, defaults included; NULL when one is missing. */
static char *item_key(struct schema_node items, const struct json *keys, const struct json *item)
{
    struct strbuf b = {0};

    for (size_t i = 0; i < json_size(keys); i++) {
        const char *name = json_str_or(json_item(keys, i), "");
        const struct json *v = json_get(item, name);
        if (!v)
            v = schema_keyword(schema_property(items, name), "default");
        json_write(v, &b);
        strbuf_addc(&b, ',');
    }
    return strbuf_detach(&b);
}

static struct json *key_object(const struct json *keys, const struct json *item)
{
    struct json *o = json_object_make();

    for (size_t i = 0; i < json_size(keys); i++) {
        const char *name = json_str_or(json_item(keys, i), "");
        if (json_get(item, name))
            json_set(o, name, json_ref(json_get(item, name)));
    }
    return o;
}

static void check_duplicates(struct schema_node node, const struct json *value, const struct field_path *path,
                             struct field_errors *errors)
{
    enum schema_list_type type = schema_list_type(node);
    const struct json *keys = schema_list_keys(node);
    struct schema_node items = schema_items(node);
    struct hashmap seen = {0};

    for (size_t i = 0; type != SCHEMA_LIST_ATOMIC && i < json_size(value); i++) {
        const struct json *item = json_item(value, i);
        _cleanup_free_ char *key = type == SCHEMA_LIST_SET ? json_text(item) : item_key(items, keys, item);

        if (!hashmap_put(&seen, key, (void *)value))
            continue;
        struct field_path here = {.parent = path, .index = i};
        _cleanup_free_ char *where = field_path_text(&here);
        _cleanup_json_ struct json *shown = type == SCHEMA_LIST_SET ? json_copy(item) : key_object(keys, item);
        field_duplicate(errors, where, shown);
    }
    hashmap_free(&seen, NULL);
}

/* The item of the old list that is this one's past: by key in a map list, none elsewhere. */
static const struct json *old_item(struct schema_node node, const struct json *old, const struct json *item)
{
    if (!old || schema_list_type(node) != SCHEMA_LIST_MAP)
        return NULL;
    const struct json *keys = schema_list_keys(node);
    struct schema_node items = schema_items(node);
    _cleanup_free_ char *key = item_key(items, keys, item);

    for (size_t i = 0; i < json_size(old); i++) {
        _cleanup_free_ char *other = item_key(items, keys, json_item(old, i));
        if (streq(key, other))
            return json_item(old, i);
    }
    return NULL;
}

static void check_array(struct schema_node node, const struct json *value, const struct json *old, const char *where,
                        const struct field_path *path, struct field_errors *errors)
{
    const struct json *min = schema_keyword(node, "minItems"), *max = schema_keyword(node, "maxItems");
    int64_t size = (int64_t)json_size(value);
    struct schema_node items = schema_items(node);

    if (min && size < json_int_or(min, 0))
        field_invalid(errors, where, value, "%s in body should have at least %" PRId64 " items", where,
                      json_int_or(min, 0));
    if (max && size > json_int_or(max, INT64_MAX))
        field_too_many(errors, where, size, json_int_or(max, 0));
    check_duplicates(node, value, path, errors);
    for (size_t i = 0; schema_is_known(items) && i < json_size(value); i++) {
        struct field_path here = {.parent = path, .index = i};
        validate(items, json_item(value, i), old_item(node, old, json_item(value, i)), &here, errors);
    }
}

static void check_object(struct schema_node node, const struct json *value, const struct json *old, const char *where,
                         const struct field_path *path, struct field_errors *errors)
{
    const struct json *required = schema_keyword(node, "required");
    const struct json *min = schema_keyword(node, "minProperties"), *max = schema_keyword(node, "maxProperties");
    int64_t size = (int64_t)json_size(value);

    for (size_t i = 0; i < json_size(required); i++) {
        const char *name = json_str_or(json_item(required, i), "");
        if (json_get(value, name))
            continue;
        struct field_path here = {.parent = path, .name = name};
        _cleanup_free_ char *missing = field_path_text(&here);
        field_required(errors, missing, NULL);
    }
    if (min && size < json_int_or(min, 0))
        field_invalid(errors, where, value, "%s in body should have at least %" PRId64 " properties", where,
                      json_int_or(min, 0));
    if (max && size > json_int_or(max, INT64_MAX))
        field_too_many(errors, where, size, json_int_or(max, 0));
    for (struct json_iter it = {0}; json_each(value, &it);) {
        struct schema_node property = schema_property(node, it.key);
        struct field_path here = {.parent = path, .name = it.key, .bracket = !schema_declares(node, it.key)};
        if (schema_is_known(property))
            validate(property, it.value, json_get(old, it.key), &here, errors);
    }
}

/* How many of the schemas hold for the value. */
static size_t count_matching(struct schema_node node, const struct json *list, const struct json *value)
{
    size_t n = 0;

    for (size_t i = 0; i < json_size(list); i++) {
        _cleanup_(field_errors_clear) struct field_errors errors = {0};
        validate(schema_node_make(node.context, json_item(list, i)), value, NULL, NULL, &errors);
        n += field_errors_empty(&errors);
    }
    return n;
}

static void check_combinations(struct schema_node node, const struct json *value, const char *where,
                               const struct field_path *path, struct field_errors *errors)
{
    const struct json *all = schema_keyword(node, "allOf"), *any = schema_keyword(node, "anyOf");
    const struct json *one = schema_keyword(node, "oneOf"), *not = schema_keyword(node, "not");

    /* One lone reference in allOf is how a schema is named, and was followed already. */
    for (size_t i = 0; i < json_size(all); i++)
        if (!json_has(json_item(all, i), "$ref"))
            validate(schema_node_make(node.context, json_item(all, i)), value, NULL, path, errors);
    if (any && count_matching(node, any, value) == 0)
        field_invalid(errors, where, value, "%s in body must validate at least one schema (anyOf)", where);
    if (one && count_matching(node, one, value) != 1)
        field_invalid(errors, where, value, "%s in body must validate one and only one schema (oneOf)", where);
    if (not ) {
        _cleanup_(field_errors_clear) struct field_errors inner = {0};
        validate(schema_node_make(node.context, not ), value, NULL, NULL, &inner);
        if (field_errors_empty(&inner))
            field_invalid(errors, where, value, "%s in body must not validate the schema (not)", where);
    }
}

static void validate_value(struct schema_node node, const struct json *value, const struct json *old,
                           const struct field_path *path, struct field_errors *errors)
{
    _cleanup_free_ char *where = field_path_text(path);

    if (!value) /* null is unset: where it is not allowed, defaulting has dropped it or the server itself put it there
                 */
        return;
    if (!check_type(node, value, where, errors))
        return;
    check_enum(node, value, where, errors);
    if (json_is(value, JSON_INT) || json_is(value, JSON_DOUBLE))
        check_number(node, value, where, errors);
    else if (json_is(value, JSON_STRING))
        check_string(node, value, where, errors);
    else if (json_is(value, JSON_ARRAY))
        check_array(node, value, old, where, path, errors);
    else if (json_is(value, JSON_OBJECT))
        check_object(node, value, old, where, path, errors);
    check_combinations(node, value, where, path, errors);
}

/* What was wrong before and was not touched is let be: a stricter schema must not lock people out of their objects. */
static void validate(struct schema_node node, const struct json *value, const struct json *old,
                     const struct field_path *path, struct field_errors *errors)
{
    if (!schema_is_known(node) || (old && json_equal(value, old)))
        return;
    validate_value(node, value, old, path, errors);
}

/* Rules are checked in a second walk, only on objects whose shape is right. */
static void check_rules(struct schema_node node, const struct json *value, const struct json *old,
                        struct cel_budget *budget, const struct field_path *path, struct field_errors *errors)
{
    if (!schema_is_known(node) || !value)
        return;
    if (schema_keyword(node, "x-kubernetes-validations"))
        structural_check_rules(node, value, old, budget, path, errors);
    if (json_is(value, JSON_OBJECT)) {
        for (struct json_iter it = {0}; json_each(value, &it);) {
            struct field_path here = {.parent = path, .name = it.key, .bracket = !schema_declares(node, it.key)};
            check_rules(schema_property(node, it.key), it.value, json_get(old, it.key), budget, &here, errors);
        }
    } else if (json_is(value, JSON_ARRAY)) {
        struct schema_node items = schema_items(node);
        for (size_t i = 0; schema_is_known(items) && i < json_size(value); i++) {
            struct field_path here = {.parent = path, .index = i};
            check_rules(items, json_item(value, i), old_item(node, old, json_item(value, i)), budget, &here, errors);
        }
    }
}

void structural_validate(struct schema_node root, const struct json *value, const struct json *old,
                         struct field_errors *errors)
{
    struct cel_budget budget = {STRUCTURAL_COST_MAX};
    size_t before = errors->count;

    validate(root, value, old, NULL, errors);
    if (errors->count == before)
        check_rules(root, value, old, &budget, NULL, errors);
}
