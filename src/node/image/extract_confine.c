#include "node/image/extract_confine.h"

#include "base/macros.h"

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define CPU_SECONDS_MAX 1800
#define MEMORY_MAX (1ull << 30) /* zstd windows of up to 128 MiB, xz dictionaries */
#define FILES_MAX 64

/* Added after the headers of Debian 12. */
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

#if defined(__x86_64__)
#define AUDIT_ARCH_HERE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define AUDIT_ARCH_HERE AUDIT_ARCH_AARCH64
#else
#error "the seccomp architecture is not known"
#endif

static const unsigned kept_caps[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID};

static int drop_caps(struct error *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2] = {0}, want[2] = {0};
    uint64_t keep = 0;

    for (size_t i = 0; i < ARRAY_LEN(kept_caps); i++)
        keep |= 1ull << kept_caps[i];
    for (int cap = 0; cap <= 63; cap++)
        if (!(keep & (1ull << cap)) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL && errno != EPERM)
            return error_set_errno(err, errno, "drop a capability from the bounding set");
    if (syscall(SYS_capget, &head, have) < 0)
        return error_set_errno(err, errno, "read capabilities");
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        want[i].permitted = want[i].effective = have[i].permitted & (uint32_t)(keep >> (32 * i));
    if (syscall(SYS_capset, &head, want) < 0)
        return error_set_errno(err, errno, "drop capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_set_errno(err, errno, "set no_new_privs");
    return 0;
}

static int restrict_paths(int target_fd, struct error *err)
{
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 1)
        return 0;
    uint64_t rights = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1; /* all of ABI 1 */
    if (abi >= 2)
        rights |= LANDLOCK_ACCESS_FS_REFER;
    if (abi >= 3)
        rights |= LANDLOCK_ACCESS_FS_TRUNCATE;
    struct landlock_ruleset_attr attr = {.handled_access_fs = rights};
    _cleanup_close_ int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (rules < 0)
        return error_set_errno(err, errno, "create a Landlock ruleset");
    struct landlock_path_beneath_attr below = {
        .allowed_access = rights & ~(uint64_t)LANDLOCK_ACCESS_FS_EXECUTE,
        .parent_fd = target_fd,
    };
    if (target_fd >= 0 && syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0) < 0)
        return error_set_errno(err, errno, "add a Landlock rule");
    if (syscall(SYS_landlock_restrict_self, rules, 0) < 0)
        return error_set_errno(err, errno, "apply Landlock");
    return 0;
}

static int set_limit(__rlimit_resource_t resource, rlim_t value, struct error *err)
{
    struct rlimit old, limit;

    if (getrlimit(resource, &old) < 0)
        return error_set_errno(err, errno, "read a resource limit");
    limit.rlim_cur = limit.rlim_max = MIN(value, old.rlim_max);
    if (setrlimit(resource, &limit) < 0)
        return error_set_errno(err, errno, "set a resource limit");
    return 0;
}

static int restrict_resources(uint64_t max_bytes, struct error *err)
{
    int r = set_limit(RLIMIT_CPU, CPU_SECONDS_MAX, err);

    if (r == 0)
        r = set_limit(RLIMIT_CORE, 0, err);
    if (r == 0)
        r = set_limit(RLIMIT_NOFILE, FILES_MAX, err);
    if (r == 0)
        r = set_limit(RLIMIT_FSIZE, max_bytes, err);
#ifndef HOLT_SANITIZED /* the sanitizers reserve terabytes of address space */
    if (r == 0)
        r = set_limit(RLIMIT_AS, MEMORY_MAX, err);
#endif
    return r;
}

#ifndef HOLT_SANITIZED
static const int allowed_calls[] = {
    SYS_read,
    SYS_pread64,
    SYS_write,
    SYS_pwrite64,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_lseek,
    SYS_munmap,
    SYS_mremap,
    SYS_brk,
    SYS_madvise,
    SYS_openat,
    SYS_openat2,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_symlinkat,
    SYS_linkat,
    SYS_unlinkat,
    SYS_fchown,
    SYS_fchownat,
    SYS_fchmod,
    SYS_utimensat,
    SYS_ftruncate,
    SYS_getrandom,
    SYS_exit_group,
    SYS_exit,
    SYS_futex,
    SYS_rt_sigreturn,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_clock_gettime,
    SYS_gettimeofday,
    SYS_getpid,
    SYS_gettid,
    SYS_tgkill,
    SYS_fcntl,
    SYS_sysinfo,
    SYS_sched_yield,
    SYS_sched_getaffinity,
#ifdef SYS_time
    SYS_time,
#endif
};

#define ERRNO_RETURN(e) (SECCOMP_RET_ERRNO | ((e)&SECCOMP_RET_DATA))
#define ARG_LOW(n) (offsetof(struct seccomp_data, args) + 8 * (n)) /* little endian */

/* mmap and mprotect: everything but executable memory. */
static size_t add_no_exec(struct sock_filter *f, int call)
{
    size_t n = 0;

    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG_LOW(2));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, ERRNO_RETURN(EPERM));
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return n;
}

static int restrict_calls(struct error *err)
{
    struct sock_filter f[2 * ARRAY_LEN(allowed_calls) + 20];
    size_t n = 0;

    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_HERE, 1, 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    n += add_no_exec(f + n, SYS_mmap);
    n += add_no_exec(f + n, SYS_mprotect);
    for (size_t i = 0; i < ARRAY_LEN(allowed_calls); i++) {
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed_calls[i], 0, 1);
        f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, ERRNO_RETURN(EPERM));
    struct sock_fprog program = {.len = (unsigned short)n, .filter = f};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        return error_set_errno(err, errno, "install the seccomp filter");
    return 0;
}
#else
static int restrict_calls(struct error *err UNUSED)
{
    return 0; /* the sanitizers' own system calls are not on the list */
}
#endif

int extract_confine(int target_fd, uint64_t max_bytes, struct error *err)
{
    int r = restrict_resources(max_bytes, err);

    if (r == 0)
        r = drop_caps(err);
    if (r == 0)
        r = restrict_paths(target_fd, err);
    if (r == 0)
        r = restrict_calls(err);
    return r < 0 ? error_wrap(err, "confine the unpacking helper") : 0;
}
