#include "apiserver/options.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>

#define FIELD_MANAGER_MAX 128

static const char *options_kind(enum api_verb verb)
{
    switch (verb) {
    case VERB_CREATE:
        return "CreateOptions";
    case VERB_UPDATE:
        return "UpdateOptions";
    case VERB_PATCH:
        return "PatchOptions";
    case VERB_DELETE:
    case VERB_DELETE_COLLECTION:
        return "DeleteOptions";
    default:
        return "ListOptions";
    }
}

static int refuse(struct api_call *c, const char *field, const char *reason, const char *text)
{
    return api_fail(c, status_invalid_options(options_kind(c->verb), field, reason, text));
}

static int refuse_value(struct api_call *c, const char *field, const char *value, const char *supported)
{
    _cleanup_free_ char *text = xasprintf("Unsupported value: \"%s\": supported values: %s", value, supported);

    return refuse(c, field, "FieldValueNotSupported", text);
}

static int read_number(struct api_call *c, const char *name, const char *value, int64_t *ret)
{
    if (value && *value && !parse_i64(value, ret))
        return api_fail(c, status_bad_request("strconv.ParseInt: parsing \"%s\": invalid syntax (%s)", value, name));
    return 0;
}

static int read_dry_run(struct api_call *c, const char *value)
{
    if (!value || !*value)
        return 0;
    if (!streq(value, "All"))
        return refuse_value(c, "dryRun", value, "\"All\"");
    c->options.dry_run = true;
    return 0;
}

static int read_field_validation(struct api_call *c, const char *value)
{
    if (!value || !*value || streq(value, "Warn"))
        c->options.field_validation = FIELDS_WARN;
    else if (streq(value, "Strict"))
        c->options.field_validation = FIELDS_STRICT;
    else if (streq(value, "Ignore"))
        c->options.field_validation = FIELDS_IGNORE;
    else
        return refuse_value(c, "fieldValidation", value, "\"Ignore\", \"Strict\", \"Warn\"");
    return 0;
}

static int check_field_manager(struct api_call *c)
{
    const char *m = c->options.field_manager;

    if (!m)
        return 0;
    if (strlen(m) > FIELD_MANAGER_MAX)
        return refuse(c, "fieldManager", "FieldValueTooLong", "Too long: may not be more than 128 bytes");
    for (; *m; m++)
        if (!isprint((unsigned char)*m) && !((unsigned char)*m & 0x80))
            return refuse(c, "fieldManager", "FieldValueInvalid",
                          "Invalid value: should only contain printable characters");
    return 0;
}

static int read_write(struct api_call *c, query_lookup lookup, const void *arg)
{
    struct api_options *o = &c->options;
    const char *manager = lookup(arg, "fieldManager"), *force = lookup(arg, "force");

    if (manager && *manager)
        o->field_manager = manager;
    o->force_given = force != NULL;
    o->force = query_bool(force);
    if (read_dry_run(c, lookup(arg, "dryRun")) < 0 || read_field_validation(c, lookup(arg, "fieldValidation")) < 0)
        return -1;
    return check_field_manager(c);
}

static int read_list(struct api_call *c, query_lookup lookup, const void *arg)
{
    struct api_options *o = &c->options;
    const char *initial = lookup(arg, "sendInitialEvents");

    o->label_selector = lookup(arg, "labelSelector");
    o->field_selector = lookup(arg, "fieldSelector");
    o->continue_token = lookup(arg, "continue");
    o->resource_version = lookup(arg, "resourceVersion");
    o->resource_version_match = lookup(arg, "resourceVersionMatch");
    o->bookmarks = query_bool(lookup(arg, "allowWatchBookmarks"));
    o->send_initial_given = initial != NULL;
    o->send_initial_events = query_bool(initial);
    if (read_number(c, "limit", lookup(arg, "limit"), &o->limit) < 0)
        return -1;
    return read_number(c, "timeoutSeconds", lookup(arg, "timeoutSeconds"), &o->timeout_seconds);
}

static int read_delete(struct api_call *c, query_lookup lookup, const void *arg)
{
    struct api_options *o = &c->options;
    const char *orphan = lookup(arg, "orphanDependents");

    o->propagation = lookup(arg, "propagationPolicy");
    o->orphan_given = orphan != NULL;
    o->orphan_dependents = query_bool(orphan);
    if (read_number(c, "gracePeriodSeconds", lookup(arg, "gracePeriodSeconds"), &o->grace_seconds) < 0)
        return -1;
    return read_dry_run(c, lookup(arg, "dryRun"));
}

int options_read(struct api_call *c, query_lookup lookup, const void *arg)
{
    switch (c->verb) {
    case VERB_CREATE:
    case VERB_UPDATE:
    case VERB_PATCH:
        return read_write(c, lookup, arg);
    case VERB_DELETE:
        return read_delete(c, lookup, arg);
    case VERB_DELETE_COLLECTION:
        return read_delete(c, lookup, arg) < 0 ? -1 : read_list(c, lookup, arg);
    default:
        return read_list(c, lookup, arg);
    }
}

static bool given(const char *s)
{
    return s && *s;
}

int options_check_list(struct api_call *c, bool watch)
{
    const struct api_options *o = &c->options;
    const char *match = given(o->resource_version_match) ? o->resource_version_match : NULL;
    bool zero = given(o->resource_version) && streq(o->resource_version, "0");
    const char *field = "resourceVersionMatch", *forbidden = NULL;

    if (match && !streq(match, "NotOlderThan") && !streq(match, "Exact"))
        return refuse_value(c, field, match, "\"Exact\", \"NotOlderThan\"");
    if (o->send_initial_given && !watch)
        field = "sendInitialEvents", forbidden = "Forbidden: sendInitialEvents is forbidden for list";
    else if (o->send_initial_given && (!match || !streq(match, "NotOlderThan")))
        forbidden = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    else if (watch && match && !o->send_initial_given)
        forbidden = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    else if (match && given(o->continue_token))
        forbidden = "Forbidden: resourceVersionMatch is forbidden with continue token";
    else if (!watch && match && !given(o->resource_version))
        forbidden = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
    else if (match && streq(match, "Exact") && zero)
        forbidden = "Forbidden: resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"";
    if (forbidden)
        return refuse(c, field, "FieldValueForbidden", forbidden);
    if (given(o->continue_token) && given(o->resource_version) && !zero)
        return api_fail(c, status_bad_request("specifying resource version is not allowed when using continue"));
    return 0;
}

static bool known_propagation(const char *p)
{
    return streq(p, "Foreground") || streq(p, "Background") || streq(p, "Orphan");
}

static int delete_from_body(struct api_call *c, struct delete_options *ret, const struct json **ret_orphan)
{
    const struct json *dry_run = json_get(c->body, "dryRun"), *grace = json_get(c->body, "gracePeriodSeconds");

    for (size_t i = 0; i < json_size(dry_run); i++)
        if (read_dry_run(c, json_str_or(json_item(dry_run, i), "")) < 0)
            return -1;
    if (grace && !json_is(grace, JSON_INT))
        return api_fail(c, status_bad_request("DeleteOptions: gracePeriodSeconds must be an integer"));
    ret->grace_seconds = json_int_or(grace, -1);
    if (grace && ret->grace_seconds < 0)
        ret->grace_seconds = 1;
    ret->propagation = json_str_at(c->body, "propagationPolicy", NULL);
    ret->uid = json_str_at(c->body, "preconditions", "uid", NULL);
    ret->resource_version = json_str_at(c->body, "preconditions", "resourceVersion", NULL);
    *ret_orphan = json_get(c->body, "orphanDependents");
    return 0;
}

int options_read_delete(struct api_call *c, struct delete_options *ret)
{
    const struct json *orphan = NULL;
    bool orphan_given = c->options.orphan_given, orphan_value = c->options.orphan_dependents;

    *ret = (struct delete_options){.grace_seconds = c->options.grace_seconds, .propagation = c->options.propagation};
    if (ret->grace_seconds < -1)
        ret->grace_seconds = 1;
    if (json_size(c->body) > 0) {
        if (delete_from_body(c, ret, &orphan) < 0)
            return -1;
        orphan_given = orphan != NULL;
        orphan_value = json_bool_or(orphan, false);
    }
    ret->dry_run = c->options.dry_run;
    if (orphan_given && ret->propagation)
        return refuse(c, "propagationPolicy", "FieldValueInvalid",
                      "Invalid value: orphanDependents and deletionPropagation cannot be both set");
    if (ret->propagation && !known_propagation(ret->propagation))
        return refuse_value(c, "propagationPolicy", ret->propagation,
                            "\"Foreground\", \"Background\", \"Orphan\", \"nil\"");
    if (orphan_given)
        ret->propagation = orphan_value ? "Orphan" : "Background";
    return 0;
}
