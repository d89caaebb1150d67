#include "apiserver/table.h"

#include "apiserver/jsonpath.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "kube/object.h"

struct column {
    const char *name, *type;
    struct jsonpath *path; /* NULL: computed */
    const struct json *definition;
};

struct table {
    struct resource *resource;
    struct column *columns;
    size_t count;
    enum table_object include;
    int64_t now_ns;
};

#define MINUTE (60LL)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define YEAR (365 * DAY)

void duration_text(int64_t ns, char *out, size_t size)
{
    long long s = ns / NSEC_PER_SEC, big, small;
    const char *units;

    if (s < 0)
        s = 0;
    if (s < 2 * MINUTE)
        big = s, small = 0, units = "s";
    else if (s < 10 * MINUTE)
        big = s / MINUTE, small = s % MINUTE, units = "ms";
    else if (s < 3 * HOUR)
        big = s / MINUTE, small = 0, units = "m";
    else if (s < 8 * HOUR)
        big = s / HOUR, small = s % HOUR / MINUTE, units = "hm";
    else if (s < 2 * DAY)
        big = s / HOUR, small = 0, units = "h";
    else if (s < 8 * DAY)
        big = s / DAY, small = s % DAY / HOUR, units = "dh";
    else if (s < 2 * YEAR)
        big = s / DAY, small = 0, units = "d";
    else if (s < 8 * YEAR)
        big = s / YEAR, small = s % YEAR / DAY, units = "yd";
    else
        big = s / YEAR, small = 0, units = "y";
    if (small)
        (void)snprintf(out, size, "%lld%c%lld%c", big, units[0], small, units[1]);
    else
        (void)snprintf(out, size, "%lld%c", big, units[0]);
}

char *age_text(const struct json *time, int64_t now_ns)
{
    int64_t then;
    char text[64];

    if (!json_str(time) || !time_parse_rfc3339(json_str(time), &then))
        return xstrdup("<unknown>");
    duration_text(now_ns - then, text, sizeof(text));
    return xstrdup(text);
}

struct table *table_new(const struct resource *r, enum table_object include, int64_t now_ns)
{
    struct table *t = xcalloc(1, sizeof(*t));

    t->resource = resource_ref(r);
    t->include = include;
    t->now_ns = now_ns;
    t->count = json_size(r->columns);
    t->columns = xcalloc(t->count + 1, sizeof(*t->columns));
    for (size_t i = 0; i < t->count; i++) {
        const struct json *d = json_item(r->columns, i);
        const char *path = json_str(json_get(d, "jsonPath"));
        t->columns[i] = (struct column){.definition = d,
                                        .name = json_str_or(json_get(d, "name"), ""),
                                        .type = json_str_or(json_get(d, "type"), "string"),
                                        .path = path ? jsonpath_compile(path, NULL) : NULL};
    }
    return t;
}

void table_free(struct table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++)
        jsonpath_free(t->columns[i].path);
    free(t->columns);
    resource_unref(t->resource);
    free(t);
}

void table_set_now(struct table *t, int64_t now_ns)
{
    t->now_ns = now_ns;
}

static struct json *age_cell(const struct json *time, int64_t now_ns)
{
    _cleanup_free_ char *text = age_text(time, now_ns);

    return json_string(text);
}

/* Several results become one text with commas, as do composed values; columns say what type they want. */
static struct json *path_cell(const struct table *t, const struct column *c, const struct json *o)
{
    _cleanup_json_ struct json *found = jsonpath_find(c->path, o);
    const struct json *v = json_item(found, 0);

    if (json_size(found) == 0 || !v)
        return json_is(json_item(found, 0), JSON_NULL) && streq(c->type, "string") && !t->resource->is_custom
                   ? json_string("<none>")
                   : NULL;
    if (streq(c->type, "date"))
        return age_cell(v, t->now_ns);
    if (streq(c->type, "integer"))
        return json_is(v, JSON_INT) || json_is(v, JSON_DOUBLE) ? json_int(json_int_or(v, 0)) : NULL;
    if (streq(c->type, "number"))
        return json_is(v, JSON_INT) || json_is(v, JSON_DOUBLE) ? json_ref((struct json *)v) : NULL;
    if (streq(c->type, "boolean"))
        return json_is(v, JSON_BOOL) ? json_ref((struct json *)v) : NULL;
    struct strbuf out = {0};
    for (size_t i = 0; i < json_size(found); i++) {
        if (i)
            strbuf_addc(&out, ',');
        const struct json *item = json_item(found, i);
        if (json_str(item))
            strbuf_add(&out, json_str(item), json_string_len(item));
        else
            json_write(item, &out);
    }
    struct json *cell = json_string_n(strbuf_str(&out), out.len);
    strbuf_free(&out);
    return cell;
}

struct json *partial_object(const struct json *object)
{
    return json_build("{s:s, s:s, s:O}", "kind", "PartialObjectMetadata", "apiVersion", "meta.k8s.io/v1", "metadata",
                      json_get(object, "metadata"));
}

/* Ages of built-in kinds are texts, to clients too. */
static const char *shown_type(const struct table *t, size_t column)
{
    const char *type = t->columns[column].type;

    return streq(type, "date") && !t->resource->is_custom ? "string" : type;
}

void table_begin(const struct table *t, const char *metadata, bool definitions, struct strbuf *out)
{
    strbuf_addf(
        out, "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":%s,\"columnDefinitions\":", metadata);
    if (!definitions) {
        strbuf_adds(out, "null");
    } else {
        strbuf_addc(out, '[');
        for (size_t i = 0; i < t->count; i++) {
            const struct json *d = t->columns[i].definition;
            /* Ages are texts here: clients must not read them as dates. */
            _cleanup_json_ struct json *shown = json_build(
                "{s:s, s:s, s:s, s:s, s:i}", "name", t->columns[i].name, "type", shown_type(t, i), "format",
                json_str_or(json_get(d, "format"), ""), "description", json_str_or(json_get(d, "description"), ""),
                "priority", json_int_or(json_get(d, "priority"), 0));
            if (i)
                strbuf_addc(out, ',');
            json_write(shown, out);
        }
        strbuf_addc(out, ']');
    }
    strbuf_adds(out, ",\"rows\":[");
}

void table_row(const struct table *t, const struct json *shown, bool first, struct strbuf *out)
{
    strbuf_adds(out, first ? "{\"cells\":[" : ",{\"cells\":[");
    for (size_t i = 0; i < t->count; i++) {
        const struct column *c = &t->columns[i];
        _cleanup_json_ struct json *cell =
            c->path ? path_cell(t, c, shown) : table_computed_cell(t->resource, c->name, shown, t->now_ns);
        if (i)
            strbuf_addc(out, ',');
        json_write(cell, out);
    }
    strbuf_addc(out, ']');
    if (streq(t->resource->kind, "Pod") && !t->resource->is_custom) {
        const char *reason = table_pod_reason(shown);
        if (reason)
            strbuf_addf(
                out,
                ",\"conditions\":[{\"type\":\"Completed\",\"status\":\"True\",\"reason\":\"%s\",\"message\":\"\"}]",
                reason);
    }
    if (t->include != TABLE_NONE) {
        strbuf_adds(out, ",\"object\":");
        _cleanup_json_ struct json *object =
            t->include == TABLE_OBJECT ? json_ref((struct json *)shown) : partial_object(shown);
        json_write(object, out);
    }
    strbuf_addc(out, '}');
}

void table_end(struct strbuf *out)
{
    strbuf_adds(out, "]}");
}
