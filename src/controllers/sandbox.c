#include "controllers/sandbox.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "sandbox/blueprint.h"
#include "sandbox/keys.h"

#define SERVICE_NAME_MAX 63

static void PRINTF_LIKE(2, 3) add_error(struct sandbox_state *s, const char *fmt, ...)
{
    va_list ap;

    if (s->errors.len)
        strbuf_adds(&s->errors, "; ");
    va_start(ap, fmt);
    strbuf_vaddf(&s->errors, fmt, ap);
    va_end(ap);
}

/* An unowned object of the expected name may be taken over only if its owner said so, or it already carries our label.
 */
static bool may_adopt(const struct sandbox_state *s, const struct json *object)
{
    char hash[SANDBOX_HASH_SIZE];

    sandbox_name_hash(object_name(s->sandbox), hash);
    return streq_null(object_label(object, KEY_ADOPTABLE), "true") ||
           streq_null(object_label(object, KEY_NAME_HASH), hash);
}

static struct json *adoption_patch(const struct sandbox_state *s, const struct json *object)
{
    struct json *refs = json_copy_shallow(json_at(object, "metadata", "ownerReferences", NULL));
    char hash[SANDBOX_HASH_SIZE];

    if (!refs)
        refs = json_array_make();
    json_push(refs, owner_reference(s->sandbox));
    sandbox_name_hash(object_name(s->sandbox), hash);
    return json_build("{s:{s:s, s:s, s:o, s:{s:s}}}", "metadata", "uid", object_uid(object), "resourceVersion",
                      json_str(json_at(object, "metadata", "resourceVersion", NULL)), "ownerReferences", refs, "labels",
                      KEY_NAME_HASH, hash);
}

enum claim { CLAIM_OURS, CLAIM_ADOPTED, CLAIM_REFUSED };

/* Whether an existing object of our name is ours, becomes ours (added to the plan), or is another's (an error). */
static enum claim claim(struct sandbox_state *s, const struct kube_resource *r, const struct json *object)
{
    const struct json *controller = object_controller(object);

    if (object_controlled_by(object, object_uid(s->sandbox)))
        return CLAIM_OURS;
    if (controller) {
        add_error(s, "%s %s is controlled by %s %s", r->kind, object_name(object),
                  json_str_or(json_get(controller, "kind"), "another object"),
                  json_str_or(json_get(controller, "name"), ""));
        return CLAIM_REFUSED;
    }
    if (!may_adopt(s, object)) {
        add_error(s, "%s %s exists and is not adoptable: label it %s=true or delete it", r->kind, object_name(object),
                  KEY_ADOPTABLE);
        return CLAIM_REFUSED;
    }
    plan_patch(s->plan, r, object_namespace(object), object_name(object), NULL, adoption_patch(s, object));
    return CLAIM_ADOPTED;
}

/* Two templates of one name would be one claim. */
static bool is_duplicate(const struct json *templates, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (streq(object_name(json_item(templates, i)), object_name(json_item(templates, index))))
            return true;
    return false;
}

static void reconcile_claims(struct sandbox_state *s)
{
    const struct json *templates = json_at(s->sandbox, "spec", "volumeClaimTemplates", NULL);

    for (size_t i = 0; i < json_size(templates); i++) {
        const struct json *template = json_item(templates, i);
        _cleanup_free_ char *name = sandbox_pvc_name(s->sandbox, template);
        const struct json *pvc = s->world->get(s->world, &KUBE_PVCS, object_namespace(s->sandbox), name);

        if (!*object_name(template)) {
            add_error(s, "spec.volumeClaimTemplates[%zu].metadata.name is missing", i);
            s->permanent = true;
        } else if (is_duplicate(templates, i)) {
            add_error(s, "spec.volumeClaimTemplates[%zu].metadata.name: there is another template named %s", i,
                      object_name(template));
            s->permanent = true;
        } else if (!pvc) {
            plan_create(s->plan, &KUBE_PVCS, sandbox_build_pvc(s->sandbox, template));
        } else {
            (void)claim(s, &KUBE_PVCS, pvc);
        }
    }
}

/* The pod-name annotation of the Sandbox; value NULL removes it. */
static void annotate(struct sandbox_state *s, const char *value)
{
    struct json *annotations = json_object_make();

    if (streq_null(object_annotation(s->sandbox, KEY_POD_NAME), value)) {
        json_unref(annotations);
        return;
    }
    json_set(annotations, KEY_POD_NAME, value ? json_string(value) : NULL);
    plan_patch(s->plan, &KUBE_SANDBOXES, object_namespace(s->sandbox), object_name(s->sandbox), NULL,
               json_build("{s:{s:o}}", "metadata", "annotations", annotations));
}

/* The Pod that the annotation names, or else the one of our name, whosever it is. */
static const struct json *named_pod(const struct sandbox_state *s)
{
    const char *ns = object_namespace(s->sandbox), *name = object_annotation(s->sandbox, KEY_POD_NAME);
    const struct json *pod = name ? s->world->get(s->world, &KUBE_PODS, ns, name) : NULL;

    return pod ? pod : s->world->get(s->world, &KUBE_PODS, ns, object_name(s->sandbox));
}

/* Finds the owned Pod, more than one, or a stranger in its place. */
static void find_pod(struct sandbox_state *s)
{
    char hash[SANDBOX_HASH_SIZE];
    size_t owned = 0;

    sandbox_name_hash(object_name(s->sandbox), hash);
    _cleanup_json_ struct json *pods =
        s->world->labelled(s->world, &KUBE_PODS, object_namespace(s->sandbox), KEY_NAME_HASH, hash);
    for (size_t i = 0; i < json_size(pods); i++) {
        if (!object_controlled_by(json_item(pods, i), object_uid(s->sandbox)))
            continue;
        owned++;
        s->pod = json_item(pods, i); /* also held by the cache */
    }
    if (owned > 1) {
        s->pod = NULL;
        s->multiple_pods = true;
        return;
    }
    if (s->pod)
        return;
    const struct json *other = named_pod(s);
    if (other && object_controlled_by(other, object_uid(s->sandbox)))
        s->pod = other; /* lost its label */
    else
        s->foreign_pod = other;
}

static void suspend_pod(struct sandbox_state *s)
{
    if (s->pod && !object_deleting(s->pod))
        plan_delete(s->plan, &KUBE_PODS, object_namespace(s->pod), object_name(s->pod), object_uid(s->pod), -1, NULL);
    if (!s->pod)
        annotate(s, NULL);
}

static void run_pod(struct sandbox_state *s)
{
    const char *ns = object_namespace(s->sandbox), *name = object_name(s->sandbox);

    if (s->foreign_pod) {
        enum claim answer = claim(s, &KUBE_PODS, s->foreign_pod);

        annotate(s, answer == CLAIM_REFUSED ? NULL : object_name(s->foreign_pod));
        return;
    }
    if (!s->pod) {
        plan_create(s->plan, &KUBE_PODS, sandbox_build_pod(s->sandbox));
        annotate(s, name);
        return;
    }
    annotate(s, object_name(s->pod));
    struct json *patch = object_deleting(s->pod) ? NULL : sandbox_pod_metadata_patch(s->sandbox, s->pod);
    if (patch)
        plan_patch(s->plan, &KUBE_PODS, ns, object_name(s->pod), NULL, patch);
}

static bool headless(const struct json *service)
{
    const char *ip = json_str_or(json_at(service, "spec", "clusterIP", NULL), "");

    return !*ip || streq(ip, "None");
}

static void adopt_or_create_service(struct sandbox_state *s, const struct json *existing)
{
    if (!existing) {
        if (strlen(object_name(s->sandbox)) > SERVICE_NAME_MAX) {
            add_error(s,
                      "metadata.name is longer than %d characters, which no Service can have: use a shorter name or "
                      "set spec.service to false",
                      SERVICE_NAME_MAX);
            s->permanent = true;
            return;
        }
        plan_create(s->plan, &KUBE_SERVICES, sandbox_build_service(s->sandbox));
        return;
    }
    if (!object_controller(existing) && !headless(existing)) {
        add_error(s, "Service %s exists and is not headless: it cannot be adopted", object_name(existing));
        return;
    }
    (void)claim(s, &KUBE_SERVICES, existing);
}

static bool wants_suspension(const struct json *sandbox)
{
    return streq(json_str_or(json_at(sandbox, "spec", "operatingMode", NULL), "Running"), "Suspended");
}

/* spec.service: true = keep one, false = none, unset = keep one that is already ours. */
static void reconcile_service(struct sandbox_state *s)
{
    const struct json *wanted = json_at(s->sandbox, "spec", "service", NULL);
    const struct json *existing =
        s->world->get(s->world, &KUBE_SERVICES, object_namespace(s->sandbox), object_name(s->sandbox));
    bool owned = existing && object_controlled_by(existing, object_uid(s->sandbox));

    if (json_is(wanted, JSON_BOOL) && !json_bool_or(wanted, false)) {
        if (owned && !object_deleting(existing))
            plan_delete(s->plan, &KUBE_SERVICES, object_namespace(existing), object_name(existing),
                        object_uid(existing), -1, NULL);
        return;
    }
    s->service_wanted = json_bool_or(wanted, false) || owned;
    if (owned) {
        struct json *patch = sandbox_service_patch(s->sandbox, existing, json_bool_or(wanted, false));
        s->service = existing;
        if (patch)
            plan_patch(s->plan, &KUBE_SERVICES, object_namespace(existing), object_name(existing), NULL, patch);
    } else if (s->service_wanted) {
        adopt_or_create_service(s, existing);
    }
}

/* For the status alone. */
static void find_service(struct sandbox_state *s)
{
    const struct json *service =
        s->world->get(s->world, &KUBE_SERVICES, object_namespace(s->sandbox), object_name(s->sandbox));

    if (service && object_controlled_by(service, object_uid(s->sandbox)))
        s->service = service;
}

static void report_multiple_pods(struct sandbox_state *s)
{
    const struct json *ready = condition_find(json_at(s->sandbox, "status", "conditions", NULL), "Ready");

    find_service(s); /* left as it is */
    add_error(s, "more than one Pod is owned by this Sandbox: delete all but one");
    s->permanent = true;
    if (!streq(json_str_or(json_get(ready, "reason"), ""), "MultiplePods"))
        plan_event(s->plan, s->sandbox, "Warning", "MultiplePods", "Reconciling", s->errors.data,
                   sandbox_controller.name, s->world->now_ns);
}

/* Past shutdownTime: the status first, then Pod and Service, then the object itself or what is kept of its status. */
static void expire(struct sandbox_state *s)
{
    const char *ns = object_namespace(s->sandbox), *name = object_name(s->sandbox);

    s->suspended = wants_suspension(s->sandbox);
    find_pod(s);
    find_service(s);
    if (!sandbox_write_expired(s))
        return;
    if (s->pod && !object_deleting(s->pod))
        plan_delete(s->plan, &KUBE_PODS, ns, object_name(s->pod), object_uid(s->pod), -1, NULL);
    if (s->service && !object_deleting(s->service))
        plan_delete(s->plan, &KUBE_SERVICES, ns, name, object_uid(s->service), -1, NULL);
    if (streq(json_str_or(json_at(s->sandbox, "spec", "shutdownPolicy", NULL), "Retain"), "Delete"))
        plan_delete(s->plan, &KUBE_SANDBOXES, ns, name, object_uid(s->sandbox), -1, NULL);
    else
        sandbox_reduce_status(s);
}

/* False: unset or not a time (which validation has refused already). */
static bool shutdown_time(const struct json *sandbox, int64_t *ret_ns)
{
    const char *text = json_str(json_at(sandbox, "spec", "shutdownTime", NULL));

    return text && time_parse_rfc3339(text, ret_ns);
}

static void reconcile(const struct world *w, const char *ns, const char *name, struct plan *plan)
{
    struct sandbox_state s = {.world = w, .plan = plan, .sandbox = w->get(w, &KUBE_SANDBOXES, ns, name)};
    int64_t shutdown;

    if (!s.sandbox || object_deleting(s.sandbox))
        return;
    if (shutdown_time(s.sandbox, &shutdown)) {
        if (w->now_ns >= shutdown) {
            expire(&s);
            return;
        }
        plan_requeue_at(plan, shutdown);
    }
    s.suspended = wants_suspension(s.sandbox);
    reconcile_claims(&s);
    find_pod(&s);
    if (s.multiple_pods)
        report_multiple_pods(&s);
    else if (s.suspended)
        suspend_pod(&s);
    else if (!s.errors.len || s.pod)
        run_pod(&s);
    if (!s.multiple_pods)
        reconcile_service(&s);
    if (s.errors.len) {
        (void)error_set(&plan->failure, EEXIST, "%s", s.errors.data);
        plan->permanent = s.permanent;
    }
    sandbox_write_status(&s);
    strbuf_free(&s.errors);
}

/* What the Sandbox asks for is refused, such as a Pod that is none: its Ready condition says why. */
static void refused(const struct world *w, const char *ns, const char *name, const struct error *err, struct plan *plan)
{
    struct sandbox_state s = {.world = w, .plan = plan, .sandbox = w->get(w, &KUBE_SANDBOXES, ns, name)};

    if (!s.sandbox || object_deleting(s.sandbox))
        return;
    find_service(&s);
    s.suspended = wants_suspension(s.sandbox);
    find_pod(&s);
    add_error(&s, "%s", error_text(err));
    sandbox_write_status(&s);
    plan->permanent = err->code == EACCES; /* what the namespace allows wakes it when it changes */
    strbuf_free(&s.errors);
}

static const struct kube_resource *const owned[] = {&KUBE_PODS, &KUBE_SERVICES, &KUBE_PVCS, NULL};
static const struct kube_resource *const watched[] = {&KUBE_PODS,   &KUBE_SERVICES,     &KUBE_PVCS,
                                                      &KUBE_QUOTAS, &KUBE_LIMIT_RANGES, NULL};
static const char *const index_labels[] = {KEY_NAME_HASH, NULL};

/* What a namespace allows has changed: those it has refused try again. */
static char **wake_refused(const struct world *w, const char *ns)
{
    _cleanup_json_ struct json *sandboxes = w->list(w, &KUBE_SANDBOXES, ns);
    char **keys = NULL;

    for (size_t i = 0; i < json_size(sandboxes); i++) {
        const struct json *one = json_item(sandboxes, i);
        const struct json *ready = condition_find(json_at(one, "status", "conditions", NULL), "Ready");
        if (strstr(json_str_or(json_get(ready, "message"), ""), " is forbidden: "))
            keys = strv_append(keys, key_make(ns, object_name(one)));
    }
    return keys;
}

/* A Pod, Service or claim of a Sandbox's name that it does not own may block it: its coming and going is of interest.
 */
static char **wake_by_name(const struct world *w, const struct kube_resource *r, const struct json *object)
{
    const char *ns = object_namespace(object), *name = object_name(object);

    if (r == &KUBE_QUOTAS || r == &KUBE_LIMIT_RANGES)
        return wake_refused(w, ns);
    if (r != &KUBE_PVCS)
        return w->get(w, &KUBE_SANDBOXES, ns, name) ? strv_append(NULL, key_make(ns, name)) : NULL;
    /* "<template>-<sandbox>": every tail behind a dash may be the Sandbox. */
    char **keys = NULL;
    for (const char *dash = strchr(name, '-'); dash; dash = strchr(dash + 1, '-'))
        if (w->get(w, &KUBE_SANDBOXES, ns, dash + 1))
            keys = strv_append(keys, key_make(ns, dash + 1));
    return keys;
}

const struct controller sandbox_controller = {
    .name = "sandbox-controller",
    .primary = &KUBE_SANDBOXES,
    .owned = owned,
    .watched = watched,
    .map = wake_by_name,
    .index_labels = index_labels,
    .reconcile = reconcile,
    .refused = refused,
};
