#include "apiserver/api_error.h"

#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"

#include <inttypes.h>

int status_code(const struct json *status)
{
    return (int)json_int_or(json_get(status, "code"), 500);
}

struct json *status_failure(int code, const char *reason, const char *message, struct json *details)
{
    return json_build("{s:s, s:s, s:{}, s:s, s:s, s:s, s:o, s:i}", "kind", "Status", "apiVersion", "v1", "metadata",
                      "status", "Failure", "message", message, "reason", reason, "details", details, "code",
                      (int64_t)code);
}

struct json *status_failuref(int code, const char *reason, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *message = xvasprintf(fmt, ap);
    va_end(ap);
    return status_failure(code, reason, message, NULL);
}

static const char *not_empty(const char *s)
{
    return s && *s ? s : NULL;
}

static struct json *details(const struct api_subject *s, const char *kind)
{
    return json_build("{s:s, s:s, s:s}", "name", not_empty(s->name), "group", not_empty(s->group), "kind",
                      not_empty(kind));
}

/* "pods" or "sandboxes.agents.x-k8s.io". */
static char *resource_text(const struct api_subject *s)
{
    return not_empty(s->group) ? xasprintf("%s.%s", s->plural, s->group) : xstrdup(s->plural);
}

struct json *status_success(const struct api_subject *s, const char *uid)
{
    struct json *d = details(s, s->plural);

    json_set_str(d, "uid", not_empty(uid));
    return json_build("{s:s, s:s, s:{}, s:s, s:o}", "kind", "Status", "apiVersion", "v1", "metadata", "status",
                      "Success", "details", d);
}

struct json *status_bad_request(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *message = xvasprintf(fmt, ap);
    va_end(ap);
    return status_failure(400, "BadRequest", message, NULL);
}

struct json *status_internal(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *text = xvasprintf(fmt, ap);
    va_end(ap);
    _cleanup_free_ char *message = xasprintf("Internal error occurred: %s", text);
    return status_failure(500, "InternalError", message, json_build("{s:[{s:s}]}", "causes", "message", text));
}

struct json *status_unauthorized(void)
{
    return status_failure(401, "Unauthorized", "Unauthorized", NULL);
}

struct json *status_no_resource(void)
{
    return status_failure(404, "NotFound", "the server could not find the requested resource", json_object_make());
}

#define OBJECT_MEDIA_TYPES "application/json, application/yaml, application/vnd.kubernetes.protobuf"

struct json *status_not_acceptable(void)
{
    return status_failure(406, "NotAcceptable", "only the following media types are accepted: " OBJECT_MEDIA_TYPES,
                          NULL);
}

struct json *status_unsupported_media(void)
{
    return status_failure(415, "UnsupportedMediaType",
                          "the body of the request was in an unknown format - accepted media types "
                          "include: " OBJECT_MEDIA_TYPES,
                          NULL);
}

struct json *status_unsupported_patch(bool strategic)
{
    return status_failuref(415, "UnsupportedMediaType",
                           "the body of the request was in an unknown format - accepted media types include: "
                           "application/json-patch+json, application/merge-patch+json, %sapplication/apply-patch+yaml",
                           strategic ? "application/strategic-merge-patch+json, " : "");
}

struct json *status_too_large(size_t limit)
{
    return status_failuref(413, "RequestEntityTooLarge", "Request entity too large: limit is %zu", limit);
}

struct json *status_timeout(int64_t wanted, int64_t current)
{
    _cleanup_free_ char *message =
        xasprintf("Timeout: Too large resource version: %" PRId64 ", current: %" PRId64, wanted, current);

    return status_failure(504, "Timeout", message,
                          json_build("{s:[{s:s, s:s}], s:i}", "causes", "reason", "ResourceVersionTooLarge", "message",
                                     "Too large resource version", "retryAfterSeconds", (int64_t)1));
}

struct json *status_expired(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *message = xvasprintf(fmt, ap);
    va_end(ap);
    return status_failure(410, "Expired", message, NULL);
}

struct json *status_no_method(const struct api_subject *s, const char *verb)
{
    _cleanup_free_ char *res = resource_text(s);
    _cleanup_free_ char *message = xasprintf("%s is not supported on resources of kind \"%s\"", verb, res);

    return status_failure(405, "MethodNotAllowed", message, details(s, s->plural));
}

struct json *status_not_found(const struct api_subject *s)
{
    _cleanup_free_ char *res = resource_text(s);
    _cleanup_free_ char *message = xasprintf("%s \"%s\" not found", res, s->name);

    return status_failure(404, "NotFound", message, details(s, s->plural));
}

struct json *status_exists(const struct api_subject *s)
{
    _cleanup_free_ char *res = resource_text(s);
    _cleanup_free_ char *message = xasprintf("%s \"%s\" already exists", res, s->name);

    return status_failure(409, "AlreadyExists", message, details(s, s->plural));
}

struct json *status_conflict(const struct api_subject *s, const char *text)
{
    _cleanup_free_ char *res = resource_text(s);
    _cleanup_free_ char *message = xasprintf(
        "Operation cannot be fulfilled on %s \"%s\": %s", res, s->name,
        text ? text : "the object has been modified; please apply your changes to the latest version and try again");

    return status_failure(409, "Conflict", message, details(s, s->plural));
}

struct json *status_forbidden(const struct api_subject *s, const char *text, struct json *cause)
{
    _cleanup_free_ char *res = resource_text(s);
    _cleanup_free_ char *message = not_empty(s->name) ? xasprintf("%s \"%s\" is forbidden: %s", res, s->name, text)
                                                      : xasprintf("%s is forbidden: %s", res, text);
    struct json *d = details(s, s->plural);

    if (cause)
        json_set(d, "causes", json_build("[o]", cause));
    return status_failure(403, "Forbidden", message, d);
}

struct json *status_invalid(const struct api_subject *s, const char *summary, struct json *causes)
{
    _cleanup_free_ char *message = xasprintf("%s%s%s \"%s\" is invalid: %s", s->kind, not_empty(s->group) ? "." : "",
                                             s->group ? s->group : "", s->name ? s->name : "", summary);
    struct json *d = details(s, s->kind);

    json_set(d, "causes", causes);
    return status_failure(422, "Invalid", message, d);
}

struct json *status_invalid_options(const char *kind, const char *field, const char *reason, const char *text)
{
    const struct api_subject s = {.group = "meta.k8s.io", .kind = kind};
    _cleanup_free_ char *summary = xasprintf("%s: %s", field, text);

    return status_invalid(&s, summary,
                          json_build("[{s:s, s:s, s:s}]", "reason", reason, "message", text, "field", field));
}

struct json *status_store_failed(const struct error *err)
{
    if (err->code == ENOSPC)
        return status_failuref(507, "InsufficientStorage", "cannot store: %s", error_text(err));
    return status_internal("cannot store: %s", error_text(err));
}
