/* Messages by name and kind, and their fields, read from the text of proto_messages.c. */
#include "apiserver/proto_internal.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    enum proto_type type;
} types[] = {
    {"s", PROTO_STRING},
    {"b", PROTO_BOOL},
    {"i32", PROTO_INT32},
    {"i64", PROTO_INT64},
    {"double", PROTO_DOUBLE},
    {"y", PROTO_BYTES},
    {"Time", PROTO_TIME},
    {"Timestamp", PROTO_TIME},
    {"MicroTime", PROTO_MICRO_TIME},
    {"Quantity", PROTO_QUANTITY},
    {"IntOrString", PROTO_INT_OR_STRING},
    {"Duration", PROTO_DURATION},
    {"FieldsV1", PROTO_JSON_TEXT},
    {"JSON", PROTO_JSON_TEXT},
    {"RawExtension", PROTO_RAW},
    {"Verbs", PROTO_STRINGS},
    {"ExtraValue", PROTO_STRINGS},
    {"JSONSchemaPropsOrArray", PROTO_SCHEMA_OR_ARRAY},
    {"JSONSchemaPropsOrBool", PROTO_SCHEMA_OR_BOOL},
    {"JSONSchemaPropsOrStringArray", PROTO_SCHEMA_OR_STRINGS},
};

static int by_name(const void *key, const void *item)
{
    return strcmp(key, ((const struct proto_message *)item)->name);
}

static const struct proto_message *lookup(const char *name)
{
    return bsearch(name, proto_messages, proto_message_count, sizeof(proto_messages[0]), by_name);
}

/* A type named inside a message: of its own package, of meta/v1, or with its package in front. */
static const struct proto_message *find_message(const struct proto_message *from, const char *type)
{
    char name[128];
    const char *dot = strrchr(from->name, '.');

    if (strchr(type, '/'))
        return lookup(type);
    (void)snprintf(name, sizeof(name), "%.*s.%s", (int)(dot - from->name), from->name, type);
    const struct proto_message *m = lookup(name);
    if (m)
        return m;
    (void)snprintf(name, sizeof(name), "meta/v1.%s", type);
    return lookup(name);
}

static void set_type(const struct proto_message *from, const char *name, struct proto_field *f)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (streq(name, types[i].name)) {
            f->type = types[i].type;
            if (f->type >= PROTO_SCHEMA_OR_ARRAY)
                f->message = find_message(from, "JSONSchemaProps");
            return;
        }
    f->message = find_message(from, name);
    f->type = f->message ? PROTO_MESSAGE : PROTO_UNKNOWN;
}

/* Reads one field description and moves *p behind it. */
static bool parse_field(const struct proto_message *m, const char **p, struct proto_field *f)
{
    char type[64];
    unsigned long long number;
    int used = 0;

    *f = (struct proto_field){0};
    if (sscanf(*p, "%llu %63[^ ] %63[^ ,]%n", &number, f->name, type, &used) != 3)
        return false;
    *p += used;
    *p += strspn(*p, ", ");
    f->number = number;
    char *t = type;
    f->repeated = strncmp(t, "[]", 2) == 0;
    f->map = strncmp(t, "{}", 2) == 0;
    t += f->repeated || f->map ? 2 : 0;
    size_t len = strcspn(t, "*!~");
    f->keep_zero = strchr(t + len, '*') != NULL;
    f->always = strchr(t + len, '!') != NULL;
    f->inlined = strchr(t + len, '~') != NULL;
    t[len] = '\0';
    set_type(m, t, f);
    return true;
}

const struct proto_fields *proto_fields(const struct proto_message *m)
{
    static struct proto_fields *of_messages; /* bodies name fields by the million */

    if (!of_messages)
        of_messages = xcalloc(proto_message_count, sizeof(*of_messages));
    struct proto_fields *all = &of_messages[m - proto_messages];
    struct proto_field f;

    if (all->items)
        return all;
    for (const char *p = m->fields; parse_field(m, &p, &f);) {
        all->items = xreallocarray(all->items, all->count + 1, sizeof(f));
        all->items[all->count++] = f;
    }
    return all;
}

const struct proto_field *proto_find_field(const struct proto_message *m, uint64_t number)
{
    const struct proto_fields *all = proto_fields(m);

    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].number == number)
            return &all->items[i];
    return NULL;
}

const struct proto_message *proto_find_kind(const char *api_version, const char *kind)
{
    const char *slash = strchr(api_version, '/'), *dot = strchr(api_version, '.');
    char name[160];

    /* Of every group: */
    if (streq(kind, "DeleteOptions") || streq(kind, "PartialObjectMetadata") ||
        (!slash && (streq(kind, "Status") || streq(kind, "ListMeta")))) {
        (void)snprintf(name, sizeof(name), "meta/v1.%s", kind);
        return lookup(name);
    }
    if (slash && dot && dot < slash && (slash - dot < 7 || strncmp(slash - 7, ".k8s.io", 7) != 0))
        return NULL; /* a custom resource's group */
    if (slash)
        (void)snprintf(name, sizeof(name), "%.*s/%s.%s", (int)strcspn(api_version, "./"), api_version, slash + 1, kind);
    else
        (void)snprintf(name, sizeof(name), "core/%s.%s", api_version, kind);
    return lookup(name);
}
