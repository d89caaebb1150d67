#include "node/pod_spec.h"

#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "node/image/reference.h"

#include <inttypes.h>

#define HOSTNAME_MAX 63
#define MEMORY_MIN (4ll << 20) /* below this not even the first process starts */
#define CPU_MILLIS_MIN 10      /* a quota of one millisecond in each period */
#define NOT_SUPPORTED "is not supported by this node"

int pod_spec_refuse(struct error *err, const char *reason, const char *why, const char *field_format, ...)
{
    va_list ap;

    va_start(ap, field_format);
    _cleanup_free_ char *field = xvasprintf(field_format, ap);
    va_end(ap);
    int r = error_set_field(err, EINVAL, field, "%s: %s", field, why);
    error_set_reason(err, reason);
    return r;
}

void pod_spec_clear(struct pod_spec *s)
{
    for (size_t i = 0; i < s->container_count; i++) {
        struct pod_container *c = &s->containers[i];
        free(c->field);
        free(c->mounts);
        strv_free(c->pre_stop);
        for (size_t p = 0; p < PROBE_COUNT; p++)
            strv_free(c->probes[p].command);
    }
    free(s->containers);
    free(s->volumes);
    free(s->groups);
    free(s->hostname);
    strv_free(s->warnings);
    json_unref(s->pod);
    *s = (struct pod_spec){0};
}

static int parse_quantity(const struct json *v, bool milli, const char *field, const char *name, int64_t *ret,
                          struct error *err)
{
    struct quantity q;

    if (quantity_of_json(v, &q) < 0)
        return pod_spec_refuse(err, REASON_CONFIG, "is no quantity", "%s.%s", field, name);
    *ret = milli ? quantity_milli(&q) : quantity_value(&q);
    if (*ret < 0)
        return pod_spec_refuse(err, REASON_CONFIG, "is negative", "%s.%s", field, name);
    return 0;
}

static int parse_limits(struct pod_container *c, const struct json *limits, const char *field, struct error *err)
{
    for (struct json_iter it = {0}; json_each(limits, &it);) {
        bool cpu = streq(it.key, "cpu");
        int64_t value;
        int r = parse_quantity(it.value, cpu, field, it.key, &value, err);
        if (r < 0)
            return r;
        if (cpu) {
            c->limits.cpu_millis = value ? (uint64_t)MAX(value, CPU_MILLIS_MIN) : 0;
        } else if (streq(it.key, "memory")) {
            if (value && value < MEMORY_MIN)
                return pod_spec_refuse(err, REASON_CONFIG, "is less than the 4Mi a sandbox needs to start", "%s.memory",
                                       field);
            c->limits.memory_bytes = (uint64_t)value;
        } else if (streq(it.key, "ephemeral-storage")) {
            c->storage_limit = (uint64_t)value;
        } else if (value) {
            return pod_spec_refuse(err, REASON_CONFIG, "this node has no such resource", "%s.%s", field, it.key);
        }
    }
    return 0;
}

/* The API server takes a limit without a request as the request too. */
static int refuse_memory(int64_t machine, const char *field, struct error *err)
{
    _cleanup_free_ char *why = xasprintf(
        "is more than the %" PRId64 "Mi of this machine; where it is not given, limits.memory counts", machine >> 20);

    return pod_spec_refuse(err, REASON_CONFIG, why, "%s.memory", field);
}

static int parse_requests(struct pod_container *c, const struct json *requests, const char *field, int64_t machine,
                          struct error *err)
{
    for (struct json_iter it = {0}; json_each(requests, &it);) {
        bool cpu = streq(it.key, "cpu");
        int64_t value;
        int r = parse_quantity(it.value, cpu, field, it.key, &value, err);
        if (r < 0)
            return r;
        if (cpu)
            c->limits.cpu_weight = (uint64_t)value;
        else if (streq(it.key, "memory") && machine && value > machine)
            return refuse_memory(machine, field, err);
        else if (value && !streq(it.key, "memory") && !streq(it.key, "ephemeral-storage"))
            return pod_spec_refuse(err, REASON_CONFIG, "this node has no such resource", "%s.%s", field, it.key);
    }
    return 0;
}

static int parse_resources(struct pod_container *c, int64_t machine, struct error *err)
{
    const struct json *resources = json_get(c->object, "resources");
    _cleanup_free_ char *limits = xasprintf("%s.resources.limits", c->field);
    _cleanup_free_ char *requests = xasprintf("%s.resources.requests", c->field);

    if (json_size(json_get(resources, "claims")))
        return pod_spec_refuse(err, REASON_CONFIG, NOT_SUPPORTED, "%s.resources.claims", c->field);
    int r = parse_limits(c, json_get(resources, "limits"), limits, err);
    return r < 0 ? r : parse_requests(c, json_get(resources, "requests"), requests, machine, err);
}

static int parse_image(struct pod_container *c, const struct pod_spec_options *options, struct error *err)
{
    const char *policy = json_str_or(json_get(c->object, "imagePullPolicy"), "IfNotPresent");
    struct image_ref ref;
    _cleanup_error_ struct error invalid = ERROR_INIT;

    c->image = json_str_or(json_get(c->object, "image"), "");
    c->pull_policy = streq(policy, "Never") ? PULL_NEVER : streq(policy, "Always") ? PULL_ALWAYS : PULL_IF_NOT_PRESENT;
    if (image_ref_parse(c->image, &ref, &invalid) < 0)
        return pod_spec_refuse(err, "InvalidImageName", error_text(&invalid), "%s.image", c->field);
    bool refused = ref.kind == IMAGE_DIR && !options->allow_dir_images;
    image_ref_clear(&ref);
    if (refused)
        return pod_spec_refuse(err, REASON_CONFIG,
                               "directories of the host are not allowed as images (holt up --allow-dir-images)",
                               "%s.image", c->field);
    return 0;
}

static char **exec_command(const struct json *action)
{
    const struct json *command = json_at(action, "exec", "command", NULL);
    char **words = NULL;

    for (size_t i = 0; i < json_size(command); i++)
        words = strv_append(words, xstrdup(json_str_or(json_item(command, i), "")));
    return words;
}

static void parse_probes(struct pod_spec *s, struct pod_container *c)
{
    static const char *const names[] = {"startupProbe", "livenessProbe", "readinessProbe"};

    for (size_t i = 0; i < PROBE_COUNT; i++) {
        const struct json *probe = json_get(c->object, names[i]);
        if (!probe)
            continue;
        c->probes[i] = (struct pod_probe){
            .command = exec_command(probe),
            .initial_delay_s = json_int_or(json_get(probe, "initialDelaySeconds"), 0),
            .period_s = MAX(json_int_or(json_get(probe, "periodSeconds"), 10), 1),
            .timeout_s = MAX(json_int_or(json_get(probe, "timeoutSeconds"), 1), 1),
            .success_threshold = MAX(json_int_or(json_get(probe, "successThreshold"), 1), 1),
            .failure_threshold = MAX(json_int_or(json_get(probe, "failureThreshold"), 3), 1),
        };
        if (!c->probes[i].command)
            s->warnings = strv_append(
                s->warnings, xasprintf("%s.%s is ignored: this node runs exec probes only", c->field, names[i]));
    }
}

static int parse_lifecycle(struct pod_container *c, struct error *err)
{
    const struct json *lifecycle = json_get(c->object, "lifecycle"), *pre_stop = json_get(lifecycle, "preStop");

    if (json_get(lifecycle, "postStart"))
        return pod_spec_refuse(err, REASON_CONFIG, NOT_SUPPORTED, "%s.lifecycle.postStart", c->field);
    if (!pre_stop)
        return 0;
    c->pre_stop = exec_command(pre_stop);
    if (!c->pre_stop)
        return pod_spec_refuse(err, REASON_CONFIG, "only exec is supported by this node", "%s.lifecycle.preStop",
                               c->field);
    return 0;
}

static int refuse_container_fields(const struct pod_container *c, bool init, struct error *err)
{
    const struct json *ports = json_get(c->object, "ports");

    for (size_t i = 0; i < json_size(ports); i++)
        if (json_int_or(json_get(json_item(ports, i), "hostPort"), 0))
            return pod_spec_refuse(err, REASON_CONFIG, "sandboxes have no ports on the host", "%s.ports[%zu].hostPort",
                                   c->field, i);
    if (json_size(json_get(c->object, "volumeDevices")))
        return pod_spec_refuse(err, REASON_CONFIG, NOT_SUPPORTED, "%s.volumeDevices", c->field);
    if (init && json_get(c->object, "restartPolicy"))
        return pod_spec_refuse(err, REASON_CONFIG, "sidecar containers are not supported by this node",
                               "%s.restartPolicy", c->field);
    return 0;
}

static int parse_container(struct pod_spec *s, struct pod_container *c, const struct json *object, bool init,
                           const struct pod_spec_options *options, struct error *err)
{
    c->object = object;
    c->name = json_str_or(json_get(object, "name"), "");
    c->tty = json_bool_or(json_get(object, "tty"), false);
    c->stdin_open = json_bool_or(json_get(object, "stdin"), false);
    c->message_path = json_str_or(json_get(object, "terminationMessagePath"), "/dev/termination-log");
    c->message_from_logs =
        streq(json_str_or(json_get(object, "terminationMessagePolicy"), "File"), "FallbackToLogsOnError");
    int r = refuse_container_fields(c, init, err);
    if (r == 0)
        r = parse_image(c, options, err);
    if (r == 0)
        r = parse_resources(c, options->memory_bytes, err);
    if (r == 0)
        r = pod_spec_parse_security(s, c, err);
    if (r == 0)
        r = pod_spec_parse_mounts(s, c, err);
    if (r == 0)
        r = parse_lifecycle(c, err);
    parse_probes(s, c);
    return r;
}

static int parse_containers(struct pod_spec *s, const struct json *spec, const struct pod_spec_options *options,
                            struct error *err)
{
    const struct json *init = json_get(spec, "initContainers"), *main_ones = json_get(spec, "containers");
    size_t init_count = json_size(init);

    if (json_size(main_ones) != 1)
        return json_size(main_ones)
                   ? pod_spec_refuse(err, REASON_CONFIG, "a sandbox holds one container", "spec.containers[1]")
                   : pod_spec_refuse(err, REASON_CONFIG, "there is no container", "spec.containers");
    if (json_size(json_get(spec, "ephemeralContainers")))
        return pod_spec_refuse(err, REASON_CONFIG, NOT_SUPPORTED, "spec.ephemeralContainers");
    s->containers = xcalloc(init_count + 1, sizeof(*s->containers));
    for (size_t i = 0; i <= init_count; i++) {
        struct pod_container *c = &s->containers[s->container_count++];
        bool is_init = i < init_count;
        c->field = is_init ? xasprintf("spec.initContainers[%zu]", i) : xstrdup("spec.containers[0]");
        int r = parse_container(s, c, is_init ? json_item(init, i) : json_item(main_ones, 0), is_init, options, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Fields whose very meaning is to weaken the sandbox, and those that ask for what is not there. */
static int refuse_pod_fields(const struct json *spec, struct error *err)
{
    static const char *const host[] = {"hostNetwork", "hostPID", "hostIPC"};
    const char *runtime = json_str(json_get(spec, "runtimeClassName"));

    for (size_t i = 0; i < ARRAY_LEN(host); i++)
        if (json_bool_or(json_get(spec, host[i]), false))
            return pod_spec_refuse(err, REASON_CONFIG, "a sandbox does not share the host's namespaces", "spec.%s",
                                   host[i]);
    if (runtime && !streq(runtime, "native") && !streq(runtime, "holt"))
        return pod_spec_refuse(err, REASON_CONFIG, "this node has the runtime class \"native\" only",
                               "spec.runtimeClassName");
    if (json_size(json_get(spec, "resourceClaims")))
        return pod_spec_refuse(err, REASON_CONFIG, NOT_SUPPORTED, "spec.resourceClaims");
    return 0;
}

static char *make_hostname(const struct json *pod)
{
    const char *name = json_str_at(pod, "spec", "hostname", NULL);

    if (!name || !*name)
        name = object_name(pod);
    char *hostname = xstrndup(name, HOSTNAME_MAX);
    size_t len = strlen(hostname);
    while (len && strchr(".-", hostname[len - 1]))
        hostname[--len] = '\0';
    return hostname;
}

int pod_spec_parse(struct json *pod, const struct pod_spec_options *options, struct pod_spec *ret, struct error *err)
{
    _cleanup_(pod_spec_clear) struct pod_spec s = {.pod = json_ref(pod), .fs_group = -1};
    const struct json *spec = json_get(pod, "spec");
    const char *policy = json_str_or(json_get(spec, "restartPolicy"), "Always");

    s.restart_policy = streq(policy, "Never")       ? RESTART_NEVER
                       : streq(policy, "OnFailure") ? RESTART_ON_FAILURE
                                                    : RESTART_ALWAYS;
    s.hostname = make_hostname(pod);
    int r = refuse_pod_fields(spec, err);
    if (r == 0)
        r = pod_spec_parse_pod_security(&s, err);
    if (r == 0)
        r = pod_spec_parse_volumes(&s, options, err);
    if (r == 0)
        r = parse_containers(&s, spec, options, err);
    if (r < 0)
        return r;
    *ret = s;
    s = (struct pod_spec){0};
    return 0;
}
