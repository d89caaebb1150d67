#include "apiserver/apply_patch.h"

#include "apiserver/managed_fields_internal.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#define LAST_APPLIED "kubectl.kubernetes.io/last-applied-configuration"
#define ANNOTATION_BYTES_MAX (256 * 1024)
#define KUBECTL "kubectl" /* the manager that takes over from its own client-side apply */
#define BEFORE_FIRST_APPLY "before-first-apply"

struct apply {
    const struct apply_request *request;
    struct field_scope scope;
    struct managed_list list;
    struct json *config;      /* what counts of the request's body */
    struct field_set *fields; /* of config */
    struct json *merged;
    struct field_set *changed, *removed; /* from live to merged */
};

static void apply_clear(struct apply *a)
{
    managed_list_free(&a->list);
    json_unref(a->config);
    field_set_free(a->fields);
    json_unref(a->merged);
    field_set_free(a->changed);
    field_set_free(a->removed);
}

static int check_config(const struct apply_request *r, struct error *err)
{
    const char *version = object_api_version(r->config);

    if (!json_is(r->config, JSON_OBJECT))
        return error_set(err, EINVAL, "an apply patch is an object");
    if (!streq(version, r->write.api_version))
        return error_set(err, EINVAL,
                         "Incorrect version specified in apply patch. Specified patch version: %s, expected: %s",
                         version, r->write.api_version);
    if (json_at(r->config, "metadata", "managedFields", NULL))
        return error_set(err, EINVAL, "metadata.managedFields must be nil");
    return 0;
}

/* The body without what this request does not decide. */
static struct json *config_that_counts(const struct managed_write *w, const struct json *config)
{
    static const char *const not_decided[] = {"creationTimestamp", "generation", "managedFields", "selfLink"};
    struct json *result = json_object_make();

    for (struct json_iter it = {0}; json_each(config, &it);) {
        bool identity = streq(it.key, "apiVersion") || streq(it.key, "kind") || streq(it.key, "metadata");
        if (identity || managed_is_tracked(w, NULL, it.key))
            json_set(result, it.key, json_ref(it.value));
    }
    const struct json *given = json_get(config, "metadata");
    if (!json_is(given, JSON_OBJECT))
        return result;
    struct json *metadata = json_object_make();
    for (struct json_iter it = {0}; json_each(given, &it);)
        if (it.value || managed_is_tracked(w, "metadata", it.key))
            json_set(metadata, it.key, json_ref(it.value));
    for (size_t i = 0; i < ARRAY_LEN(not_decided); i++)
        json_remove(metadata, not_decided[i]);
    if (w->reset == MANAGED_RESET_ALL_BUT_STATUS) {
        struct json *preconditions = json_object_make();
        static const char *const kept[] = {"name", "namespace", "uid", "resourceVersion"};
        for (size_t i = 0; i < ARRAY_LEN(kept); i++)
            if (json_has(metadata, kept[i]))
                json_set(preconditions, kept[i], json_ref(json_get(metadata, kept[i])));
        json_unref(metadata);
        metadata = preconditions;
    }
    json_set(result, "metadata", metadata);
    return result;
}

static int read_fields(struct apply *a, struct error *err)
{
    const struct json *config = a->request->config;
    struct error local = ERROR_INIT;

    a->fields = field_value_set(a->config, &a->scope, &local);
    if (!a->fields) {
        local.code = EDOM;
        (void)error_wrap(&local, "failed to create typed patch object (%s/%s; %s, Kind=%s)", object_namespace(config),
                         object_name(config), object_api_version(config), object_kind(config));
        return error_move(err, &local);
    }
    field_set_unmark(a->fields, "metadata");
    return 0;
}

/* An object nobody tracked so far: what it has belongs to "before-first-apply". */
static void claim_existing_fields(struct apply *a)
{
    struct managed_write before = a->request->write;
    struct field_set *existing = NULL;
    _cleanup_field_set_ struct field_set *none = NULL;

    if (!a->request->live || a->list.count)
        return;
    before.manager = BEFORE_FIRST_APPLY;
    field_value_compare(NULL, a->request->live, &a->scope, &existing, &none);
    field_set_unmark(existing, "metadata");
    managed_entry_replace(managed_list_add(&a->list, &before, false), existing);
}

/* Takes out of merged what this manager applied before, does not any more, and nobody else owns. */
static void prune(struct apply *a, const struct managed_entry *own)
{
    if (!own)
        return;
    struct field_set *gone = field_set_difference(own->set, a->fields);
    bool nothing_gone = field_set_is_empty(gone);
    field_set_free(gone);
    if (nothing_gone)
        return;

    /* A struct goes with the last of the fields somebody wanted in it, together with what defaults put there. */
    _cleanup_field_set_ struct field_set *candidates = field_set_with_containers(own->set, a->scope.schema);
    for (size_t i = 0; i <= a->list.count; i++) {
        const struct field_set *owned = i < a->list.count ? a->list.entries[i].set : a->fields;
        if (i < a->list.count && &a->list.entries[i] == own)
            continue;
        _cleanup_field_set_ struct field_set *kept = field_set_with_containers(owned, a->scope.schema);
        struct field_set *rest = field_set_difference(candidates, kept);
        field_set_free(candidates);
        candidates = rest;
    }
    field_set_unmark(candidates, "metadata");
    struct json *pruned = field_value_remove(a->merged, candidates, a->scope.schema);
    json_unref(a->merged);
    a->merged = pruned;
}

/* Conflicts. */

struct conflict {
    const struct managed_entry *entry;
    struct field_set *fields;
};

struct conflicts {
    struct conflict *items;
    size_t count, capacity;
};

static void conflicts_clear(struct conflicts *c)
{
    for (size_t i = 0; i < c->count; i++)
        field_set_free(c->items[i].fields);
    free(c->items);
}

static int compare_managers(const void *a, const void *b)
{
    const struct managed_entry *x = ((const struct conflict *)a)->entry, *y = ((const struct conflict *)b)->entry;
    int order = strcmp(x->manager, y->manager);

    if (order == 0)
        order = (int)y->apply - (int)x->apply;
    if (order == 0)
        order = strcmp(x->api_version, y->api_version);
    return order ? order : strcmp(x->subresource, y->subresource);
}

/* allowed: fields that nobody minds to lose; may be NULL. */
static void find_conflicts(const struct apply *a, const struct managed_entry *own, const struct field_set *allowed,
                           struct conflicts *ret)
{
    for (size_t i = 0; i < a->list.count; i++) {
        const struct managed_entry *entry = &a->list.entries[i];

        if (entry == own || !field_set_overlaps(entry->set, a->changed))
            continue;
        struct field_set *fields = field_set_intersection(entry->set, a->changed);
        if (allowed) {
            struct field_set *rest = field_set_difference(fields, allowed);
            field_set_free(fields);
            fields = rest;
        }
        if (field_set_is_empty(fields)) {
            field_set_free(fields);
            continue;
        }
        GROW(ret->items, ret->capacity, ret->count + 1);
        ret->items[ret->count++] = (struct conflict){entry, fields};
    }
    if (ret->count)
        qsort(ret->items, ret->count, sizeof(*ret->items), compare_managers);
}

static void print_manager(const struct managed_entry *entry, struct strbuf *out)
{
    json_write_string(entry->manager, strlen(entry->manager), out);
    if (*entry->subresource) {
        strbuf_adds(out, " with subresource ");
        json_write_string(entry->subresource, strlen(entry->subresource), out);
    }
    if (entry->apply)
        return;
    strbuf_addf(out, " using %s", entry->api_version);
    if (*entry->time)
        strbuf_addf(out, " at %s", entry->time);
}

struct conflict_text {
    struct strbuf message; /* one "- PATH" a line */
    struct strbuf manager;
    struct json *causes;
};

static void add_cause(void *arg, const char *path)
{
    struct conflict_text *text = arg;
    _cleanup_free_ char *message = xasprintf("conflict with %s", strbuf_str(&text->manager));

    strbuf_addf(&text->message, "\n- %s", path);
    json_push(text->causes,
              json_build("{s:s, s:s, s:s}", "reason", "FieldManagerConflict", "message", message, "field", path));
}

static int report_conflicts(const struct conflicts *conflicts, struct json **ret_causes, struct error *err)
{
    struct conflict_text text = {.causes = json_array_make()};
    size_t n;

    for (size_t i = 0; i < conflicts->count; i++) {
        const struct managed_entry *entry = conflicts->items[i].entry;

        strbuf_truncate(&text.manager, 0);
        print_manager(entry, &text.manager);
        strbuf_addf(&text.message, "%sconflicts with %s:", i ? "\n" : "", strbuf_str(&text.manager));
        field_set_each(conflicts->items[i].fields, add_cause, &text);
    }
    n = json_size(text.causes);
    if (n == 1)
        (void)error_set(err, EBUSY, "Apply failed with 1 conflict: %s: %s",
                        json_str_or(json_get(json_item(text.causes, 0), "message"), ""),
                        json_str_or(json_get(json_item(text.causes, 0), "field"), ""));
    else
        (void)error_set(err, EBUSY, "Apply failed with %zu conflicts: %s", n, strbuf_str(&text.message));
    strbuf_free(&text.message);
    strbuf_free(&text.manager);
    if (ret_causes)
        *ret_causes = text.causes;
    else
        json_unref(text.causes);
    return -EBUSY;
}

/*
 * What the last client-side apply said and the live object still has: "kubectl" may take that over silently. NULL when
 * there is no such record.
 */
static struct field_set *last_applied_fields(const struct apply *a)
{
    const char *text = object_annotation(a->request->live, LAST_APPLIED);
    struct field_set *changed, *removed;

    if (!text || !*text)
        return NULL;
    _cleanup_json_ struct json *last = json_parse(text, strlen(text), NULL);
    if (!json_is(last, JSON_OBJECT) || !streq(object_api_version(last), a->request->write.api_version))
        return NULL;
    _cleanup_field_set_ struct field_set *all = field_value_set(last, &a->scope, NULL);
    field_value_compare(last, a->request->live, &a->scope, &changed, &removed);
    _cleanup_field_set_ struct field_set *not_changed = field_set_difference(all, changed);
    struct field_set *same = field_set_difference(not_changed, removed);
    field_set_free(changed);
    field_set_free(removed);
    return same;
}

static int settle_conflicts(struct apply *a, const struct managed_entry *own, struct json **ret_causes,
                            struct error *err)
{
    _cleanup_(conflicts_clear) struct conflicts conflicts = {0};
    _cleanup_field_set_ struct field_set *allowed = NULL;

    if (!a->request->force) {
        if (streq(a->request->write.manager, KUBECTL))
            allowed = last_applied_fields(a);
        find_conflicts(a, own, allowed, &conflicts);
        if (conflicts.count)
            return report_conflicts(&conflicts, ret_causes, err);
    }
    managed_list_take_away(&a->list, own, a->changed);
    managed_list_take_away(&a->list, own, a->removed);
    return 0;
}

/* The record of client-side apply follows what "kubectl" applies server-side. */
static void sync_last_applied(struct apply *a)
{
    const char *old = object_annotation(a->merged, LAST_APPLIED);

    if (!streq(a->request->write.manager, KUBECTL) || !old || !*old)
        return;
    _cleanup_json_ struct json *plain = json_copy(a->request->config);
    struct json *annotations = json_at(plain, "metadata", "annotations", NULL);
    if (annotations)
        json_remove(annotations, LAST_APPLIED);
    _cleanup_(strbuf_free) struct strbuf text = {0};
    json_write_sorted(plain, &text);
    strbuf_addc(&text, '\n');
    if (streq(old, strbuf_str(&text)))
        return;

    struct json *object = json_copy_shallow(a->merged);
    struct json *metadata = json_copy_shallow(json_get(object, "metadata"));
    annotations = json_copy_shallow(json_get(metadata, "annotations"));
    if (text.len > ANNOTATION_BYTES_MAX)
        json_remove(annotations, LAST_APPLIED);
    else
        json_set_str(annotations, LAST_APPLIED, strbuf_str(&text));
    json_set(metadata, "annotations", annotations);
    json_set(object, "metadata", metadata);
    json_unref(a->merged);
    a->merged = object;
}

static struct json *finish(struct apply *a, struct managed_entry *own)
{
    const struct json *live = a->request->live;
    bool fields_differ =
        !own || !field_set_equal(own->set, a->fields) || !streq(own->api_version, a->request->write.api_version);
    bool values_differ = !field_set_is_empty(a->changed) || !field_set_is_empty(a->removed);

    if (!own)
        own = managed_list_add(&a->list, &a->request->write, true);
    if (fields_differ || values_differ) {
        own->api_version = a->request->write.api_version;
        managed_entry_replace(own, take_ptr(a->fields));
        managed_entry_touch(own, a->request->write.time);
    }
    sync_last_applied(a);
    struct json *object = managed_fields_put(a->merged, managed_list_encode(&a->list));
    if (!live || !managed_fields_only_times_differ(live, object))
        return object;
    json_unref(object);
    return json_ref((struct json *)live);
}

struct json *apply_patch(const struct apply_request *request, struct json **ret_causes, struct error *err)
{
    _cleanup_(apply_clear) struct apply a = {.request = request, .scope = managed_scope(&request->write)};

    if (ret_causes)
        *ret_causes = NULL;
    if (check_config(request, err) < 0)
        return NULL;
    a.config = config_that_counts(&request->write, request->config);
    if (read_fields(&a, err) < 0)
        return NULL;
    /* A list that cannot be read is as good as none. */
    (void)managed_list_decode(&a.list, json_at(request->live, "metadata", "managedFields", NULL), true, NULL);
    claim_existing_fields(&a);

    struct managed_entry *own = managed_list_find(&a.list, &request->write, true);
    a.merged = request->live ? field_value_merge(request->live, a.config, a.scope.schema) : json_ref(a.config);
    prune(&a, own);
    field_value_compare(request->live, a.merged, &a.scope, &a.changed, &a.removed);
    field_set_unmark(a.changed, "metadata");
    if (settle_conflicts(&a, own, ret_causes, err) < 0)
        return NULL;
    return finish(&a, own);
}
