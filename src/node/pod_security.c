/* securityContext: what a sandbox grants anyway, what it can grant, and what it refuses. */
#include "node/pod_spec.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <linux/capability.h>

#define ID_MAX 65535 /* what a sandbox's range of ids holds */

static const struct {
    const char *name; /* as in Kubernetes, without CAP_ */
    int number;
} capability_names[] = {
    {"CHOWN", CAP_CHOWN},
    {"DAC_OVERRIDE", CAP_DAC_OVERRIDE},
    {"DAC_READ_SEARCH", CAP_DAC_READ_SEARCH},
    {"FOWNER", CAP_FOWNER},
    {"FSETID", CAP_FSETID},
    {"KILL", CAP_KILL},
    {"SETGID", CAP_SETGID},
    {"SETUID", CAP_SETUID},
    {"SETPCAP", CAP_SETPCAP},
    {"LINUX_IMMUTABLE", CAP_LINUX_IMMUTABLE},
    {"NET_BIND_SERVICE", CAP_NET_BIND_SERVICE},
    {"NET_BROADCAST", CAP_NET_BROADCAST},
    {"NET_ADMIN", CAP_NET_ADMIN},
    {"NET_RAW", CAP_NET_RAW},
    {"IPC_LOCK", CAP_IPC_LOCK},
    {"IPC_OWNER", CAP_IPC_OWNER},
    {"SYS_MODULE", CAP_SYS_MODULE},
    {"SYS_RAWIO", CAP_SYS_RAWIO},
    {"SYS_CHROOT", CAP_SYS_CHROOT},
    {"SYS_PTRACE", CAP_SYS_PTRACE},
    {"SYS_PACCT", CAP_SYS_PACCT},
    {"SYS_ADMIN", CAP_SYS_ADMIN},
    {"SYS_BOOT", CAP_SYS_BOOT},
    {"SYS_NICE", CAP_SYS_NICE},
    {"SYS_RESOURCE", CAP_SYS_RESOURCE},
    {"SYS_TIME", CAP_SYS_TIME},
    {"SYS_TTY_CONFIG", CAP_SYS_TTY_CONFIG},
    {"MKNOD", CAP_MKNOD},
    {"LEASE", CAP_LEASE},
    {"AUDIT_WRITE", CAP_AUDIT_WRITE},
    {"AUDIT_CONTROL", CAP_AUDIT_CONTROL},
    {"AUDIT_READ", CAP_AUDIT_READ},
    {"SETFCAP", CAP_SETFCAP},
    {"MAC_OVERRIDE", CAP_MAC_OVERRIDE},
    {"MAC_ADMIN", CAP_MAC_ADMIN},
    {"SYSLOG", CAP_SYSLOG},
    {"WAKE_ALARM", CAP_WAKE_ALARM},
    {"BLOCK_SUSPEND", CAP_BLOCK_SUSPEND},
    {"PERFMON", CAP_PERFMON},
    {"BPF", CAP_BPF},
    {"CHECKPOINT_RESTORE", CAP_CHECKPOINT_RESTORE},
};

/* 0: no such capability. "ALL" is every bit. */
static uint64_t capability_mask(const char *name)
{
    const char *plain = str_skip_prefix(name, "CAP_");

    if (streq(name, "ALL"))
        return UINT64_MAX;
    for (size_t i = 0; i < ARRAY_LEN(capability_names); i++)
        if (streq(plain ? plain : name, capability_names[i].name))
            return 1ull << capability_names[i].number;
    return 0;
}

static int parse_capabilities(struct pod_container *c, const struct json *capabilities, struct error *err)
{
    const struct json *drop = json_get(capabilities, "drop"), *add = json_get(capabilities, "add");
    uint64_t most = native_default_caps();

    c->capabilities = most;
    for (size_t i = 0; i < json_size(drop); i++) {
        uint64_t mask = capability_mask(json_str_or(json_item(drop, i), ""));
        if (!mask)
            return pod_spec_refuse(err, REASON_CONFIG, "there is no such capability",
                                   "%s.securityContext.capabilities.drop[%zu]", c->field, i);
        c->capabilities &= ~mask;
    }
    for (size_t i = 0; i < json_size(add); i++) {
        uint64_t mask = capability_mask(json_str_or(json_item(add, i), ""));
        if (!mask || (mask & ~most))
            return pod_spec_refuse(err, REASON_CONFIG,
                                   mask ? "a sandbox cannot hold this capability" : "there is no such capability",
                                   "%s.securityContext.capabilities.add[%zu]", c->field, i);
        c->capabilities |= mask;
    }
    return 0;
}

/* Profiles, labels and the like: the sandbox's own filter always applies, so "less" cannot be had. */
static int refuse_profiles(const struct json *context, const char *field, struct error *err)
{
    static const char *const profiles[] = {"seccompProfile", "appArmorProfile"};
    static const char *const others[] = {"seLinuxOptions", "windowsOptions"};

    for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
        const char *type = json_str_at(context, profiles[i], "type", NULL);
        if (type && !streq(type, "RuntimeDefault"))
            return pod_spec_refuse(err, REASON_CONFIG, "this node has its own profile, RuntimeDefault, only",
                                   "%s.%s.type", field, profiles[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (json_size(json_get(context, others[i])))
            return pod_spec_refuse(err, REASON_CONFIG, "is not supported by this node", "%s.%s", field, others[i]);
    return 0;
}

/* -1 when not set. */
static int parse_id(const struct json *context, const char *name, const char *field, int64_t *ret, struct error *err)
{
    const struct json *v = json_get(context, name);

    if (!v)
        return 0;
    int64_t id = json_int_or(v, -1);
    if (id < 0 || id > ID_MAX)
        return pod_spec_refuse(err, REASON_CONFIG, "must be from 0 to 65535", "%s.%s", field, name);
    *ret = id;
    return 0;
}

int pod_spec_parse_pod_security(struct pod_spec *s, struct error *err)
{
    static const char field[] = "spec.securityContext";
    const struct json *context = json_at(s->pod, "spec", "securityContext", NULL);
    const struct json *groups = json_get(context, "supplementalGroups");

    if (json_size(json_get(context, "sysctls")))
        return pod_spec_refuse(err, REASON_CONFIG, "is not supported by this node", "%s.sysctls", field);
    int r = refuse_profiles(context, field, err);
    if (r == 0)
        r = parse_id(context, "fsGroup", field, &s->fs_group, err);
    if (r < 0)
        return r;
    s->groups = xcalloc(json_size(groups) + 1, sizeof(*s->groups)); /* and fsGroup */
    for (size_t i = 0; i < json_size(groups); i++) {
        int64_t group = json_int_or(json_item(groups, i), -1);
        if (group < 0 || group > ID_MAX)
            return pod_spec_refuse(err, REASON_CONFIG, "must be from 0 to 65535", "%s.supplementalGroups[%zu]", field,
                                   i);
        s->groups[s->group_count++] = (uint32_t)group;
    }
    if (s->fs_group >= 0)
        s->groups[s->group_count++] = (uint32_t)s->fs_group;
    return 0;
}

int pod_spec_parse_security(struct pod_spec *s, struct pod_container *c, struct error *err)
{
    const struct json *pod = json_at(s->pod, "spec", "securityContext", NULL);
    const struct json *own = json_get(c->object, "securityContext");
    _cleanup_free_ char *field = xasprintf("%s.securityContext", c->field);
    const char *proc_mount = json_str_or(json_get(own, "procMount"), "Default");

    c->uid = c->gid = -1;
    if (json_bool_or(json_get(own, "privileged"), false))
        return pod_spec_refuse(err, REASON_CONFIG, "there are no privileged sandboxes", "%s.privileged", field);
    if (!streq(proc_mount, "Default"))
        return pod_spec_refuse(err, REASON_CONFIG, "only Default is supported by this node", "%s.procMount", field);
    int r = refuse_profiles(own, field, err);
    if (r == 0)
        r = parse_id(pod, "runAsUser", "spec.securityContext", &c->uid, err);
    if (r == 0)
        r = parse_id(pod, "runAsGroup", "spec.securityContext", &c->gid, err);
    if (r == 0)
        r = parse_id(own, "runAsUser", field, &c->uid, err);
    if (r == 0)
        r = parse_id(own, "runAsGroup", field, &c->gid, err);
    if (r == 0)
        r = parse_capabilities(c, json_get(own, "capabilities"), err);
    c->read_only_root = json_bool_or(json_get(own, "readOnlyRootFilesystem"), false);
    c->non_root = json_bool_or(json_get(own, "runAsNonRoot"), json_bool_or(json_get(pod, "runAsNonRoot"), false));
    if (r == 0 && c->non_root && c->uid == 0)
        return pod_spec_refuse(err, REASON_CONFIG, "contradicts runAsNonRoot", "%s.runAsUser", field);
    return r;
}
