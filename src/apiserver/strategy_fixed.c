/* Kinds of which parts are for ever: others have been made after them. */
#include "apiserver/strategy.h"

#include "base/strutil.h"

static void check_immutable(const struct json *o, const struct json *old, const char *field,
                            struct field_errors *errors)
{
    if (!json_equal(json_get(o, field), json_get(old, field)))
        field_invalid(errors, field, json_get(o, field), "field is immutable");
}

static void validate_runtime_class(const struct api_call *c UNUSED, const struct json *o, const struct json *old,
                                   struct field_errors *errors)
{
    const char *handler = json_str_or(json_get(o, "handler"), "");
    const char *wrong = name_check_label(handler);

    if (json_str(json_get(o, "handler")) && wrong)
        field_invalid_str(errors, "handler", handler, "%s", wrong);
    if (old)
        check_immutable(o, old, "handler", errors);
}

static void validate_storage_class(const struct api_call *c UNUSED, const struct json *o, const struct json *old,
                                   struct field_errors *errors)
{
    static const char *const fixed[] = {"parameters", "provisioner", "reclaimPolicy"};

    if (!old)
        return;
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        if (!json_equal(json_get(o, fixed[i]), json_get(old, fixed[i])))
            field_forbidden(errors, fixed[i], "updates to %s are forbidden.", fixed[i]);
    check_immutable(o, old, "volumeBindingMode", errors);
}

static void validate_revision(const struct api_call *c UNUSED, const struct json *o, const struct json *old,
                              struct field_errors *errors)
{
    if (json_int_or(json_get(o, "revision"), 0) < 0)
        field_invalid(errors, "revision", json_get(o, "revision"), "must be greater than or equal to 0");
    if (old)
        check_immutable(o, old, "data", errors);
}

const struct strategy strategy_runtime_classes = {
    .group = "node.k8s.io", .plural = "runtimeclasses", .validate = validate_runtime_class};
const struct strategy strategy_storage_classes = {
    .group = "storage.k8s.io", .plural = "storageclasses", .validate = validate_storage_class};
const struct strategy strategy_revisions = {
    .group = "apps", .plural = "controllerrevisions", .validate = validate_revision};
