#include "apiserver/managed_fields.h"

#include "apiserver/managed_fields_internal.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"

#define ANCIENT_MANAGER "ancient-changes"

/* The list of managers. */

static void entry_clear(struct managed_entry *entry)
{
    field_set_free(entry->set);
    json_unref(entry->encoded);
}

void managed_list_free(struct managed_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        entry_clear(&list->entries[i]);
    free(list->entries);
    json_unref(list->source);
    *list = (struct managed_list){0};
}

static void set_time(struct managed_entry *entry, const char *time)
{
    entry->time = time;
    if (!time_parse_rfc3339(time, &entry->time_ns))
        entry->time_ns = 0;
}

static struct managed_entry *append(struct managed_list *list, struct managed_entry entry)
{
    GROW(list->entries, list->capacity, list->count + 1);
    list->entries[list->count] = entry;
    return &list->entries[list->count++];
}

static void remove_entry(struct managed_list *list, size_t i)
{
    entry_clear(&list->entries[i]);
    memmove(&list->entries[i], &list->entries[i + 1], (list->count - i - 1) * sizeof(*list->entries));
    list->count--;
}

/* What tells entries apart: manager, operation and subresource, and for Update the version. */
static bool same_identity(const struct managed_entry *a, const struct managed_entry *b)
{
    return a->apply == b->apply && streq(a->manager, b->manager) && streq(a->subresource, b->subresource) &&
           (a->apply || streq(a->api_version, b->api_version));
}

static size_t find_identity(const struct managed_list *list, const struct managed_entry *wanted)
{
    size_t i = 0;

    while (i < list->count && !same_identity(&list->entries[i], wanted))
        i++;
    return i;
}

static int decode_entry(struct managed_entry *entry, const struct json *v, struct error *err)
{
    const char *operation = json_str_or(json_get(v, "operation"), "");
    struct error set_err = ERROR_INIT;

    *entry = (struct managed_entry){
        .manager = json_str_or(json_get(v, "manager"), ""),
        .api_version = json_str_or(json_get(v, "apiVersion"), ""),
        .subresource = json_str_or(json_get(v, "subresource"), ""),
        .time = json_str_or(json_get(v, "time"), ""),
        .apply = streq(operation, "Apply"),
    };
    if (!entry->apply && !streq(operation, "Update"))
        return error_set(err, EINVAL, "operation is neither Apply nor Update: \"%s\"", operation);
    if (!streq(json_str_or(json_get(v, "fieldsType"), ""), "FieldsV1"))
        return error_set(err, EINVAL, "fieldsType is not FieldsV1");
    if (*entry->time && !time_parse_rfc3339(entry->time, &entry->time_ns))
        return error_set(err, EINVAL, "not a time: \"%s\"", entry->time);
    entry->set = field_set_parse(json_get(v, "fieldsV1"), &set_err);
    if (entry->set)
        return 0;
    (void)error_wrap(&set_err, "fieldsV1 of \"%s\"", entry->manager);
    return error_move(err, &set_err);
}

int managed_list_decode(struct managed_list *list, const struct json *encoded, bool keep, struct error *err)
{
    _cleanup_(managed_list_free) struct managed_list result = {0};

    if (encoded && !json_is(encoded, JSON_ARRAY))
        return error_set(err, EINVAL, "managedFields is not a list");
    if (json_size(encoded) > MANAGED_ENTRIES_MAX)
        return error_set(err, E2BIG, "managedFields has more than %d entries", MANAGED_ENTRIES_MAX);
    result.source = json_ref((struct json *)encoded);
    for (size_t i = 0; i < json_size(encoded); i++) {
        struct managed_entry entry;
        int r = decode_entry(&entry, json_item(encoded, i), err);

        if (r < 0)
            return r;
        entry.encoded = keep ? json_ref(json_item(encoded, i)) : NULL;
        size_t known = find_identity(&result, &entry);
        if (known < result.count)
            remove_entry(&result, known); /* the last one counts */
        (void)append(&result, entry);
    }
    *list = result;
    result = (struct managed_list){0};
    return 0;
}

static int compare_entries(const void *a, const void *b)
{
    const struct managed_entry *x = a, *y = b;
    int64_t x_seconds = x->time_ns / NSEC_PER_SEC, y_seconds = y->time_ns / NSEC_PER_SEC;

    if (x->apply != y->apply)
        return x->apply ? -1 : 1;
    if (x_seconds != y_seconds)
        return x_seconds < y_seconds ? -1 : 1;
    int order = strcmp(x->manager, y->manager);
    if (order == 0)
        order = strcmp(x->api_version, y->api_version);
    return order ? order : strcmp(x->subresource, y->subresource);
}

static struct json *encode_entry(const struct managed_entry *entry)
{
    if (entry->encoded)
        return json_ref(entry->encoded);
    return json_build("{s:s, s:s, s:s, s:s, s:s, s:o, s:s}", "manager", entry->manager, "operation",
                      entry->apply ? "Apply" : "Update", "apiVersion", entry->api_version, "time",
                      *entry->time ? entry->time : NULL, "fieldsType", "FieldsV1", "fieldsV1",
                      field_set_to_json(entry->set), "subresource", *entry->subresource ? entry->subresource : NULL);
}

struct json *managed_list_encode(struct managed_list *list)
{
    struct json *encoded = NULL;

    if (list->count > 1)
        qsort(list->entries, list->count, sizeof(*list->entries), compare_entries);
    for (size_t i = 0; i < list->count; i++) {
        if (field_set_is_empty(list->entries[i].set))
            continue;
        if (!encoded)
            encoded = json_array_make();
        json_push(encoded, encode_entry(&list->entries[i]));
    }
    return encoded;
}

static struct managed_entry entry_of(const struct managed_write *w, bool apply)
{
    struct managed_entry entry = {.manager = w->manager && *w->manager ? w->manager : "unknown",
                                  .api_version = w->api_version,
                                  .subresource = w->subresource ? w->subresource : "",
                                  .apply = apply};

    set_time(&entry, w->time);
    return entry;
}

struct managed_entry *managed_list_find(const struct managed_list *list, const struct managed_write *w, bool apply)
{
    struct managed_entry wanted = entry_of(w, apply);
    size_t i = find_identity(list, &wanted);

    return i < list->count ? &list->entries[i] : NULL;
}

struct managed_entry *managed_list_add(struct managed_list *list, const struct managed_write *w, bool apply)
{
    struct managed_entry *entry = append(list, entry_of(w, apply));

    entry->set = field_set_new();
    return entry;
}

static void forget_encoded(struct managed_entry *entry)
{
    json_unref(entry->encoded);
    entry->encoded = NULL;
}

void managed_entry_replace(struct managed_entry *entry, struct field_set *set)
{
    field_set_free(entry->set);
    entry->set = set;
    forget_encoded(entry);
}

void managed_entry_touch(struct managed_entry *entry, const char *time)
{
    set_time(entry, time);
    forget_encoded(entry);
}

void managed_list_take_away(struct managed_list *list, const struct managed_entry *except, const struct field_set *gone)
{
    for (size_t i = 0; i < list->count; i++) {
        struct managed_entry *entry = &list->entries[i];
        if (entry != except && field_set_overlaps(entry->set, gone))
            managed_entry_replace(entry, field_set_difference(entry->set, gone));
    }
}

/* What is tracked. */

static bool in_list(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (streq(*names, name))
            return true;
    return false;
}

bool managed_is_tracked(const void *write, const char *parent, const char *name)
{
    static const char *const never[] = {"apiVersion", "kind", NULL};
    static const char *const never_in_metadata[] = {
        "clusterName", "creationTimestamp", "generation", "managedFields", "name",
        "namespace",   "resourceVersion",   "selfLink",   "uid",           NULL};
    const struct managed_write *w = write;

    if (parent)
        return !streq(parent, "metadata") || !in_list(never_in_metadata, name);
    switch (w->reset) {
    case MANAGED_RESET_STATUS:
        return !streq(name, "status") && !in_list(never, name);
    case MANAGED_RESET_ALL_BUT_STATUS:
        return streq(name, "status");
    case MANAGED_RESET_NONE:
        break;
    }
    return !in_list(never, name);
}

struct field_scope managed_scope(const struct managed_write *w)
{
    return (struct field_scope){.schema = schema_root(w->context, w->schema), .filter = managed_is_tracked, .arg = w};
}

/* After a write. */

static const struct json *list_of(const struct json *object)
{
    return json_at(object, "metadata", "managedFields", NULL);
}

static int compare_age(const void *a, const void *b)
{
    const struct managed_entry *x = a, *y = b;

    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return strcmp(x->manager, y->manager);
}

/* Where the i-th entry goes when it has to: "ancient-changes" of its version, else an older entry; NULL: nowhere yet.
 */
static struct managed_entry *entry_to_join(const struct managed_list *list, size_t i)
{
    struct managed_entry *older = NULL, *ancient = NULL;

    for (size_t j = 0; j < list->count; j++) {
        struct managed_entry *entry = &list->entries[j];
        if (j == i || entry->apply || !streq(entry->api_version, list->entries[i].api_version))
            continue;
        if (j < i && !older)
            older = entry;
        if (streq(entry->manager, ANCIENT_MANAGER) && !*entry->subresource)
            ancient = entry;
    }
    return older && ancient ? ancient : older;
}

/*
 * Joins the oldest Update entries of one version into "ancient-changes" until few enough are left. The first of a
 * version stays what it is until a second one has to go.
 */
static void join_oldest(struct managed_list *list)
{
    size_t updates = 0;

    for (size_t i = list->count; i-- > 0;) {
        if (field_set_is_empty(list->entries[i].set))
            remove_entry(list, i);
        else
            updates += !list->entries[i].apply;
    }
    if (updates <= MANAGED_UPDATE_ENTRIES_MAX)
        return;
    qsort(list->entries, list->count, sizeof(*list->entries), compare_age);
    for (size_t i = 0; i < list->count && updates > MANAGED_UPDATE_ENTRIES_MAX;) {
        struct managed_entry *entry = &list->entries[i];
        struct managed_entry *target = entry->apply ? NULL : entry_to_join(list, i);

        if (!target) {
            i++;
            continue;
        }
        target->manager = ANCIENT_MANAGER;
        target->subresource = "";
        managed_entry_replace(target, field_set_union(target->set, entry->set));
        set_time(target, entry->time);
        remove_entry(list, i);
        updates--;
    }
}

static bool is_reset(const struct json *given)
{
    const struct json *only = json_item(given, 0);

    return json_is(given, JSON_ARRAY) &&
           (json_size(given) == 0 || (json_size(given) == 1 && json_is(only, JSON_OBJECT) && json_size(only) == 0));
}

/*
 * Whether the object brings a list of its own, which then is decoded. One that cannot be read is as good as none:
 * clients that do not understand it must not lose it.
 */
static bool brings_list(const struct managed_write *w, const struct json *live, const struct json *object,
                        struct managed_list *list)
{
    const struct json *given = w->subresource && *w->subresource ? NULL : list_of(object);

    if (is_reset(given))
        return true;
    return given && !json_equal(given, list_of(live)) && managed_list_decode(list, given, false, NULL) == 0;
}

struct json *managed_fields_after_write(const struct managed_write *w, const struct json *live,
                                        const struct json *object)
{
    _cleanup_(managed_list_free) struct managed_list list = {0};
    _cleanup_field_set_ struct field_set *changed = NULL, *removed = NULL;
    const struct field_scope scope = managed_scope(w);
    bool brings = brings_list(w, live, object, &list);

    field_value_compare(live, object, &scope, &changed, &removed);
    field_set_unmark(changed, "metadata");
    bool nothing = field_set_is_empty(changed) && field_set_is_empty(removed);
    if (live && !brings && nothing)
        return json_ref((struct json *)list_of(live));
    if (!brings)
        (void)managed_list_decode(&list, list_of(live), true, NULL); /* unreadable: as good as none */
    if (live && list.count == 0)
        return NULL;

    struct managed_entry *own = managed_list_find(&list, w, false);
    managed_list_take_away(&list, NULL, removed);
    managed_list_take_away(&list, own, changed);
    if (!field_set_is_empty(changed)) {
        if (!own)
            own = managed_list_add(&list, w, false);
        managed_entry_replace(own, field_set_union(own->set, changed));
        managed_entry_touch(own, w->time);
    }
    join_oldest(&list);
    return managed_list_encode(&list);
}

struct json *managed_fields_put(const struct json *object, struct json *list)
{
    const struct json *old = json_get(object, "metadata");
    struct json *result = json_copy_shallow(object);
    struct json *metadata = json_is(old, JSON_OBJECT) ? json_copy_shallow(old) : json_object_make();

    if (list)
        json_set(metadata, "managedFields", list);
    else
        json_remove(metadata, "managedFields");
    json_set(result, "metadata", metadata);
    return result;
}

bool managed_lists_only_times_differ(const struct json *a, const struct json *b)
{
    if (a == b)
        return true;
    if (json_size(a) != json_size(b) || json_kind(a) != json_kind(b))
        return false;
    for (size_t i = 0; i < json_size(a); i++) {
        const struct json *x = json_item(a, i), *y = json_item(b, i);
        size_t timed = json_has(x, "time"), timed_too = json_has(y, "time");

        if (json_size(x) - timed != json_size(y) - timed_too)
            return false;
        for (struct json_iter it = {0}; json_each(x, &it);)
            if (!streq(it.key, "time") && (!json_has(y, it.key) || !json_equal(it.value, json_get(y, it.key))))
                return false;
    }
    return true;
}

static size_t members_but(const struct json *object, const char *name)
{
    return json_size(object) - json_has(object, name);
}

/* Equal but for the member called name. */
static bool equal_but(const struct json *a, const struct json *b, const char *name)
{
    if (members_but(a, name) != members_but(b, name))
        return false;
    for (struct json_iter it = {0}; json_each(a, &it);)
        if (!streq(it.key, name) && (!json_has(b, it.key) || !json_equal(it.value, json_get(b, it.key))))
            return false;
    return true;
}

bool managed_fields_only_times_differ(const struct json *a, const struct json *b)
{
    return equal_but(a, b, "metadata") &&
           equal_but(json_get(a, "metadata"), json_get(b, "metadata"), "managedFields") &&
           managed_lists_only_times_differ(list_of(a), list_of(b));
}
