#include "node/native/seccomp.h"

#include "node/native/seccomp_table.h"
#include "node/native/sys.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif

#define CALLS_MAX 512 /* numbers the table can hold; higher ones answer ENOSYS */

/* What to do with a call number. */
enum action {
    NOT_KNOWN, /* ENOSYS */
    ALLOW,
    REFUSE, /* EPERM */
    RULE_CLONE,
    RULE_UNSHARE,
    RULE_SOCKET,
    RULE_SOCKETPAIR,
    RULE_SETSOCKOPT,
    RULE_IOCTL,
    RULE_PERSONALITY,
    RULE_PRCTL,
    RULE_NOT_FIRST,
    RULE_SETPRIORITY,
    RULE_IOPRIO_SET,
};

#define NEW_NAMESPACES 0x7e020000u /* CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET */
#define NEW_TIME 0x00000080u       /* in unshare(); in clone() these bits are the exit signal */
#define TCP_LEVEL 6
#define FIRST_PROCESS 1  /* the guest, as its sandbox numbers it */
#define PRIO_OF_USER 2   /* PRIO_USER of setpriority() */
#define IOPRIO_OF_USER 3 /* IOPRIO_WHO_USER of ioprio_set() */
#define TCP_ULP_OPTION 31

/* Options of prctl that change the calling process alone and that programs use. Others answer EINVAL. */
static const uint8_t prctl_small[] = {
    1,  2,      /* SET_PDEATHSIG, GET */
    3,  4,      /* GET_DUMPABLE, SET */
    7,  8,      /* GET_KEEPCAPS, SET */
    15, 16,     /* SET_NAME, GET */
    21, 22,     /* GET_SECCOMP, SET */
    23, 24,     /* CAPBSET_READ, DROP */
    25,         /* GET_TSC */
    27, 28,     /* GET_SECUREBITS, SET */
    29, 30,     /* SET_TIMERSLACK, GET */
    36, 37,     /* SET_CHILD_SUBREAPER, GET */
    38, 39,     /* SET_NO_NEW_PRIVS, GET */
    40,         /* GET_TID_ADDRESS */
    41, 42,     /* SET_THP_DISABLE, GET */
    47,         /* CAP_AMBIENT */
    50, 51,     /* SVE_SET_VL, GET */
    52, 53,     /* GET_SPECULATION_CTRL, SET */
    54, 55, 56, /* PAC_RESET_KEYS, SET_TAGGED_ADDR_CTRL, GET */
};
static const uint32_t prctl_large[] = {
    65,         /* SET_MDWE */
    66,         /* GET_MDWE */
    0x41555856, /* GET_AUXV */
    0x53564d41, /* SET_VMA: names of anonymous memory */
    0x59616d61, /* SET_PTRACER of Yama */
};

struct program {
    struct sock_filter *code;
    size_t len;
};

static void emit(struct program *p, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
    if (p->len >= SECCOMP_PROGRAM_MAX)
        abort(); /* the table has outgrown the buffer: a unit test compiles it */
    p->code[p->len++] = (struct sock_filter){code, jt, jf, k};
}

static void emit_return(struct program *p, uint32_t value)
{
    emit(p, BPF_RET | BPF_K, 0, 0, value);
}

static void emit_errno(struct program *p, int code)
{
    emit_return(p, SECCOMP_RET_ERRNO | (uint32_t)code);
}

static void emit_allow(struct program *p)
{
    emit_return(p, SECCOMP_RET_ALLOW);
}

static void emit_load(struct program *p, uint32_t offset)
{
    emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, offset);
}

/*
 * The low half of an argument. The kernel takes these arguments as 32 bits, so the upper half must not decide
 * anything, or a caller hides a value from the filter by setting a bit in it.
 */
static void emit_load_arg(struct program *p, unsigned index)
{
    emit_load(p, (uint32_t)(offsetof(struct seccomp_data, args) + index * sizeof(uint64_t)));
}

/* Allows when A equals one of the values. Leaves A. */
static void emit_allow_values(struct program *p, const uint32_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, values[i]);
        emit_allow(p);
    }
}

/* Falls through when A is one of the values, else the errno. */
static void emit_require(struct program *p, const uint32_t *values, uint8_t count, int code)
{
    for (uint8_t i = 0; i < count; i++)
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, (uint8_t)(count - i), 0, values[i]);
    emit_errno(p, code);
}

static void emit_deny_bits(struct program *p, unsigned arg, uint32_t bits)
{
    emit_load_arg(p, arg);
    emit(p, BPF_JMP | BPF_JSET | BPF_K, 0, 1, bits);
    emit_errno(p, EPERM);
    emit_allow(p);
}

/* Families UNIX, INET, INET6 with the plain transports; NETLINK for reading routes and addresses. */
static void emit_socket(struct program *p)
{
    static const uint32_t families[] = {AF_UNIX, AF_INET, AF_INET6};
    static const uint32_t types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    static const uint32_t protocols[] = {0, 1 /* ICMP */, 6 /* TCP */, 17 /* UDP */, 58 /* ICMPv6 */};

    emit_load_arg(p, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, AF_NETLINK);
    emit_load_arg(p, 2);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0 /* NETLINK_ROUTE */);
    emit_allow(p);
    emit_errno(p, EPROTONOSUPPORT);
    emit_require(p, families, ARRAY_LEN(families), EAFNOSUPPORT);
    emit_load_arg(p, 1);
    emit(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xf); /* the rest are flags */
    emit_require(p, types, ARRAY_LEN(types), EPERM);
    emit_load_arg(p, 2);
    emit_allow_values(p, protocols, ARRAY_LEN(protocols));
    emit_errno(p, EPROTONOSUPPORT);
}

static void emit_socketpair(struct program *p)
{
    emit_load_arg(p, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, AF_UNIX);
    emit_allow(p);
    emit_errno(p, EAFNOSUPPORT);
}

/* TLS and ESP inside the kernel's TCP. */
static void emit_setsockopt(struct program *p)
{
    emit_load_arg(p, 1);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 3, TCP_LEVEL);
    emit_load_arg(p, 2);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, TCP_ULP_OPTION);
    emit_errno(p, EPERM);
    emit_allow(p);
}

/* Typing into the terminal of somebody else. */
static void emit_ioctl(struct program *p)
{
    emit_load_arg(p, 1);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, TIOCSTI);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, TIOCLINUX);
    emit_errno(p, EPERM);
    emit_allow(p);
}

static void emit_personality(struct program *p)
{
    static const uint32_t values[] = {0 /* PER_LINUX */, 0xffffffff /* query */};

    emit_load_arg(p, 0);
    emit_allow_values(p, values, ARRAY_LEN(values));
    emit_errno(p, EPERM);
}

/* The small options by a bitmap of two words, which keeps the program short. */
static void emit_prctl(struct program *p)
{
    uint32_t words[2] = {0};

    for (size_t i = 0; i < ARRAY_LEN(prctl_small); i++)
        words[prctl_small[i] / 32] |= 1u << (prctl_small[i] % 32);
    emit_load_arg(p, 0);
    emit_allow_values(p, prctl_large, ARRAY_LEN(prctl_large));
    emit(p, BPF_JMP | BPF_JGE | BPF_K, 9, 0, 64);
    emit(p, BPF_MISC | BPF_TAX, 0, 0, 0);
    emit(p, BPF_JMP | BPF_JGE | BPF_K, 2, 0, 32);
    emit(p, BPF_LD | BPF_IMM, 0, 0, words[0]);
    emit(p, BPF_JMP | BPF_JA, 0, 0, 3);
    emit(p, BPF_ALU | BPF_SUB | BPF_K, 0, 0, 32);
    emit(p, BPF_MISC | BPF_TAX, 0, 0, 0);
    emit(p, BPF_LD | BPF_IMM, 0, 0, words[1]);
    emit(p, BPF_ALU | BPF_RSH | BPF_X, 0, 0, 0);
    emit(p, BPF_JMP | BPF_JSET | BPF_K, 1, 0, 1);
    emit_errno(p, EINVAL);
    emit_allow(p);
}

/* The guest has the user id of root inside: limits and scheduling of it must not be another's to set. */
static void emit_not_first(struct program *p, unsigned arg)
{
    emit_load_arg(p, arg);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, FIRST_PROCESS);
    emit_errno(p, EPERM);
    emit_allow(p);
}

/* (which, who): nor by way of all processes of its user. */
static void emit_priority(struct program *p, uint32_t of_user)
{
    emit_load_arg(p, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, of_user);
    emit_errno(p, EPERM);
    emit_not_first(p, 1);
}

static void emit_action(struct program *p, enum action action)
{
    switch (action) {
    case NOT_KNOWN:
        emit_errno(p, ENOSYS);
        break;
    case ALLOW:
        emit_allow(p);
        break;
    case REFUSE:
        emit_errno(p, EPERM);
        break;
    case RULE_CLONE:
        emit_deny_bits(p, 0, NEW_NAMESPACES);
        break;
    case RULE_UNSHARE:
        emit_deny_bits(p, 0, NEW_NAMESPACES | NEW_TIME);
        break;
    case RULE_SOCKET:
        emit_socket(p);
        break;
    case RULE_SOCKETPAIR:
        emit_socketpair(p);
        break;
    case RULE_SETSOCKOPT:
        emit_setsockopt(p);
        break;
    case RULE_IOCTL:
        emit_ioctl(p);
        break;
    case RULE_PERSONALITY:
        emit_personality(p);
        break;
    case RULE_PRCTL:
        emit_prctl(p);
        break;
    case RULE_NOT_FIRST:
        emit_not_first(p, 0);
        break;
    case RULE_SETPRIORITY:
        emit_priority(p, PRIO_OF_USER);
        break;
    case RULE_IOPRIO_SET:
        emit_priority(p, IOPRIO_OF_USER);
        break;
    }
}

static void fill_actions(uint8_t actions[CALLS_MAX])
{
#define SET_ALLOW(name) actions[__NR_##name] = ALLOW;
#define SET_ALLOW_NUMBER(number, name) actions[number] = ALLOW;
#define SET_REFUSE(name) actions[__NR_##name] = REFUSE;
#define SET_REFUSE_NUMBER(number, name) actions[number] = REFUSE;
    SECCOMP_ALLOWED(SET_ALLOW)
    SECCOMP_ALLOWED_NEW(SET_ALLOW_NUMBER)
    SECCOMP_REFUSED(SET_REFUSE)
    SECCOMP_REFUSED_NEW(SET_REFUSE_NUMBER)
#if defined(__x86_64__)
    SECCOMP_ALLOWED_X86_64(SET_ALLOW)
    SECCOMP_REFUSED_X86_64(SET_REFUSE)
#endif
    actions[__NR_clone] = RULE_CLONE;
    actions[__NR_unshare] = RULE_UNSHARE;
    actions[__NR_socket] = RULE_SOCKET;
    actions[__NR_socketpair] = RULE_SOCKETPAIR;
    actions[__NR_setsockopt] = RULE_SETSOCKOPT;
    actions[__NR_ioctl] = RULE_IOCTL;
    actions[__NR_personality] = RULE_PERSONALITY;
    actions[__NR_prctl] = RULE_PRCTL;
    actions[__NR_prlimit64] = RULE_NOT_FIRST;
    actions[__NR_sched_setparam] = RULE_NOT_FIRST;
    actions[__NR_sched_setscheduler] = RULE_NOT_FIRST;
    actions[__NR_sched_setaffinity] = RULE_NOT_FIRST;
    actions[__NR_sched_setattr] = RULE_NOT_FIRST;
    actions[__NR_setpriority] = RULE_SETPRIORITY;
    actions[__NR_ioprio_set] = RULE_IOPRIO_SET;
}

struct range {
    uint16_t first;
    uint8_t action;
};

/*
 * ranges[0..count) cover the numbers from ranges[0].first up. Emits code that expects the number in A: one comparison
 * with the middle, then the lower half, then the upper half.
 */
static void emit_tree(struct program *p, const struct range *ranges, size_t count)
{
    if (count == 1) {
        emit_action(p, ranges[0].action);
        return;
    }
    size_t middle = count / 2;
    emit(p, BPF_JMP | BPF_JGE | BPF_K, 0, 1, ranges[middle].first);
    size_t jump = p->len;
    emit(p, BPF_JMP | BPF_JA, 0, 0, 0);
    emit_tree(p, ranges, middle);
    size_t distance = p->len - jump - 1;
    if (distance <= UINT8_MAX - 1) {
        /* The near form: the comparison itself jumps, and the JA is taken out. */
        for (size_t i = jump; i + 1 < p->len; i++)
            p->code[i] = p->code[i + 1];
        p->len--;
        p->code[jump - 1].jt = (uint8_t)distance;
        p->code[jump - 1].jf = 0;
    } else {
        p->code[jump].k = (uint32_t)distance;
    }
    emit_tree(p, ranges + middle, count - middle);
}

size_t seccomp_compile(struct sock_filter code[SECCOMP_PROGRAM_MAX])
{
    uint8_t actions[CALLS_MAX + 1] = {0}; /* the last entry stands for all that follow */
    struct range ranges[CALLS_MAX + 1];
    size_t count = 0;

    fill_actions(actions);
    for (size_t nr = 0; nr <= CALLS_MAX; nr++)
        if (count == 0 || actions[nr] != ranges[count - 1].action)
            ranges[count++] = (struct range){(uint16_t)nr, actions[nr]};

    struct program p = {code, 0};
    emit_load(&p, offsetof(struct seccomp_data, arch));
    emit(&p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, NATIVE_ARCH);
    emit_return(&p, SECCOMP_RET_KILL_PROCESS);
    emit_load(&p, offsetof(struct seccomp_data, nr));
    /* x32 numbers have bit 30 set: beyond the table, thus ENOSYS like all that is beyond it. */
    emit_tree(&p, ranges, count);
    return p.len;
}

int seccomp_install(struct error *err)
{
    struct sock_filter code[SECCOMP_PROGRAM_MAX];
    struct sock_fprog program = {.len = (unsigned short)seccomp_compile(code), .filter = code};

    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        return error_set_errno(err, errno, "install the system call filter");
    return 0;
}

bool seccomp_supported(void)
{
    uint32_t action = SECCOMP_RET_KILL_PROCESS;

    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}
