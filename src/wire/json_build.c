/* json_build(): values from a literal format. */
#include "wire/json.h"

#include <stdarg.h>
#include <stdlib.h>

/* A recursive walk over the format. */
struct builder {
    const char *p;
    va_list ap;
};

static void skip(struct builder *b)
{
    while (*b->p == ' ' || *b->p == ',' || *b->p == ':')
        b->p++;
}

/* drop is set when the member is to be left out (NULL string, NULL object). */
static struct json *build_value(struct builder *b, bool *drop)
{
    *drop = false;
    skip(b);
    switch (*b->p++) {
    case 's': {
        const char *s = va_arg(b->ap, const char *);
        *drop = !s;
        return s ? json_string(s) : NULL;
    }
    case 'i':
        return json_int(va_arg(b->ap, int64_t));
    case 'b':
        return json_boolean(va_arg(b->ap, int) != 0);
    case 'o': {
        struct json *v = va_arg(b->ap, struct json *);
        *drop = !v;
        return v;
    }
    case 'O': {
        struct json *v = va_arg(b->ap, struct json *);
        *drop = !v;
        return json_ref(v);
    }
    case 'n':
        return NULL;
    case '{': {
        struct json *object = json_object_make();
        for (skip(b); *b->p && *b->p != '}'; skip(b)) {
            if (*b->p++ != 's')
                abort();
            const char *key = va_arg(b->ap, const char *);
            bool leave_out;
            struct json *v = build_value(b, &leave_out);
            if (!leave_out)
                json_set(object, key, v);
        }
        b->p++;
        return object;
    }
    case '[': {
        struct json *array = json_array_make();
        for (skip(b); *b->p && *b->p != ']'; skip(b)) {
            bool leave_out;
            struct json *v = build_value(b, &leave_out);
            if (!leave_out)
                json_push(array, v);
        }
        b->p++;
        return array;
    }
    default:
        abort();
    }
}

struct json *json_build(const char *format, ...)
{
    struct builder b = {.p = format};
    bool drop;

    va_start(b.ap, format);
    struct json *v = build_value(&b, &drop);
    va_end(b.ap);
    if (*b.p)
        abort();
    return v;
}
