#include "gateway/internal.h"

#include "apiserver/api_error.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "sandbox/paths.h"

#include <fcntl.h>

static int open_pod(const struct gateway *g, const struct json *pod, struct error *err)
{
    if (!path_component_ok(object_uid(pod)))
        return error_set(err, EINVAL, "pod %s has no usable uid", object_name(pod));
    _cleanup_free_ char *path = path_pod_run(g->run_dir, object_uid(pod));
    int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    return dir >= 0 ? dir : error_set(err, ENOENT, "pod %s is not running on this node", object_name(pod));
}

int gateway_check_guest(const struct gateway *g, const struct json *pod, struct error *err)
{
    _cleanup_close_ int dir = open_pod(g, pod, err);

    if (dir >= 0 && faccessat(dir, "guest.sock", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return error_set(err, ENOENT, "pod %s is not running on this node", object_name(pod));
    return MIN(dir, 0);
}

int gateway_connect_guest(const struct gateway *g, const struct json *pod, struct error *err)
{
    _cleanup_close_ int dir = open_pod(g, pod, err);

    if (dir < 0)
        return dir;
    /* Never waits: a sandbox that accepts no more must not hold up the others. */
    int fd = unix_connect_nonblock_at(dir, "guest.sock", NULL);

    if (fd == -EAGAIN)
        return error_set(err, EAGAIN, "pod %s does not answer: too many connections wait for it", object_name(pod));
    if (fd < 0)
        return error_set(err, ENOENT, "pod %s is not running on this node", object_name(pod));
    return fd;
}

void gateway_refuse(struct http_request *req, struct json *status)
{
    _cleanup_free_ char *text = json_text(status);

    http_respond(req, status_code(status), "application/json", text, strlen(text));
    json_unref(status);
}

void gateway_refuse_error(struct http_request *req, const struct error *err)
{
    gateway_refuse(req, err->code == EAGAIN ? status_failure(503, "ServiceUnavailable", error_text(err), NULL)
                                            : status_bad_request("%s", error_text(err)));
}

static void on_pod(void *arg, const struct kube_resource *r UNUSED, struct json *old, struct json *new)
{
    if (old || new)
        gateway_logs_changed(arg, new ? new : old, !new);
}

struct gateway *gateway_new(struct event_base *base, struct informer *pods, const char *data_dir, const char *run_dir)
{
    struct gateway *g = xcalloc(1, sizeof(*g));

    g->base = base;
    g->pods = pods;
    g->data_dir = xstrdup(data_dir);
    g->run_dir = xstrdup(run_dir);
    g->backend = (struct stream_backend){.arg = g,
                                         .usage = gateway_usage,
                                         .exec = gateway_exec,
                                         .attach = gateway_attach,
                                         .log = gateway_log,
                                         .port_forward = gateway_port_forward,
                                         .proxy = gateway_proxy};
    informer_subscribe(pods, on_pod, g);
    return g;
}

void gateway_free(struct gateway *g)
{
    if (!g)
        return;
    gateway_logs_free(g);
    gateway_usage_free(g);
    free(g->data_dir);
    free(g->run_dir);
    free(g);
}

const struct stream_backend *gateway_streams(struct gateway *g)
{
    return &g->backend;
}
