/* Quantities, and named formats. */
#include "apiserver/cel/internal.h"
#include "apiserver/formats.h"
#include "apiserver/names.h"
#include "base/memory.h"
#include "base/strutil.h"

/* ---- quantities ---- */

#define NANO ((__int128)1000000000)

static struct cel_value quantity_value_of(struct cel_eval *ev, struct quantity q)
{
    struct quantity *copy = arena_alloc(&ev->arena, sizeof(*copy));

    *copy = q;
    return (struct cel_value){.type = CEL_QUANTITY, .quantity = copy};
}

static bool parse(struct cel_string s, struct quantity *ret, struct error *err)
{
    _cleanup_free_ char *text = xstrndup(s.data, s.len);

    if (strlen(text) != s.len)
        return error_set(err, EINVAL, "not a quantity") == 0;
    return quantity_parse(text, ret, err) == 0;
}

static struct cel_value is_quantity(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    struct quantity q;

    return cel_is(a, CEL_STRING) ? cel_bool(parse(a->s, &q, NULL)) : cel_no_overload();
}

static struct cel_value make_quantity(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct quantity q;

    if (!cel_is(a, CEL_STRING))
        return cel_no_overload();
    return parse(a->s, &q, &err) ? quantity_value_of(ev, q) : cel_errorf(ev, "%s", error_text(&err));
}

static bool whole(const struct quantity *q)
{
    return q->nano % NANO == 0 && q->nano / NANO <= INT64_MAX && q->nano / NANO >= INT64_MIN;
}

static struct cel_value is_integer(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    return cel_is(a, CEL_QUANTITY) ? cel_bool(whole(a->quantity)) : cel_no_overload();
}

static struct cel_value as_integer(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    if (!cel_is(a, CEL_QUANTITY))
        return cel_no_overload();
    return whole(a->quantity) ? cel_int((int64_t)(a->quantity->nano / NANO))
                              : cel_errorf(ev, "cannot convert value to integer");
}

static struct cel_value as_float(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    return cel_is(a, CEL_QUANTITY) ? cel_double((double)a->quantity->nano / 1e9) : cel_no_overload();
}

static struct cel_value sign(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    return cel_is(a, CEL_QUANTITY) ? cel_int(a->quantity->nano < 0 ? -1 : a->quantity->nano > 0) : cel_no_overload();
}

static bool two(const struct cel_value *a)
{
    return cel_is(&a[0], CEL_QUANTITY) && cel_is(&a[1], CEL_QUANTITY);
}

static struct cel_value compare_to(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    return two(a) ? cel_int(quantity_compare(a[0].quantity, a[1].quantity)) : cel_no_overload();
}

static struct cel_value is_less(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    return two(a) ? cel_bool(quantity_compare(a[0].quantity, a[1].quantity) < 0) : cel_no_overload();
}

static struct cel_value is_greater(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    return two(a) ? cel_bool(quantity_compare(a[0].quantity, a[1].quantity) > 0) : cel_no_overload();
}

/* With a quantity, or an integer. */
static struct cel_value sum(struct cel_eval *ev, const struct cel_value *a, int direction)
{
    __int128 other;

    if (!cel_is(&a[0], CEL_QUANTITY))
        return cel_no_overload();
    if (cel_is(&a[1], CEL_QUANTITY))
        other = a[1].quantity->nano;
    else if (cel_is(&a[1], CEL_INT))
        other = (__int128)a[1].i * NANO;
    else
        return cel_no_overload();
    struct quantity q = *a[0].quantity;
    if (__builtin_add_overflow(q.nano, other * direction, &q.nano))
        return cel_errorf(ev, "quantity overflow");
    return quantity_value_of(ev, q);
}

static struct cel_value add(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return sum(ev, a, 1);
}

static struct cel_value subtract(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return sum(ev, a, -1);
}

const struct cel_function cel_quantity_functions[] = {
    {"isQuantity", false, 1, 1, CEL_BOOL, is_quantity},
    {"quantity", false, 1, 1, CEL_QUANTITY, make_quantity},
    {"isInteger", true, 1, 1, CEL_BOOL, is_integer},
    {"asInteger", true, 1, 1, CEL_INT, as_integer},
    {"asApproximateFloat", true, 1, 1, CEL_DOUBLE, as_float},
    {"sign", true, 1, 1, CEL_INT, sign},
    {"compareTo", true, 2, 2, CEL_INT, compare_to},
    {"isLessThan", true, 2, 2, CEL_BOOL, is_less},
    {"isGreaterThan", true, 2, 2, CEL_BOOL, is_greater},
    {"add", true, 2, 2, CEL_QUANTITY, add},
    {"sub", true, 2, 2, CEL_QUANTITY, subtract},
    {0},
};

/* ---- named formats ---- */

static const struct named_format {
    const char *name;
    name_rule *rule; /* NULL: the string format of that name */
    bool prefix;     /* something will follow */
    const char *format, *message;
} named_formats[] = {
    {"dns1123Label", name_check_label, false, NULL, NULL},
    {"dns1123LabelPrefix", name_check_label, true, NULL, NULL},
    {"dns1123Subdomain", name_check_subdomain, false, NULL, NULL},
    {"dns1123SubdomainPrefix", name_check_subdomain, true, NULL, NULL},
    {"dns1035Label", name_check_dns1035_label, false, NULL, NULL},
    {"dns1035LabelPrefix", name_check_dns1035_label, true, NULL, NULL},
    {"qualifiedName", name_check_qualified, false, NULL, NULL},
    {"labelValue", name_check_label_value, false, NULL, NULL},
    {"uri", NULL, false, "uri", "must be a valid URI"},
    {"uuid", NULL, false, "uuid", "does not match the UUID format"},
    {"byte", NULL, false, "byte", "invalid base64"},
    {"date", NULL, false, "date", "invalid date"},
    {"datetime", NULL, false, "date-time", "invalid datetime"},
};

static const struct named_format *find_format(struct cel_string name)
{
    for (size_t i = 0; i < ARRAY_LEN(named_formats); i++)
        if (strlen(named_formats[i].name) == name.len && memcmp(named_formats[i].name, name.data, name.len) == 0)
            return &named_formats[i];
    return NULL;
}

static struct cel_value format_value(const char *name)
{
    return (struct cel_value){.type = CEL_FORMAT, .s = {name, strlen(name)}};
}

static struct cel_value format_named(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    if (!cel_is(a, CEL_STRING))
        return cel_no_overload();
    const struct named_format *f = find_format(a->s);
    return f ? cel_optional_of(ev, format_value(f->name)) : cel_none();
}

/* none, or an optional of the list of what is wrong. */
static struct cel_value validate(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    const struct named_format *f = cel_is(&a[0], CEL_FORMAT) ? find_format(a[0].s) : NULL;

    if (!f || !cel_is(&a[1], CEL_STRING))
        return cel_no_overload();
    if (cel_charge(ev, a[1].s.len / 10 + 1))
        return cel_exhausted();
    char *text = arena_strndup(&ev->arena, a[1].s.data, a[1].s.len);
    const char *message = !f->rule    ? format_check(format_find(f->format), text, a[1].s.len) ? NULL : f->message
                          : f->prefix ? name_check_prefix(f->rule, text)
                                      : f->rule(text);
    if (!message)
        return cel_none();
    struct cel_value *item = arena_alloc(&ev->arena, sizeof(*item));
    *item = cel_string_value(message, strlen(message));
    return cel_optional_of(ev, cel_list_value(ev, item, 1));
}

#define NAMED(function, name)                                                                                          \
    static struct cel_value function(struct cel_eval *ev UNUSED, const struct cel_value *a UNUSED,                     \
                                     size_t count UNUSED)                                                              \
    {                                                                                                                  \
        return format_value(name);                                                                                     \
    }
NAMED(named_label, "dns1123Label")
NAMED(named_label_prefix, "dns1123LabelPrefix")
NAMED(named_subdomain, "dns1123Subdomain")
NAMED(named_subdomain_prefix, "dns1123SubdomainPrefix")
NAMED(named_dns1035, "dns1035Label")
NAMED(named_dns1035_prefix, "dns1035LabelPrefix")
NAMED(named_qualified, "qualifiedName")
NAMED(named_label_value, "labelValue")
NAMED(named_uri, "uri")
NAMED(named_uuid, "uuid")
NAMED(named_byte, "byte")
NAMED(named_date, "date")
NAMED(named_datetime, "datetime")

const struct cel_function cel_format_functions[] = {
    {"format.named", false, 1, 1, CEL_OPTIONAL, format_named},
    {"format.dns1123Label", false, 0, 0, CEL_FORMAT, named_label},
    {"format.dns1123LabelPrefix", false, 0, 0, CEL_FORMAT, named_label_prefix},
    {"format.dns1123Subdomain", false, 0, 0, CEL_FORMAT, named_subdomain},
    {"format.dns1123SubdomainPrefix", false, 0, 0, CEL_FORMAT, named_subdomain_prefix},
    {"format.dns1035Label", false, 0, 0, CEL_FORMAT, named_dns1035},
    {"format.dns1035LabelPrefix", false, 0, 0, CEL_FORMAT, named_dns1035_prefix},
    {"format.qualifiedName", false, 0, 0, CEL_FORMAT, named_qualified},
    {"format.labelValue", false, 0, 0, CEL_FORMAT, named_label_value},
    {"format.uri", false, 0, 0, CEL_FORMAT, named_uri},
    {"format.uuid", false, 0, 0, CEL_FORMAT, named_uuid},
    {"format.byte", false, 0, 0, CEL_FORMAT, named_byte},
    {"format.date", false, 0, 0, CEL_FORMAT, named_date},
    {"format.datetime", false, 0, 0, CEL_FORMAT, named_datetime},
    {"validate", true, 2, 2, CEL_OPTIONAL, validate},
    {0},
};
