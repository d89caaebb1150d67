#include "apiserver/patch.h"

#include "apiserver/apply_patch.h"
#include "apiserver/json_patch.h"
#include "apiserver/merge_patch.h"
#include "apiserver/object_fields.h"
#include "apiserver/strategic_patch.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

/* --- JSON, merge and strategic merge patches --- */

static int fail_patch(struct api_call *c, const struct error *err)
{
    struct json *status;

    switch (err->code) {
    case EINVAL:
        return api_fail(c, status_bad_request("%s", error_text(err)));
    case E2BIG:
        return api_fail(c, status_failure(413, "RequestEntityTooLarge", error_text(err), NULL));
    default:
        if (c->patch == PATCH_STRATEGIC)
            return api_fail(c, status_failure(422, "Invalid", error_text(err), json_object_make()));
        status = status_failure(422, "Invalid", "the server rejected our request due to an error in our request",
                                json_object_make());
        return api_fail(c, status);
    }
}

struct json *patch_plain(struct api_call *c, const struct json *document)
{
    const struct schema_context context = object_schema_context(c->server);
    struct error err = ERROR_INIT;
    struct json *patched = NULL;

    switch (c->patch) {
    case PATCH_JSON:
        patched = json_patch_apply(document, c->body, &err);
        break;
    case PATCH_MERGE:
        patched = merge_patch_apply(document, c->body, &err);
        break;
    case PATCH_STRATEGIC:
        patched = strategic_patch_apply(document, c->body, &context, c->resource->schema, &err);
        break;
    case PATCH_APPLY:
        (void)error_set(&err, EINVAL, "apply is not supported here");
        break;
    }
    if (err.code)
        (void)fail_patch(c, &err);
    error_clear(&err);
    return patched;
}

static void patch_object(struct api_call *c, struct stored *current)
{
    _cleanup_json_ struct json *shown = object_shown(c->resource, current->value);
    _cleanup_json_ struct json *patched = patch_plain(c, shown);

    if (c->result.code >= 400)
        return;
    struct json *object = api_decode(c, patched);
    if (object)
        (void)api_store_change(c, current, object);
}

/* --- apply --- */

static int fail_apply(struct api_call *c, const struct error *err, struct json *causes)
{
    struct api_subject s = api_subject(c);
    struct json *status;

    switch (err->code) {
    case EINVAL:
        return api_fail(c, status_bad_request("%s", error_text(err)));
    case EBUSY:
        status = status_conflict(&s, NULL);
        json_set_str(status, "message", error_text(err));
        json_set(status, "details", json_build("{s:o}", "causes", json_ref(causes)));
        return api_fail(c, status);
    default:
        return api_fail(c, status_failure(500, NULL, error_text(err), NULL));
    }
}

static int check_apply(struct api_call *c)
{
    const char *version = object_api_version(c->body), *name = object_name(c->body), *kind = object_kind(c->body);

    if (!c->options.field_manager || !*c->options.field_manager)
        return api_fail(c, status_invalid_options("PatchOptions", "fieldManager", "FieldValueRequired",
                                                  "Required value: is required for apply patch"));
    if (!json_is(c->body, JSON_OBJECT))
        return api_fail(c, status_bad_request("the body of an apply patch must be an object"));
    if (!streq(version, c->resource->api_version))
        return api_fail(c, status_bad_request("Incorrect version specified in apply patch. Specified patch version: "
                                              "%s, expected: %s",
                                              version, c->resource->api_version));
    if (!streq(kind, c->resource->kind))
        return api_fail(c, status_bad_request("Incorrect kind specified in apply patch. Specified patch kind: %s, "
                                              "expected: %s",
                                              kind, c->resource->kind));
    if (*name && !streq(name, c->name))
        return api_fail(c, status_bad_request("the name of the object (%s) does not match the name on the URL (%s)",
                                              name, c->name));
    if (json_get(json_get(c->body, "metadata"), "managedFields"))
        return api_fail(c, status_bad_request("metadata.managedFields must be nil"));
    return 0;
}

static int check_absent(struct api_call *c)
{
    struct api_subject s = api_subject(c);
    const char *uid = object_uid(c->body);

    if (*c->subresource)
        return api_fail(c, status_not_found(&s));
    if (!*uid)
        return 0;
    _cleanup_free_ char *text =
        xasprintf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid);
    return api_fail(c, status_conflict(&s, text));
}

static void apply_object(struct api_call *c, struct stored *current)
{
    _cleanup_json_ struct json *shown = current ? object_shown(c->resource, current->value) : NULL;
    _cleanup_json_ struct json *causes = NULL;
    const struct schema_context context = object_schema_context(c->server);
    char now[TIME_RFC3339_MAX];
    struct error err = ERROR_INIT;

    if (check_apply(c) < 0 || (!current && check_absent(c) < 0))
        return;
    api_time_text(c->server, now);
    const struct apply_request request = {
        .write = object_field_write(c, &context, now), .live = shown, .config = c->body, .force = c->options.force};
    _cleanup_json_ struct json *applied = apply_patch(&request, &causes, &err);
    if (!applied) {
        (void)fail_apply(c, &err, causes);
        error_clear(&err);
        return;
    }
    struct json *object = api_decode(c, applied);
    if (!object)
        return;
    c->fields_tracked = true;
    if (current)
        (void)api_store_change(c, current, object);
    else
        (void)api_store_new(c, object);
}

void api_patch(struct api_call *c)
{
    _cleanup_free_ char *key = key_make(c->resource->namespaced ? c->ns : "", c->name);
    struct stored *current = stored_ref(store_get(c->server->store, c->resource->store_name, key));

    if (c->options.force_given && c->patch != PATCH_APPLY)
        (void)api_fail(c, status_invalid_options("PatchOptions", "force", "FieldValueForbidden",
                                                 "Forbidden: may not be specified for non-apply patch"));
    else if (c->patch == PATCH_APPLY)
        apply_object(c, current);
    else if (!current)
        (void)api_current(c); /* says 404 */
    else
        patch_object(c, current);
    stored_unref(current);
}
