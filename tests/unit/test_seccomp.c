/* The system call filter, run by an interpreter of our own over calls and arguments. */
#include "test.h"

#include "base/macros.h"
#include "node/native/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

#define ALLOWED SECCOMP_RET_ALLOW
#define DENIED(code) (SECCOMP_RET_ERRNO | (code))
#define HIGH (1ull << 32) /* a bit the kernel does not look at */

static struct sock_filter program[SECCOMP_PROGRAM_MAX];
static size_t program_len;

static int setup(void **state UNUSED)
{
    program_len = seccomp_compile(program);
    return 0;
}

/* As the kernel does; *steps counts instructions. */
static uint32_t run(const struct seccomp_data *data, unsigned *steps)
{
    uint32_t a = 0, x = 0;
    size_t pc = 0;

    for (*steps = 1;; (*steps)++) {
        assert_true(pc < program_len);
        const struct sock_filter *f = &program[pc++];
        switch (f->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(f->k % 4 == 0 && f->k + 4 <= sizeof(*data));
            memcpy(&a, (const char *)data + f->k, sizeof(a));
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= f->k;
            break;
        case BPF_ALU | BPF_SUB | BPF_K:
            a -= f->k;
            break;
        case BPF_ALU | BPF_RSH | BPF_X:
            assert_true(x < 32);
            a >>= x;
            break;
        case BPF_LD | BPF_IMM:
            a = f->k;
            break;
        case BPF_MISC | BPF_TAX:
            x = a;
            break;
        case BPF_JMP | BPF_JA:
            pc += f->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += a == f->k ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += a >= f->k ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            pc += a & f->k ? f->jt : f->jf;
            break;
        case BPF_RET | BPF_K:
            return f->k;
        default:
            fail_msg("unknown instruction %x", f->code);
        }
    }
}

static uint32_t call(long nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
    unsigned steps;
    struct seccomp_data data = {.nr = (int)nr, .arch = ARCH, .args = {a0, a1, a2}};

    return run(&data, &steps);
}

static void test_every_call_ends(void **state UNUSED)
{
    unsigned worst = 0, allowed = 0;

    for (int nr = -2; nr < 1200; nr++) {
        for (int arg = 0; arg < 64; arg++) {
            unsigned steps;
            struct seccomp_data data = {.nr = nr, .arch = ARCH, .args = {1ull << arg, 1ull << arg, 1ull << arg}};
            uint32_t r = run(&data, &steps);
            if (steps > worst && nr != __NR_prctl)
                worst = steps;
            assert_true(r == ALLOWED || (r & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO);
            if (nr < 0 || nr > 469)
                assert_int_equal(r, DENIED(ENOSYS));
            allowed += arg == 0 && r == ALLOWED;
        }
    }
    print_message("%zu instructions, at most %u run, %u calls allowed\n", program_len, worst, allowed);
    assert_true(worst < 40);
    assert_true(program_len < SECCOMP_PROGRAM_MAX / 2);
}

static void test_foreign_abi_kills(void **state UNUSED)
{
    static const uint32_t others[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_PPC64LE, 0, UINT32_MAX};

    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        for (int nr = 0; nr < 500; nr++) {
            unsigned steps;
            struct seccomp_data data = {.nr = nr, .arch = others[i]};
            assert_int_equal(run(&data, &steps), SECCOMP_RET_KILL_PROCESS);
        }
    }
    for (uint32_t nr = 0; nr < 600; nr++) /* x32 */
        assert_int_equal(call((int)(nr | 0x40000000u), 0, 0, 0), DENIED(ENOSYS));
}

/* Each has been a way out, or into the kernel, somewhere. */
static void test_dangerous_calls(void **state UNUSED)
{
    static const long denied[] = {
        __NR_mount,
        __NR_umount2,
        __NR_pivot_root,
        __NR_chroot,
        __NR_setns,
        __NR_swapon,
        __NR_swapoff,
        __NR_reboot,
        __NR_sethostname,
        __NR_setdomainname,
        __NR_init_module,
        __NR_delete_module,
        __NR_finit_module,
        __NR_kexec_load,
        __NR_quotactl,
        __NR_acct,
        __NR_syslog,
        __NR_settimeofday,
        __NR_clock_settime,
        __NR_adjtimex,
        __NR_clock_adjtime,
        __NR_vhangup,
        __NR_open_by_handle_at,
        __NR_fanotify_init,
        __NR_bpf,
        __NR_kcmp,
        __NR_vmsplice,
        __NR_perf_event_open,
        __NR_userfaultfd,
        __NR_keyctl,
        __NR_add_key,
        __NR_request_key,
        __NR_clone3,
        __NR_mbind,
        __NR_migrate_pages,
        __NR_move_pages,
        __NR_lookup_dcookie,
        __NR_nfsservctl,
#if defined(__x86_64__)
        __NR_iopl,
        __NR_ioperm,
        __NR_modify_ldt,
        __NR_kexec_file_load,
        __NR__sysctl,
        __NR_uselib,
        __NR_ustat,
        __NR_sysfs,
        __NR_create_module,
#endif
        425,
        426,
        427 /* io_uring */,
        428,
        429,
        430,
        431,
        432,
        433,
        442 /* mounts by descriptor */,
        443 /* quotactl_fd */,
        447 /* memfd_secret */,
        451 /* cachestat */,
        457,
        458 /* statmount */,
        467 /* open_tree_attr */,
    };
    for (size_t i = 0; i < ARRAY_LEN(denied); i++)
        for (int arg = 0; arg < 64; arg++) {
            uint32_t r = call(denied[i], 1ull << arg, 1ull << arg, 1ull << arg);
            if (r != DENIED(EPERM) && r != DENIED(ENOSYS))
                fail_msg("call %ld answers %x", denied[i], r);
        }
    assert_int_equal(call(__NR_clone3, 0, 0, 0), DENIED(ENOSYS)); /* the C library falls back to clone */
    assert_int_equal(call(425, 0, 0, 0), DENIED(ENOSYS));
    assert_int_equal(call(__NR_userfaultfd, 0, 0, 0), DENIED(ENOSYS));
    assert_int_equal(call(1000, 0, 0, 0), DENIED(ENOSYS));
}

static void test_useful_calls(void **state UNUSED)
{
    static const long needed[] = {
        __NR_read,
        __NR_write,
        __NR_openat,
        __NR_close,
        __NR_mmap,
        __NR_munmap,
        __NR_mprotect,
        __NR_brk,
        __NR_execve,
        __NR_exit_group,
        __NR_wait4,
        __NR_kill,
        __NR_futex,
        __NR_epoll_pwait,
        __NR_accept4,
        __NR_connect,
        __NR_bind,
        __NR_sendmsg,
        __NR_recvmsg,
        __NR_getrandom,
        __NR_memfd_create,
        __NR_statx,
        __NR_ptrace,
        __NR_inotify_init1,
        __NR_prlimit64,
        __NR_sched_setaffinity,
        __NR_setresuid,
        __NR_setgroups,
        __NR_rt_sigaction,
        __NR_rseq,
        __NR_copy_file_range,
        __NR_seccomp,
        __NR_mq_open,
        __NR_shmget,
        __NR_io_setup,
        __NR_fallocate,
        __NR_fchmodat,
        __NR_signalfd4,
        __NR_timerfd_create,
        __NR_eventfd2,
        __NR_pidfd_open,
        __NR_close_range,
        __NR_faccessat2,
        __NR_openat2,
        452 /* fchmodat2 */,
        449 /* futex_waitv */,
        462 /* mseal */,
    };
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (call(needed[i], 0, 0, 0) != ALLOWED)
            fail_msg("call %ld is not allowed", needed[i]);
}

static void test_namespaces(void **state UNUSED)
{
    static const uint64_t flags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                     CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};

    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        assert_int_equal(call(__NR_clone, flags[i] | 17, 0, 0), DENIED(EPERM));
        assert_int_equal(call(__NR_clone, flags[i] | HIGH, 0, 0), DENIED(EPERM));
        assert_int_equal(call(__NR_unshare, flags[i], 0, 0), DENIED(EPERM));
        assert_int_equal(call(__NR_unshare, flags[i] | HIGH, 0, 0), DENIED(EPERM));
    }
    assert_int_equal(call(__NR_unshare, 0x80 /* CLONE_NEWTIME */, 0, 0), DENIED(EPERM));
    assert_int_equal(call(__NR_unshare, CLONE_FS | CLONE_FILES, 0, 0), ALLOWED);
    assert_int_equal(call(__NR_clone, CLONE_VM | CLONE_VFORK | 17, 0, 0), ALLOWED);
    assert_int_equal(call(__NR_clone, CLONE_THREAD | CLONE_VM | CLONE_SIGHAND | CLONE_SETTLS, 0, 0), ALLOWED);
    assert_int_equal(call(__NR_clone, 17 | HIGH, 0, 0), ALLOWED);
}

static void test_sockets(void **state UNUSED)
{
    for (uint64_t family = 0; family < 64; family++) {
        for (uint64_t type = 0; type < 16; type++) {
            for (uint64_t protocol = 0; protocol < 300; protocol++) {
                bool inet = family == AF_INET || family == AF_INET6 || family == AF_UNIX;
                bool plain = type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_SEQPACKET;
                bool transport = protocol == 0 || protocol == 1 || protocol == 6 || protocol == 17 || protocol == 58;
                bool allowed = (inet && plain && transport) || (family == AF_NETLINK && protocol == 0);
                uint32_t r = call(__NR_socket, family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
                if ((r == ALLOWED) != allowed)
                    fail_msg("socket %d %d %d answers %x", (int)family, (int)type, (int)protocol, r);
            }
        }
        assert_int_equal(call(__NR_socketpair, family, SOCK_STREAM, 0) == ALLOWED, family == AF_UNIX);
    }
    /* The kernel takes an int. */
    assert_int_equal(call(__NR_socket, 40 | HIGH, SOCK_STREAM, 0), DENIED(EAFNOSUPPORT));
    assert_int_equal(call(__NR_socket, AF_INET | HIGH, SOCK_RAW | HIGH, 0), DENIED(EPERM));
}

static void test_arguments(void **state UNUSED)
{
    assert_int_equal(call(__NR_ioctl, 0, TIOCSTI, 0), DENIED(EPERM));
    assert_int_equal(call(__NR_ioctl, 0, TIOCLINUX, 0), DENIED(EPERM));
    assert_int_equal(call(__NR_ioctl, 0, TIOCSTI | HIGH, 0), DENIED(EPERM));
    assert_int_equal(call(__NR_ioctl, 0, TIOCLINUX | (0xffffull << 32), 0), DENIED(EPERM));
    assert_int_equal(call(__NR_ioctl, 0, TIOCGWINSZ, 0), ALLOWED);
    assert_int_equal(call(__NR_ioctl, TIOCSTI, TIOCGWINSZ, TIOCSTI), ALLOWED);

    assert_int_equal(call(__NR_setsockopt, 3, 6, 31), DENIED(EPERM));
    assert_int_equal(call(__NR_setsockopt, 3, 6 | HIGH, 31 | HIGH), DENIED(EPERM));
    assert_int_equal(call(__NR_setsockopt, 3, 6, 1), ALLOWED);
    assert_int_equal(call(__NR_setsockopt, 3, SOL_SOCKET, 31), ALLOWED);

    assert_int_equal(call(__NR_personality, 0, 0, 0), ALLOWED);
    assert_int_equal(call(__NR_personality, 0xffffffff, 0, 0), ALLOWED);
    assert_int_equal(call(__NR_personality, 0x0040000 /* ADDR_NO_RANDOMIZE */, 0, 0), DENIED(EPERM));
    assert_int_equal(call(__NR_personality, 0x0400000 /* READ_IMPLIES_EXEC */, 0, 0), DENIED(EPERM));
}

/* The first process is the guest: its limits and its place on the processors are nobody's to change. */
static void test_guest(void **state UNUSED)
{
    static const long by_pid[] = {__NR_prlimit64, __NR_sched_setparam, __NR_sched_setscheduler, __NR_sched_setaffinity,
                                  __NR_sched_setattr};

    for (size_t i = 0; i < ARRAY_LEN(by_pid); i++) {
        assert_int_equal(call(by_pid[i], 1, 0, 0), DENIED(EPERM));
        assert_int_equal(call(by_pid[i], 1 | HIGH, 0, 0), DENIED(EPERM));
        assert_int_equal(call(by_pid[i], 0, 1, 1), ALLOWED);
        assert_int_equal(call(by_pid[i], 2, 1, 1), ALLOWED);
    }
    const struct {
        long nr;
        uint64_t process, user;
    } priorities[] = {{__NR_setpriority, 0, 2}, {__NR_ioprio_set, 1, 3}};
    for (size_t i = 0; i < ARRAY_LEN(priorities); i++) {
        assert_int_equal(call(priorities[i].nr, priorities[i].process, 1, 0), DENIED(EPERM));
        assert_int_equal(call(priorities[i].nr, priorities[i].process + 1, 1, 0), DENIED(EPERM));
        assert_int_equal(call(priorities[i].nr, priorities[i].process | HIGH, 1 | HIGH, 0), DENIED(EPERM));
        assert_int_equal(call(priorities[i].nr, priorities[i].user, 0, 0), DENIED(EPERM));
        assert_int_equal(call(priorities[i].nr, priorities[i].user | HIGH, 12, 0), DENIED(EPERM));
        assert_int_equal(call(priorities[i].nr, priorities[i].process, 0, 1), ALLOWED);
        assert_int_equal(call(priorities[i].nr, priorities[i].process, 7, 1), ALLOWED);
    }
}

static void test_prctl(void **state UNUSED)
{
    static const uint32_t allowed[] = {1,  2,  3,  4,  7,  8,  15, 16, 21,         22,         23,        24, 25,
                                       27, 28, 29, 30, 36, 37, 38, 39, 40,         41,         42,        47, 50,
                                       51, 52, 53, 54, 55, 56, 65, 66, 0x41555856, 0x53564d41, 0x59616d61};
    for (uint32_t option = 0; option < 300; option++) {
        bool listed = false;
        for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
            listed |= allowed[i] == option;
        assert_int_equal(call(__NR_prctl, option, 0, 0), listed ? ALLOWED : DENIED(EINVAL));
        assert_int_equal(call(__NR_prctl, option | HIGH, 0, 0), listed ? ALLOWED : DENIED(EINVAL));
    }
    assert_int_equal(call(__NR_prctl, 0x59616d61, 0, 0), ALLOWED);
    assert_int_equal(call(__NR_prctl, 0x53564d41, 0, 0), ALLOWED);
    assert_int_equal(call(__NR_prctl, 0x80000000, 0, 0), DENIED(EINVAL));
    assert_int_equal(call(__NR_prctl, UINT32_MAX, 0, 0), DENIED(EINVAL));
}

/* What the kernel's verifier of filters demands: every jump lands inside, the last instruction returns. */
static void test_jumps(void **state UNUSED)
{
    for (size_t i = 0; i < program_len; i++) {
        const struct sock_filter *f = &program[i];
        if (BPF_CLASS(f->code) != BPF_JMP)
            continue;
        size_t far = BPF_OP(f->code) == BPF_JA ? f->k : MAX(f->jt, f->jf);
        assert_true(i + 1 + far < program_len);
    }
    assert_int_equal(BPF_CLASS(program[program_len - 1].code), BPF_RET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_ends), cmocka_unit_test(test_foreign_abi_kills),
        cmocka_unit_test(test_dangerous_calls), cmocka_unit_test(test_useful_calls),
        cmocka_unit_test(test_namespaces),      cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_arguments),       cmocka_unit_test(test_guest),
        cmocka_unit_test(test_prctl),           cmocka_unit_test(test_jumps),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
