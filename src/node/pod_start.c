/* Starting the sandbox of a Pod's container, or finding it again. */
#include "node/pod_internal.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "node/blank.h"
#include "node/claims.h"
#include "node/image/reference.h"
#include "node/native/uid_range.h"
#include "node/volumes.h"
#include "sandbox/paths.h"

#include <fcntl.h>
#include <inttypes.h>

#define IMAGE_RETRY_FIRST_S 10
#define RETRY_FIRST_S 1
#define RETRY_MAX_S 300
#define SETTLE_MS 2
#define BEGUN_MAX 64
#define START_TOLD_NS (500 * NSEC_PER_MSEC)

char *pod_socket(const struct pod *p)
{
    return path_guest_socket(p->node->run_dir, p->uid);
}

/* Inputs. */

static char *input_key(enum pod_ref_kind kind, const char *name)
{
    return xasprintf("%s:%s", kind == POD_REF_SECRET ? "s" : "c", name);
}

static const struct json *get_input(void *arg, enum pod_ref_kind kind, const char *name)
{
    struct pod *p = arg;
    _cleanup_free_ char *key = input_key(kind, name);

    return hashmap_get(&p->inputs, key);
}

/* A request on its way; the Pod may be gone when it is answered. */
struct fetch {
    struct node *node;
    char *uid, *key;
};

static void on_input(void *arg, int status, struct json *object, const struct error *err)
{
    struct fetch *f = arg;
    struct pod *p = pod_find(f->node, f->uid);

    if (p) {
        struct json *old = hashmap_remove(&p->inputs, f->key);
        json_unref(old);
        if (status == 200)
            (void)hashmap_put(&p->inputs, f->key, json_ref(object)); /* removed above */
        else if (status != 404)
            log_warn("cannot read what a Pod refers to", "pod", p->name, "error", error_text(err), NULL);
        if (--p->inputs_pending == 0) {
            p->inputs_ready = true;
            pod_step(p);
        }
    }
    free(f->uid);
    free(f->key);
    free(f);
}

void pod_fetch_inputs(struct pod *p)
{
    _cleanup_free_ struct pod_ref *refs = NULL;
    size_t count = pod_spec_references(&p->spec, &refs);

    p->inputs_ready = count == 0;
    p->inputs_pending = count;
    for (size_t i = 0; i < count; i++) {
        struct fetch *f = xmalloc(sizeof(*f));
        *f = (struct fetch){p->node, xstrdup(p->uid), input_key(refs[i].kind, refs[i].name)};
        const struct kube_request q = {.verb = KUBE_GET,
                                       .resource = refs[i].kind == POD_REF_SECRET ? &KUBE_SECRETS : &KUBE_CONFIGMAPS,
                                       .ns = p->ns,
                                       .name = refs[i].name};
        kube_do(p->node->kube, &q, on_input, f);
    }
}

/* Images. */

/* Looked at anew for each start: the host's certificates and the like may have changed. */
static int find_host_image(struct node *n, struct image *ret, struct error *err)
{
    _cleanup_free_ char *dir = xasprintf("%s/host-image", n->run_dir);

    host_image_done(&n->host_image);
    n->host_image = (struct host_image){0};
    int r = host_image_prepare(dir, &n->host_image, err);
    if (r == 0)
        ret->lowers = strv_append(NULL, xstrdup(n->host_image.skeleton));
    return r;
}

static int find_image(struct pod *p, struct image *ret, struct error *err)
{
    const struct pod_container *c = pod_container(p);
    struct node *n = p->node;
    struct image_ref ref;
    int r = image_ref_parse(c->image, &ref, err);

    if (r < 0)
        return r;
    _cleanup_free_ char *name = ref.name, *data = path_pod_data(n->data_dir, p->uid);
    _cleanup_free_ char *hold = xasprintf("%s/layers", data);
    *ret = (struct image){.id = xstrdup("")};
    switch (ref.kind) {
    case IMAGE_HOST:
        return find_host_image(n, ret, err);
    case IMAGE_DIR:
        if (access(name, F_OK) < 0) {
            r = error_set_errno(err, errno, "image dir:%s", name);
            error_set_reason(err, "ErrImagePull");
            return r;
        }
        ret->lowers = strv_append(NULL, xstrdup(name));
        return 0;
    case IMAGE_NAMED:
        break;
    }
    image_clear(ret);
    _cleanup_error_ struct error why = ERROR_INIT;
    r = image_store_lookup(n->images, name, hold, ret, &why);
    if (r == -ENOENT) {
        r = error_set(err, ENOENT,
                      "image \"%s\" is not on this node, and holt fetches none: import it with "
                      "`holt image import %s PATH` (a directory or tar of docker save, an OCI layout, or a "
                      "root file system)",
                      c->image, c->image);
        error_set_reason(err, c->pull_policy == PULL_NEVER ? "ErrImageNeverPull"
                              : p->failures                ? "ImagePullBackOff"
                                                           : "ErrImagePull");
    } else if (r < 0) {
        (void)error_move(err, &why);
    }
    return r;
}

/* Files of the node's in the root: a lower above the image's, read-only to the backend, copied up when written to. */

static void add_hosts(const struct pod *p, struct strbuf *out)
{
    const struct json *aliases = json_at(p->object, "spec", "hostAliases", NULL);
    const char *subdomain = json_str(json_at(p->object, "spec", "subdomain", NULL));

    strbuf_adds(out, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n");
    strbuf_addf(out, "%s\t", p->state.pod_ip ? p->state.pod_ip : "127.0.1.1");
    if (subdomain)
        strbuf_addf(out, "%s.%s.%s.svc.cluster.local ", p->spec.hostname, subdomain, p->ns);
    strbuf_addf(out, "%s\n", p->spec.hostname);
    for (size_t i = 0; i < json_size(aliases); i++) {
        const struct json *alias = json_item(aliases, i), *names = json_get(alias, "hostnames");
        strbuf_adds(out, json_str_or(json_get(alias, "ip"), ""));
        for (size_t k = 0; k < json_size(names); k++)
            strbuf_addf(out, "%c%s", k ? ' ' : '\t', json_str_or(json_item(names, k), ""));
        strbuf_addc(out, '\n');
    }
}

static void add_resolver(const struct pod *p, struct strbuf *out)
{
    const struct json *config = json_at(p->object, "spec", "dnsConfig", NULL);
    const struct json *servers = json_get(config, "nameservers"), *searches = json_get(config, "searches");

    for (size_t i = 0; i < json_size(servers); i++)
        strbuf_addf(out, "nameserver %s\n", json_str_or(json_item(servers, i), ""));
    if (!json_size(servers))
        strbuf_adds(out, "nameserver 127.0.0.1\n"); /* every address of a sandbox is the egress's */
    for (size_t i = 0; i < json_size(searches); i++)
        strbuf_addf(out, "%s%s", i ? " " : "search ", json_str_or(json_item(searches, i), ""));
    if (json_size(searches))
        strbuf_addc(out, '\n');
}

static int put_file(const char *dir, const char *name, const char *text, struct error *err)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));

    return r < 0 ? error_set_errno(err, -r, "write %s", path) : 0;
}

static int fill_etc(const struct pod *p, const char *lower, struct error *err)
{
    _cleanup_(strbuf_free) struct strbuf hosts = {0}, resolver = {0};
    _cleanup_free_ char *etc = xasprintf("%s/etc", lower), *hostname = xasprintf("%s\n", p->spec.hostname);

    add_hosts(p, &hosts);
    add_resolver(p, &resolver);
    int r = put_file(etc, "hosts", strbuf_str(&hosts), err);
    if (r == 0)
        r = put_file(etc, "resolv.conf", strbuf_str(&resolver), err);
    return r < 0 ? r : put_file(etc, "hostname", hostname, err);
}

/* The pieces of one start; everything in them outlives the call of the backend only. */
struct start {
    struct image image;
    struct pod_process process;
    struct volume_set volumes;
    char *data, *run; /* D/pods/<uid>, R/pods/<uid> */
    char *upper, *lower, *message;
    char **lowers;
    struct native_mount *mounts;
    size_t mount_count;
    int socket;
    int net_ns; /* 0 = none was prepared */
};

static void start_clear(struct start *s)
{
    image_clear(&s->image);
    pod_process_clear(&s->process);
    volume_set_clear(&s->volumes);
    free(s->data);
    free(s->run);
    free(s->upper);
    free(s->lower);
    free(s->message);
    strv_free(s->lowers);
    free(s->mounts);
    if (s->socket >= 0)
        (void)close(s->socket);
    if (s->net_ns > 0)
        (void)close(s->net_ns);
}

/* A first start takes a blank; a later one finds most of it there. */
static int make_dirs(struct pod *p, struct start *s, struct error *err)
{
    struct node *n = p->node;
    struct blank blank;

    if (!p->state.uid_base && blanks_take(n->blanks, s->data, s->run, &blank)) {
        s->socket = blank.socket;
        s->net_ns = blank.net_ns;
        p->state.uid_base = blank.uid_base;
        return fill_etc(p, s->lower, err);
    }
    int r = blank_make_data(s->data, err);
    if (r == 0)
        r = blank_make_run(s->run, n->options.gid, err);
    return r < 0 ? r : fill_etc(p, s->lower, err);
}

static void collect_mounts(struct pod *p, struct start *s, bool host_image)
{
    const struct host_image *host = &p->node->host_image;
    size_t host_count = host_image ? host->mount_count : 0;

    s->mounts = xcalloc(host_count + s->volumes.count + 1, sizeof(*s->mounts));
    for (size_t i = 0; i < host_count; i++)
        s->mounts[s->mount_count++] = host->mounts[i];
    for (size_t i = 0; i < s->volumes.count; i++)
        s->mounts[s->mount_count++] = s->volumes.mounts[i];
    /* The file that the container may leave its last words in. */
    s->mounts[s->mount_count++] = (struct native_mount){.kind = NATIVE_MOUNT_BIND,
                                                        .source = s->message,
                                                        .target = pod_container(p)->message_path,
                                                        .no_exec = true,
                                                        .idmap = true};
}

static int prepare(struct pod *p, struct start *s, struct error *err)
{
    struct node *n = p->node;
    const struct pod_container *c = pod_container(p);
    const struct pod_sources sources = {.get = get_input,
                                        .arg = p,
                                        .pod_ip = p->state.pod_ip ? p->state.pod_ip : "",
                                        .host_ip = n->ip,
                                        .node_cpu_millis = n->cpu_millis,
                                        .node_memory_bytes = n->memory_bytes};

    s->data = path_pod_data(n->data_dir, p->uid);
    s->run = path_pod_run(n->run_dir, p->uid);
    s->upper = xasprintf("%s/" POD_ROOT, s->data);
    s->message = xasprintf("%s/" POD_MESSAGE, s->data);
    s->lower = xasprintf("%s/" POD_LOWER, s->run);
    const struct volume_context volumes = {
        .pod_data = s->data, .pod_run = s->run, .sources = &sources, .claim_path = claims_path, .claim_arg = n->claims};
    int r = make_dirs(p, s, err);
    if (r == 0)
        r = find_image(p, &s->image, err);
    if (r == 0)
        r = pod_process_make(&p->spec, c, &s->image, &sources, &s->process, err);
    if (r == 0)
        r = volumes_make(&p->spec, c, &volumes, &s->volumes, err);
    if (r == 0 && s->socket < 0)
        r = s->socket = blank_make_socket(s->run, n->options.gid, err);
    if (r < 0)
        return r;
    collect_mounts(p, s, streq(c->image, "host"));
    s->lowers = strv_append(NULL, xstrdup(s->lower));
    for (char **l = s->image.lowers; l && *l; l++)
        s->lowers = strv_append(s->lowers, xstrdup(*l));
    return 0;
}

static int take_uid_range(struct pod *p, struct error *err)
{
    _cleanup_free_ char *owner = node_owner(p->node);

    return p->state.uid_base ? 0 : uid_range_claim(UID_RANGE_DIR, owner, &p->state.uid_base, err);
}

static int spawn(struct pod *p, const struct start *s, struct error *err)
{
    const struct pod_container *c = pod_container(p);
    const struct native_spec spec = {
        .id = p->state.sandbox_id,
        .hostname = p->spec.hostname,
        .uid_base = p->state.uid_base,
        .lowers = (const char *const *)s->lowers,
        .lower_count = strv_len(s->lowers),
        .upper_dir = s->upper,
        .read_only_root = c->read_only_root,
        .mounts = s->mounts,
        .mount_count = s->mount_count,
        .limits = c->limits,
        .guest_socket = s->socket,
        .net_ns = s->net_ns,
        .capabilities = c->capabilities,
        .strict = true,
    };
    struct native_sandbox sandbox = {.pidfd = -1};
    int r = node_spawn(p->node, &spec, &sandbox, err);

    if (sandbox.pidfd >= 0)
        (void)close(sandbox.pidfd); /* its end is heard of by the link, and reaped by SIGCHLD */
    return r;
}

/* What is to be kept of a start, but not to be waited for: the status is on its way out first. */

struct settling {
    struct node *node;
    char *uid;
};

static void on_settle(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct settling *s = arg;
    struct pod *p = pod_find(s->node, s->uid);

    if (p && p->link) {
        pod_save(p);
        log_file_make(p->log);
    }
    free(s->uid);
    free(s);
}

static void settle_later(struct pod *p)
{
    struct settling *s = xmalloc(sizeof(*s));
    struct timeval tv = {.tv_usec = SETTLE_MS * 1000};

    *s = (struct settling){p->node, xstrdup(p->uid)};
    if (event_base_once(p->node->base, -1, EV_TIMEOUT, on_settle, s, &tv) < 0)
        on_settle(-1, 0, s);
}

static void on_started(void *arg)
{
    struct pod *p = arg;
    struct container_record *c = pod_record(p);

    p->sandbox = p->sandbox == SANDBOX_STARTING ? SANDBOX_RUNNING : p->sandbox;
    p->failures = 0;
    if (c->phase != CONTAINER_RUNNING) {
        c->phase = CONTAINER_RUNNING;
        c->started_ns = p->adopted ? pod_told_start_ns(p) : time_now_ns();
    }
    probes_start(p); /* says whether it is started and ready */
    pod_step(p);
    settle_later(p);
}

static void on_exited(void *arg, const struct guest_exit *exit)
{
    pod_ended(arg, exit);
}

static void on_lost(void *arg, const struct error *err UNUSED)
{
    pod_ended(arg, NULL);
}

static void on_refused(void *arg, const struct error *err)
{
    struct pod *p = arg;
    int code = err->code == ENOENT                                                   ? 127
               : err->code == EACCES || err->code == ENOEXEC || err->code == ENOTDIR ? 126
                                                                                     : 128;

    pod_not_started(p, code, error_text(err));
}

static void on_log_rotated(void *arg)
{
    struct pod *p = arg;

    for (size_t i = 0; i < GUEST_STREAM_COUNT; i++)
        pod_record(p)->log_base[i] = log_file_base(p->log, i);
    pod_save(p);
}

static const struct link_callbacks link_callbacks = {
    .started = on_started, .exited = on_exited, .refused = on_refused, .lost = on_lost, .log_rotated = on_log_rotated};

static int open_log(struct pod *p, struct error *err)
{
    const struct container_record *c = pod_record(p);
    _cleanup_free_ char *dir = path_container_logs(p->node->data_dir, p->ns, p->name, p->uid, pod_container(p)->name);

    log_file_close(p->log);
    p->log = log_file_open(dir, c->restarts, c->log_base, p->node->options.gid, err);
    return p->log ? 0 : -EIO;
}

static char *begun_path(const struct pod *p)
{
    _cleanup_free_ char *run = path_pod_run(p->node->run_dir, p->uid);

    return xasprintf("%s/" POD_BEGUN, run);
}

bool pod_begun(const struct pod *p)
{
    _cleanup_free_ char *path = begun_path(p), *id = NULL;

    return p->state.sandbox_id && file_read_at(AT_FDCWD, path, BEGUN_MAX, &id, NULL, NULL) == 0 &&
           streq(id, p->state.sandbox_id);
}

static int note_begun(const struct pod *p, struct error *err)
{
    _cleanup_free_ char *path = begun_path(p);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : fd_write_all(fd, p->state.sandbox_id, strlen(p->state.sandbox_id));

    return r < 0 ? error_set_errno(err, -r, "write %s", path) : 0;
}

int64_t pod_told_start_ns(const struct pod *p)
{
    static const char *const lists[] = {"containerStatuses", "initContainerStatuses"};
    const struct container_record *c = &p->state.containers[p->state.current];
    int64_t ns;

    for (size_t l = 0; c->id && l < ARRAY_LEN(lists); l++) {
        const struct json *list = json_at(p->object, "status", lists[l], NULL);
        for (size_t i = 0; i < json_size(list); i++) {
            const struct json *status = json_item(list, i);
            const char *began = json_str_at(status, "state", "running", "startedAt", NULL);
            if (began && streq(json_str_or(json_get(status, "containerID"), ""), c->id) &&
                time_parse_rfc3339(began, &ns))
                return ns;
        }
    }
    return time_now_ns();
}

static int start_process(struct pod *p, const struct start *s, struct error *err)
{
    const struct pod_container *c = pod_container(p);
    const struct pod_process *process = &s->process;
    const struct guest_start_request request = {
        .id = GUEST_MAIN_ID,
        .argv = (const char *const *)process->argv,
        .env = (const char *const *)process->env,
        .cwd = process->cwd,
        .set_uid = true,
        .set_gid = true,
        .uid = process->uid,
        .gid = process->gid,
        .groups = process->groups,
        .group_count = process->group_count,
        .flags = GUEST_FLAG_MAIN | GUEST_FLAG_LOSSLESS | (c->tty ? GUEST_FLAG_TTY : 0u) |
                 (c->stdin_open ? GUEST_FLAG_STDIN : 0u),
    };
    _cleanup_free_ char *socket = pod_socket(p);

    if (note_begun(p, err) < 0)
        return -EIO;
    p->link = link_start(p->node->base, socket, &request, p->log, &link_callbacks, p, err);
    return p->link ? 0 : -EIO;
}

/* Waits with the reason, and tries again later and less and less often. */
static void start_failed(struct pod *p, const struct error *err)
{
    const char *reason = err->reason ? err->reason : "CreateContainerError";
    bool image = strncmp(reason, "ErrImage", 8) == 0 || streq(reason, "ImagePullBackOff");
    int64_t delay = image ? IMAGE_RETRY_FIRST_S : RETRY_FIRST_S;

    for (int64_t i = 0; i < p->failures && delay < RETRY_MAX_S; i++)
        delay *= 2;
    p->failures++;
    p->not_before_ns = err->code == EAGAIN ? time_now_ns() + 50 * NSEC_PER_MSEC
                                           : time_now_ns() + MIN(delay, RETRY_MAX_S) * NSEC_PER_SEC;
    container_set_waiting(pod_record(p), reason, error_text(err));
    pod_warn(p, "Failed", error_text(err));
    p->inputs_ready = false;
}

void pod_start(struct pod *p)
{
    _cleanup_(start_clear) struct start s = {.socket = -1};
    _cleanup_error_ struct error err = ERROR_INIT;
    struct container_record *c = pod_record(p);
    int r = prepare(p, &s, &err);

    if (r == 0)
        r = take_uid_range(p, &err);
    if (r == 0)
        r = open_log(p, &err);
    if (r < 0) {
        start_failed(p, &err);
        return;
    }
    free(p->state.sandbox_id);
    p->state.sandbox_id = xasprintf("%s-%zu-%" PRId64, p->uid, p->state.current, c->restarts);
    free(c->id);
    c->id = xasprintf("holt://%s", p->state.sandbox_id);
    free(c->image_id);
    c->image_id = xstrdup(s.image.id);
    p->state.stop_signal = s.image.config.stop_signal;
    pod_note_resources(p);
    /* Kept before the sandbox exists: what a crash leaves is found by it. */
    pod_save(p);
    p->killed = p->adopted = false;
    r = spawn(p, &s, &err);
    if (r < 0) {
        p->sandbox = SANDBOX_ENDED; /* there may be parts of it */
        start_failed(p, &err);
        return;
    }
    p->sandbox = SANDBOX_STARTING;
    p->start_told_ns = time_now_ns() + START_TOLD_NS;
    p->state.sandbox = true;
    if (start_process(p, &s, &err) < 0)
        pod_not_started(p, 128, error_text(&err));
}

void pod_adopt(struct pod *p)
{
    struct container_record *c = pod_record(p);
    _cleanup_error_ struct error err = ERROR_INIT;

    p->has_exited = c->phase == CONTAINER_TERMINATED && !p->state.phase;
    if (!p->state.sandbox_id)
        return;
    p->sandbox = SANDBOX_ENDED; /* unless the guest answers */
    p->adopted = true;
    if (c->phase == CONTAINER_TERMINATED || p->state.phase)
        return;
    _cleanup_free_ char *socket = pod_socket(p);
    int r = open_log(p, &err);
    if (r == 0)
        p->link = link_attach(p->node->base, socket, p->log, &link_callbacks, p, &err);
    if (p->link) {
        p->sandbox = c->phase == CONTAINER_RUNNING ? SANDBOX_RUNNING : SANDBOX_STARTING;
        p->state.sandbox = true;
        pod_follow_resources(p, &pod_container(p)->limits); /* it may have changed while nobody looked */
        return;
    }
    log_warn("a sandbox ended while the node was away", "pod", p->name, "error", error_text(&err), NULL);
    if (c->phase == CONTAINER_RUNNING || pod_begun(p))
        pod_ended(p, NULL);
}
