/* Operators, conversions between types, and optionals. */
#include "apiserver/cel/internal.h"
#include "apiserver/field_errors.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <inttypes.h>
#include <math.h>

/* ---- arithmetic ---- */

static struct cel_value overflow(struct cel_eval *ev, const char *what)
{
    return cel_errorf(ev, "%s overflow", what);
}

static struct cel_value int_arithmetic(struct cel_eval *ev, char op, int64_t a, int64_t b)
{
    int64_t r;
    bool bad = false;

    switch (op) {
    case '+':
        bad = __builtin_add_overflow(a, b, &r);
        break;
    case '-':
        bad = __builtin_sub_overflow(a, b, &r);
        break;
    case '*':
        bad = __builtin_mul_overflow(a, b, &r);
        break;
    default:
        if (b == 0)
            return cel_errorf(ev, op == '/' ? "division by zero" : "modulus by zero");
        if (a == INT64_MIN && b == -1)
            return overflow(ev, "integer");
        r = op == '/' ? a / b : a % b;
    }
    return bad ? overflow(ev, "integer") : cel_int(r);
}

static struct cel_value uint_arithmetic(struct cel_eval *ev, char op, uint64_t a, uint64_t b)
{
    uint64_t r;
    bool bad = false;

    switch (op) {
    case '+':
        bad = __builtin_add_overflow(a, b, &r);
        break;
    case '-':
        bad = __builtin_sub_overflow(a, b, &r);
        break;
    case '*':
        bad = __builtin_mul_overflow(a, b, &r);
        break;
    default:
        if (b == 0)
            return cel_errorf(ev, op == '/' ? "division by zero" : "modulus by zero");
        r = op == '/' ? a / b : a % b;
    }
    return bad ? overflow(ev, "unsigned integer") : (struct cel_value){.type = CEL_UINT, .u = r};
}

static struct cel_value double_arithmetic(char op, double a, double b)
{
    switch (op) {
    case '+':
        return cel_double(a + b);
    case '-':
        return cel_double(a - b);
    case '*':
        return cel_double(a * b);
    case '/':
        return cel_double(a / b);
    default:
        return cel_no_overload();
    }
}

static struct cel_value arithmetic(struct cel_eval *ev, char op, const struct cel_value *a)
{
    if (a[0].type != a[1].type)
        return cel_no_overload();
    switch (a[0].type) {
    case CEL_INT:
        return int_arithmetic(ev, op, a[0].i, a[1].i);
    case CEL_UINT:
        return uint_arithmetic(ev, op, a[0].u, a[1].u);
    case CEL_DOUBLE:
        return double_arithmetic(op, a[0].d, a[1].d);
    default:
        return cel_no_overload();
    }
}

#define TIME_MIN_SECONDS (-62135596800) /* year 1 */
#define TIME_MAX_SECONDS 253402300799   /* year 9999 */
#define NANOS 1000000000

static struct cel_value time_shift(struct cel_eval *ev, const struct cel_time *t, int64_t ns, int sign)
{
    __int128 sum = (__int128)t->seconds * NANOS + t->nanos + (__int128)ns * sign;
    __int128 seconds = sum / NANOS, nanos = sum % NANOS;

    if (nanos < 0) {
        nanos += NANOS;
        seconds--;
    }
    if (seconds < TIME_MIN_SECONDS || seconds > TIME_MAX_SECONDS)
        return overflow(ev, "timestamp");
    return cel_time_value(ev, (struct cel_time){(int64_t)seconds, (int32_t)nanos});
}

static struct cel_value time_difference(struct cel_eval *ev, const struct cel_time *a, const struct cel_time *b)
{
    __int128 ns = (__int128)(a->seconds - b->seconds) * NANOS + a->nanos - b->nanos;

    return ns > INT64_MAX || ns < INT64_MIN ? overflow(ev, "duration")
                                            : (struct cel_value){.type = CEL_DURATION, .i = (int64_t)ns};
}

static struct cel_value duration_sum(struct cel_eval *ev, char op, int64_t a, int64_t b)
{
    struct cel_value v = int_arithmetic(ev, op, a, b);

    if (cel_is(&v, CEL_INT))
        v.type = CEL_DURATION;
    return v;
}

static struct cel_value concat_text(struct cel_eval *ev, const struct cel_value *a)
{
    size_t len = a[0].s.len + a[1].s.len;

    if (cel_charge(ev, len / 10 + 1))
        return cel_exhausted();
    char *text = arena_alloc(&ev->arena, len + 1);
    if (a[0].s.len)
        memcpy(text, a[0].s.data, a[0].s.len);
    if (a[1].s.len)
        memcpy(text + a[0].s.len, a[1].s.data, a[1].s.len);
    return (struct cel_value){.type = a[0].type, .s = {text, len}};
}

static bool same_item(struct cel_eval *ev, struct schema_node schema, const struct cel_value *a,
                      const struct cel_value *b)
{
    if (schema_list_type(schema) == SCHEMA_LIST_MAP && cel_is(a, CEL_MAP) && cel_is(b, CEL_MAP) && a->map->json &&
        b->map->json)
        return schema_same_item(schema, a->map->json, b->map->json);
    return cel_equal(ev, a, b);
}

/* Lists follow each other. Those that are sets or maps are merged: what is on the left keeps its place. */
static struct cel_value concat_lists(struct cel_eval *ev, const struct cel_list *a, const struct cel_list *b)
{
    size_t total = cel_list_size(a) + cel_list_size(b), count = 0;
    bool merge = schema_list_type(a->schema) != SCHEMA_LIST_ATOMIC;

    if (cel_charge(ev, total))
        return cel_exhausted();
    struct cel_value *items = arena_array(&ev->arena, total, sizeof(*items));
    for (size_t i = 0; i < cel_list_size(a); i++)
        items[count++] = cel_list_at(ev, a, i);
    for (size_t i = 0; i < cel_list_size(b); i++) {
        struct cel_value item = cel_list_at(ev, b, i);
        size_t k = merge ? 0 : count;
        while (k < count && !same_item(ev, a->schema, &items[k], &item))
            k++;
        if (ev->exhausted)
            return cel_exhausted();
        items[k] = item;
        count = MAX(count, k + 1);
    }
    return cel_list_value(ev, items, count);
}

static struct cel_value op_add(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    enum cel_type x = a[0].type, y = a[1].type;

    if (x == CEL_TIMESTAMP && y == CEL_DURATION)
        return time_shift(ev, a[0].time, a[1].i, 1);
    if (x == CEL_DURATION && y == CEL_TIMESTAMP)
        return time_shift(ev, a[1].time, a[0].i, 1);
    if (x != y)
        return cel_no_overload();
    if (x == CEL_STRING || x == CEL_BYTES)
        return concat_text(ev, a);
    if (x == CEL_LIST)
        return concat_lists(ev, a[0].list, a[1].list);
    if (x == CEL_DURATION)
        return duration_sum(ev, '+', a[0].i, a[1].i);
    return arithmetic(ev, '+', a);
}

static struct cel_value op_subtract(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    if (cel_is(&a[0], CEL_TIMESTAMP) && cel_is(&a[1], CEL_DURATION))
        return time_shift(ev, a[0].time, a[1].i, -1);
    if (cel_is(&a[0], CEL_TIMESTAMP) && cel_is(&a[1], CEL_TIMESTAMP))
        return time_difference(ev, a[0].time, a[1].time);
    if (cel_is(&a[0], CEL_DURATION) && cel_is(&a[1], CEL_DURATION))
        return duration_sum(ev, '-', a[0].i, a[1].i);
    return arithmetic(ev, '-', a);
}

static struct cel_value op_multiply(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return arithmetic(ev, '*', a);
}

static struct cel_value op_divide(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return arithmetic(ev, '/', a);
}

static struct cel_value op_modulo(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return arithmetic(ev, '%', a);
}

static struct cel_value op_negate(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    if (cel_is(&a[0], CEL_DOUBLE))
        return cel_double(-a[0].d);
    if (cel_is(&a[0], CEL_INT))
        return int_arithmetic(ev, '-', 0, a[0].i);
    return cel_is(&a[0], CEL_DURATION) ? duration_sum(ev, '-', 0, a[0].i) : cel_no_overload();
}

static struct cel_value op_not(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    return cel_is(&a[0], CEL_BOOL) ? cel_bool(!a[0].b) : cel_no_overload();
}

/* ---- comparison ---- */

static struct cel_value op_equal(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return cel_bool(cel_equal(ev, &a[0], &a[1]));
}

static struct cel_value op_unequal(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return cel_bool(!cel_equal(ev, &a[0], &a[1]));
}

static struct cel_value order(struct cel_eval *ev, const struct cel_value *a, bool less, bool equal, bool greater)
{
    int c;

    if (cel_is(&a[0], CEL_STRING) && cel_is(&a[1], CEL_STRING) && cel_charge(ev, MIN(a[0].s.len, a[1].s.len) / 10))
        return cel_exhausted();
    if (!cel_compare(&a[0], &a[1], &c))
        return cel_no_overload();
    return cel_bool(c == 2 ? false : c < 0 ? less : c == 0 ? equal : greater);
}

static struct cel_value op_less(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return order(ev, a, true, false, false);
}

static struct cel_value op_less_equal(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return order(ev, a, true, true, false);
}

static struct cel_value op_greater(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return order(ev, a, false, false, true);
}

static struct cel_value op_greater_equal(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return order(ev, a, false, true, true);
}

static struct cel_value op_in(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_value found;

    if (cel_is(&a[1], CEL_MAP))
        return cel_bool(cel_map_find(ev, a[1].map, &a[0], &found));
    if (!cel_is(&a[1], CEL_LIST))
        return cel_no_overload();
    for (size_t i = 0; i < cel_list_size(a[1].list); i++) {
        struct cel_value item = cel_list_at(ev, a[1].list, i);
        if (cel_equal(ev, &a[0], &item))
            return cel_bool(true);
    }
    return cel_bool(false);
}

const struct cel_function cel_operator_functions[] = {
    {"+", false, 2, 2, CEL_DYN, op_add},
    {"-", false, 2, 2, CEL_DYN, op_subtract},
    {"*", false, 2, 2, CEL_DYN, op_multiply},
    {"/", false, 2, 2, CEL_DYN, op_divide},
    {"%", false, 2, 2, CEL_DYN, op_modulo},
    {"neg", false, 1, 1, CEL_DYN, op_negate},
    {"!", false, 1, 1, CEL_BOOL, op_not},
    {"==", false, 2, 2, CEL_BOOL, op_equal},
    {"!=", false, 2, 2, CEL_BOOL, op_unequal},
    {"<", false, 2, 2, CEL_BOOL, op_less},
    {"<=", false, 2, 2, CEL_BOOL, op_less_equal},
    {">", false, 2, 2, CEL_BOOL, op_greater},
    {">=", false, 2, 2, CEL_BOOL, op_greater_equal},
    {"in", false, 2, 2, CEL_BOOL, op_in},
    {0},
};

/* ---- conversions ---- */

static struct cel_value convert_int(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    int64_t i;

    switch (a->type) {
    case CEL_INT:
        return *a;
    case CEL_UINT:
        return a->u > INT64_MAX ? overflow(ev, "integer") : cel_int((int64_t)a->u);
    case CEL_DOUBLE:
        return isfinite(a->d) && a->d > -9223372036854775808.0 && a->d < 9223372036854775808.0
                   ? cel_int((int64_t)a->d)
                   : overflow(ev, "integer");
    case CEL_TIMESTAMP:
        return cel_int(a->time->seconds);
    case CEL_DURATION:
        return cel_int(a->i);
    case CEL_STRING: {
        _cleanup_free_ char *text = xstrndup(a->s.data, a->s.len);
        return parse_i64(text, &i) ? cel_int(i) : cel_errorf(ev, "cannot convert \"%s\" to int", text);
    }
    default:
        return cel_no_overload();
    }
}

static struct cel_value convert_uint(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_value v = {.type = CEL_UINT};

    switch (a->type) {
    case CEL_UINT:
        return *a;
    case CEL_INT:
        v.u = (uint64_t)a->i;
        return a->i < 0 ? overflow(ev, "unsigned integer") : v;
    case CEL_DOUBLE:
        if (!isfinite(a->d) || a->d < 0 || a->d >= 18446744073709551616.0)
            return overflow(ev, "unsigned integer");
        v.u = (uint64_t)a->d;
        return v;
    case CEL_STRING: {
        _cleanup_free_ char *text = xstrndup(a->s.data, a->s.len);
        return parse_u64(text, &v.u) ? v : cel_errorf(ev, "cannot convert \"%s\" to uint", text);
    }
    default:
        return cel_no_overload();
    }
}

static struct cel_value convert_double(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    switch (a->type) {
    case CEL_DOUBLE:
        return *a;
    case CEL_INT:
        return cel_double((double)a->i);
    case CEL_UINT:
        return cel_double((double)a->u);
    case CEL_STRING: {
        _cleanup_free_ char *text = xstrndup(a->s.data, a->s.len);
        char *end;
        double d = strtod(text, &end);
        bool good = *text && !*end && strspn(text, " \t\n\v\f\r") == 0 && strlen(text) == a->s.len;
        return good ? cel_double(d) : cel_errorf(ev, "cannot convert \"%s\" to double", text);
    }
    default:
        return cel_no_overload();
    }
}

bool cel_write_text(const struct cel_value *v, struct strbuf *out)
{
    switch (v->type) {
    case CEL_STRING:
    case CEL_BYTES:
        strbuf_add(out, v->s.data, v->s.len);
        return cel_is(v, CEL_STRING) || utf8_valid(v->s.data, v->s.len);
    case CEL_BOOL:
        strbuf_adds(out, v->b ? "true" : "false");
        return true;
    case CEL_INT:
        strbuf_addf(out, "%" PRId64, v->i);
        return true;
    case CEL_UINT:
        strbuf_addf(out, "%" PRIu64, v->u);
        return true;
    case CEL_DOUBLE:
        field_double_text(v->d, out);
        return true;
    case CEL_TIMESTAMP:
        cel_write_timestamp(*v->time, out);
        return true;
    case CEL_DURATION:
        cel_write_duration(v->i, out);
        return true;
    case CEL_IP:
        ip_write(v->ip, out);
        return true;
    case CEL_CIDR:
        cel_write_cidr(v->cidr, out);
        return true;
    default:
        return false;
    }
}

static struct cel_value convert_string(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};

    if (cel_is(a, CEL_STRING))
        return *a;
    if (cel_is(a, CEL_BYTES) && !utf8_valid(a->s.data, a->s.len))
        return cel_errorf(ev, "invalid UTF-8 in bytes, cannot convert to string");
    return cel_write_text(a, &text) ? cel_string_take(ev, &text) : cel_no_overload();
}

static struct cel_value convert_bytes(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    if (!cel_is(a, CEL_STRING) && !cel_is(a, CEL_BYTES))
        return cel_no_overload();
    return (struct cel_value){.type = CEL_BYTES, .s = a->s};
}

static struct cel_value convert_bool(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    static const char *const yes[] = {"true", "TRUE", "True", "t", "1"}, *const no[] = {"false", "FALSE", "False", "f",
                                                                                        "0"};

    if (cel_is(a, CEL_BOOL))
        return *a;
    if (!cel_is(a, CEL_STRING))
        return cel_no_overload();
    _cleanup_free_ char *text = xstrndup(a->s.data, a->s.len);
    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        if (streq(text, yes[i]) || streq(text, no[i]))
            return cel_bool(streq(text, yes[i]));
    return cel_errorf(ev, "cannot convert \"%s\" to bool", text);
}

static struct cel_value convert_dyn(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    return *a;
}

static struct cel_value type_of(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    return (struct cel_value){.type = CEL_TYPE, .t = a->type};
}

const struct cel_function cel_conversion_functions[] = {
    {"int", false, 1, 1, CEL_INT, convert_int},
    {"uint", false, 1, 1, CEL_UINT, convert_uint},
    {"double", false, 1, 1, CEL_DOUBLE, convert_double},
    {"string", false, 1, 1, CEL_STRING, convert_string},
    {"bytes", false, 1, 1, CEL_BYTES, convert_bytes},
    {"bool", false, 1, 1, CEL_BOOL, convert_bool},
    {"dyn", false, 1, 1, CEL_DYN, convert_dyn},
    {"type", false, 1, 1, CEL_TYPE, type_of},
    {0},
};

/* ---- optionals ---- */

static struct cel_value optional_of(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return cel_optional_of(ev, *a);
}

static bool is_zero(const struct cel_value *v)
{
    switch (v->type) {
    case CEL_NULL:
        return true;
    case CEL_BOOL:
        return !v->b;
    case CEL_INT:
    case CEL_DURATION:
        return v->i == 0;
    case CEL_UINT:
        return v->u == 0;
    case CEL_DOUBLE:
        return v->d == 0;
    case CEL_STRING:
    case CEL_BYTES:
        return v->s.len == 0;
    case CEL_LIST:
        return cel_list_size(v->list) == 0;
    case CEL_MAP:
        return cel_map_size(v->map) == 0;
    default:
        return false;
    }
}

static struct cel_value optional_of_non_zero(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return is_zero(a) ? cel_none() : cel_optional_of(ev, *a);
}

static struct cel_value optional_none(struct cel_eval *ev UNUSED, const struct cel_value *a UNUSED, size_t count UNUSED)
{
    return cel_none();
}

static struct cel_value optional_has_value(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    return cel_is(a, CEL_OPTIONAL) ? cel_bool(a->optional != NULL) : cel_no_overload();
}

static struct cel_value optional_value(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    if (!cel_is(a, CEL_OPTIONAL))
        return cel_no_overload();
    return a->optional ? *a->optional : cel_errorf(ev, "optional.none() dereference");
}

static struct cel_value optional_or_value(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    if (!cel_is(a, CEL_OPTIONAL))
        return cel_no_overload();
    return a->optional ? *a->optional : a[1];
}

static struct cel_value optional_or(struct cel_eval *ev UNUSED, const struct cel_value *a, size_t count UNUSED)
{
    if (!cel_is(&a[0], CEL_OPTIONAL) || !cel_is(&a[1], CEL_OPTIONAL))
        return cel_no_overload();
    return a[0].optional ? a[0] : a[1];
}

const struct cel_function cel_optional_functions[] = {
    {"optional.of", false, 1, 1, CEL_OPTIONAL, optional_of},
    {"optional.ofNonZeroValue", false, 1, 1, CEL_OPTIONAL, optional_of_non_zero},
    {"optional.none", false, 0, 0, CEL_OPTIONAL, optional_none},
    {"hasValue", true, 1, 1, CEL_BOOL, optional_has_value},
    {"value", true, 1, 1, CEL_DYN, optional_value},
    {"orValue", true, 2, 2, CEL_DYN, optional_or_value},
    {"or", true, 2, 2, CEL_OPTIONAL, optional_or},
    {0},
};
