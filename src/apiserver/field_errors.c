#include "apiserver/field_errors.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define WHOLE_OBJECT "<nil>" /* the field of an error that is not about one */

static const struct {
    const char *reason, *title;
} types[] = {
    [FIELD_REQUIRED] = {"FieldValueRequired", "Required value"},
    [FIELD_INVALID] = {"FieldValueInvalid", "Invalid value"},
    [FIELD_TYPE_INVALID] = {"FieldValueTypeInvalid", "Invalid value"},
    [FIELD_NOT_SUPPORTED] = {"FieldValueNotSupported", "Unsupported value"},
    [FIELD_DUPLICATE] = {"FieldValueDuplicate", "Duplicate value"},
    [FIELD_FORBIDDEN] = {"FieldValueForbidden", "Forbidden"},
    [FIELD_TOO_LONG] = {"FieldValueTooLong", "Too long"},
    [FIELD_TOO_MANY] = {"FieldValueTooMany", "Too many"},
    [FIELD_NOT_FOUND] = {"FieldValueNotFound", "Not found"},
    [FIELD_INTERNAL] = {"InternalError", "Internal error"},
};

void field_errors_truncate(struct field_errors *errors, size_t count)
{
    while (errors->count > count) {
        struct field_error *e = &errors->items[--errors->count];
        free(e->field);
        free(e->message);
    }
}

void field_errors_clear(struct field_errors *errors)
{
    field_errors_truncate(errors, 0);
    free(errors->items);
    *errors = (struct field_errors){0};
}

bool field_errors_empty(const struct field_errors *errors)
{
    return errors->count == 0;
}

void field_errors_move(struct field_errors *to, struct field_errors *from)
{
    size_t i;

    GROW(to->items, to->capacity, to->count + from->count);
    for (i = 0; i < from->count && to->count < FIELD_ERRORS_MAX; i++)
        to->items[to->count++] = from->items[i];
    for (; i < from->count; i++) {
        free(from->items[i].field);
        free(from->items[i].message);
    }
    from->count = 0;
    field_errors_clear(from);
}

void field_errors_move_below(struct field_errors *to, struct field_errors *from, const char *field)
{
    for (size_t i = 0; i < from->count; i++) {
        _cleanup_free_ char *old = from->items[i].field;
        bool whole = streq(old, WHOLE_OBJECT);
        from->items[i].field = xasprintf("%s%s%s", field, whole || *old == '[' ? "" : ".", whole ? "" : old);
    }
    field_errors_move(to, from);
}

const char *field_error_reason(enum field_error_type type)
{
    return types[type].reason;
}

/* Takes text: what follows the title, or NULL. */
static void add(struct field_errors *errors, enum field_error_type type, const char *field, char *text)
{
    _cleanup_free_ char *rest = text;

    if (errors->count >= FIELD_ERRORS_MAX)
        return;
    GROW(errors->items, errors->capacity, errors->count + 1);
    errors->items[errors->count++] = (struct field_error){
        .type = type,
        .field = xstrdup(field && *field ? field : WHOLE_OBJECT),
        .message = rest ? xasprintf("%s: %s", types[type].title, rest) : xstrdup(types[type].title),
    };
}

/* VALUE: DETAIL. value is taken. */
static void PRINTF_LIKE(5, 0) add_value(struct field_errors *errors, enum field_error_type type, const char *field,
                                        char *value, const char *fmt, va_list ap)
{
    _cleanup_free_ char *shown = value;
    _cleanup_free_ char *detail = xvasprintf(fmt, ap);

    add(errors, type, field, *detail ? xasprintf("%s: %s", shown, detail) : xstrdup(shown));
}

static char *quoted(const char *s)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};

    field_quote(s, strlen(s), &b);
    return strbuf_detach(&b);
}

void field_required(struct field_errors *errors, const char *field, const char *detail)
{
    add(errors, FIELD_REQUIRED, field, detail && *detail ? xstrdup(detail) : NULL);
}

void field_invalid(struct field_errors *errors, const char *field, const struct json *value, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_value(errors, FIELD_INVALID, field, field_value_text(value), fmt, ap);
    va_end(ap);
}

void field_invalid_str(struct field_errors *errors, const char *field, const char *value, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_value(errors, FIELD_INVALID, field, quoted(value), fmt, ap);
    va_end(ap);
}

void field_invalid_raw(struct field_errors *errors, const char *field, const char *value, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_value(errors, FIELD_INVALID, field, xstrdup(value), fmt, ap);
    va_end(ap);
}

void field_type_invalid(struct field_errors *errors, const char *field, const struct json *value, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_value(errors, FIELD_TYPE_INVALID, field, field_value_text(value), fmt, ap);
    va_end(ap);
}

void field_not_supported(struct field_errors *errors, const char *field, const struct json *value,
                         const struct json *supported)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};
    _cleanup_free_ char *shown = field_value_text(value);

    strbuf_addf(&b, "%s: supported values: ", shown);
    for (size_t i = 0; i < json_size(supported); i++) {
        const struct json *v = json_item(supported, i);
        _cleanup_free_ char *text = json_str(v) ? xstrdup(json_str(v)) : json_text(v);
        strbuf_adds(&b, i ? ", " : "");
        field_quote(text, strlen(text), &b);
    }
    add(errors, FIELD_NOT_SUPPORTED, field, strbuf_detach(&b));
}

void field_not_supported_str(struct field_errors *errors, const char *field, const char *value,
                             const char *const *supported)
{
    _cleanup_json_ struct json *list = json_array_make();
    _cleanup_json_ struct json *v = json_string(value);

    for (; *supported; supported++)
        json_push(list, json_string(*supported));
    field_not_supported(errors, field, v, list);
}

void field_duplicate(struct field_errors *errors, const char *field, const struct json *value)
{
    add(errors, FIELD_DUPLICATE, field, field_value_text(value));
}

void field_duplicate_str(struct field_errors *errors, const char *field, const char *value)
{
    add(errors, FIELD_DUPLICATE, field, quoted(value));
}

void field_forbidden(struct field_errors *errors, const char *field, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add(errors, FIELD_FORBIDDEN, field, xvasprintf(fmt, ap));
    va_end(ap);
}

void field_too_long(struct field_errors *errors, const char *field, int64_t max_bytes)
{
    add(errors, FIELD_TOO_LONG, field, xasprintf("may not be more than %" PRId64 " bytes", max_bytes));
}

void field_too_many(struct field_errors *errors, const char *field, int64_t count, int64_t max)
{
    add(errors, FIELD_TOO_MANY, field, xasprintf("%" PRId64 ": must have at most %" PRId64 " items", count, max));
}

void field_not_found(struct field_errors *errors, const char *field, const char *value)
{
    add(errors, FIELD_NOT_FOUND, field, quoted(value));
}

void field_internal(struct field_errors *errors, const char *field, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add(errors, FIELD_INTERNAL, field, xvasprintf(fmt, ap));
    va_end(ap);
}

struct json *field_errors_causes(const struct field_errors *errors)
{
    struct json *causes = json_array_make();

    for (size_t i = 0; i < errors->count; i++)
        json_push(causes, json_build("{s:s, s:s, s:s}", "reason", field_error_reason(errors->items[i].type), "message",
                                     errors->items[i].message, "field", errors->items[i].field));
    return causes;
}

static bool seen_before(const struct field_errors *errors, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (streq(errors->items[k].field, errors->items[i].field) &&
            streq(errors->items[k].message, errors->items[i].message))
            return true;
    return false;
}

char *field_errors_summary(const struct field_errors *errors, const char *group, const char *kind, const char *name)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};
    _cleanup_(strbuf_free) struct strbuf list = {0};
    size_t shown = 0;

    strbuf_addf(&b, "%s%s%s ", kind, *group ? "." : "", group);
    field_quote(name, strlen(name), &b);
    strbuf_adds(&b, " is invalid");
    for (size_t i = 0; i < errors->count; i++)
        if (!seen_before(errors, i))
            strbuf_addf(&list, "%s%s: %s", shown++ ? ", " : "", errors->items[i].field, errors->items[i].message);
    if (shown)
        strbuf_addf(&b, shown > 1 ? ": [%s]" : ": %s", strbuf_str(&list));
    return strbuf_detach(&b);
}

void field_quote(const char *s, size_t len, struct strbuf *out)
{
    static const char escapes[] = "abtnvfr"; /* of the characters 7 to 13 */

    strbuf_addc(out, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\') {
            strbuf_addc(out, '\\');
            strbuf_addc(out, (char)c);
        } else if (c >= 7 && c <= 13) {
            strbuf_addc(out, '\\');
            strbuf_addc(out, escapes[c - 7]);
        } else if (c < 0x20 || c == 0x7f) {
            strbuf_addf(out, "\\x%02x", c);
        } else {
            strbuf_addc(out, (char)c);
        }
    }
    strbuf_addc(out, '"');
}

void field_double_text(double d, struct strbuf *out)
{
    char text[40];
    int digits;

    if (isnan(d) || isinf(d)) {
        strbuf_adds(out, isnan(d) ? "NaN" : d > 0 ? "+Inf" : "-Inf");
        return;
    }
    /* The fewest digits that read back as the same number. */
    for (digits = 0; digits < 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*e", digits, d);
        if (strtod(text, NULL) == d)
            break;
    }
    int exponent = atoi(strchr(text, 'e') + 1);
    if (exponent < -4 || exponent >= 6) {
        strbuf_adds(out, text);
        return;
    }
    (void)snprintf(text, sizeof(text), "%.*f", MAX(digits - exponent, 0), d);
    strbuf_adds(out, text);
}

char *field_value_text(const struct json *value)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};

    switch (json_kind(value)) {
    case JSON_STRING:
        field_quote(json_str(value), json_string_len(value), &b);
        break;
    case JSON_NULL:
        return xstrdup("\"null\"");
    case JSON_DOUBLE:
        field_double_text(json_double_or(value, 0), &b);
        break;
    default:
        return json_text(value);
    }
    return strbuf_detach(&b);
}

static void write_path(const struct field_path *path, struct strbuf *out)
{
    if (path->parent)
        write_path(path->parent, out);
    if (!path->name)
        strbuf_addf(out, "[%zu]", path->index);
    else if (path->bracket)
        strbuf_addf(out, "[%s]", path->name);
    else
        strbuf_addf(out, "%s%s", out->len ? "." : "", path->name);
}

char *field_path_text(const struct field_path *path)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};

    if (path)
        write_path(path, &b);
    return strbuf_detach(&b);
}
