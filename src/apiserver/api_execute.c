/* From a call to its handler. */
#include "apiserver/permits.h"
#include "apiserver/quota.h"
#include "apiserver/review.h"
#include "apiserver/scale.h"
#include "apiserver/strategy.h"

#include "base/strutil.h"

static int refuse_method(struct api_call *c)
{
    struct api_subject s = api_subject(c);

    return api_fail(c, status_no_method(&s, verb_name(c->verb)));
}

struct json *api_refused(const struct api_call *c)
{
    struct api_subject s = api_subject(c);

    if (c->verb == VERB_CREATE || c->verb == VERB_UPDATE || c->verb == VERB_PATCH)
        return status_forbidden(&s, c->resource->refused, NULL);
    return *c->name ? status_not_found(&s) : status_failure(405, "MethodNotAllowed", c->resource->refused, NULL);
}

/* Whether the resource, or its subresource, has the verb at all. */
static int check_verb(struct api_call *c)
{
    if (c->resource->refused)
        return api_fail(c, api_refused(c));
    if (!*c->subresource)
        return resource_has_verb(c->resource, verb_name(c->verb)) ? 0 : refuse_method(c);
    const struct resource_subresource *sub = resource_subresource(c->resource, c->subresource);
    if (!sub)
        return api_fail(c, status_no_resource());
    for (size_t i = 0; sub->verbs[i]; i++)
        if (streq(sub->verbs[i], verb_name(c->verb)))
            return 0;
    return refuse_method(c);
}

void api_execute(struct api_call *c)
{
    const struct strategy *strategy = strategy_for(c->resource);

    if (check_verb(c) < 0)
        return;
    if (c->resource->deprecation_warning)
        api_warn(c, "%s", c->resource->deprecation_warning);
    if (streq(c->subresource, "scale")) {
        scale_execute(c);
        return;
    }
    if (*c->subresource && strategy->act && strategy->act(c))
        return;
    switch (c->verb) {
    case VERB_GET:
        api_get(c);
        break;
    case VERB_LIST:
        api_list(c);
        break;
    case VERB_CREATE:
        if (*c->name)
            (void)refuse_method(c);
        else if (!c->resource->stored)
            review_execute(c);
        else
            api_create(c);
        break;
    case VERB_UPDATE:
        api_update(c);
        break;
    case VERB_PATCH:
        api_patch(c);
        break;
    case VERB_DELETE:
        api_delete(c);
        break;
    case VERB_DELETE_COLLECTION:
        api_delete_collection(c);
        break;
    case VERB_WATCH:
    case VERB_COUNT:
        (void)refuse_method(c);
        break;
    }
}

void api_after_change(struct apiserver *s, const struct resource *r, const struct json *old, const struct json *new)
{
    const struct strategy *strategy = strategy_for(r);

    if (strategy->after)
        strategy->after(s, old, new);
    quotas_changed(s->quotas, r, old, new);
    if (!new)
        permits_object_gone(s->permits, r);
}
