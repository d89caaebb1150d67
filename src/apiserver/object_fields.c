#include "apiserver/object_fields.h"

#include "base/strutil.h"

static const struct json *resolve(void *arg, const char *name)
{
    return resource_schema_definition(((struct apiserver *)arg)->resources, name);
}

struct schema_context object_schema_context(struct apiserver *s)
{
    return (struct schema_context){.resolve = resolve, .arg = s};
}

struct managed_write object_field_write(const struct api_call *c, const struct schema_context *context,
                                        const char *time)
{
    enum managed_reset reset = streq(c->subresource, "status")               ? MANAGED_RESET_ALL_BUT_STATUS
                               : !*c->subresource && c->resource->has_status ? MANAGED_RESET_STATUS
                                                                             : MANAGED_RESET_NONE;

    return (struct managed_write){
        .context = context,
        .schema = c->resource->schema,
        .manager = c->options.field_manager ? c->options.field_manager : "",
        .api_version = c->resource->api_version,
        .subresource = c->subresource,
        .time = time,
        .reset = reset,
    };
}

static void set_list(struct json *object, struct json *list)
{
    struct json *metadata = json_get(object, "metadata");

    if (list)
        json_set(metadata, "managedFields", list);
    else
        json_remove(metadata, "managedFields");
}

void object_track_fields(struct api_call *c, struct json *object, const struct json *old)
{
    const struct schema_context context = object_schema_context(c->server);
    char now[TIME_RFC3339_MAX];

    if (c->fields_tracked)
        return;
    if (c->internal) {
        set_list(object, json_ref(json_at(old, "metadata", "managedFields", NULL)));
        return;
    }
    api_time_text(c->server, now);
    const struct managed_write w = object_field_write(c, &context, now);
    set_list(object, managed_fields_after_write(&w, old, object));
}
