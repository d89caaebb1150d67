#include "apiserver/merge_patch.h"

static struct json *merge(const struct json *doc, const struct json *patch)
{
    if (!json_is(patch, JSON_OBJECT))
        return json_ref((struct json *)patch);
    struct json *result = json_is(doc, JSON_OBJECT) ? json_copy_shallow(doc) : json_object_make();

    for (struct json_iter it = {0}; json_each(patch, &it);) {
        if (it.value)
            json_set(result, it.key, merge(json_get(doc, it.key), it.value));
        else
            json_remove(result, it.key);
    }
    return result;
}

struct json *merge_patch_apply(const struct json *doc, const struct json *patch, struct error *err)
{
    if (json_is(patch, JSON_OBJECT))
        return merge(doc, patch);
    (void)error_set(err, EINVAL, "a merge patch is an object");
    return NULL;
}
