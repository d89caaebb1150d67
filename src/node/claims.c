#include "node/claims.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/informer.h"
#include "kube/object.h"
#include "node/pod.h"
#include "node/pod_internal.h"
#include "sandbox/paths.h"

#include <dirent.h>

#define MANAGER "holt-node"
#define BOUND_BY "pv.kubernetes.io/bind-completed"

struct claims {
    struct node *node;
    struct informer *informer;
    struct hashmap binding; /* uid → claims: requests are on their way */
    struct hashmap gone;    /* "ns/name-uid" → struct json *: the claim, whose data is to be removed */
};

static char *volume_name(const struct json *claim)
{
    return xasprintf("pvc-%s", object_uid(claim));
}

static char *claim_path(const struct node *n, const struct json *claim)
{
    return path_pvc(n->data_dir, object_namespace(claim), object_name(claim), object_uid(claim));
}

static bool identity_ok(const struct json *claim)
{
    return path_component_ok(object_namespace(claim)) && path_component_ok(object_name(claim)) &&
           path_component_ok(object_uid(claim));
}

static bool is_block(const struct json *claim)
{
    return streq(json_str_or(json_at(claim, "spec", "volumeMode", NULL), "Filesystem"), "Block");
}

char *claims_path(void *arg, const char *ns, const char *name, struct error *err)
{
    struct claims *c = arg;
    struct json *claim = informer_get(c->informer, ns, name);

    if (claim && is_block(claim)) {
        (void)error_set(err, EINVAL,
                        "persistentvolumeclaim \"%s\": spec.volumeMode: block volumes are not supported by "
                        "this node",
                        name);
        error_set_reason(err, REASON_CONFIG);
        return NULL;
    }
    if (claim && !object_deleting(claim) && identity_ok(claim))
        return claim_path(c->node, claim);
    (void)error_set(err, ENOENT, "persistentvolumeclaim \"%s\" %s", name, claim ? "is being deleted" : "not found");
    error_set_reason(err, REASON_CONFIG);
    return NULL;
}

/* Binding: a volume is made, then the claim points at it, then both say so. Each step may be repeated. */

struct binding {
    struct claims *claims;
    struct json *claim;
    enum { BIND_VOLUME, BIND_CLAIM, BIND_CLAIM_STATUS, BIND_VOLUME_STATUS, BIND_DONE } step;
};

static struct json *make_volume(const struct node *n, const struct json *claim)
{
    const struct json *spec = json_get(claim, "spec");
    _cleanup_free_ char *name = volume_name(claim), *path = claim_path(n, claim);
    struct json *modes = json_get(spec, "accessModes"), *size = json_at(spec, "resources", "requests", NULL);
    struct json *affinity =
        json_build("{s:{s:[{s:[{s:s, s:s, s:[s]}]}]}}", "required", "nodeSelectorTerms", "matchExpressions", "key",
                   "kubernetes.io/hostname", "operator", "In", "values", n->options.name);

    return json_build("{s:s, s:s, s:{s:s}, s:{s:O, s:O, s:s, s:s, s:s, s:{s:s}, s:o, s:{s:s, s:s, s:s, s:s, s:s}}}",
                      "apiVersion", "v1", "kind", "PersistentVolume", "metadata", "name", name, "spec", "capacity",
                      size, "accessModes", modes, "persistentVolumeReclaimPolicy", "Delete", "storageClassName",
                      json_str_or(json_get(spec, "storageClassName"), ""), "volumeMode", "Filesystem", "local", "path",
                      path, "nodeAffinity", affinity, "claimRef", "apiVersion", "v1", "kind", "PersistentVolumeClaim",
                      "namespace", object_namespace(claim), "name", object_name(claim), "uid", object_uid(claim));
}

static void bind_step(struct binding *b);

static void binding_free(struct binding *b)
{
    (void)hashmap_remove(&b->claims->binding, object_uid(b->claim)); /* the value is no object */
    json_unref(b->claim);
    free(b);
}

static void on_bound(void *arg, int status, struct json *object UNUSED, const struct error *err)
{
    struct binding *b = arg;
    bool exists = b->step == BIND_VOLUME && status == 409;

    if (status != 200 && status != 201 && !exists) {
        if (status != 404) /* not deleted meanwhile */
            log_warn("cannot bind a claim", "claim", object_name(b->claim), "error", error_text(err), NULL);
        binding_free(b);
        return;
    }
    b->step++;
    bind_step(b);
}

static void bind_step(struct binding *b)
{
    const struct json *claim = b->claim, *spec = json_get(claim, "spec");
    struct json *modes = json_get(spec, "accessModes"), *size = json_at(spec, "resources", "requests", NULL);
    struct node *n = b->claims->node;
    _cleanup_free_ char *volume = volume_name(claim);
    _cleanup_json_ struct json *body = NULL;
    struct kube_request q = {.verb = KUBE_PATCH_MERGE,
                             .resource = &KUBE_PVCS,
                             .ns = object_namespace(claim),
                             .name = object_name(claim),
                             .field_manager = MANAGER};

    switch (b->step) {
    case BIND_VOLUME:
        body = make_volume(n, claim);
        q = (struct kube_request){.verb = KUBE_CREATE, .resource = &KUBE_PVS, .field_manager = MANAGER};
        break;
    case BIND_CLAIM:
        body = json_build("{s:{s:s, s:{s:s}}, s:{s:s}}", "metadata", "uid", object_uid(claim), "annotations", BOUND_BY,
                          "yes", "spec", "volumeName", volume);
        break;
    case BIND_CLAIM_STATUS:
        body = json_build("{s:{s:s}, s:{s:s, s:O, s:O}}", "metadata", "uid", object_uid(claim), "status", "phase",
                          "Bound", "accessModes", modes, "capacity", size);
        q.subresource = "status";
        break;
    case BIND_VOLUME_STATUS:
        body = json_build("{s:{s:s}}", "status", "phase", "Bound");
        q = (struct kube_request){.verb = KUBE_PATCH_MERGE,
                                  .resource = &KUBE_PVS,
                                  .name = volume,
                                  .subresource = "status",
                                  .field_manager = MANAGER};
        break;
    case BIND_DONE:
        binding_free(b);
        return;
    }
    q.body = body;
    kube_do(n->kube, &q, on_bound, b);
}

static bool may_bind(struct claims *c, const struct json *claim)
{
    const struct json *spec = json_get(claim, "spec");
    const char *volume = json_str_or(json_get(spec, "volumeName"), "");
    _cleanup_free_ char *ours = volume_name(claim);

    if (object_deleting(claim) || !identity_ok(claim) ||
        streq(json_str_or(json_at(claim, "status", "phase", NULL), ""), "Bound") ||
        hashmap_get(&c->binding, object_uid(claim)))
        return false;
    if (*volume && !streq(volume, ours))
        return false; /* for a volume that somebody else provides */
    if (is_block(claim)) {
        node_event(c->node, claim, "Warning", "ProvisioningFailed",
                   "spec.volumeMode: block volumes are not supported by this node");
        return false;
    }
    return true;
}

static void bind_claim(struct claims *c, struct json *claim)
{
    if (!may_bind(c, claim))
        return;
    struct binding *b = xcalloc(1, sizeof(*b));
    *b = (struct binding){.claims = c, .claim = json_ref(claim)};
    (void)hashmap_put(&c->binding, object_uid(claim), c); /* not there, by may_bind */
    bind_step(b);
}

/* Removing. */

static bool pod_mounts(const struct pod *p, const struct json *claim)
{
    if (!pod_has_sandbox(p) || !streq(p->ns, object_namespace(claim)))
        return false;
    for (size_t i = 0; i < p->spec.volume_count; i++)
        if (p->spec.volumes[i].kind == POD_VOLUME_PVC &&
            streq(json_str_or(json_get(p->spec.volumes[i].source, "claimName"), ""), object_name(claim)))
            return true;
    return false;
}

static void on_volume_deleted(void *arg UNUSED, int status, struct json *object UNUSED, const struct error *err)
{
    if (status != 200 && status != 404)
        log_warn("cannot delete the volume of a claim that is gone", "error", error_text(err), NULL);
}

static void remove_claim(struct claims *c, const struct json *claim)
{
    _cleanup_free_ char *path = claim_path(c->node, claim), *volume = volume_name(claim);
    const struct kube_request q = {.verb = KUBE_DELETE, .resource = &KUBE_PVS, .name = volume};

    node_trash(c->node, path);
    kube_do(c->node->kube, &q, on_volume_deleted, c);
}

void claims_collect(struct claims *c)
{
    for (struct hashmap_iter it = {0}; hashmap_next(&c->gone, &it);) {
        _cleanup_json_ struct json *claim = json_ref(it.value);
        bool used = false;
        for (struct hashmap_iter pods = {0}; !used && hashmap_next(&c->node->pods, &pods);)
            used = pod_mounts(pods.value, claim);
        if (used)
            continue;
        json_unref(hashmap_remove(&c->gone, it.key));
        remove_claim(c, claim);
    }
}

static void claim_is_gone(struct claims *c, struct json *claim)
{
    if (!identity_ok(claim))
        return;
    _cleanup_free_ char *path = claim_path(c->node, claim);
    json_unref(hashmap_put(&c->gone, path, json_ref(claim)));
    claims_collect(c);
}

/* Claims that were deleted while the node was away have directories and no object. */

static void sweep_namespace(struct claims *c, DIR *dir, const char *ns)
{
    for (struct dirent *e; (e = readdir(dir));) {
        bool known = false;
        if (*e->d_name == '.')
            continue;
        _cleanup_json_ struct json *claims = informer_list(c->informer, ns);
        for (size_t i = 0; !known && i < json_size(claims); i++) {
            _cleanup_free_ char *path = claim_path(c->node, json_item(claims, i));
            const char *last = strrchr(path, '/');
            known = last && streq(last + 1, e->d_name);
        }
        if (known)
            continue;
        _cleanup_free_ char *path = xasprintf("%s/volumes/pvc/%s/%s", c->node->data_dir, ns, e->d_name);
        log_info("removing the data of a claim that is gone", "path", path, NULL);
        node_trash(c->node, path);
    }
}

void claims_sweep(struct claims *c)
{
    claims_collect(c);
    if (!informer_synced(c->informer))
        return;
    _cleanup_free_ char *root = xasprintf("%s/volumes/pvc", c->node->data_dir);
    DIR *dir = opendir(root);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (*e->d_name == '.')
            continue;
        _cleanup_free_ char *path = xasprintf("%s/%s", root, e->d_name);
        DIR *ns = opendir(path);
        if (!ns)
            continue;
        sweep_namespace(c, ns, e->d_name);
        (void)closedir(ns);
    }
    if (dir)
        (void)closedir(dir);
}

static void on_changed(void *arg, const struct kube_resource *r UNUSED, struct json *old, struct json *new)
{
    struct claims *c = arg;

    if (!old && !new) {
        pods_retry(c->node);
    } else if (new) {
        bind_claim(c, new);
        if (!old)
            pods_retry(c->node);
    } else {
        claim_is_gone(c, old);
    }
}

struct claims *claims_new(struct node *n)
{
    struct claims *c = xcalloc(1, sizeof(*c));

    c->node = n;
    c->informer = informer_new(n->kube, &KUBE_PVCS, NULL, NULL, NULL);
    informer_subscribe(c->informer, on_changed, c);
    return c;
}

void claims_free(struct claims *c)
{
    if (!c)
        return;
    informer_free(c->informer);
    hashmap_free(&c->binding, NULL);
    hashmap_free(&c->gone, (void (*)(void *))json_unref);
    free(c);
}
