/* Telling the API: the status, and the deletion of the object once nothing of the Pod is left. */
#include "node/pod_internal.h"

#include "base/log.h"
#include "base/memory.h"
#include "kube/object.h"

#define RETRY_NS NSEC_PER_SEC

/* A request on its way; the Pod may be gone when it is answered. */
struct report {
    struct node *node;
    char *uid;
};

static struct report *report_new(const struct pod *p)
{
    struct report *r = xmalloc(sizeof(*r));

    *r = (struct report){p->node, xstrdup(p->uid)};
    return r;
}

/* The Pod of a report, which is freed. */
static struct pod *report_end(struct report *r)
{
    struct pod *p = pod_find(r->node, r->uid);

    free(r->uid);
    free(r);
    return p;
}

static void on_patched(void *arg, int status, struct json *object, const struct error *err)
{
    struct pod *p = report_end(arg);

    if (!p)
        return;
    p->patching = false;
    if (status == 200 && object_revision(object) > object_revision(p->object)) {
        json_unref(p->object);
        p->object = json_ref(object);
    }
    if (status == 404 || status == 409) { /* gone, or another Pod of this name: the watch will say */
        p->patch_again = false;
        return;
    }
    if (status != 200) {
        log_warn("cannot report the status of a Pod; trying again", "pod", p->name, "error", error_text(err), NULL);
        p->patch_retry_ns = time_now_ns() + RETRY_NS;
    }
    if (p->patch_again || status != 200 || object_deleting(p->object))
        pod_step(p);
}

void pod_report(struct pod *p)
{
    int64_t now = time_now_ns();

    /* A start takes milliseconds: what would be told now is old when it arrives, and holds up what follows. */
    bool starting = p->sandbox == SANDBOX_STARTING && now < p->start_told_ns;
    if (p->gone || p->files_gone || starting)
        return;
    if (p->patching) {
        p->patch_again = true;
        return;
    }
    if (p->patch_retry_ns > now)
        return;
    p->patch_again = false;
    p->patch_retry_ns = 0;
    _cleanup_json_ struct json *patch = pod_status_patch(p->object, &p->state, p->node->ip, now);
    if (!patch)
        return;
    json_set(patch, "metadata", json_build("{s:s}", "uid", p->uid));
    const struct kube_request q = {.verb = KUBE_PATCH_MERGE,
                                   .resource = &KUBE_PODS,
                                   .ns = p->ns,
                                   .name = p->name,
                                   .subresource = "status",
                                   .field_manager = "holt-node",
                                   .body = patch};
    p->patching = true;
    kube_do(p->node->kube, &q, on_patched, report_new(p));
}

static void on_deleted(void *arg, int status, struct json *object UNUSED, const struct error *err)
{
    struct pod *p = report_end(arg);

    if (!p)
        return;
    p->deleting_object = false;
    if (status == 200 || status == 202 || status == 404 || status == 409)
        return; /* the watch tells the rest; finalizers of others may keep it */
    log_warn("cannot delete the object of an ended Pod; trying again", "pod", p->name, "error", error_text(err), NULL);
    p->patch_retry_ns = time_now_ns() + RETRY_NS;
    p->delete_again = true;
    pod_step(p);
}

void pod_delete_object(struct pod *p)
{
    if (p->deleting_object)
        return;
    _cleanup_json_ struct json *options =
        json_build("{s:s, s:s, s:i, s:{s:s}}", "apiVersion", "v1", "kind", "DeleteOptions", "gracePeriodSeconds",
                   (int64_t)0, "preconditions", "uid", p->uid);
    const struct kube_request q = {
        .verb = KUBE_DELETE, .resource = &KUBE_PODS, .ns = p->ns, .name = p->name, .body = options};
    p->deleting_object = true;
    p->delete_again = false;
    p->patch_retry_ns = 0;
    kube_do(p->node->kube, &q, on_deleted, report_new(p));
}
