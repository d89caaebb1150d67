#include "apiserver/filter.h"

#include "base/memory.h"
#include "base/strutil.h"

static bool field_known(const struct resource *r, const char *field)
{
    if (streq(field, "metadata.name") || (r->namespaced && streq(field, "metadata.namespace")))
        return true;
    for (size_t i = 0; r->selectable_fields && r->selectable_fields[i]; i++)
        if (streq(r->selectable_fields[i], field))
            return true;
    return false;
}

static int check_fields(struct api_call *c, struct object_filter *f)
{
    const struct resource *r = c->resource;
    const char *field, *value;
    bool negated;

    for (size_t i = 0; (field = field_selector_term(f->fields, i, &value, &negated)); i++) {
        if (!field_known(r, field)) {
            bool own_list = r->is_custom || (r->selectable_fields && r->selectable_fields[0]);
            return api_fail(
                c, own_list ? status_bad_request("field label not supported: %s", field)
                            : status_bad_request("\"%s\" is not a known field selector: only \"metadata.name\"%s",
                                                 field, r->namespaced ? ", \"metadata.namespace\"" : ""));
        }
        if (streq(field, "metadata.name") && !negated)
            f->name = value;
    }
    return 0;
}

int filter_read(struct api_call *c, struct object_filter *ret)
{
    struct object_filter f = {.resource = c->resource, .ns = *c->ns && c->resource->namespaced ? c->ns : NULL};
    struct error err = ERROR_INIT;
    int r = 0;

    f.name = *c->name ? c->name : NULL;
    if (c->options.label_selector && *c->options.label_selector) {
        f.labels = selector_parse(c->options.label_selector, &err);
        r = f.labels ? 0 : -1;
    }
    if (r == 0 && c->options.field_selector && *c->options.field_selector) {
        f.fields = field_selector_parse(c->options.field_selector, &err);
        r = f.fields ? 0 : -1;
    }
    if (r < 0)
        (void)api_fail(c, status_bad_request("%s", error_text(&err)));
    else if (f.fields)
        r = check_fields(c, &f);
    error_clear(&err);
    if (r < 0)
        filter_clear(&f);
    else
        *ret = f;
    return r;
}

bool filter_matches(const struct object_filter *f, const char *key, const struct json *value)
{
    if (f->resource->namespaced) {
        const char *slash = strchr(key, '/');
        if (!slash)
            return false;
        if (f->ns && (strlen(f->ns) != (size_t)(slash - key) || strncmp(f->ns, key, (size_t)(slash - key)) != 0))
            return false;
        key = slash + 1;
    }
    if (f->name && !streq(f->name, key))
        return false;
    if (f->labels && !selector_matches(f->labels, json_at(value, "metadata", "labels", NULL)))
        return false;
    if (!f->fields)
        return true;
    _cleanup_json_ struct json *shown = object_shown(f->resource, value);
    return field_selector_matches(f->fields, shown);
}

bool filter_selects(const struct object_filter *f)
{
    return f->labels || f->fields;
}

void filter_clear(struct object_filter *f)
{
    if (f->labels)
        selector_free(f->labels);
    if (f->fields)
        field_selector_free(f->fields);
    *f = (struct object_filter){0};
}
