#include "apiserver/structural_internal.h"

#include "apiserver/metadata_validate.h"
#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <inttypes.h>
#include <math.h>

/* One walk. */
struct validation {
    struct field_errors *errors;
    bool lenient;   /* what is as it was is let be */
    unsigned *hard; /* matches that took too long */
};

/* A value in its place. */
struct spot {
    const struct json *value, *old; /* old NULL: none, or not known */
    const struct field_path *path;
};

static void validate(const struct validation *v, const struct structural *s, const struct spot *at);

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
    switch (json_kind(value)) {
    case JSON_INT:
        return streq(type, "integer") || streq(type, "number");
    case JSON_DOUBLE: {
        double d = json_double_or(value, 0.5);
        return streq(type, "number") || (streq(type, "integer") && d == floor(d) && fabs(d) < 9.0e18);
    }
    default:
        return streq(type, type_name(value));
    }
}

/* The place as text, for errors. */
static char *where_is(const struct spot *at)
{
    return field_path_text(at->path);
}

/* False: the value is of another type; nothing else about it can be said. */
static bool check_type(const struct validation *v, const struct structural *s, const struct spot *at)
{
    const char *type = s->type;

    if (s->int_or_string) {
        bool quantity = s->limits && s->limits->format && streq(s->limits->format_name, "quantity");
        if (json_is(at->value, JSON_INT) || json_is(at->value, JSON_STRING) ||
            (json_is(at->value, JSON_DOUBLE) && quantity))
            return true;
        type = "integer,string";
    } else if (!type || type_matches(type, at->value)) {
        return true;
    }
    _cleanup_free_ char *where = where_is(at);
    _cleanup_json_ struct json *found = json_string(type_name(at->value));
    field_type_invalid(v->errors, where, found, "%s in body must be of type %s: \"%s\"", where, type,
                       type_name(at->value));
    return false;
}

static void check_enum(const struct validation *v, const struct structural_limits *l, const struct spot *at)
{
    for (size_t i = 0; i < json_size(l->values); i++)
        if (json_equal(at->value, json_item(l->values, i)))
            return;
    _cleanup_free_ char *where = where_is(at);
    field_not_supported(v->errors, where, at->value, l->values);
}

/* `F in body should be WHAT LIMIT` */
static void out_of_range(const struct validation *v, const struct spot *at, const char *what, const struct json *limit)
{
    _cleanup_free_ char *where = where_is(at);
    _cleanup_free_ char *text = json_text(limit);

    field_invalid(v->errors, where, at->value, "%s in body should be %s %s", where, what, text);
}

/* Integers are compared as such, for doubles cannot hold all of them. <0, 0, >0. */
static int compare(const struct json *a, const struct json *b)
{
    if (json_is(a, JSON_INT) && json_is(b, JSON_INT)) {
        int64_t x = json_int_or(a, 0), y = json_int_or(b, 0);
        return x < y ? -1 : x > y;
    }
    double x = json_double_or(a, 0), y = json_double_or(b, 0);
    return x < y ? -1 : x > y;
}

static bool is_multiple(const struct json *value, const struct json *of)
{
    if (json_is(value, JSON_INT) && json_is(of, JSON_INT))
        return json_int_or(of, 1) == 0 || json_int_or(of, 1) == -1 || json_int_or(value, 0) % json_int_or(of, 1) == 0;
    double quotient = json_double_or(value, 0) / json_double_or(of, 1);
    return fabs(quotient - round(quotient)) < 1e-9 * fmax(1, fabs(quotient));
}

static void check_number(const struct validation *v, const struct structural_limits *l, const struct spot *at)
{
    int c;

    if (l->minimum && ((c = compare(at->value, l->minimum)) < 0 || (c == 0 && l->exclusive_minimum)))
        out_of_range(v, at, l->exclusive_minimum ? "greater than" : "greater than or equal to", l->minimum);
    if (l->maximum && ((c = compare(at->value, l->maximum)) > 0 || (c == 0 && l->exclusive_maximum)))
        out_of_range(v, at, l->exclusive_maximum ? "less than" : "less than or equal to", l->maximum);
    if (l->multiple && !is_multiple(at->value, l->multiple))
        out_of_range(v, at, "a multiple of", l->multiple);
    int64_t i = json_int_or(at->value, 0);
    if (l->int32 && json_is(at->value, JSON_INT) && (i > INT32_MAX || i < INT32_MIN)) {
        _cleanup_free_ char *where = where_is(at);
        field_type_invalid(v->errors, where, at->value, "%s in body must be of type int32: \"%" PRId64 "\"", where, i);
    }
}

#define HARD_MATCHES_MAX 8

static int64_t characters(const char *s, size_t len)
{
    int64_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

static void check_pattern(const struct validation *v, const struct structural_limits *l, const struct spot *at)
{
    int r = -EINVAL;

    /* Whoever sends a thousand texts that a pattern cannot cope with does not get a thousand times the limit. */
    if (l->regex && *v->hard < HARD_MATCHES_MAX)
        r = regex_find(l->regex, json_str(at->value), json_string_len(at->value), 0, NULL, NULL);
    if (r > 0)
        return;
    *v->hard += r < 0;
    _cleanup_free_ char *where = where_is(at);
    if (!l->regex)
        field_invalid(v->errors, where, at->value, "%s in body cannot be matched with '%s', which is no pattern", where,
                      l->pattern);
    else if (r < 0)
        field_invalid(v->errors, where, at->value, "%s in body takes too long to match '%s'", where, l->pattern);
    else
        field_invalid(v->errors, where, at->value, "%s in body should match '%s'", where, l->pattern);
}

static void check_string(const struct validation *v, const struct structural_limits *l, const struct spot *at)
{
    const char *s = json_str(at->value);
    size_t len = json_string_len(at->value);
    int64_t length = l->min_length >= 0 || l->max_length >= 0 ? characters(s, len) : 0;

    if (l->min_length >= 0 && length < l->min_length) {
        _cleanup_free_ char *where = where_is(at);
        field_invalid(v->errors, where, at->value, "%s in body should be at least %" PRId64 " chars long", where,
                      l->min_length);
    }
    if (l->max_length >= 0 && length > l->max_length) {
        _cleanup_free_ char *where = where_is(at);
        field_too_long(v->errors, where, l->max_length);
        return; /* nor is it read further */
    }
    if (l->pattern)
        check_pattern(v, l, at);
    if (l->format && !format_check(l->format, s, len)) {
        _cleanup_free_ char *where = where_is(at);
        field_invalid(v->errors, where, at->value, "%s in body must be of type %s: \"%s\"", where, l->format_name, s);
    }
}

/* --- arrays --- */

/* Lists up to this length are compared item by item, longer ones by the text of what must differ. */
#define PAIRWISE_MAX 24

static struct json *key_object(const struct structural *s, const struct json *item)
{
    struct json *o = json_object_make();

    for (size_t i = 0; i < s->key_count; i++)
        if (json_get(item, s->keys[i].name))
            json_set(o, s->keys[i].name, json_ref(json_get(item, s->keys[i].name)));
    return o;
}

static void report_duplicate(const struct validation *v, const struct structural *s, const struct spot *at, size_t i)
{
    struct field_path here = {.parent = at->path, .index = i};
    _cleanup_free_ char *where = field_path_text(&here);
    const struct json *item = json_item(at->value, i);
    _cleanup_json_ struct json *shown =
        s->list_type == SCHEMA_LIST_SET ? json_ref((struct json *)item) : key_object(s, item);

    field_duplicate(v->errors, where, shown);
}

static bool same(const struct structural *s, const struct json *a, const struct json *b)
{
    return s->list_type == SCHEMA_LIST_SET ? json_equal(a, b) : structural_same_item(s, a, b);
}

static char *identity(const struct structural *s, const struct json *item)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};

    if (s->list_type == SCHEMA_LIST_SET)
        json_write_sorted(item, &b);
    for (size_t i = 0; s->list_type == SCHEMA_LIST_MAP && i < s->key_count; i++) {
        const struct json *key = json_get(item, s->keys[i].name);
        json_write_sorted(key ? key : s->keys[i].fallback, &b);
        strbuf_addc(&b, ',');
    }
    return strbuf_detach(&b);
}

static void check_duplicates(const struct validation *v, const struct structural *s, const struct spot *at)
{
    size_t count = json_size(at->value);
    struct hashmap seen = {0};

    if (s->duplicates || s->list_type == SCHEMA_LIST_ATOMIC || (s->list_type == SCHEMA_LIST_MAP && s->key_count == 0))
        return;
    for (size_t i = 1; count <= PAIRWISE_MAX && i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (same(s, json_item(at->value, k), json_item(at->value, i))) {
                report_duplicate(v, s, at, i);
                break;
            }
    for (size_t i = 0; count > PAIRWISE_MAX && i < count; i++) {
        _cleanup_free_ char *text = identity(s, json_item(at->value, i));
        if (hashmap_put(&seen, text, &seen))
            report_duplicate(v, s, at, i);
    }
    hashmap_free(&seen, NULL);
}

static void check_items(const struct validation *v, const struct structural *s, const struct spot *at)
{
    for (size_t i = 0; s->items.node && i < json_size(at->value); i++) {
        struct field_path here = {.parent = at->path, .index = i};
        struct spot item = {.value = json_item(at->value, i), .path = &here};

        if (v->lenient && at->old)
            item.old = structural_old_item(s, at->old, item.value);
        /* Elsewhere a null is an unset member, and gone; here it is an item. */
        if (item.value || (!s->items.nullable && !s->items.node->preserve && s->items.node->type))
            validate(v, s->items.node, &item);
    }
}

static void check_array(const struct validation *v, const struct structural *s, const struct spot *at)
{
    const struct structural_limits *l = s->limits;
    int64_t size = (int64_t)json_size(at->value);

    if (l && l->max_items >= 0 && size > l->max_items) {
        _cleanup_free_ char *where = where_is(at);
        field_too_many(v->errors, where, size, l->max_items);
        return; /* an attack, if anything: items are not looked at */
    }
    if (l && l->min_items >= 0 && size < l->min_items) {
        _cleanup_free_ char *where = where_is(at);
        field_invalid(v->errors, where, at->value, "%s in body should have at least %" PRId64 " items", where,
                      l->min_items);
    }
    check_items(v, s, at);
    check_duplicates(v, s, at);
}

/* --- objects --- */

static void missing(const struct validation *v, const struct spot *at, const char *name, const char *detail)
{
    struct field_path here = {.parent = at->path, .name = name};
    _cleanup_free_ char *where = field_path_text(&here);

    field_required(v->errors, where, detail);
}

static void check_required(const struct validation *v, const struct structural *s, const struct spot *at)
{
    for (size_t i = 0; i < s->required_count; i++) {
        const struct structural_required *r = &s->required[i];
        if (!json_get(at->value, r->name) && !(r->nullable && json_has(at->value, r->name)))
            missing(v, at, r->name, NULL);
    }
}

/* An object within another says what it is. */
static void check_embedded(const struct validation *v, const struct spot *at)
{
    static const char *const names[] = {"apiVersion", "kind"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!*json_str_or(json_get(at->value, names[i]), ""))
            missing(v, at, names[i], "must not be empty");
    const struct json *metadata = json_get(at->value, "metadata");
    if (!json_is(metadata, JSON_OBJECT))
        return;
    struct field_path here = {.parent = at->path, .name = "metadata"};
    struct field_path labels = {.parent = &here, .name = "labels"};
    struct field_path annotations = {.parent = &here, .name = "annotations"};
    _cleanup_free_ char *labels_field = field_path_text(&labels);
    _cleanup_free_ char *annotations_field = field_path_text(&annotations);
    labels_validate(json_get(metadata, "labels"), labels_field, v->errors);
    annotations_validate(json_get(metadata, "annotations"), annotations_field, v->errors);
}

static void check_size(const struct validation *v, const struct structural_limits *l, const struct spot *at)
{
    int64_t size = (int64_t)json_size(at->value);

    if (l->max_properties >= 0 && size > l->max_properties) {
        _cleanup_free_ char *where = where_is(at);
        field_too_many(v->errors, where, size, l->max_properties);
    }
    if (l->min_properties >= 0 && size < l->min_properties) {
        _cleanup_free_ char *where = where_is(at);
        field_invalid(v->errors, where, at->value, "%s in body should have at least %" PRId64 " properties", where,
                      l->min_properties);
    }
}

static void check_object(const struct validation *v, const struct structural *s, const struct spot *at)
{
    check_required(v, s, at);
    if (s->embedded)
        check_embedded(v, at);
    if (s->limits)
        check_size(v, s->limits, at);
    for (struct json_iter it = {0}; json_each(at->value, &it);) {
        struct field_path here = {.parent = at->path, .name = it.key};
        bool named;
        const struct structural_place *place = structural_member(s, it.key, &named);
        struct spot member = {.value = it.value, .path = &here};

        /* Null is unset: where it is not allowed, defaulting has dropped it, or the server itself put it there. */
        if (!place->node || !it.value)
            continue;
        if (v->lenient)
            member.old = json_get(at->old, it.key);
        validate(v, place->node, &member);
    }
}

/* --- combinations --- */

static void PRINTF_LIKE(3, 4)
    combination_failed(const struct validation *v, const struct spot *at, const char *fmt, ...)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};
    _cleanup_free_ char *where = where_is(at);
    va_list ap;

    field_quote(where, strlen(where), &text);
    strbuf_addc(&text, ' ');
    va_start(ap, fmt);
    strbuf_vaddf(&text, fmt, ap);
    va_end(ap);
    /* Kubernetes has no field for these. */
    field_invalid_str(v->errors, NULL, "", "%s", strbuf_str(&text));
}

/* How many of the alternatives hold; when none does, the errors of the one that comes closest are in *closest. */
static size_t count_matching(const struct validation *v, const struct structural_list *list, const struct spot *at,
                             struct field_errors *closest)
{
    size_t n = 0;

    for (size_t i = 0; i < list->count; i++) {
        _cleanup_(field_errors_clear) struct field_errors errors = {0};
        const struct validation inner = {.errors = &errors, .hard = v->hard};
        struct spot there = {.value = at->value, .path = at->path};

        validate(&inner, list->items[i], &there);
        n += field_errors_empty(&errors);
        if (i == 0 || errors.count < closest->count) {
            field_errors_clear(closest);
            field_errors_move(closest, &errors);
        }
    }
    return n;
}

static void check_combinations(const struct validation *v, const struct structural *s, const struct spot *at)
{
    _cleanup_(field_errors_clear) struct field_errors closest = {0};
    struct spot there = {.value = at->value, .path = at->path};

    if (s->all.count) {
        size_t before = v->errors->count, n = count_matching(v, &s->all, at, &closest);
        const struct validation strict = {.errors = v->errors, .hard = v->hard};
        for (size_t i = 0; i < s->all.count; i++)
            validate(&strict, s->all.items[i], &there);
        if (v->errors->count > before)
            combination_failed(v, at, "must validate all the schemas (allOf)%s", n ? "" : ". None validated");
        field_errors_clear(&closest);
    }
    if (s->any.count && count_matching(v, &s->any, at, &closest) == 0) {
        combination_failed(v, at, "must validate at least one schema (anyOf)");
        field_errors_move(v->errors, &closest);
    }
    field_errors_clear(&closest);
    if (s->one.count) {
        size_t n = count_matching(v, &s->one, at, &closest);
        if (n == 0)
            combination_failed(v, at, "must validate one and only one schema (oneOf). Found none valid");
        else if (n > 1)
            combination_failed(v, at, "must validate one and only one schema (oneOf). Found %zu valid alternatives", n);
        if (n == 0)
            field_errors_move(v->errors, &closest);
    }
    if (s->negated) {
        _cleanup_(field_errors_clear) struct field_errors errors = {0};
        const struct validation inner = {.errors = &errors, .hard = v->hard};
        validate(&inner, s->negated, &there);
        if (field_errors_empty(&errors))
            combination_failed(v, at, "must not validate the schema (not)");
    }
}

/* --- the walk --- */

static void validate(const struct validation *v, const struct structural *s, const struct spot *at)
{
    const struct structural_limits *l = s->limits;
    enum json_kind kind = json_kind(at->value);

    if (v->errors->count >= FIELD_ERRORS_MAX || (v->lenient && at->old && json_equal(at->value, at->old)))
        return;
    if (!check_type(v, s, at))
        return;
    if (l && l->values)
        check_enum(v, l, at);
    if (kind == JSON_OBJECT)
        check_object(v, s, at);
    else if (kind == JSON_ARRAY)
        check_array(v, s, at);
    else if (l && kind == JSON_STRING)
        check_string(v, l, at);
    else if (l && (kind == JSON_INT || kind == JSON_DOUBLE))
        check_number(v, l, at);
    if (s->all.count || s->any.count || s->one.count || s->negated)
        check_combinations(v, s, at);
}

/* Rules may rely on what these say; without it they cannot be judged. */
static bool blocks_rules(const struct field_errors *errors, size_t from)
{
    for (size_t i = from; i < errors->count; i++)
        switch (errors->items[i].type) {
        case FIELD_REQUIRED:
        case FIELD_TYPE_INVALID:
        case FIELD_NOT_SUPPORTED:
        case FIELD_TOO_LONG:
        case FIELD_TOO_MANY:
        case FIELD_DUPLICATE:
            return true;
        default:
            break;
        }
    return false;
}

void structural_validate(const struct structural_schema *schema, const struct json *value, const struct json *old,
                         struct field_errors *errors)
{
    const struct structural *s = schema->root.node;
    struct spot at = {.value = value, .old = old};
    unsigned hard = 0;
    struct validation v = {.errors = errors, .hard = &hard};
    size_t before = errors->count;

    if (!s)
        return;
    validate(&v, s, &at);
    if (old && errors->count > before) {
        /* A stricter schema must not lock people out of their objects: what was wrong before and was not touched is
         * let be. Only now does it pay to compare. */
        field_errors_truncate(errors, before);
        v.lenient = true;
        validate(&v, s, &at);
    }
    if (!s->rules_below)
        return;
    if (blocks_rules(errors, before))
        field_invalid(errors, NULL, NULL,
                      "some validation rules were not checked because the object was invalid; correct the existing "
                      "errors to complete validation");
    else
        structural_check_rules(&schema->root, value, old, errors);
}
