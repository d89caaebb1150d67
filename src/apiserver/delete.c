/* DELETE: preconditions, grace, finalizers. Works on the stored form: nothing here depends on the version. */
#include "apiserver/filter.h"
#include "apiserver/options.h"
#include "apiserver/strategy.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#define FINALIZER_ORPHAN "orphan"
#define FINALIZER_FOREGROUND "foregroundDeletion"

static int check_preconditions(struct api_call *c, const struct delete_options *o, const struct stored *current)
{
    const char *uid = object_uid(current->value);
    const char *version = json_str_or(json_at(current->value, "metadata", "resourceVersion", NULL), "");
    struct api_subject s = api_subject(c);
    _cleanup_free_ char *text = NULL;

    if (o->uid && !streq(o->uid, uid))
        text =
            xasprintf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have "
                      "been deleted and then recreated",
                      o->uid, uid);
    else if (o->resource_version && !streq(o->resource_version, version))
        text = xasprintf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record "
                         "(%s). The object might have been modified",
                         o->resource_version, version);
    if (!text)
        return 0;
    s.plural = s.kind;
    return api_fail(c, status_conflict(&s, text));
}

static bool ours(const char *finalizer)
{
    return streq(finalizer, FINALIZER_ORPHAN) || streq(finalizer, FINALIZER_FOREGROUND);
}

/* The finalizers the propagation policy asks for; the others stay. */
static void set_finalizers(struct json *metadata, const char *propagation)
{
    const struct json *old = json_get(metadata, "finalizers");
    struct json *now = json_array_make();

    if (!propagation) {
        json_unref(now);
        return;
    }
    for (size_t i = 0; i < json_size(old); i++)
        if (!ours(json_str_or(json_item(old, i), "")))
            json_push(now, json_ref(json_item(old, i)));
    if (streq(propagation, "Orphan"))
        json_push(now, json_string(FINALIZER_ORPHAN));
    else if (streq(propagation, "Foreground"))
        json_push(now, json_string(FINALIZER_FOREGROUND));
    if (json_size(now) > 0) {
        json_set(metadata, "finalizers", now);
    } else {
        json_unref(now);
        json_remove(metadata, "finalizers");
    }
}

static void set_deletion_time(struct json *metadata, int64_t ns, int64_t grace)
{
    char text[TIME_RFC3339_MAX];

    time_format_rfc3339(ns, 0, text);
    json_set_str(metadata, "deletionTimestamp", text);
    json_set_int(metadata, "deletionGracePeriodSeconds", grace);
}

/* Begins the deletion, or shortens it. */
static void mark(const struct api_call *c, struct json *object, int64_t grace)
{
    struct json *metadata = json_get(object, "metadata");
    int64_t old_grace = json_int_or(json_get(metadata, "deletionGracePeriodSeconds"), 0), at;

    if (!object_deleting(object)) {
        set_deletion_time(metadata, clock_now(c->server->clock) + grace * NSEC_PER_SEC, grace);
        if (json_has(metadata, "generation"))
            json_set_int(metadata, "generation", object_generation(object) + 1);
        const struct strategy *strategy = strategy_for(c->resource);
        if (strategy->mark_deleted)
            strategy->mark_deleted(object);
    } else if (grace < old_grace && time_parse_rfc3339(json_str_or(json_get(metadata, "deletionTimestamp"), ""), &at)) {
        set_deletion_time(metadata, at + (grace - old_grace) * NSEC_PER_SEC, grace);
    }
}

/* What a deletion that is complete answers. */
static struct json *deleted_answer(const struct api_call *c, const struct json *last)
{
    struct api_subject s = api_subject(c);

    return c->resource->returns_deleted ? object_shown(c->resource, last) : status_success(&s, object_uid(last));
}

static int remove_now(struct api_call *c, struct stored *current, struct json *last)
{
    struct apiserver *s = c->server;
    struct error err = ERROR_INIT;
    struct stored *before = stored_ref(current);
    struct json *kept = json_ref(last);
    int r = store_delete(s->store, c->resource->store_name, before->key, last, before->revision, &err);

    if (r < 0) {
        (void)api_fail_store(c, &err);
        error_clear(&err);
    } else {
        c->result.revision = store_revision(s->store);
        (void)api_answer(c, 200, deleted_answer(c, kept));
        api_after_change(s, c->resource, before->value, NULL);
    }
    json_unref(kept);
    stored_unref(before);
    return r;
}

static int keep_marked(struct api_call *c, struct stored *current, struct json *object)
{
    struct error err = ERROR_INIT;

    if (json_equal(object, current->value)) {
        json_unref(object);
        return api_answer_stored(c, 200, current);
    }
    struct stored *before = stored_ref(current);
    struct stored *stored =
        stored_ref(store_put(c->server->store, c->resource->store_name, before->key, object, before->revision, &err));
    if (stored) {
        (void)api_answer_stored(c, 200, stored);
        api_after_change(c->server, c->resource, before->value, stored->value);
    } else {
        (void)api_fail_store(c, &err);
        error_clear(&err);
    }
    int r = stored ? 0 : -1;
    stored_unref(stored);
    stored_unref(before);
    return r;
}

static int delete_one(struct api_call *c, const struct delete_options *o, struct stored *current)
{
    const struct strategy *strategy = strategy_for(c->resource);
    _cleanup_json_ struct json *object = json_copy_shallow(current->value);
    struct json *metadata = json_own(object, "metadata");
    int64_t grace = strategy->grace ? strategy->grace(c->server, current->value, o->grace_seconds) : 0;

    if (check_preconditions(c, o, current) < 0 ||
        (strategy->check_delete && strategy->check_delete(c, current->value) < 0))
        return -1;
    set_finalizers(metadata, o->propagation);
    bool held = json_size(json_get(metadata, "finalizers")) > 0 || object_spec_finalizers(c->resource, object) > 0;
    if (held || grace > 0)
        mark(c, object, grace);
    if (o->dry_run)
        return api_answer(c, 200, held || grace > 0 ? object_shown(c->resource, object) : deleted_answer(c, object));
    if (held || grace > 0)
        return keep_marked(c, current, take_ptr(object));
    return remove_now(c, current, take_ptr(object));
}

void api_delete(struct api_call *c)
{
    struct delete_options options;
    struct stored *current;

    if (options_read_delete(c, &options) == 0 && (current = api_current(c)))
        (void)delete_one(c, &options, current);
}

/* One after the other; what is gone meanwhile is no failure. */
void api_delete_collection(struct api_call *c)
{
    struct delete_options options;

    if (options_read_delete(c, &options) < 0)
        return;
    struct api_call list = *c;
    list.verb = VERB_LIST;
    list.result = (struct api_result){0};
    api_list(&list);
    if (list.result.code >= 400) {
        c->result = list.result;
        return;
    }
    struct api_result result = list.result;
    for (size_t i = 0; i < result.item_count; i++) {
        struct api_call one = *c;
        one.ns = object_namespace(result.items[i]->value);
        one.name = object_name(result.items[i]->value);
        one.result = (struct api_result){0};
        struct stored *current = store_get(c->server->store, c->resource->store_name, result.items[i]->key);
        bool failed = current && delete_one(&one, &options, current) < 0 && one.result.code != 404;
        result.revision = MAX(result.revision, one.result.revision);
        if (failed) {
            api_result_clear(&result);
            c->result = one.result;
            return;
        }
        api_result_clear(&one.result);
    }
    free(take_ptr(result.continue_token));
    result.list_revision = store_revision(c->server->store);
    c->result = result;
}
