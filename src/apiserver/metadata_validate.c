#include "apiserver/metadata_validate.h"

#include "base/memory.h"
#include "base/strutil.h"

#define FINALIZER_ORPHAN "orphan"
#define FINALIZER_FOREGROUND "foregroundDeletion"

/* The text of v, "" when it is none. One that holds a NUL becomes a text that no rule accepts. */
static const char *text_of(const struct json *v)
{
    const char *s = json_str_or(v, "");

    return strlen(s) == json_string_len(v) ? s : "\x01";
}

void labels_validate(const struct json *labels, const char *field, struct field_errors *errors)
{
    for (struct json_iter it = {0}; json_each(labels, &it);) {
        const char *value = text_of(it.value);
        const char *text = name_check_qualified(it.key);
        if (text)
            field_invalid_str(errors, field, it.key, "%s", text);
        text = name_check_label_value(value);
        if (text)
            field_invalid_str(errors, field, value, "%s", text);
    }
}

void annotations_validate(const struct json *annotations, const char *field, struct field_errors *errors)
{
    size_t size = 0;

    for (struct json_iter it = {0}; json_each(annotations, &it);) {
        const char *text = name_check_annotation_key(it.key);
        if (text)
            field_invalid_str(errors, field, it.key, "%s", text);
        size += strlen(it.key) + json_string_len(it.value);
    }
    if (size > ANNOTATIONS_MAX_BYTES)
        field_too_long(errors, field, ANNOTATIONS_MAX_BYTES);
}

static void owner_part(const struct json *owner, const char *key, const char *what, bool good,
                       struct field_errors *errors)
{
    _cleanup_free_ char *field = xasprintf("metadata.ownerReferences.%s", key);

    if (!good)
        field_invalid_str(errors, field, json_str_or(json_get(owner, key), ""), "%s must not be empty", what);
}

static bool present(const struct json *o, const char *key)
{
    return *json_str_or(json_get(o, key), "") != '\0';
}

static void owners_validate(const struct json *owners, struct field_errors *errors)
{
    static const char field[] = "metadata.ownerReferences";
    const struct json *controller = NULL;

    for (size_t i = 0; i < json_size(owners); i++) {
        const struct json *o = json_item(owners, i);
        const char *api_version = json_str_or(json_get(o, "apiVersion"), "");
        owner_part(o, "apiVersion", "version", *api_version && !str_has_suffix(api_version, "/"), errors);
        owner_part(o, "kind", "kind", present(o, "kind"), errors);
        owner_part(o, "name", "name", present(o, "name"), errors);
        owner_part(o, "uid", "uid", present(o, "uid"), errors);
        if (streq(api_version, "v1") && streq(json_str_or(json_get(o, "kind"), ""), "Event"))
            field_invalid(errors, field, o, "/v1, Kind=Event is disallowed from being an owner");
        if (!json_bool_or(json_get(o, "controller"), false))
            continue;
        if (controller)
            field_invalid(errors, field, owners,
                          "Only one reference can have Controller set to true. Found \"true\" in references for %s/%s "
                          "and %s/%s",
                          json_str_or(json_get(controller, "kind"), ""), json_str_or(json_get(controller, "name"), ""),
                          json_str_or(json_get(o, "kind"), ""), json_str_or(json_get(o, "name"), ""));
        else
            controller = o;
    }
}

static bool has_string(const struct json *array, const char *s)
{
    for (size_t i = 0; i < json_size(array); i++)
        if (streq_null(json_str(json_item(array, i)), s))
            return true;
    return false;
}

static bool is_standard_finalizer(const char *name)
{
    return streq(name, FINALIZER_ORPHAN) || streq(name, FINALIZER_FOREGROUND) || streq(name, "kubernetes");
}

/* qualified: of a built-in kind, where a name without a domain must be one of Kubernetes' own. */
static void finalizers_validate(const struct json *finalizers, bool qualified, struct field_errors *errors)
{
    static const char field[] = "metadata.finalizers";

    for (size_t i = 0; i < json_size(finalizers); i++) {
        const char *name = text_of(json_item(finalizers, i));
        const char *text = name_check_qualified(name);
        if (text) {
            field_invalid_str(errors, field, name, "%s", text);
        } else if (qualified && !strchr(name, '/') && !is_standard_finalizer(name)) {
            _cleanup_free_ char *item = xasprintf("%s[%zu]", field, i);
            field_invalid_str(errors, item, name,
                              "name is neither a standard finalizer name nor is it fully qualified");
        }
    }
    if (has_string(finalizers, FINALIZER_ORPHAN) && has_string(finalizers, FINALIZER_FOREGROUND))
        field_invalid(errors, field, finalizers, "finalizer %s and %s cannot be both set", FINALIZER_ORPHAN,
                      FINALIZER_FOREGROUND);
}

static void name_validate(const struct json *meta, const struct metadata_rules *rules, struct field_errors *errors)
{
    const char *name = text_of(json_get(meta, "name"));
    const char *prefix = text_of(json_get(meta, "generateName"));
    const char *ns = text_of(json_get(meta, "namespace"));
    const char *text = *prefix ? name_check_prefix(rules->name, prefix) : NULL;

    if (text)
        field_invalid_str(errors, "metadata.generateName", prefix, "%s", text);
    if (!*name)
        field_required(errors, "metadata.name", "name or generateName is required");
    else if ((text = rules->name(name)))
        field_invalid_str(errors, "metadata.name", name, "%s", text);
    if (!rules->namespaced) {
        if (*ns)
            field_forbidden(errors, "metadata.namespace", "not allowed on this type");
    } else if (!*ns) {
        field_required(errors, "metadata.namespace", NULL);
    } else if ((text = name_check_label(ns))) {
        field_invalid_str(errors, "metadata.namespace", ns, "%s", text);
    }
}

static void common_validate(const struct json *meta, struct field_errors *errors)
{
    labels_validate(json_get(meta, "labels"), "metadata.labels", errors);
    annotations_validate(json_get(meta, "annotations"), "metadata.annotations", errors);
    owners_validate(json_get(meta, "ownerReferences"), errors);
}

void metadata_validate(const struct json *object, const struct metadata_rules *rules, struct field_errors *errors)
{
    const struct json *meta = json_get(object, "metadata");

    name_validate(meta, rules, errors);
    common_validate(meta, errors);
    finalizers_validate(json_get(meta, "finalizers"), !rules->any_finalizer, errors);
}

static void no_new_finalizers(const struct json *new_ones, const struct json *old_ones, struct field_errors *errors)
{
    _cleanup_(strbuf_free) struct strbuf added = {0};

    for (size_t i = 0; i < json_size(new_ones); i++) {
        const char *name = json_str_or(json_item(new_ones, i), "");
        if (has_string(old_ones, name))
            continue;
        strbuf_adds(&added, added.len ? ", " : "");
        field_quote(name, strlen(name), &added);
    }
    if (added.len)
        field_forbidden(errors, "metadata.finalizers",
                        "no new finalizers can be added if the object is being deleted, found new finalizers "
                        "[]string{%s}",
                        strbuf_str(&added));
}

void metadata_validate_update(const struct json *object, const struct json *old, struct field_errors *errors)
{
    static const char *const immutable[] = {
        "name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"};
    const struct json *meta = json_get(object, "metadata"), *was = json_get(old, "metadata");

    if (json_get(was, "deletionTimestamp"))
        no_new_finalizers(json_get(meta, "finalizers"), json_get(was, "finalizers"), errors);
    if (json_int_or(json_get(meta, "generation"), 0) < json_int_or(json_get(was, "generation"), 0))
        field_invalid(errors, "metadata.generation", json_get(meta, "generation"), "must not be decremented");
    for (size_t i = 0; i < ARRAY_LEN(immutable); i++) {
        _cleanup_free_ char *field = xasprintf("metadata.%s", immutable[i]);
        if (!json_equal(json_get(meta, immutable[i]), json_get(was, immutable[i])))
            field_invalid(errors, field, json_get(meta, immutable[i]), "field is immutable");
    }
    common_validate(meta, errors);
}
