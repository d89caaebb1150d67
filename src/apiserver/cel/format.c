/* string.format(): %s, %d, %f, %e, %x, %X, %o, %b. */
#include "apiserver/cel/internal.h"
#include "apiserver/field_errors.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>

static bool format_value(struct cel_eval *ev, const struct cel_value *v, struct strbuf *out)
{
    if (cel_write_text(v, out))
        return true;
    if (cel_is(v, CEL_TYPE)) {
        strbuf_adds(out, cel_type_name(v->t));
        return true;
    }
    struct json *json = NULL;
    _cleanup_error_ struct error ignored = ERROR_INIT;
    if (!cel_to_json(ev, v, &json, &ignored))
        return false;
    json_write(json, out);
    json_unref(json);
    return true;
}

static bool format_integer(const struct cel_value *v, char verb, struct strbuf *out)
{
    bool negative = cel_is(v, CEL_INT) && v->i < 0;
    uint64_t u = cel_is(v, CEL_UINT) ? v->u : negative ? 0 - (uint64_t)v->i : (uint64_t)v->i;

    if (cel_is(v, CEL_BOOL) && verb == 'b') {
        strbuf_addc(out, v->b ? '1' : '0');
        return true;
    }
    if (!cel_is(v, CEL_INT) && !cel_is(v, CEL_UINT))
        return false;
    strbuf_adds(out, negative ? "-" : "");
    switch (verb) {
    case 'd':
        strbuf_addf(out, "%" PRIu64, u);
        break;
    case 'o':
        strbuf_addf(out, "%" PRIo64, u);
        break;
    case 'x':
        strbuf_addf(out, "%" PRIx64, u);
        break;
    case 'X':
        strbuf_addf(out, "%" PRIX64, u);
        break;
    default: {
        int top = u ? 63 - __builtin_clzll(u) : 0;
        for (int bit = top; bit >= 0; bit--)
            strbuf_addc(out, u >> bit & 1 ? '1' : '0');
    }
    }
    return true;
}

static bool format_hex(const struct cel_value *v, char verb, struct strbuf *out)
{
    if (!cel_is(v, CEL_STRING) && !cel_is(v, CEL_BYTES))
        return format_integer(v, verb, out);
    for (size_t i = 0; i < v->s.len; i++)
        strbuf_addf(out, verb == 'x' ? "%02x" : "%02X", (unsigned char)v->s.data[i]);
    return true;
}

static bool format_float(const struct cel_value *v, char verb, int precision, struct strbuf *out)
{
    double d = cel_is(v, CEL_DOUBLE) ? v->d : cel_is(v, CEL_INT) ? (double)v->i : (double)v->u;

    if (!cel_is(v, CEL_DOUBLE) && !cel_is(v, CEL_INT) && !cel_is(v, CEL_UINT))
        return false;
    if (!isfinite(d))
        field_double_text(d, out);
    else
        strbuf_addf(out, verb == 'e' ? "%.*e" : "%.*f", precision, d);
    return true;
}

#define FORMAT_PRECISION_MAX 100

static struct cel_value string_format(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    _cleanup_(strbuf_free) struct strbuf out = {0};
    size_t next = 0;

    if (!cel_is(&a[0], CEL_STRING) || !cel_is(&a[1], CEL_LIST))
        return cel_no_overload();
    if (cel_charge(ev, a[0].s.len / 10 + 1))
        return cel_exhausted();
    for (const char *p = a[0].s.data, *end = p + a[0].s.len; p < end; p++) {
        int precision = 6;
        bool good;
        if (*p != '%' || (p + 1 < end && p[1] == '%')) {
            p += *p == '%';
            strbuf_addc(&out, *p);
            continue;
        }
        p++;
        if (p < end && *p == '.') {
            precision = 0;
            for (p++; p < end && isdigit((unsigned char)*p) && precision <= FORMAT_PRECISION_MAX; p++)
                precision = precision * 10 + (*p - '0');
        }
        if (p >= end || precision > FORMAT_PRECISION_MAX)
            return cel_errorf(ev, "unrecognized formatting clause");
        if (next >= cel_list_size(a[1].list))
            return cel_errorf(ev, "index %zu out of range", next);
        struct cel_value v = cel_list_at(ev, a[1].list, next++);
        good = *p == 's'                             ? format_value(ev, &v, &out)
               : *p == 'x' || *p == 'X'              ? format_hex(&v, *p, &out)
               : *p == 'd' || *p == 'o' || *p == 'b' ? format_integer(&v, *p, &out)
               : *p == 'f' || *p == 'e'              ? format_float(&v, *p, precision, &out)
                                                     : false;
        if (!good)
            return cel_errorf(ev, "could not format a value of type %s with %%%c", cel_type_name(v.type), *p);
        if (out.len > CEL_MEMORY_MAX)
            return cel_exhausted();
    }
    return cel_string_take(ev, &out);
}

const struct cel_function cel_text_functions[] = {
    {"format", true, 2, 2, CEL_STRING, string_format},
    {0},
};
