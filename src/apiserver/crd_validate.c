#include "apiserver/crd_validate.h"

#include "apiserver/names.h"
#include "apiserver/structural_check.h"
#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <ctype.h>

#define WARNING_MAX_BYTES 256

static char *lower(const char *s)
{
    char *out = xstrdup(s);

    for (char *p = out; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return out;
}

/* --- names --- */

static void check_name(const char *name, const char *field, bool mixed_case, struct field_errors *errors)
{
    _cleanup_free_ char *lowered = lower(name);
    const char *wrong = name_check_dns1035_label(mixed_case ? lowered : name);

    if (!*name)
        field_required(errors, field, NULL);
    else if (wrong && mixed_case)
        field_invalid_str(errors, field, name, "may have mixed case, but should otherwise match: %s", wrong);
    else if (wrong)
        field_invalid_str(errors, field, name, "%s", wrong);
}

static void check_name_list(const struct json *names, const char *key, struct field_errors *errors)
{
    const struct json *list = json_get(names, key);

    for (size_t i = 0; i < json_size(list); i++) {
        _cleanup_free_ char *field = xasprintf("spec.names.%s[%zu]", key, i);
        check_name(json_str_or(json_item(list, i), ""), field, false, errors);
    }
}

static void check_names(const struct json *crd, struct field_errors *errors)
{
    static const struct {
        const char *key;
        bool mixed_case;
    } single[] = {{"plural", false}, {"singular", false}, {"kind", true}, {"listKind", true}};
    const struct json *names = json_at(crd, "spec", "names", NULL);
    const char *group = json_str_or(json_at(crd, "spec", "group", NULL), "");
    const char *kind = json_str_or(json_get(names, "kind"), "");
    _cleanup_free_ char *name = xasprintf("%s.%s", json_str_or(json_get(names, "plural"), ""), group);
    const char *wrong = name_check_subdomain(group);

    if (!streq(object_name(crd), name))
        field_invalid_str(errors, "metadata.name", object_name(crd), "must be spec.names.plural+\".\"+spec.group");
    if (*group && wrong)
        field_invalid_str(errors, "spec.group", group, "%s", wrong);
    else if (*group && !strchr(group, '.'))
        field_invalid_str(errors, "spec.group", group, "should be a domain with at least one dot");
    for (size_t i = 0; i < ARRAY_LEN(single); i++) {
        _cleanup_free_ char *field = xasprintf("spec.names.%s", single[i].key);
        check_name(json_str_or(json_get(names, single[i].key), ""), field, single[i].mixed_case, errors);
    }
    if (*kind && streq(kind, json_str_or(json_get(names, "listKind"), "")))
        field_invalid_str(errors, "spec.names.listKind", kind, "kind and listKind may not be the same");
    check_name_list(names, "shortNames", errors);
    check_name_list(names, "categories", errors);
}

/* --- parts of a version; at: where the version stands --- */

static bool is_simple_path(const char *path)
{
    return path[0] == '.' && path[1] != '\0';
}

static void check_columns(const struct json *columns, const char *at, struct field_errors *errors)
{
    static const char *const formats[] = {"byte",  "date",  "date-time", "double", "float",
                                          "int32", "int64", "password",  NULL};

    for (size_t i = 0; i < json_size(columns); i++) {
        const struct json *column = json_item(columns, i);
        const char *path = json_str_or(json_get(column, "jsonPath"), ""),
                   *format = json_str_or(json_get(column, "format"), "");
        _cleanup_free_ char *field = xasprintf("%s.additionalPrinterColumns[%zu]", at, i);
        _cleanup_free_ char *name_field = xasprintf("%s.name", field), *path_field = xasprintf("%s.jsonPath", field);
        _cleanup_free_ char *format_field = xasprintf("%s.format", field);
        size_t known = 0;
        if (!*json_str_or(json_get(column, "name"), ""))
            field_required(errors, name_field, NULL);
        if (!*path)
            field_required(errors, path_field, NULL);
        else if (!is_simple_path(path))
            field_invalid_str(errors, path_field, path, "must be a simple json path starting with .");
        while (formats[known] && !streq(formats[known], format))
            known++;
        if (*format && !formats[known])
            field_not_supported_str(errors, format_field, format, formats);
    }
}

static bool is_below(const char *path, const char *prefix)
{
    const char *rest = str_skip_prefix(path, prefix);

    return rest && rest[0] == '.' && rest[1] && !strchr(rest, '[');
}

static void check_scale(const struct json *scale, const char *at, struct field_errors *errors)
{
    const char *spec = json_str_or(json_get(scale, "specReplicasPath"), ""),
               *status = json_str_or(json_get(scale, "statusReplicasPath"), ""),
               *selector = json_str_or(json_get(scale, "labelSelectorPath"), "");
    _cleanup_free_ char *spec_field = xasprintf("%s.subresources.scale.specReplicasPath", at);
    _cleanup_free_ char *status_field = xasprintf("%s.subresources.scale.statusReplicasPath", at);
    _cleanup_free_ char *selector_field = xasprintf("%s.subresources.scale.labelSelectorPath", at);

    if (!scale)
        return;
    if (!is_below(spec, ".spec"))
        field_invalid_str(errors, spec_field, spec, "should be a json path under .spec");
    if (!is_below(status, ".status"))
        field_invalid_str(errors, status_field, status, "should be a json path under .status");
    if (*selector && !is_below(selector, ".spec") && !is_below(selector, ".status"))
        field_invalid_str(errors, selector_field, selector, "should be a json path under either .spec or .status");
}

/* The schema of what ".spec.a" leads to, NULL when there is none; without a type where it cannot be known. */
static const struct json *schema_at(const struct json *schema, const char *path)
{
    while (schema && *path == '.') {
        size_t len = strcspn(path + 1, ".");
        _cleanup_free_ char *key = xstrndup(path + 1, len);
        if (json_has(schema, "x-holt-ref"))
            return schema;
        schema = json_at(schema, "properties", key, NULL);
        path += len + 1;
    }
    return *path ? NULL : schema;
}

static void check_selectable(const struct json *version, const char *at, struct field_errors *errors)
{
    const struct json *fields = json_get(version, "selectableFields");
    const struct json *schema = json_at(version, "schema", "openAPIV3Schema", NULL);
    struct hashmap seen = {0};

    for (size_t i = 0; i < json_size(fields); i++) {
        const char *path = json_str_or(json_get(json_item(fields, i), "jsonPath"), "");
        _cleanup_free_ char *field = xasprintf("%s.selectableFields[%zu].jsonPath", at, i);
        const struct json *target = schema_at(schema, path);
        const char *type = json_str_or(json_get(target, "type"), "");
        if (!is_simple_path(path))
            field_invalid_str(errors, field, path, "must be a simple json path starting with .");
        else if (streq(path, ".metadata") || str_skip_prefix(path, ".metadata."))
            field_invalid_str(errors, field, path, "must not point to fields in metadata");
        else if (!target)
            field_invalid_str(errors, field, path, "is an invalid path: does not exist in the schema");
        else if (!json_has(target, "x-holt-ref") && !streq(type, "string") && !streq(type, "boolean") &&
                 !streq(type, "integer"))
            field_invalid_str(errors, field, path, "must point to a field of type string, boolean or integer");
        if (*path && hashmap_put(&seen, path, &seen))
            field_duplicate_str(errors, field, path);
    }
    hashmap_free(&seen, NULL);
}

static void check_deprecation(const struct json *version, const char *at, struct field_errors *errors)
{
    const char *text = json_str(json_get(version, "deprecationWarning"));
    _cleanup_free_ char *field = xasprintf("%s.deprecationWarning", at);

    if (!text)
        return;
    if (!json_bool_or(json_get(version, "deprecated"), false))
        field_invalid_str(errors, field, text, "can only be set for deprecated versions");
    if (!*text)
        field_invalid_str(errors, field, text, "must not be an empty string");
    if (strlen(text) > WARNING_MAX_BYTES)
        field_too_long(errors, field, WARNING_MAX_BYTES);
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            field_invalid_str(errors, field, text, "must only contain printable characters");
            break;
        }
}

static void check_version(const struct json *version, const char *at, struct field_errors *errors)
{
    const struct json *schema = json_at(version, "schema", "openAPIV3Schema", NULL);
    _cleanup_free_ char *name_field = xasprintf("%s.name", at);
    _cleanup_free_ char *schema_field = xasprintf("%s.schema.openAPIV3Schema", at);

    check_name(json_str_or(json_get(version, "name"), ""), name_field, false, errors);
    if (!json_is(schema, JSON_OBJECT)) {
        field_required(errors, schema_field, "schemas are required");
    } else {
        structural_check_schema(schema, schema_field, errors);
        check_selectable(version, at, errors);
    }
    check_columns(json_get(version, "additionalPrinterColumns"), at, errors);
    check_scale(json_at(version, "subresources", "scale", NULL), at, errors);
    check_deprecation(version, at, errors);
}

static void check_versions(const struct json *crd, struct field_errors *errors)
{
    const struct json *versions = json_at(crd, "spec", "versions", NULL);
    size_t storage = 0;
    struct hashmap seen = {0};

    for (size_t i = 0; i < json_size(versions); i++) {
        const struct json *v = json_item(versions, i);
        const char *name = json_str_or(json_get(v, "name"), "");
        _cleanup_free_ char *at = xasprintf("spec.versions[%zu]", i), *name_field = xasprintf("%s.name", at);
        storage += json_bool_or(json_get(v, "storage"), false);
        if (*name && hashmap_put(&seen, name, &seen))
            field_duplicate_str(errors, name_field, name);
        check_version(v, at, errors);
    }
    if (storage != 1)
        field_invalid(errors, "spec.versions", versions, "must have exactly one version marked as storage version");
    hashmap_free(&seen, NULL);
}

static bool has_string(const struct json *array, const char *s)
{
    for (size_t i = 0; i < json_size(array); i++)
        if (streq_null(json_str(json_item(array, i)), s))
            return true;
    return false;
}

void crd_validate_stored_versions(const struct json *crd, struct field_errors *errors)
{
    const struct json *versions = json_at(crd, "spec", "versions", NULL);
    const struct json *stored = json_at(crd, "status", "storedVersions", NULL);
    _cleanup_json_ struct json *names = json_array_make();

    for (size_t i = 0; i < json_size(versions); i++) {
        const struct json *v = json_item(versions, i);
        const char *name = json_str_or(json_get(v, "name"), "");
        json_push(names, json_string(name));
        if (json_bool_or(json_get(v, "storage"), false) && !has_string(stored, name))
            field_invalid(errors, "status.storedVersions", stored, "must have the storage version %s", name);
    }
    for (size_t i = 0; i < json_size(stored); i++) {
        const char *name = json_str_or(json_item(stored, i), "");
        _cleanup_free_ char *field = xasprintf("status.storedVersions[%zu]", i);
        if (!has_string(names, name))
            field_invalid_str(errors, field, name, "must appear in spec.versions");
    }
}

/* --- the whole --- */

static void check_conversion(const struct json *crd, struct field_errors *errors)
{
    static const char *const supported[] = {"None", NULL};
    const char *strategy = json_str_or(json_at(crd, "spec", "conversion", "strategy", NULL), "None");

    if (streq(strategy, "Webhook")) /* other values are the schema's business */
        field_not_supported_str(errors, "spec.conversion.strategy", strategy, supported);
}

static void check_fixed(const struct json *crd, const struct json *old, const char *const *path, const char *field,
                        struct field_errors *errors)
{
    const struct json *a = json_get(crd, "spec"), *b = json_get(old, "spec");

    for (; *path; path++) {
        a = json_get(a, *path);
        b = json_get(b, *path);
    }
    if (!json_equal(a, b))
        field_invalid(errors, field, a, "field is immutable");
}

void crd_validate(const struct json *crd, const struct json *old, struct field_errors *errors)
{
    static const char *const group_path[] = {"group", NULL}, *const scope_path[] = {"scope", NULL};
    static const char *const plural_path[] = {"names", "plural", NULL}, *const kind_path[] = {"names", "kind", NULL};

    check_names(crd, errors);
    if (json_bool_or(json_at(crd, "spec", "preserveUnknownFields", NULL), false))
        field_invalid_raw(errors, "spec.preserveUnknownFields", "true",
                          "must be false in order to use defaults in the schema");
    check_versions(crd, errors);
    crd_validate_stored_versions(crd, errors);
    check_conversion(crd, errors);
    if (!old)
        return;
    check_fixed(crd, old, group_path, "spec.group", errors);
    check_fixed(crd, old, scope_path, "spec.scope", errors);
    check_fixed(crd, old, plural_path, "spec.names.plural", errors);
    check_fixed(crd, old, kind_path, "spec.names.kind", errors);
}
