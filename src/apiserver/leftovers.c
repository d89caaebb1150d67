#include "apiserver/leftovers.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

void leftovers_clear(struct leftovers *l)
{
    strbuf_free(&l->resources);
    hashmap_free(&l->finalizers, NULL);
    free(l->failure);
    *l = (struct leftovers){0};
}

void leftovers_add(struct leftovers *l, const struct resource *r, size_t count)
{
    if (count == 0)
        return;
    l->objects += count;
    strbuf_addf(&l->resources, "%s%s.%s has %zu resource instances", l->resources.len ? ", " : "", r->plural, r->group,
                count);
}

void leftovers_add_finalizers(struct leftovers *l, const struct json *object)
{
    const struct json *list = json_at(object, "metadata", "finalizers", NULL);

    for (size_t i = 0; i < json_size(list); i++) {
        const char *name = json_str_or(json_item(list, i), "");
        size_t before = (size_t)hashmap_get(&l->finalizers, name);
        (void)hashmap_put(&l->finalizers, name, (void *)(before + 1)); /* a number: nothing to free */
    }
}

void leftovers_add_failure(struct leftovers *l, const char *why)
{
    l->failures++;
    if (!l->failure)
        l->failure = xstrdup(why);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "a.b/c in 2 resource instances, ..." in the order of the names; the caller frees. */
static char *finalizers_text(const struct leftovers *l)
{
    struct strbuf out = {0};
    char **names = NULL;
    size_t count = 0;

    for (struct hashmap_iter it = {0}; hashmap_next(&l->finalizers, &it); count++)
        names = strv_append(names, xstrdup(it.key));
    if (count > 1)
        qsort(names, count, sizeof(*names), by_name);
    for (size_t i = 0; i < count; i++)
        strbuf_addf(&out, "%s%s in %zu resource instances", i ? ", " : "", names[i],
                    (size_t)hashmap_get(&l->finalizers, names[i]));
    strv_free(names);
    return strbuf_detach(&out);
}

static void set(struct json *conditions, const char *type, bool value, const char *reason, const char *message,
                int64_t now_ns)
{
    (void)condition_set(conditions, type, value ? "True" : "False", reason, message, -1,
                        now_ns); /* who stores it sees whether anything changed */
}

void leftovers_namespace_conditions(const struct leftovers *l, struct json *conditions, int64_t now_ns)
{
    bool held = l->finalizers.count > 0;
    _cleanup_free_ char *names = finalizers_text(l);
    _cleanup_free_ char *failed =
        xasprintf("Failed to delete all resource types, %zu remaining: %s", l->failures, l->failure ? l->failure : "");
    _cleanup_free_ char *remain =
        xasprintf("Some resources are remaining: %s", l->resources.len ? strbuf_str(&l->resources) : "");
    _cleanup_free_ char *finalizers = xasprintf("Some content in the namespace has finalizers remaining: %s", names);

    set(conditions, "NamespaceDeletionDiscoveryFailure", false, "ResourcesDiscovered",
        "All resources successfully discovered", now_ns);
    set(conditions, "NamespaceDeletionGroupVersionParsingFailure", false, "ParsedGroupVersions",
        "All legacy kube types successfully parsed", now_ns);
    set(conditions, "NamespaceDeletionContentFailure", l->failures > 0,
        l->failures ? "ContentDeletionFailed" : "ContentDeleted",
        l->failures ? failed : "All content successfully deleted, may be waiting on finalization", now_ns);
    set(conditions, "NamespaceContentRemaining", l->objects > 0, l->objects ? "SomeResourcesRemain" : "ContentRemoved",
        l->objects ? remain : "All content successfully removed", now_ns);
    set(conditions, "NamespaceFinalizersRemaining", held, held ? "SomeFinalizersRemain" : "ContentHasNoFinalizers",
        held ? finalizers : "All content-preserving finalizers finished", now_ns);
}

void leftovers_definition_condition(const struct leftovers *l, struct json *conditions, int64_t now_ns)
{
    _cleanup_free_ char *names = finalizers_text(l);
    _cleanup_free_ char *message =
        xasprintf("CustomResource deletion is in progress, %zu remaining%s%s%s%s", l->objects,
                  *names ? "; finalizers: " : "", names, l->failure ? "; failed: " : "", l->failure ? l->failure : "");

    set(conditions, "Terminating", true, "InstanceDeletionInProgress", message, now_ns);
}
