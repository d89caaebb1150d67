/* What schemas tell about the types of values. */
#include "apiserver/cel/internal.h"
#include "base/strutil.h"

static enum cel_shape string_shape(struct schema_node schema)
{
    static const struct {
        const char *format;
        enum cel_shape shape;
    } shapes[] = {{"date-time", CEL_SHAPE_TIMESTAMP},
                  {"date", CEL_SHAPE_DATE},
                  {"duration", CEL_SHAPE_DURATION},
                  {"byte", CEL_SHAPE_BYTES}};
    const char *format = json_str(schema_keyword(schema, "format"));

    for (size_t i = 0; format && i < ARRAY_LEN(shapes); i++)
        if (streq(shapes[i].format, format))
            return shapes[i].shape;
    return CEL_SHAPE_PLAIN;
}

enum cel_shape cel_shape(struct schema_node schema)
{
    const char *type = json_str(schema_keyword(schema, "type"));

    if (!type || json_bool_or(schema_keyword(schema, "x-kubernetes-int-or-string"), false))
        return CEL_SHAPE_PLAIN;
    if (streq(type, "number"))
        return CEL_SHAPE_DOUBLE;
    if (streq(type, "integer"))
        return CEL_SHAPE_INT;
    return streq(type, "string") ? string_shape(schema) : CEL_SHAPE_PLAIN;
}

static bool is_true(struct schema_node schema, const char *keyword)
{
    return json_bool_or(schema_keyword(schema, keyword), false);
}

bool cel_shape_member(struct schema_node object, const char *name, struct schema_node *ret)
{
    *ret = (struct schema_node){0};
    if (!schema_is_known(object))
        return true;
    *ret = schema_property(object, name);
    if (schema_is_known(*ret) || is_true(object, "x-kubernetes-preserve-unknown-fields") ||
        is_true(object, "additionalProperties"))
        return true;
    if (!object.whole_object && !is_true(object, "x-kubernetes-embedded-resource"))
        return false;
    return streq(name, "apiVersion") || streq(name, "kind") || streq(name, "metadata");
}

struct schema_node cel_shape_values(struct schema_node map)
{
    const struct json *values = schema_keyword(map, "additionalProperties");
    struct schema_node items = schema_items(map);

    if (schema_is_known(items))
        return items;
    return schema_node_make(map.context, json_is(values, JSON_OBJECT) ? values : NULL);
}
