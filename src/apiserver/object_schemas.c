#include "apiserver/object_schemas.h"

#include "apiserver/structural.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"

/* A resource's schema, compiled when it is first needed. */
struct compiled {
    const struct resource *resource; /* a reference, so that no other one can come to have its address */
    struct structural_schema *schema;
};

struct object_schemas {
    struct resource_table *table;
    uint64_t changes; /* of the table when the list was last looked through */
    struct structural_set *definitions;
    struct compiled *items;
    size_t count, capacity;
};

static const struct json *find_definition(void *arg, const char *name)
{
    return resource_schema_definition(arg, name);
}

struct object_schemas *object_schemas_new(struct resource_table *table)
{
    struct object_schemas *s = xcalloc(1, sizeof(*s));

    s->table = table;
    s->definitions = structural_set_new(&(struct schema_context){find_definition, table});
    return s;
}

static void drop(struct compiled *c)
{
    structural_schema_free(c->schema);
    resource_unref((struct resource *)c->resource);
}

void object_schemas_free(struct object_schemas *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        drop(&s->items[i]);
    structural_set_free(s->definitions);
    free(s->items);
    free(s);
}

/* Those of resources that are served no more, or otherwise. */
static void drop_outdated(struct object_schemas *s)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->count; i++) {
        const struct resource *r = s->items[i].resource;
        if (resource_by_plural(s->table, r->group, r->version, r->plural) == r)
            s->items[kept++] = s->items[i];
        else
            drop(&s->items[i]);
    }
    s->count = kept;
    s->changes = resource_table_changes(s->table);
}

/* Valid until the table changes. */
static const struct structural_schema *schema_of(const struct api_call *c)
{
    struct object_schemas *s = c->server->schemas;

    if (s->changes != resource_table_changes(s->table))
        drop_outdated(s);
    for (size_t i = 0; i < s->count; i++)
        if (s->items[i].resource == c->resource)
            return s->items[i].schema;
    GROW(s->items, s->capacity, s->count + 1);
    s->items[s->count] = (struct compiled){
        .resource = resource_ref(c->resource),
        .schema = structural_compile(s->definitions, c->resource->schema, true),
    };
    return s->items[s->count++].schema;
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

struct json *object_known_fields(struct api_call *c, struct json *object)
{
    struct findings f = {0};
    struct json *known = structural_prune(schema_of(c), object, on_unknown, &f);

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
    struct json *filled = structural_default(schema_of(c), *object);

    json_unref(*object);
    *object = filled;
    (void)json_own(filled, "metadata");
}

bool object_is_defaulted(const struct api_call *c, const struct json *object)
{
    _cleanup_json_ struct json *filled = structural_default(schema_of(c), (struct json *)object);

    return json_equal(filled, object);
}

void object_validate(struct api_call *c, const struct json *object, const struct json *old, struct field_errors *errors)
{
    structural_validate(schema_of(c), object, old, errors);
}
