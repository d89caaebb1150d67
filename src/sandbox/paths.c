#include "sandbox/paths.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <inttypes.h>

#define COMPONENT_MAX 253
/* Names are for people: with namespace and uid beside them they must stay below the 255 bytes of a file name. */
#define SHOWN_NAME_MAX 150

bool path_component_ok(const char *s)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = s ? strlen(s) : 0;

    return len > 0 && len <= COMPONENT_MAX && strspn(s, allowed) == len && !streq(s, ".") && !streq(s, "..");
}

char *path_pod_run(const char *run_dir, const char *uid)
{
    return xasprintf("%s/pods/%s", run_dir, uid);
}

char *path_node_socket(const char *run_dir)
{
    return xasprintf("%s/node.sock", run_dir);
}

char *path_guest_socket(const char *run_dir, const char *uid)
{
    return xasprintf("%s/pods/%s/guest.sock", run_dir, uid);
}

char *path_pod_data(const char *data_dir, const char *uid)
{
    return xasprintf("%s/pods/%s", data_dir, uid);
}

char *path_pod_logs(const char *data_dir, const char *ns, const char *pod, const char *uid)
{
    return xasprintf("%s/logs/%s_%.*s_%s", data_dir, ns, SHOWN_NAME_MAX, pod, uid);
}

char *path_container_logs(const char *data_dir, const char *ns, const char *pod, const char *uid, const char *container)
{
    _cleanup_free_ char *dir = path_pod_logs(data_dir, ns, pod, uid);

    return xasprintf("%s/%s", dir, container);
}

char *path_container_log(const char *data_dir, const char *ns, const char *pod, const char *uid, const char *container,
                         int64_t restart)
{
    _cleanup_free_ char *dir = path_container_logs(data_dir, ns, pod, uid, container);

    return xasprintf("%s/%" PRId64 ".log", dir, restart);
}

char *path_pvc(const char *data_dir, const char *ns, const char *name, const char *uid)
{
    return xasprintf("%s/volumes/pvc/%s/%.*s-%s", data_dir, ns, SHOWN_NAME_MAX, name, uid);
}
