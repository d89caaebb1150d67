#include "apiserver/object_schemas.h"

#include "apiserver/object_fields.h"
#include "apiserver/structural.h"
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
    char *first_unknown; /* path */
};

/* What is wrong with the result of a patch is said of the patch. */
static int refuse_patch(struct api_call *c, const struct json *object, const char *findings)
{
    _cleanup_free_ char *patched = json_text(object);
    _cleanup_(strbuf_free) struct strbuf text = {0};
    struct api_subject s = api_subject(c);

    strbuf_adds(&text, "Invalid value: ");
    json_write_string(patched, strlen(patched), &text);
    strbuf_addf(&text, ": strict decoding error: %s", findings);
    _cleanup_free_ char *summary = xasprintf("patch: %s", text.data);
    return api_fail(c, status_invalid(&s, summary,
                                      json_build("[{s:s, s:s, s:s}]", "reason", "FieldValueInvalid", "message",
                                                 text.data, "field", "patch")));
}

/* An apply states what it owns: a field that does not exist cannot be owned, whatever the validation directive. */
static int refuse_apply(struct api_call *c, const char *path)
{
    const struct resource *r = c->resource;

    return api_fail(c, status_failuref(500, NULL,
                                       "failed to create typed patch object (%s%s%s; %s, Kind=%s): .%s: field not "
                                       "declared in schema",
                                       c->ns, *c->ns ? "/" : "", c->name, r->api_version, r->kind, path));
}

static int judge(struct api_call *c, const struct json *object, const struct findings *f)
{
    _cleanup_(strbuf_free) struct strbuf all = {0};

    if (f->first_unknown && c->verb == VERB_PATCH && c->patch == PATCH_APPLY)
        return refuse_apply(c, f->first_unknown);
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
    if (c->verb == VERB_PATCH)
        return refuse_patch(c, object, strbuf_str(&all));
    return api_fail(c,
                    status_bad_request("%s in version \"%s\" cannot be handled as a %s: strict decoding error: %s",
                                       c->resource->kind, c->resource->version, c->resource->kind, strbuf_str(&all)));
}

static void on_unknown(void *arg, const char *path)
{
    struct findings *f = arg;

    f->texts = strv_append(f->texts, xasprintf("unknown field \"%s\"", path));
    if (!f->first_unknown)
        f->first_unknown = xstrdup(path);
}

static struct schema_node root_of(const struct api_call *c, const struct schema_context *context)
{
    return schema_root(context, c->resource->schema);
}

struct json *object_known_fields(struct api_call *c, struct json *object)
{
    const struct schema_context context = object_schema_context(c->server);
    struct findings f = {0};
    struct json *known = structural_prune(root_of(c, &context), object, on_unknown, &f);

    for (size_t i = 0; c->duplicates && c->duplicates[i]; i++)
        f.texts = strv_append(f.texts, xasprintf("duplicate field \"%s\"", c->duplicates[i]));
    int r = judge(c, object, &f);
    strv_free(f.texts);
    free(f.first_unknown);
    if (r == 0)
        return known;
    json_unref(known);
    return NULL;
}

void object_default(struct api_call *c, struct json **object)
{
    const struct schema_context context = object_schema_context(c->server);
    struct json *filled = structural_default(root_of(c, &context), *object);

    json_unref(*object);
    *object = filled;
    (void)json_own(filled, "metadata");
}

void object_validate(struct api_call *c, const struct json *object, const struct json *old, struct field_errors *errors)
{
    const struct schema_context context = object_schema_context(c->server);

    structural_validate(root_of(c, &context), object, old, errors);
}
