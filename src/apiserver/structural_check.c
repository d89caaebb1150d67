#include "apiserver/structural_check.h"

#include "apiserver/structural_internal.h"
#include "base/memory.h"
#include "base/strutil.h"

/* Where a schema stands among others. */
enum level {
    LEVEL_ROOT,
    LEVEL_FIELD,
    LEVEL_ITEM,
    LEVEL_CONDITION, /* in allOf, anyOf, oneOf or not: says something about values that others describe */
};

struct checker {
    struct field_errors *errors;
    bool references; /* x-holt-ref stands somewhere: what it leads to is not seen here, so fields cannot be checked */
};

struct place {
    const struct json *schema;
    const struct json *described; /* of a condition: the schema that describes the same value; NULL: none does */
    struct field_path *path;
    enum level level;
    bool whole_object;
    bool uncorrelated; /* items here have no past: oldSelf means nothing */
};

static void check(struct checker *c, const struct place *p);

/* The field of a keyword. */
static char *field_of(const struct place *p, const char *keyword)
{
    struct field_path here = {.parent = p->path, .name = keyword};

    return field_path_text(&here);
}

static bool is_true(const struct json *schema, const char *keyword)
{
    return json_bool_or(json_get(schema, keyword), false);
}

static const char *text_of(const struct json *schema, const char *keyword)
{
    return json_str_or(json_get(schema, keyword), "");
}

static void forbid(struct checker *c, const struct place *p, const char *keyword, const char *why)
{
    _cleanup_free_ char *field = field_of(p, keyword);

    field_forbidden(c->errors, field, "%s", why);
}

static void demand(struct checker *c, const struct place *p, const char *keyword, const char *why)
{
    _cleanup_free_ char *field = field_of(p, keyword);

    field_required(c->errors, field, why);
}

static void refuse(struct checker *c, const struct place *p, const char *keyword, const char *why)
{
    _cleanup_free_ char *field = field_of(p, keyword);

    field_invalid(c->errors, field, json_get(p->schema, keyword), "%s", why);
}

static bool in_list(const char *const *list, const char *s)
{
    while (*list && !streq(*list, s))
        list++;
    return *list != NULL;
}

/* --- keywords that no schema may have --- */

static void check_unsupported(struct checker *c, const struct place *p)
{
    static const char *const keywords[] = {
        "$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id"};

    for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
        if (json_has(p->schema, keywords[i])) {
            _cleanup_free_ char *why = xasprintf("%s is not supported", keywords[i]);
            forbid(c, p, keywords[i], why);
        }
    if (is_true(p->schema, "uniqueItems"))
        forbid(c, p, "uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
    if (json_is(json_get(p->schema, "items"), JSON_ARRAY))
        forbid(c, p, "items", "items must be a schema object and not an array");
    if (json_get(p->schema, "additionalProperties") && json_size(json_get(p->schema, "properties")))
        forbid(c, p, "additionalProperties", "additionalProperties and properties are mutual exclusive");
    if (json_has(p->schema, "x-kubernetes-preserve-unknown-fields") &&
        !is_true(p->schema, "x-kubernetes-preserve-unknown-fields"))
        refuse(c, p, "x-kubernetes-preserve-unknown-fields", "must be true or undefined");
}

static void check_condition(struct checker *c, const struct place *p)
{
    static const char *const keywords[] = {"description",
                                           "type",
                                           "default",
                                           "additionalProperties",
                                           "nullable",
                                           "title",
                                           "x-kubernetes-preserve-unknown-fields",
                                           "x-kubernetes-embedded-resource",
                                           "x-kubernetes-int-or-string",
                                           "x-kubernetes-list-type",
                                           "x-kubernetes-map-type",
                                           "x-kubernetes-validations"};
    /* The one shape in which types may stand in conditions, because int-or-string means just that. */
    bool integer_or_string = p->described && is_true(p->described, "x-kubernetes-int-or-string");

    for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
        if (json_has(p->schema, keywords[i]) && !(integer_or_string && streq(keywords[i], "type")))
            forbid(c, p, keywords[i], "must be empty to be structural");
}

/* --- types --- */

static void check_type(struct checker *c, const struct place *p)
{
    static const char *const known[] = {"array", "boolean", "integer", "number", "object", "string", NULL};
    const char *type = text_of(p->schema, "type");
    bool open = is_true(p->schema, "x-kubernetes-preserve-unknown-fields");
    _cleanup_free_ char *field = field_of(p, "type");

    if (is_true(p->schema, "x-kubernetes-int-or-string")) {
        if (*type && !streq(type, "integer") && !streq(type, "string"))
            field_invalid_str(c->errors, field, type, "must be empty if x-kubernetes-int-or-string is true");
        return;
    }
    if (p->level == LEVEL_ROOT && *type && !streq(type, "object"))
        field_invalid_str(c->errors, field, type, "must be object at the root");
    if (streq(type, "null"))
        field_forbidden(c->errors, field, "type cannot be set to null, use nullable as an alternative");
    else if (*type) {
        if (!in_list(known, type))
            field_not_supported_str(c->errors, field, type, known);
    } else if (p->level == LEVEL_ROOT) {
        field_required(c->errors, field, "must not be empty at the root");
    } else if (!open) {
        field_required(c->errors, field,
                       p->level == LEVEL_ITEM ? "must not be empty for specified array items"
                                              : "must not be empty for specified object fields");
    }
    if (streq(type, "array") && !json_get(p->schema, "items"))
        demand(c, p, "items", "must be specified");
    if (is_true(p->schema, "x-kubernetes-embedded-resource")) {
        if (!streq(type, "object"))
            field_invalid_str(c->errors, field, type, "must be object if x-kubernetes-embedded-resource is true");
        if (!open && !json_size(json_get(p->schema, "properties")))
            demand(c, p, "properties",
                   "must not be empty if x-kubernetes-embedded-resource is true without "
                   "x-kubernetes-preserve-unknown-fields");
    }
}

/* Of a whole object only the name may be restricted; everything else about metadata is known. */
static void check_metadata(struct checker *c, const struct place *p)
{
    const struct json *meta = json_at(p->schema, "properties", "metadata", NULL);
    struct field_path properties = {.parent = p->path, .name = "properties"};
    struct field_path here = {.parent = &properties, .name = "metadata", .bracket = true};
    bool bad = false;

    for (struct json_iter it = {0}; json_each(meta, &it);)
        bad |= !streq(it.key, "type") && !streq(it.key, "description") && !streq(it.key, "properties");
    for (struct json_iter it = {0}; json_each(json_get(meta, "properties"), &it);)
        bad |= !streq(it.key, "name") && !streq(it.key, "generateName");
    if (!bad)
        return;
    _cleanup_free_ char *field = field_path_text(&here);
    field_forbidden(c->errors, field,
                    "must not specify anything other than name and generateName, but metadata is implicitly specified");
}

/* --- lists --- */

static bool in_array(const struct json *array, const char *s)
{
    for (size_t i = 0; i < json_size(array); i++)
        if (streq_null(json_str(json_item(array, i)), s))
            return true;
    return false;
}

static void check_map_key(struct checker *c, const struct place *p, size_t i)
{
    const char *key = json_str_or(json_item(json_get(p->schema, "x-kubernetes-list-map-keys"), i), "");
    const struct json *items = json_get(p->schema, "items"), *property = json_at(items, "properties", key, NULL);
    struct field_path keys = {.parent = p->path, .name = "x-kubernetes-list-map-keys"};
    struct field_path here = {.parent = &keys, .index = i};
    _cleanup_free_ char *field = field_path_text(&here);

    if (!property) {
        field_invalid_str(c->errors, field, key, "entries must all be names of item properties");
        return;
    }
    if (streq(text_of(property, "type"), "array") || streq(text_of(property, "type"), "object"))
        field_invalid_str(c->errors, field, key, "entries must all be names of scalar item properties");
    if (json_has(property, "default") || in_array(json_get(items, "required"), key))
        return;
    struct field_path below = {.parent = p->path, .name = "items"}, all = {.parent = &below, .name = "properties"};
    struct field_path one = {.parent = &all, .name = key, .bracket = true}, last = {.parent = &one, .name = "default"};
    _cleanup_free_ char *missing = field_path_text(&last);
    field_required(c->errors, missing,
                   "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required "
                   "property");
}

static void check_list(struct checker *c, const struct place *p)
{
    static const char *const list_types[] = {"atomic", "map", "set", NULL}, *const map_types[] = {"atomic", "granular",
                                                                                                  NULL};
    const char *list = text_of(p->schema, "x-kubernetes-list-type"), *map = text_of(p->schema, "x-kubernetes-map-type");
    const struct json *keys = json_get(p->schema, "x-kubernetes-list-map-keys"), *items = json_get(p->schema, "items");
    _cleanup_free_ char *type_field = field_of(p, "type"), *list_field = field_of(p, "x-kubernetes-list-type");

    if (*map && !streq(map, "atomic") && !streq(map, "granular")) {
        _cleanup_free_ char *field = field_of(p, "x-kubernetes-map-type");
        field_not_supported_str(c->errors, field, map, map_types);
    }
    if (!*list) {
        if (json_size(keys))
            field_required(c->errors, list_field, "must be map if x-kubernetes-list-map-keys is non-empty");
        return;
    }
    if (!streq(list, "atomic") && !streq(list, "map") && !streq(list, "set"))
        field_not_supported_str(c->errors, list_field, list, list_types);
    if (!streq(text_of(p->schema, "type"), "array"))
        field_invalid_str(c->errors, type_field, text_of(p->schema, "type"),
                          "must be array if x-kubernetes-list-type is specified");
    if (streq(list, "set") && streq(text_of(items, "type"), "object") &&
        !streq(text_of(items, "x-kubernetes-map-type"), "atomic"))
        refuse(c, p, "x-kubernetes-list-type", "items of a set must be scalars or atomic");
    if (!streq(list, "map"))
        return;
    if (!json_size(keys))
        demand(c, p, "x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map");
    for (size_t i = 0; i < json_size(keys); i++)
        check_map_key(c, p, i);
}

/* --- values in schemas --- */

static void check_pattern(struct checker *c, const struct place *p)
{
    const char *pattern = json_str(json_get(p->schema, "pattern"));
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_(regex_free_p) struct regex *re = pattern ? regex_compile(pattern, &err) : NULL;

    if (!pattern || re)
        return;
    _cleanup_free_ char *field = field_of(p, "pattern");
    field_invalid_str(c->errors, field, pattern, "must be a valid regular expression, but isn't: %s", error_text(&err));
}

static void note_unknown(void *arg, const char *path)
{
    strbuf_addf(arg, "%s%s", ((struct strbuf *)arg)->len ? ", " : "", path);
}

static void check_default(struct checker *c, const struct place *p)
{
    struct json *given = json_get(p->schema, "default");
    _cleanup_(strbuf_free) struct strbuf unknown = {0};
    _cleanup_(field_errors_clear) struct field_errors errors = {0};

    if (!given)
        return;
    _cleanup_(structural_set_free_p) struct structural_set *set = structural_set_new(NULL);
    _cleanup_(structural_schema_free_p) struct structural_schema *schema = structural_compile(set, p->schema, false);
    _cleanup_free_ char *field = field_of(p, "default");
    _cleanup_json_ struct json *pruned = structural_prune(schema, given, note_unknown, &unknown);
    if (unknown.len)
        field_invalid(c->errors, field, given, "must not have unknown fields: %s", strbuf_str(&unknown));
    _cleanup_json_ struct json *filled = structural_default(schema, pruned);
    structural_validate(schema, filled, NULL, &errors);
    field_errors_move_below(c->errors, &errors, field);
}

/* --- rules --- */

static void check_program(struct checker *c, const struct place *p, const char *text, const char *field,
                          const char *wanted, bool optional_old)
{
    static const struct schema_context nowhere;
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_(cel_free_p) struct cel_program *program = cel_compile(text, structural_rule_variables, &err);
    struct schema_node node =
        p->whole_object ? schema_root(&nowhere, p->schema) : schema_node_make(&nowhere, p->schema);
    const struct schema_node nodes[] = {node, optional_old ? (struct schema_node){0} : node};

    if (!program) {
        field_invalid_str(c->errors, field, text, "compilation failed: %s", error_text(&err));
        return;
    }
    if (!cel_may_give(program, wanted))
        field_invalid_str(c->errors, field, text, "must evaluate to a %s", wanted);
    else if (!c->references && cel_check_schemas(program, nodes, wanted, &err) < 0)
        field_invalid_str(c->errors, field, text, "compilation failed: %s", error_text(&err));
    if (optional_old && streq(wanted, "bool") && !cel_mentions(program, "oldSelf"))
        field_invalid_str(c->errors, field, text, "optionalOldSelf may not be set if oldSelf is not used in the rule");
    if (p->uncorrelated && cel_mentions(program, "oldSelf"))
        field_invalid_str(c->errors, field, text, "oldSelf cannot be used on the uncorrelatable portion of the schema");
}

static void check_rule(struct checker *c, const struct place *p, size_t i)
{
    static const char *const reasons[] = {"FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired",
                                          "FieldValueDuplicate", NULL};
    const struct json *rule = json_item(json_get(p->schema, "x-kubernetes-validations"), i);
    struct field_path rules = {.parent = p->path, .name = "x-kubernetes-validations"};
    struct field_path here = {.parent = &rules, .index = i};
    struct place at = {.schema = rule, .path = &here};
    const char *text = text_of(rule, "rule"), *message = text_of(rule, "message"), *reason = text_of(rule, "reason");
    bool optional_old = is_true(rule, "optionalOldSelf");
    _cleanup_free_ char *rule_field = field_of(&at, "rule"), *message_field = field_of(&at, "messageExpression");

    if (!text[strspn(text, " \t\r\n")])
        field_required(c->errors, rule_field, "rule is not specified");
    else
        check_program(c, p, text, rule_field, "bool", optional_old);
    if (strchr(message, '\n'))
        refuse(c, &at, "message", "message must not contain line breaks");
    if (strchr(text, '\n') && !*message && !json_has(rule, "messageExpression"))
        demand(c, &at, "message", "message must be specified if rule contains line breaks");
    if (json_has(rule, "messageExpression"))
        check_program(c, p, text_of(rule, "messageExpression"), message_field, "string", optional_old);
    if (*reason && !in_list(reasons, reason)) {
        _cleanup_free_ char *field = field_of(&at, "reason");
        field_not_supported_str(c->errors, field, reason, reasons);
    }
    if (json_has(rule, "fieldPath") && text_of(rule, "fieldPath")[0] != '.' && text_of(rule, "fieldPath")[0] != '[')
        refuse(c, &at, "fieldPath", "must be a JSON path to a field, such as .spec.size");
}

/* --- the walk --- */

static void check_conditions(struct checker *c, const struct place *p, const char *keyword)
{
    const struct json *list = json_get(p->schema, keyword);

    for (size_t i = 0; i < json_size(list); i++) {
        struct field_path all = {.parent = p->path, .name = keyword}, here = {.parent = &all, .index = i};
        check(c, &(struct place){
                     .schema = json_item(list, i),
                     .described = p->level == LEVEL_CONDITION ? p->described : p->schema,
                     .path = &here,
                     .level = LEVEL_CONDITION,
                 });
    }
}

static void check_below(struct checker *c, const struct place *p, const char *keyword, enum level level)
{
    const struct json *schema = json_get(p->schema, keyword);
    struct field_path here = {.parent = p->path, .name = keyword};
    bool condition = p->level == LEVEL_CONDITION || streq(keyword, "not");
    bool items = streq(keyword, "items");

    if (!json_is(schema, JSON_OBJECT))
        return;
    check(c,
          &(struct place){
              .schema = schema,
              .described = streq(keyword, "not") ? (p->level == LEVEL_CONDITION ? p->described : p->schema)
                                                 : json_get(p->described, keyword),
              .path = &here,
              .level = condition ? LEVEL_CONDITION : level,
              .uncorrelated = p->uncorrelated || (items && !streq(text_of(p->schema, "x-kubernetes-list-type"), "map")),
          });
}

static void check_properties(struct checker *c, const struct place *p)
{
    const struct json *described = json_get(p->described, "properties");

    for (struct json_iter it = {0}; json_each(json_get(p->schema, "properties"), &it);) {
        struct field_path all = {.parent = p->path, .name = "properties"};
        struct field_path here = {.parent = &all, .name = it.key, .bracket = true};

        if (p->whole_object && streq(it.key, "metadata"))
            continue; /* see check_metadata() */
        if (p->level == LEVEL_CONDITION && p->described && !json_has(described, it.key) &&
            !json_is(json_get(p->described, "additionalProperties"), JSON_OBJECT)) {
            _cleanup_free_ char *field = field_path_text(&here);
            field_required(c->errors, field, "must also be described outside of allOf, anyOf, oneOf and not");
        }
        check(c, &(struct place){
                     .schema = it.value,
                     .described = json_get(described, it.key),
                     .path = &here,
                     .level = p->level == LEVEL_CONDITION ? LEVEL_CONDITION : LEVEL_FIELD,
                     .uncorrelated = p->uncorrelated,
                 });
    }
}

static void check(struct checker *c, const struct place *p)
{
    if (!json_is(p->schema, JSON_OBJECT)) {
        _cleanup_free_ char *field = field_path_text(p->path);
        field_invalid(c->errors, field, p->schema, "must be a schema");
        return;
    }
    check_unsupported(c, p);
    if (p->level == LEVEL_CONDITION) {
        check_condition(c, p);
    } else {
        check_type(c, p);
        check_list(c, p);
        check_default(c, p);
        for (size_t i = 0; i < json_size(json_get(p->schema, "x-kubernetes-validations")); i++)
            check_rule(c, p, i);
    }
    if (p->whole_object || is_true(p->schema, "x-kubernetes-embedded-resource"))
        check_metadata(c, p);
    check_pattern(c, p);
    check_properties(c, p);
    check_below(c, p, "items", LEVEL_ITEM);
    check_below(c, p, "additionalProperties", LEVEL_FIELD);
    check_below(c, p, "not", LEVEL_CONDITION);
    check_conditions(c, p, "allOf");
    check_conditions(c, p, "anyOf");
    check_conditions(c, p, "oneOf");
}

static bool has_references(const struct json *schema)
{
    if (json_has(schema, "x-holt-ref"))
        return true;
    for (struct json_iter it = {0}; json_each(schema, &it);)
        if (has_references(it.value))
            return true;
    for (size_t i = 0; json_is(schema, JSON_ARRAY) && i < json_size(schema); i++)
        if (has_references(json_item(schema, i)))
            return true;
    return false;
}

void structural_check_schema(const struct json *schema, const char *field, struct field_errors *errors)
{
    struct checker c = {.errors = errors, .references = has_references(schema)};
    struct field_path root = {.name = field};

    check(&c, &(struct place){.schema = schema, .path = &root, .level = LEVEL_ROOT, .whole_object = true});
}
