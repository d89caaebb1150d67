/* The schemas of api/ for tests of what walks them. */
#pragma once

#include "apiserver/resource.h"
#include "apiserver/schema_walk.h"
#include "base/memory.h"
#include "base/strutil.h"

static struct resource_table *fixture_table;

static const struct json *fixture_resolve(void *arg, const char *name)
{
    return resource_schema_definition(arg, name);
}

static struct schema_context fixture_context;

static inline void fixture_add_crds(void)
{
    const struct json *crds = resource_table_bundled_crds(fixture_table);

    for (size_t i = 0; i < json_size(crds); i++)
        (void)resource_table_add_crd(fixture_table, json_item(crds, i), NULL); /* fixture_resource() would miss it */
}

static inline int fixture_open(void **state UNUSED)
{
    fixture_table = resource_table_new(NULL);
    fixture_add_crds();
    fixture_context = (struct schema_context){fixture_resolve, fixture_table};
    return fixture_table ? 0 : -1;
}

static inline int fixture_close(void **state UNUSED)
{
    resource_table_free(fixture_table);
    return 0;
}

/* api_version: "v1", "apps/v1". */
static inline const struct resource *fixture_resource(const char *api_version, const char *kind)
{
    const char *slash = strchr(api_version, '/');
    _cleanup_free_ char *group = slash ? xstrndup(api_version, (size_t)(slash - api_version)) : xstrdup("");
    const struct resource *r = resource_by_kind(fixture_table, group, slash ? slash + 1 : api_version, kind);

    if (!r)
        fail_msg("there is no %s %s", api_version, kind);
    return r;
}

static inline const struct json *fixture_schema(const char *api_version, const char *kind)
{
    return fixture_resource(api_version, kind)->schema;
}

/* Single quotes stand for double ones, so that tables stay readable. A text that does not parse ends the test. */
static inline struct json *fixture_json(const char *text)
{
    _cleanup_free_ char *quoted = xstrdup(text);
    struct error err = ERROR_INIT;

    for (char *p = quoted; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    struct json *v = json_parse(quoted, strlen(quoted), &err);
    if (err.code)
        fail_msg("%s in %s", error_text(&err), text);
    return v;
}
