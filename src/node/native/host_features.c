#include "node/native/host_features.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "node/native/cgroup.h"
#include "node/native/clone.h"
#include "node/native/idmap.h"
#include "node/native/landlock.h"
#include "node/native/mountfd.h"
#include "node/native/netns.h"
#include "node/native/seccomp.h"
#include "node/native/sys.h"
#include "node/native/uid_range.h"

#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/kvm.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#define FILE_MAX 65536
#define PID_MAX_WISHED 1048576
#define NOFILE_WISHED 65536
#define USER_NS_WISHED 20000
#define LANDLOCK_ABI_WISHED 6 /* abstract sockets and signals */

const char *feature_state_name(enum feature_state state)
{
    static const char *const names[FEATURE_STATE_COUNT] = {"ok", "limited", "missing"};

    return names[state];
}

/* detail and fix are taken. */
static void add(struct feature_list *l, const char *group, const char *name, enum feature_state state, char *detail,
                char *fix)
{
    GROW(l->items, l->capacity, l->count + 1);
    l->items[l->count++] = (struct feature){group, name, state, detail, fix};
}

static void add_found(struct feature_list *l, const char *group, const char *name, bool found, const char *detail,
                      const char *fix)
{
    add(l, group, name, found ? FEATURE_OK : FEATURE_MISSING, xstrdup(found ? detail : "not there"),
        found ? NULL : xstrdup(fix));
}

void features_done(struct feature_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].detail);
        free(list->items[i].fix);
    }
    free(list->items);
    *list = (struct feature_list){0};
}

const struct feature *features_find(const struct feature_list *list, const char *group, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (streq(list->items[i].group, group) && streq(list->items[i].name, name))
            return &list->items[i];
    return NULL;
}

static uint64_t read_sysctl(const char *path)
{
    _cleanup_free_ char *text = NULL;
    uint64_t value = 0;

    if (file_read_at(AT_FDCWD, path, FILE_MAX, &text, NULL, NULL) < 0)
        return 0;
    text[strcspn(text, "\n")] = '\0';
    return parse_u64(text, &value) ? value : 0;
}

static void probe_overlay(struct feature_list *l)
{
    _cleanup_free_ char *text = NULL;
    int r = file_read_at(AT_FDCWD, "/proc/filesystems", FILE_MAX, &text, NULL, NULL);
    _cleanup_close_ int fs = fsopen("overlay", FSOPEN_CLOEXEC); /* loads the module when there is one */

    add_found(l, "kernel", "overlay", fs >= 0 || (r == 0 && strstr(text, "\toverlay\n")), "overlay file system",
              "load the module: modprobe overlay");
}

/* Tried for real on a mount that is never attached. */
static void probe_idmap(struct feature_list *l)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_close_ int user_ns = idmap_open(UID_RANGE_FIRST, &err);
    _cleanup_close_ int copy = user_ns < 0 ? -1 : mountfd_clone(AT_FDCWD, "/usr", 0, user_ns, &err);

    if (user_ns < 0)
        add(l, "kernel", "user namespaces", FEATURE_MISSING, xstrdup(error_text(&err)),
            xstrdup("run as root; set the sysctl user.max_user_namespaces above 0"));
    else
        add(l, "kernel", "user namespaces", FEATURE_OK, xstrdup("a range of ids per sandbox"), NULL);
    if (copy < 0)
        add(l, "kernel", "idmapped mounts", FEATURE_MISSING, xstrdup(error_text(&err)),
            xstrdup("needs Linux 5.19 or newer, and /usr on ext4, xfs, btrfs, tmpfs or overlay"));
    else
        add(l, "kernel", "idmapped mounts", FEATURE_OK, xstrdup("images and volumes keep their owners"), NULL);
}

static void probe_netns(struct feature_list *l)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_close_ int fd = netns_open(&err);

    add(l, "kernel", "network namespaces", fd >= 0 ? FEATURE_OK : FEATURE_MISSING,
        xstrdup(fd >= 0 ? "lo only" : error_text(&err)), fd >= 0 ? NULL : xstrdup("run as root"));
}

static void probe_landlock(struct feature_list *l)
{
    int abi = landlock_abi();

    if (abi == 0)
        add(l, "kernel", "landlock", FEATURE_MISSING, xstrdup("not there"),
            xstrdup("boot a kernel with CONFIG_SECURITY_LANDLOCK and \"landlock\" in the parameter lsm="));
    else
        add(l, "kernel", "landlock", abi >= LANDLOCK_ABI_WISHED ? FEATURE_OK : FEATURE_LIMITED,
            xasprintf("ABI %d", abi),
            abi >= LANDLOCK_ABI_WISHED ? NULL : xstrdup("Linux 6.12 adds limits for abstract sockets and signals"));
}

static void probe_sk_lookup(struct feature_list *l)
{
    const struct bpf_insn code[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 /* SK_PASS */},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr attr = {
        .prog_type = BPF_PROG_TYPE_SK_LOOKUP,
        .expected_attach_type = BPF_SK_LOOKUP,
        .insns = (uintptr_t)code,
        .insn_cnt = ARRAY_LEN(code),
        .license = (uintptr_t) "Apache-2.0",
    };
    _cleanup_close_ int fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));

    if (fd >= 0)
        add(l, "kernel", "bpf sk_lookup", FEATURE_OK, xstrdup("network of sandboxes by socket lookup"), NULL);
    else
        add(l, "kernel", "bpf sk_lookup", FEATURE_LIMITED, xasprintf("%s: nftables is used instead", strerror(errno)),
            xstrdup("needs Linux 5.9 or newer with CONFIG_BPF_SYSCALL, and root"));
}

static void probe_cgroup_kill(struct feature_list *l)
{
    const struct cgroup_layout *c = cgroup_layout_get();

    add(l, "kernel", "cgroup.kill", c->version == 2 ? FEATURE_OK : FEATURE_LIMITED,
        xstrdup(c->version == 2 ? "all processes of a sandbox end at once"
                                : "control groups of version 1: processes are killed by their first process"),
        c->version == 2 ? NULL : xstrdup("boot with systemd.unified_cgroup_hierarchy=1"));
}

static bool is_loaded(const char *module)
{
    _cleanup_free_ char *path = xasprintf("/sys/module/%s", module);

    return access(path, F_OK) == 0;
}

/* Opening the device is not enough: a machine may be made and never run. */
static void probe_kvm(struct feature_list *l)
{
    _cleanup_close_ int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    int code = errno;
    _cleanup_close_ int machine = kvm < 0 ? -1 : ioctl(kvm, KVM_CREATE_VM, 0);

    if (kvm < 0)
        add(l, "kernel", "kvm", FEATURE_MISSING, xasprintf("/dev/kvm: %s", strerror(code)),
            xstrdup("use hardware or a cloud machine with (nested) virtualisation, and load kvm_intel or kvm_amd"));
    else if (machine < 0)
        add(l, "kernel", "kvm", FEATURE_MISSING, xasprintf("no machine can be made: %s", strerror(errno)),
            xstrdup("check the kernel log for kvm"));
    else if (!is_loaded("kvm_intel") && !is_loaded("kvm_amd") && is_loaded("kvm_pvm"))
        add(l, "kernel", "kvm", FEATURE_LIMITED, xstrdup("without hardware (kvm_pvm): stock guest kernels do not boot"),
            xstrdup("use a machine with hardware virtualisation"));
    else
        add(l, "kernel", "kvm", FEATURE_OK, xstrdup("virtual machines can be made"), NULL);
}

static void probe_kernel(struct feature_list *l)
{
    struct utsname name = {0};
    unsigned major = 0, minor = 0;

    (void)uname(&name); /* cannot fail */
    (void)sscanf(name.release, "%u.%u", &major, &minor);
    bool recent = major > 5 || (major == 5 && minor >= 19);
    add(l, "kernel", "version", recent ? FEATURE_OK : FEATURE_MISSING, xstrdup(name.release),
        recent ? NULL : xstrdup("holt needs Linux 5.19 or newer"));
    add_found(l, "kernel", "root", geteuid() == 0, "running as root", "run holt as root");
    probe_overlay(l);
    probe_idmap(l);
    probe_netns(l);
    add_found(l, "kernel", "seccomp", seccomp_supported(), "system call filters",
              "boot a kernel with CONFIG_SECCOMP_FILTER");
    probe_landlock(l);
    probe_sk_lookup(l);
    probe_cgroup_kill(l);
    probe_kvm(l);
}

static void probe_cgroups(struct feature_list *l)
{
    const struct cgroup_layout *c = cgroup_layout_get();

    add(l, "cgroups", "version", c->version ? FEATURE_OK : FEATURE_MISSING,
        c->version == 1 ? xasprintf("1%s", c->unified ? " (hybrid)" : "") : xasprintf("%d", c->version),
        c->version ? NULL : xstrdup("mount control groups: mount -t cgroup2 none /sys/fs/cgroup"));
    for (int i = 0; i < CGROUP_CONTROLLER_COUNT; i++) {
        bool v1_only = i == CGROUP_CPUACCT || i == CGROUP_FREEZER || i == CGROUP_DEVICES;
        if ((c->version == 2 && v1_only) || (c->version == 1 && i == CGROUP_IO))
            continue;
        add_found(l, "cgroups", cgroup_controller_name((enum cgroup_controller)i), c->mounts[i] != NULL,
                  c->mounts[i] ? c->mounts[i] : "",
                  i == CGROUP_MEMORY ? "boot with cgroup_enable=memory swapaccount=1" : "enable the controller");
    }
}

static void add_limit(struct feature_list *l, const char *name, uint64_t value, uint64_t wished, const char *fix)
{
    bool enough = value >= wished;

    add(l, "limits", name, enough ? FEATURE_OK : FEATURE_LIMITED, xasprintf("%llu", (unsigned long long)value),
        enough ? NULL : xstrdup(fix));
}

static bool has_capability(int cap)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};

    return syscall(SYS_capget, &header, data) == 0 && data[cap / 32].effective & (1u << (cap % 32));
}

static void probe_limits(struct feature_list *l)
{
    struct rlimit files = {0};

    (void)getrlimit(RLIMIT_NOFILE, &files); /* zeros tell enough */
    add_limit(l, "pid_max", read_sysctl("/proc/sys/kernel/pid_max"), PID_MAX_WISHED,
              "sysctl kernel.pid_max=4194304 (holt node does it when it may)");
    add_limit(l, "open files", files.rlim_max, NOFILE_WISHED, "ulimit -Hn 1048576, or LimitNOFILE= of the service");
    add_limit(l, "user namespaces", read_sysctl("/proc/sys/user/max_user_namespaces"), USER_NS_WISHED,
              "sysctl user.max_user_namespaces=100000");
    add_limit(l, "network namespaces", read_sysctl("/proc/sys/user/max_net_namespaces"), USER_NS_WISHED,
              "sysctl user.max_net_namespaces=100000");
    bool resource = has_capability(CAP_SYS_RESOURCE);
    add(l, "limits", "CAP_SYS_RESOURCE", resource ? FEATURE_OK : FEATURE_LIMITED,
        xstrdup(resource ? "limits can be raised" : "limits cannot be raised"),
        resource ? NULL : xstrdup("start holt with this capability"));
}

static char *find_program(const char *name)
{
    static const char *const dirs[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"};

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        char *path = xasprintf("%s/%s", dirs[i], name);
        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}

static void probe_tools(struct feature_list *l)
{
    static const struct {
        const char *name, *package, *use;
    } tools[] = {
        {"runsc", "runsc", "isolation level gvisor"},
        {"runc", "runc", "isolation level oci"},
        {"qemu-system-x86_64", "qemu-system-x86", "isolation level microvm"},
        {"skopeo", "skopeo", "fetching images"},
    };

    for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
        char *path = find_program(tools[i].name);
        add(l, "tools", tools[i].name, path ? FEATURE_OK : FEATURE_MISSING,
            path ? path : xasprintf("not there (%s)", tools[i].use),
            path ? NULL : xasprintf("apt-get install %s", tools[i].package));
    }
}

struct need {
    const char *group, *name;
};

static const struct {
    const char *level;
    struct need needs[12];
} levels[] = {
    {"native",
     {{"kernel", "root"},
      {"kernel", "version"},
      {"kernel", "overlay"},
      {"kernel", "user namespaces"},
      {"kernel", "idmapped mounts"},
      {"kernel", "network namespaces"},
      {"kernel", "seccomp"},
      {"kernel", "landlock"},
      {"cgroups", "version"},
      {"cgroups", "memory"},
      {"cgroups", "pids"},
      {"cgroups", "cpu"}}},
    {"gvisor", {{"kernel", "root"}, {"tools", "runsc"}, {"cgroups", "version"}}},
    {"oci", {{"kernel", "root"}, {"tools", "runc"}, {"cgroups", "version"}}},
    {"microvm", {{"kernel", "root"}, {"tools", "qemu-system-x86_64"}}},
};

int features_require(const struct feature_list *list, const char *level, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
        if (!streq(levels[i].level, level))
            continue;
        for (size_t n = 0; n < ARRAY_LEN(levels[i].needs) && levels[i].needs[n].name; n++) {
            const struct need *need = &levels[i].needs[n];
            const struct feature *f = features_find(list, need->group, need->name);
            if (!f || f->state == FEATURE_MISSING)
                return error_set(err, ENOTSUP, "isolation level %s needs %s (%s): %s", level, need->name, need->group,
                                 f ? f->detail : "not known");
        }
        return 0;
    }
    return error_set(err, EINVAL, "no isolation level \"%s\"", level);
}

static void judge_levels(struct feature_list *l)
{
    for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        bool ok = features_require(l, levels[i].level, &err) == 0;
        const struct feature *kvm = features_find(l, "kernel", "kvm");
        bool emulated = ok && streq(levels[i].level, "microvm") && (!kvm || kvm->state != FEATURE_OK);
        bool served = streq(levels[i].level, "native"); /* the only one this version has */
        add(l, "isolation", levels[i].level,
            !ok      ? FEATURE_MISSING
            : served ? FEATURE_OK
                     : FEATURE_LIMITED,
            xstrdup(!ok        ? error_text(&err)
                    : served   ? "can be used"
                    : emulated ? "the machine can, by emulation; this version of holt does not use it yet"
                               : "the machine can; this version of holt does not use it yet"),
            ok ? NULL : xstrdup("see the missing entries below"));
    }
}

void features_probe(struct feature_list *ret)
{
    *ret = (struct feature_list){0};
    probe_kernel(ret);
    probe_cgroups(ret);
    probe_limits(ret);
    probe_tools(ret);
    judge_levels(ret);
}
