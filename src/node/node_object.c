/* The Node object and its Lease: what this machine is, and that it is alive. */
#include "node/node.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#define LEASE_NS "kube-node-lease"
#define RENEW_S 10
#define LEASE_SECONDS 40
#define RETRY_S 1
#define PODS_MAX 20000
#define MANAGER "holt-node"

/* What of the machine. */

static char *first_address(void)
{
    struct ifaddrs *list = NULL;
    char text[INET_ADDRSTRLEN];
    char *found = NULL;

    if (getifaddrs(&list) < 0)
        return xstrdup("127.0.0.1");
    for (struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_LOOPBACK) ||
            !(i->ifa_flags & IFF_UP))
            continue;
        const struct sockaddr_in *in = (const void *)i->ifa_addr;
        if (inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text)))
            found = xstrdup(text);
    }
    freeifaddrs(list);
    return found ? found : xstrdup("127.0.0.1");
}

static char *read_line(const char *path, const char *key)
{
    _cleanup_free_ char *text = NULL;

    if (file_read_at(AT_FDCWD, path, 65536, &text, NULL, NULL) < 0)
        return xstrdup("");
    char *line = key ? strstr(text, key) : text;
    if (!line)
        return xstrdup("");
    line += key ? strlen(key) : 0;
    line += strspn(line, "\"");
    return xstrndup(line, strcspn(line, "\"\n"));
}

static struct json *system_info(void)
{
    struct utsname u = {0};
    _cleanup_free_ char *machine = read_line("/etc/machine-id", NULL),
                        *os = read_line("/etc/os-release", "PRETTY_NAME=");
    _cleanup_free_ char *boot = read_line("/proc/sys/kernel/random/boot_id", NULL);

    (void)uname(&u); /* cannot fail with a valid buffer */
    return json_build("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "machineID", machine, "systemUUID", machine,
                      "bootID", boot, "kernelVersion", u.release, "osImage", os, "containerRuntimeVersion",
                      "holt://native", "kubeletVersion", "v1.32.0", "kubeProxyVersion", "", "operatingSystem", "linux",
                      "architecture", image_architecture());
}

static struct json *capacity(const struct node *n)
{
    struct statvfs fs = {0};
    _cleanup_free_ char *cpu = xasprintf("%" PRId64, n->cpu_millis / 1000);
    _cleanup_free_ char *memory = xasprintf("%" PRId64 "Ki", n->memory_bytes / 1024);

    (void)statvfs(n->data_dir, &fs); /* unknown is 0 */
    _cleanup_free_ char *storage = xasprintf("%" PRIu64 "Ki", (uint64_t)fs.f_blocks * fs.f_frsize / 1024);
    _cleanup_free_ char *pods = xasprintf("%d", PODS_MAX);
    return json_build("{s:s, s:s, s:s, s:s}", "cpu", cpu, "memory", memory, "ephemeral-storage", storage, "pods", pods);
}

static struct json *condition(const char *type, bool value, const char *reason, const char *message, const char *now)
{
    return json_build("{s:s, s:s, s:s, s:s, s:s, s:s}", "type", type, "status", value ? "True" : "False",
                      "lastHeartbeatTime", now, "lastTransitionTime", now, "reason", reason, "message", message);
}

static struct json *node_status(const struct node *n)
{
    char now[TIME_RFC3339_MAX];

    time_format_rfc3339(time_now_ns(), 0, now);
    struct json *conditions = json_array_make();
    json_push(conditions, condition("MemoryPressure", false, "SufficientMemory", "enough memory", now));
    json_push(conditions, condition("DiskPressure", false, "NoDiskPressure", "enough disk", now));
    json_push(conditions, condition("PIDPressure", false, "SufficientPID", "enough process ids", now));
    json_push(conditions, condition("Ready", true, "NodeReady", "holt node runs", now));
    return json_build("{s:{s:o, s:o, s:o, s:o, s:[{s:s, s:s}, {s:s, s:s}]}}", "status", "capacity", capacity(n),
                      "allocatable", capacity(n), "conditions", conditions, "nodeInfo", system_info(), "addresses",
                      "type", "InternalIP", "address", n->ip, "type", "Hostname", "address", n->options.name);
}

/* Registering: create, or patch what is there; then the status. Repeated until it works. */

static void again(struct node *n, int seconds)
{
    struct timeval tv = {.tv_sec = seconds};

    (void)evtimer_add(n->lease_timer, &tv);
}

static void on_status(void *arg, int status, struct json *object UNUSED, const struct error *err)
{
    struct node *n = arg;

    if (status != 200) {
        log_warn("cannot report the node; trying again", "error", error_text(err), NULL);
        again(n, RETRY_S);
        return;
    }
    n->registered = true;
    again(n, RENEW_S);
    node_check_ready(n);
}

static void patch_status(struct node *n)
{
    _cleanup_json_ struct json *status = node_status(n);
    const struct kube_request q = {.verb = KUBE_PATCH_MERGE,
                                   .resource = &KUBE_NODES,
                                   .name = n->options.name,
                                   .subresource = "status",
                                   .field_manager = MANAGER,
                                   .body = status};

    kube_do(n->kube, &q, on_status, n);
}

static void on_created(void *arg, int status, struct json *object UNUSED, const struct error *err)
{
    struct node *n = arg;

    if (status == 201 || status == 200 || status == 409) {
        patch_status(n);
        return;
    }
    log_warn("cannot register the node; trying again", "error", error_text(err), NULL);
    again(n, RETRY_S);
}

static void create_node(struct node *n)
{
    _cleanup_json_ struct json *labels =
        json_build("{s:s, s:s, s:s}", "kubernetes.io/hostname", n->options.name, "kubernetes.io/os", "linux",
                   "kubernetes.io/arch", image_architecture());
    _cleanup_json_ struct json *object =
        json_build("{s:s, s:s, s:{s:s, s:O}, s:{}}", "apiVersion", "v1", "kind", "Node", "metadata", "name",
                   n->options.name, "labels", labels, "spec");
    const struct kube_request q = {
        .verb = KUBE_CREATE, .resource = &KUBE_NODES, .field_manager = MANAGER, .body = object};

    kube_do(n->kube, &q, on_created, n);
}

/* The lease: patched, made when it is missing. */

static struct json *lease_spec(const struct node *n)
{
    char now[TIME_RFC3339_MAX];

    time_format_rfc3339(time_now_ns(), 6, now);
    return json_build("{s:s, s:i, s:s}", "holderIdentity", n->options.name, "leaseDurationSeconds",
                      (int64_t)LEASE_SECONDS, "renewTime", now);
}

static void on_lease_made(void *arg UNUSED, int status, struct json *object UNUSED, const struct error *err)
{
    if (status != 201 && status != 200 && status != 409)
        log_warn("cannot make the node's lease; trying again", "error", error_text(err), NULL);
}

static void on_renewed(void *arg, int status, struct json *object UNUSED, const struct error *err)
{
    struct node *n = arg;

    if (status == 404) {
        _cleanup_json_ struct json *lease =
            json_build("{s:s, s:s, s:{s:s, s:s}, s:o}", "apiVersion", "coordination.k8s.io/v1", "kind", "Lease",
                       "metadata", "name", n->options.name, "namespace", LEASE_NS, "spec", lease_spec(n));
        const struct kube_request q = {
            .verb = KUBE_CREATE, .resource = &KUBE_LEASES, .ns = LEASE_NS, .field_manager = MANAGER, .body = lease};
        kube_do(n->kube, &q, on_lease_made, n);
    } else if (status != 200) {
        log_warn("cannot renew the node's lease; trying again", "error", error_text(err), NULL);
    }
}

static void renew(struct node *n)
{
    _cleanup_json_ struct json *patch = json_build("{s:o}", "spec", lease_spec(n));
    const struct kube_request q = {.verb = KUBE_PATCH_MERGE,
                                   .resource = &KUBE_LEASES,
                                   .ns = LEASE_NS,
                                   .name = n->options.name,
                                   .field_manager = MANAGER,
                                   .body = patch};

    kube_do(n->kube, &q, on_renewed, n);
    again(n, RENEW_S);
}

static void on_timer(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    struct node *n = arg;

    if (n->registered)
        renew(n);
    else
        create_node(n);
}

int node_object_start(struct node *n, struct error *err)
{
    struct sysinfo info;

    if (sysinfo(&info) < 0)
        return error_set_errno(err, errno, "read the size of the machine");
    n->memory_bytes = (int64_t)info.totalram * info.mem_unit;
    n->pod_options.memory_bytes = n->memory_bytes;
    n->cpu_millis = sysconf(_SC_NPROCESSORS_ONLN) * 1000;
    n->ip = n->options.ip ? xstrdup(n->options.ip) : first_address();
    n->lease_timer = evtimer_new(n->base, on_timer, n);
    if (!n->lease_timer)
        return error_set(err, ENOMEM, "create a timer");
    again(n, 0);
    return 0;
}

void node_object_stop(struct node *n)
{
    if (n->lease_timer)
        event_free(n->lease_timer);
    n->lease_timer = NULL;
}
