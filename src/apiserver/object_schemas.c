#include "apiserver/object_schemas.h"

#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"

struct object_schemas {
    struct resource_table *table;
};

struct object_schemas *object_schemas_new(struct resource_table *table)
{
    struct object_schemas *s = xcalloc(1, sizeof(*s));

    s->table = table;
    return s;
}

void object_schemas_free(struct object_schemas *s)
{
    free(s);
}

struct findings {
    char **texts;
};

static int judge(struct api_call *c, const struct findings *f)
{
    _cleanup_(strbuf_free) struct strbuf all = {0};

    if (!f->texts || c->options.field_validation == FIELDS_IGNORE || c->internal)
        return 0;
    for (size_t i = 0; f->texts[i]; i++) {
        if (c->options.field_validation == FIELDS_WARN)
            api_warn(c, "%s", f->texts[i]);
        else
            strbuf_addf(&all, "%s%s", i ? ", " : "", f->texts[i]);
    }
    if (c->options.field_validation == FIELDS_WARN)
        return 0;
    return api_fail(c,
                    status_bad_request("%s in version \"%s\" cannot be handled as a %s: strict decoding error: %s",
                                       c->resource->kind, c->resource->version, c->resource->kind, strbuf_str(&all)));
}

struct json *object_known_fields(struct api_call *c, struct json *object)
{
    struct findings f = {0};

    for (size_t i = 0; c->duplicates && c->duplicates[i]; i++)
        f.texts = strv_append(f.texts, xasprintf("duplicate field \"%s\"", c->duplicates[i]));
    int r = judge(c, &f);
    strv_free(f.texts);
    return r < 0 ? NULL : json_ref(object);
}

void object_default(struct api_call *c, struct json **object)
{
    (void)c;
    (void)object;
}

void object_validate(struct api_call *c, const struct json *object, const struct json *old, struct field_errors *errors)
{
    (void)c;
    (void)object;
    (void)old;
    (void)errors;
}
