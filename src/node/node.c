#include "node/node.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "kube/plan.h"
#include "node/blank.h"
#include "node/claims.h"
#include "node/pod.h"
#include "node/usage.h"
#include "sandbox/paths.h"

#include <dirent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/wait.h>

#define SWEEP_S 60
#define STORAGE_S 10
#define STATE_MAX (1u << 20)
#define COMPONENT "holt-node"

/* Services for the other files. */

static void on_event_sent(void *arg UNUSED, int status, struct json *object UNUSED, const struct error *err)
{
    if (status >= 400 && status != 404 && status != 403) /* the namespace is going away */
        log_warn("cannot send an Event", "error", error_text(err), NULL);
}

void node_event(struct node *n, const struct json *object, const char *type, const char *reason, const char *message)
{
    struct plan plan = {0};

    plan_event(&plan, object, type, reason, reason, message, COMPONENT, time_now_ns());
    const struct kube_request q = {.verb = KUBE_CREATE,
                                   .resource = &KUBE_EVENTS,
                                   .ns = plan.ops[0].ns,
                                   .field_manager = COMPONENT,
                                   .body = plan.ops[0].body};
    kube_do(n->kube, &q, on_event_sent, n);
    plan_free(&plan);
}

int node_spawn(struct node *n, const struct native_spec *spec, struct native_sandbox *ret, struct error *err)
{
    int r = n->zygote ? zygote_spawn(n->zygote, spec, ret, err) : -ESRCH;

    if (r != -ESRCH)
        return r;
    if (n->zygote) {
        log_warn("the zygote has ended; starting another", NULL);
        zygote_stop(n->zygote);
    }
    error_clear(err);
    n->zygote = zygote_start(err);
    return n->zygote ? zygote_spawn(n->zygote, spec, ret, err) : -ESRCH;
}

char *node_owner(const struct node *n)
{
    return xasprintf("node %s", n->run_dir);
}

struct trash {
    char *path;
    struct error err;
};

static void trash_work(void *arg)
{
    struct trash *t = arg;

    (void)remove_tree_at(AT_FDCWD, t->path, &t->err); /* reported below */
}

static void trash_done(void *arg)
{
    struct trash *t = arg;

    if (t->err.code)
        log_warn("cannot remove a tree; trying again at the next sweep", "error", error_text(&t->err), NULL);
    free(t->path);
    error_clear(&t->err);
    free(t);
}

void node_trash(struct node *n, const char *path)
{
    _cleanup_free_ char *unique = random_hex(8), *to = xasprintf("%s/trash/%s", n->data_dir, unique);

    if (rename(path, to) < 0) {
        if (errno != ENOENT)
            log_warn("cannot move a tree to the trash; trying again at the next sweep", "path", path, NULL);
        return;
    }
    struct trash *t = xcalloc(1, sizeof(*t));
    t->path = take_ptr(to);
    jobs_run(n->jobs, trash_work, trash_done, t);
}

static void tidy_images(void *arg)
{
    image_store_tidy(arg);
}

/* Watching. */

void node_check_ready(struct node *n)
{
    if (n->ready || !n->pods_known || !n->registered)
        return;
    n->ready = true;
    log_info("the node is ready", "name", n->options.name, NULL);
    if (n->options.ready)
        n->options.ready(n->options.arg);
}

static void on_pod(void *arg, enum kube_event_type type, struct json *object)
{
    struct node *n = arg;

    if (type == KUBE_BOOKMARK || (n->stopping && type != KUBE_DELETED)) /* the ends are waited for */
        return;
    if (type == KUBE_DELETED)
        pod_gone(n, object_uid(object));
    else
        pod_update(n, object);
}

static void on_storage(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct node *n = arg;
    struct timeval tv = {.tv_sec = STORAGE_S};

    for (struct hashmap_iter it = {0}; hashmap_next(&n->pods, &it);)
        pod_check_storage(it.value);
    (void)evtimer_add(n->storage_timer, &tv);
}

static void on_pods_synced(void *arg, int64_t revision UNUSED)
{
    struct node *n = arg;
    struct timeval tv = {.tv_sec = SWEEP_S};

    if (n->pods_known)
        return;
    n->pods_known = true;
    node_sweep(n);
    (void)evtimer_add(n->sweep_timer, &tv);
    on_storage(-1, 0, n);
    node_check_ready(n);
}

static const struct kube_watch_callbacks pod_callbacks = {.event = on_pod, .synced = on_pods_synced};

static void on_sweep(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct node *n = arg;
    struct timeval tv = {.tv_sec = SWEEP_S};

    node_sweep(n);
    (void)evtimer_add(n->sweep_timer, &tv);
}

/* An image was imported. */
static void on_images(evutil_socket_t fd, short what UNUSED, void *arg)
{
    char events[4096];

    while (read(fd, events, sizeof(events)) > 0) /* which one does not matter */
        ;
    pods_retry(arg);
}

/* Sandboxes are children of this process; who waits for their end hears of it by their socket. */
static void on_child(evutil_socket_t fd UNUSED, short what UNUSED, void *arg UNUSED)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static int watch_images(struct node *n, struct error *err)
{
    _cleanup_free_ char *refs = xasprintf("%s/images/refs", n->data_dir);

    n->images_notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (n->images_notify < 0 || inotify_add_watch(n->images_notify, refs, IN_MOVED_TO) < 0)
        return error_set_errno(err, errno, "watch %s", refs);
    n->images_event = event_new(n->base, n->images_notify, EV_READ | EV_PERSIST, on_images, n);
    if (!n->images_event || event_add(n->images_event, NULL) < 0)
        return error_set(err, ENOMEM, "create an event");
    return 0;
}

/* Starting. */

static int make_dirs(struct node *n, struct error *err)
{
    const struct {
        const char *root, *path;
        mode_t mode;
    } dirs[] = {
        {n->options.data_dir, "pods", 0700},  {n->options.data_dir, "volumes", 0700},
        {n->options.data_dir, "trash", 0700}, {n->options.data_dir, "logs", 0750},
        {n->options.data_dir, "blank", 0700}, {n->options.run_dir, "blank", 0700},
        {n->options.run_dir, "pods", 0750},
    };

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        _cleanup_close_ int root = mkdirs_at(AT_FDCWD, dirs[i].root, 0755, err);
        if (root < 0)
            return root;
        /* Blanks of an earlier run. */
        if (streq(dirs[i].path, "blank") && remove_tree_at(root, "blank", err) < 0)
            return error_wrap(err, "%s", dirs[i].root);
        _cleanup_close_ int dir = mkdirs_at(root, dirs[i].path, dirs[i].mode, err);
        if (dir < 0)
            return dir;
        bool group = dirs[i].mode == 0750 && n->options.gid != (gid_t)-1;
        if (group && fchownat(dir, "", (uid_t)-1, n->options.gid, AT_EMPTY_PATH) < 0)
            return error_set_errno(err, errno, "set the group of %s/%s", dirs[i].root, dirs[i].path);
    }
    n->data_dir = realpath(n->options.data_dir, NULL);
    n->run_dir = realpath(n->options.run_dir, NULL);
    if (!n->data_dir || !n->run_dir)
        return error_set_errno(err, errno, "resolve the node's directories");
    return 0;
}

/* Addresses of Pods that are known from before, so that new Pods do not get them. */
static void take_addresses(struct node *n)
{
    _cleanup_free_ char *path = xasprintf("%s/pods", n->run_dir);
    DIR *dir = opendir(path);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        _cleanup_free_ char *state = xasprintf("%s/state.json", e->d_name), *text = NULL;
        size_t len;
        if (*e->d_name == '.' || file_read_at(dirfd(dir), state, STATE_MAX, &text, &len, NULL) < 0)
            continue;
        _cleanup_json_ struct json *v = json_parse(text, len, NULL);
        (void)address_pool_take_this(&n->addresses, json_str(json_get(v, "podIP"))); /* a wrong one is left out */
    }
    if (dir)
        (void)closedir(dir);
}

static int start(struct node *n, struct error *err)
{
    n->pod_options = (struct pod_spec_options){.allow_dir_images = n->options.allow_dir_images,
                                               .host_path_prefixes = n->options.host_path_prefixes};
    if (n->options.cgroup_parent)
        native_set_cgroup_parent(n->options.cgroup_parent);
    int r = make_dirs(n, err);
    if (r < 0)
        return r;
    n->jobs = jobs_new(n->base, err);
    n->images = n->jobs ? image_store_open(n->data_dir, NULL, err) : NULL;
    if (!n->images)
        return -EIO;
    jobs_run(n->jobs, tidy_images, NULL, n->images);
    r = watch_images(n, err);
    if (r < 0)
        return r;
    n->child_event = evsignal_new(n->base, SIGCHLD, on_child, n);
    n->sweep_timer = evtimer_new(n->base, on_sweep, n);
    n->storage_timer = evtimer_new(n->base, on_storage, n);
    if (!n->child_event || event_add(n->child_event, NULL) < 0 || !n->sweep_timer || !n->storage_timer)
        return error_set(err, ENOMEM, "create an event");
    take_addresses(n);
    /* The first use takes a tenth of a second: not with a Pod waiting. */
    _cleanup_free_ char *host_image = xasprintf("%s/host-image", n->run_dir);
    _cleanup_error_ struct error without = ERROR_INIT;
    if (host_image_prepare(host_image, &n->host_image, &without) < 0)
        log_warn("the image \"host\" cannot be made", "error", error_text(&without), NULL);
    r = node_object_start(n, err);
    if (r < 0)
        return r;
    n->claims = claims_new(n);
    n->usage = usage_server_new(n, err);
    if (!n->usage)
        return -err->code;
    _cleanup_free_ char *selector = xasprintf("spec.nodeName=%s", n->options.name);
    n->pod_watch = kube_watch_start(n->kube, &KUBE_PODS, NULL, NULL, selector, &pod_callbacks, n);
    return 0;
}

struct node *node_new(struct event_base *base, struct kube *k, struct zygote *zygote,
                      const struct node_options *options, struct error *err)
{
    struct node *n = xcalloc(1, sizeof(*n));

    *n = (struct node){.base = base, .kube = k, .options = *options, .zygote = zygote, .images_notify = -1};
    if (start(n, err) == 0)
        return n;
    node_free(n);
    return NULL;
}

static void detach_all(struct node *n)
{
    for (struct hashmap_iter it = {0}; hashmap_next(&n->pods, &it);)
        pod_detach(it.value);
}

void node_free(struct node *n)
{
    if (!n)
        return;
    if (n->pod_watch)
        kube_watch_stop(n->pod_watch);
    detach_all(n);
    hashmap_free(&n->pods, NULL);
    usage_server_free(n->usage);
    claims_free(n->claims);
    node_object_stop(n);
    struct event *events[] = {n->child_event, n->images_event, n->sweep_timer, n->storage_timer};
    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        if (events[i])
            event_free(events[i]);
    if (n->images_notify >= 0)
        (void)close(n->images_notify);
    jobs_free(n->jobs);
    blanks_free(n->blanks);
    image_store_close(n->images);
    host_image_done(&n->host_image);
    zygote_stop(n->zygote);
    native_remove_cgroup_parent();
    free(n->data_dir);
    free(n->run_dir);
    free(n->ip);
    free(n);
}

void node_stop_sandboxes(struct node *n)
{
    _cleanup_strv_ char **uids = NULL;

    n->stopping = true;
    for (struct hashmap_iter it = {0}; hashmap_next(&n->pods, &it);)
        uids = strv_append(uids, xstrdup(it.key));
    for (char **uid = uids; uid && *uid; uid++) {
        void *p = hashmap_get(&n->pods, *uid);
        if (p)
            pod_stop_for_shutdown(p);
    }
    if (!n->pods.count)
        (void)event_base_loopbreak(n->base);
}
