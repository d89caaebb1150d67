/*
 * Removing what belongs to no Pod of this node: sandboxes, directories, ranges of ids, trash. Left by crashes between
 * two steps, or by Pods that were deleted while the node was away. Runs once the Pods are known, then every minute.
 */
#include "node/pod.h"
#include "node/pod_internal.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "node/blank.h"
#include "node/claims.h"
#include "node/native/uid_range.h"
#include "sandbox/paths.h"

#include <dirent.h>
#include <fcntl.h>

#define DESTROY_TIMEOUT_MS 5000
#define UID_LEN 36

struct orphan {
    char *id;
    struct error err;
};

static void destroy_work(void *arg)
{
    struct orphan *o = arg;

    (void)native_destroy(o->id, DESTROY_TIMEOUT_MS, &o->err); /* reported below */
}

static void destroy_done(void *arg)
{
    struct orphan *o = arg;

    if (o->err.code)
        log_warn("cannot remove a sandbox without Pod; trying again at the next sweep", "sandbox", o->id, "error",
                 error_text(&o->err), NULL);
    else
        log_info("removed a sandbox without Pod", "sandbox", o->id, NULL);
    free(o->id);
    error_clear(&o->err);
    free(o);
}

/* A sandbox's id begins with its Pod's uid: pod_start.c. */
static bool sandbox_wanted(struct node *n, const char *id)
{
    size_t len = strlen(id);
    int dashes = 0;

    while (len && dashes < 2)
        dashes += id[--len] == '-';
    _cleanup_free_ char *uid = xstrndup(id, len);
    struct pod *p = pod_find(n, uid);
    return p && streq_null(p->state.sandbox_id, id);
}

static void sweep_sandboxes(struct node *n)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_strv_ char **ids = native_list(&err);

    if (!ids && err.code)
        log_warn("cannot list the sandboxes", "error", error_text(&err), NULL);
    for (char **id = ids; id && *id; id++) {
        if (sandbox_wanted(n, *id))
            continue;
        struct orphan *o = xcalloc(1, sizeof(*o));
        o->id = xstrdup(*id);
        jobs_run(n->jobs, destroy_work, destroy_done, o);
    }
}

/* Each entry of a directory whose name, from skip on, is no uid of a Pod. suffix: the uid is at the end of the name. */
static void sweep_directory(struct node *n, const char *path, bool suffix)
{
    DIR *dir = opendir(path);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t len = strlen(e->d_name);
        const char *uid = suffix && len > UID_LEN ? e->d_name + len - UID_LEN : e->d_name;
        if (*e->d_name == '.' || pod_find(n, uid))
            continue;
        _cleanup_free_ char *entry = xasprintf("%s/%s", path, e->d_name);
        log_info("removing what a Pod left", "path", entry, NULL);
        node_trash(n, entry);
    }
    if (dir)
        (void)closedir(dir);
}

/* Run directories are small and on another file system than the trash. */
static void sweep_run(struct node *n)
{
    _cleanup_free_ char *path = xasprintf("%s/pods", n->run_dir);
    DIR *dir = opendir(path);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        _cleanup_error_ struct error err = ERROR_INIT;
        if (*e->d_name == '.' || pod_find(n, e->d_name))
            continue;
        if (remove_tree_at(dirfd(dir), e->d_name, &err) < 0)
            log_warn("cannot remove what a Pod left", "pod", e->d_name, "error", error_text(&err), NULL);
    }
    if (dir)
        (void)closedir(dir);
}

struct ranges {
    struct node *node;
    char *owner;
    struct hashmap used; /* bases of Pods, as text */
};

static void check_range(void *arg, uint32_t base, const char *owner)
{
    struct ranges *r = arg;
    _cleanup_free_ char *text = xasprintf("%u", base);

    const char *run_dir = str_skip_prefix(owner, "node "); /* node_owner() */
    bool unused = streq(owner, r->owner) && !hashmap_get(&r->used, text) && !blanks_hold(r->node->blanks, base);
    bool abandoned = run_dir && access(run_dir, F_OK) < 0 && errno == ENOENT;
    if (unused || abandoned)
        (void)uid_range_release(UID_RANGE_DIR, base, NULL); /* again at the next sweep */
}

static void sweep_ranges(struct node *n)
{
    struct ranges r = {.node = n, .owner = node_owner(n)};

    for (struct hashmap_iter it = {0}; hashmap_next(&n->pods, &it);) {
        const struct pod *p = it.value;
        _cleanup_free_ char *text = xasprintf("%u", p->state.uid_base);
        (void)hashmap_put(&r.used, text, n); /* a set */
    }
    if (uid_range_list(UID_RANGE_DIR, check_range, &r, NULL) < 0)
        log_debug("no ranges of user ids to look through", NULL);
    hashmap_free(&r.used, NULL);
    free(r.owner);
}

struct trash {
    char *path;
    struct error err;
};

static void empty_work(void *arg)
{
    struct trash *t = arg;
    DIR *dir = opendir(t->path);

    for (struct dirent *e; dir && (e = readdir(dir));)
        if (!streq(e->d_name, ".") && !streq(e->d_name, ".."))
            (void)remove_tree_at(dirfd(dir), e->d_name, &t->err); /* the last failure is reported */
    if (dir)
        (void)closedir(dir);
}

static void empty_done(void *arg)
{
    struct trash *t = arg;

    if (t->err.code)
        log_warn("cannot empty the trash; trying again at the next sweep", "error", error_text(&t->err), NULL);
    free(t->path);
    error_clear(&t->err);
    free(t);
}

static void sweep_all(struct node *n)
{
    _cleanup_free_ char *pods = xasprintf("%s/pods", n->data_dir), *logs = xasprintf("%s/logs", n->data_dir);

    sweep_sandboxes(n);
    sweep_run(n);
    sweep_directory(n, pods, false);
    sweep_directory(n, logs, true);
    sweep_ranges(n);
    if (!n->blanks) /* not before: a range that is just being claimed looks like one left behind */
        n->blanks = blanks_new(n);
    claims_sweep(n->claims);
    struct trash *t = xcalloc(1, sizeof(*t));
    t->path = xasprintf("%s/trash", n->data_dir);
    jobs_run(n->jobs, empty_work, empty_done, t);
}

/*
 * Only the API server that the data directory belongs to can tell what is gone: a node that was pointed at another one
 * by mistake must not remove everything.
 */
static void on_cluster(void *arg, int status, struct json *object, const struct error *err UNUSED)
{
    struct node *n = arg;
    _cleanup_free_ char *path = xasprintf("%s/cluster", n->data_dir), *known = NULL;
    _cleanup_error_ struct error why = ERROR_INIT;
    const char *uid = object_uid(object);

    if (status != 200)
        return; /* not known now: at the next sweep */
    int r = file_read_at(AT_FDCWD, path, 100, &known, NULL, &why);
    if (r == -ENOENT)
        r = file_write_atomic_at(AT_FDCWD, path, uid, strlen(uid), 0600, &why);
    else if (r == 0 && !streq(known, uid))
        r = error_set(&why, EINVAL, "%s belongs to another API server (remove %s if that one is gone)", n->data_dir,
                      path);
    if (r < 0) {
        log_error("what Pods left is not removed", "error", error_text(&why), NULL);
        return;
    }
    n->same_cluster = true;
    sweep_all(n);
}

void node_sweep(struct node *n)
{
    const struct kube_request q = {.verb = KUBE_GET, .resource = &KUBE_NAMESPACES, .name = "kube-system"};

    if (n->same_cluster)
        sweep_all(n);
    else
        kube_do(n->kube, &q, on_cluster, n);
}
