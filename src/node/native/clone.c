#include "node/native/clone.h"

#include "node/native/sys.h"

#include <linux/sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define CHILD_STACK_SIZE (256 * 1024)
#define IDLE_DYING_MAX 8

/*
 * The child starts on another stack (or on none), which C cannot express: fn(arg) is called, and its result ends the
 * child, without returning to this frame.
 */
static long clone3_call(struct clone_args *args, int (*fn)(void *), void *arg)
{
#if defined(__x86_64__)
    long ret;
    register int (*fn_reg)(void *) __asm__("r8") = fn;
    register void *arg_reg __asm__("r9") = arg;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r9, %%rdi\n\t"
                     "call *%%r8\n\t"
                     "mov %%eax, %%edi\n\t"
                     "mov %[exit], %%eax\n\t"
                     "syscall\n\t"
                     "hlt\n\t"
                     "1:"
                     : "=a"(ret)
                     : "0"((long)SYS_clone3), "D"(args), "S"(sizeof(*args)), "r"(fn_reg),
                       "r"(arg_reg), [exit] "i"(SYS_exit)
                     : "rcx", "r11", "memory", "cc");
    return ret;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_clone3;
    register long x0 __asm__("x0") = (long)args;
    register long x1 __asm__("x1") = (long)sizeof(*args);
    register int (*fn_reg)(void *) __asm__("x10") = fn;
    register void *arg_reg __asm__("x11") = arg;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, x11\n\t"
                     "blr x10\n\t"
                     "mov x8, %[exit]\n\t"
                     "svc #0\n\t"
                     "brk #0\n\t"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(fn_reg), "r"(arg_reg), [exit] "i"(SYS_exit)
                     : "memory", "cc");
    return x0;
#else
#error "the native backend knows x86-64 and aarch64"
#endif
}

/*
 * The child uses no stack and writes no memory: it asks to die with its parent, looks whether that has died already,
 * and sleeps.
 */
static long clone3_idle(struct clone_args *args)
{
    long self = getpid();
#if defined(__x86_64__)
    long ret;
    register long r8 __asm__("r8") = self;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "mov %[prctl], %%eax\n\t"
                     "mov %[pdeathsig], %%edi\n\t"
                     "mov %[kill], %%esi\n\t"
                     "syscall\n\t"
                     "mov %[getppid], %%eax\n\t"
                     "syscall\n\t"
                     "cmp %%r8, %%rax\n\t"
                     "jne 3f\n\t"
                     "2: mov %[ppoll], %%eax\n\t"
                     "xor %%edi, %%edi\n\t"
                     "xor %%esi, %%esi\n\t"
                     "xor %%edx, %%edx\n\t"
                     "xor %%r10d, %%r10d\n\t"
                     "syscall\n\t"
                     "jmp 2b\n\t"
                     "3: mov %[exit], %%eax\n\t"
                     "xor %%edi, %%edi\n\t"
                     "syscall\n\t"
                     "1:"
                     : "=a"(ret)
                     : "0"((long)SYS_clone3), "D"(args), "S"(sizeof(*args)),
                       "r"(r8), [prctl] "i"(SYS_prctl), [pdeathsig] "i"(PR_SET_PDEATHSIG), [kill] "i"(SIGKILL),
                       [ppoll] "i"(SYS_ppoll), [getppid] "i"(SYS_getppid), [exit] "i"(SYS_exit)
                     : "rcx", "rdx", "r10", "r11", "memory", "cc");
    return ret;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_clone3;
    register long x0 __asm__("x0") = (long)args;
    register long x1 __asm__("x1") = (long)sizeof(*args);
    register long x9 __asm__("x9") = self;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x8, %[prctl]\n\t"
                     "mov x0, %[pdeathsig]\n\t"
                     "mov x1, %[kill]\n\t"
                     "svc #0\n\t"
                     "mov x8, %[getppid]\n\t"
                     "svc #0\n\t"
                     "cmp x0, x9\n\t"
                     "b.ne 3f\n\t"
                     "2: mov x8, %[ppoll]\n\t"
                     "mov x0, xzr\n\t"
                     "mov x1, xzr\n\t"
                     "mov x2, xzr\n\t"
                     "mov x3, xzr\n\t"
                     "svc #0\n\t"
                     "b 2b\n\t"
                     "3: mov x8, %[exit]\n\t"
                     "mov x0, xzr\n\t"
                     "svc #0\n\t"
                     "1:"
                     : "+r"(x0), "+r"(x1)
                     : "r"(x8), "r"(x9), [prctl] "i"(SYS_prctl), [pdeathsig] "i"(PR_SET_PDEATHSIG), [kill] "i"(SIGKILL),
                       [ppoll] "i"(SYS_ppoll), [getppid] "i"(SYS_getppid), [exit] "i"(SYS_exit)
                     : "x2", "x3", "memory", "cc");
    return x0;
#endif
}

/* The last one that was used and is free. */
static _Atomic(void *) spare_stack;

/* Of the stack nothing remains to be freed when the child has executed a program or lives as long as the memory. */
static int map_stack(void **ret, struct error *err)
{
    void *stack = atomic_exchange(&spare_stack, NULL);

    if (!stack)
        stack = mmap(NULL, CHILD_STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

    if (stack == MAP_FAILED)
        return error_set_errno(err, errno, "allocate the stack of a child");
    *ret = stack;
    return 0;
}

static void give_stack(void *stack)
{
    stack = atomic_exchange(&spare_stack, stack);
    if (stack)
        (void)munmap(stack, CHILD_STACK_SIZE);
}

/* A handler that ran in the child would act on the parent's data: all signals are blocked from before the start. */
static long clone_blocked(struct clone_args *args, int (*fn)(void *), void *arg)
{
    sigset_t all, before;

    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, &before) < 0)
        return -errno;
    long pid = fn ? clone3_call(args, fn, arg) : clone3_idle(args);
    (void)sigprocmask(SIG_SETMASK, &before, NULL); /* cannot fail with these arguments */
    return pid;
}

pid_t clone_and_wait_exec(const struct clone_request *request, int *ret_pidfd, struct error *err)
{
    void *stack;
    int r = map_stack(&stack, err);
    if (r < 0)
        return r;
    int pidfd = -1;
    struct clone_args args = {
        .flags = request->flags | CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
        .pidfd = (uintptr_t)&pidfd,
        .exit_signal = request->flags & CLONE_PARENT ? 0 : SIGCHLD,
        .stack = (uintptr_t)stack,
        .stack_size = CHILD_STACK_SIZE,
        .cgroup = request->flags & CLONE_INTO_CGROUP ? (uint64_t)request->cgroup : 0,
    };
    long pid = clone_blocked(&args, request->fn, request->arg);
    give_stack(stack);
    if (pid < 0)
        return error_set_errno(err, (int)-pid, "clone");
    *ret_pidfd = pidfd;
    return (pid_t)pid;
}

int clone_beside(uint64_t flags, int (*fn)(void *arg), void *arg, int *ret_pidfd, struct error *err)
{
    void *stack;
    int r = map_stack(&stack, err);
    if (r < 0)
        return r;
    int pidfd = -1;
    struct clone_args args = {
        .flags = flags | CLONE_VM | CLONE_CLEAR_SIGHAND | (ret_pidfd ? CLONE_PIDFD : 0),
        .pidfd = (uintptr_t)&pidfd,
        .stack = (uintptr_t)stack,
        .stack_size = CHILD_STACK_SIZE,
    };
    long pid = clone_blocked(&args, fn, arg);
    if (pid < 0) {
        give_stack(stack);
        return error_set_errno(err, (int)-pid, "clone");
    }
    if (ret_pidfd)
        *ret_pidfd = pidfd;
    return 0;
}

pid_t clone_idle(uint64_t flags, int *ret_pidfd, struct error *err)
{
    int pidfd = -1;
    struct clone_args args = {.flags = flags | CLONE_VM | CLONE_PIDFD, .pidfd = (uintptr_t)&pidfd};
    long pid = clone_blocked(&args, NULL, NULL);
    if (pid < 0)
        return error_set_errno(err, (int)-pid, "clone");
    *ret_pidfd = pidfd;
    return (pid_t)pid;
}

/*
 * Killed, but not always dead at once: while the other processors are busy it may take a while until the child is run
 * for the last time. Nobody need wait for that; it is reaped with the next one.
 */
void clone_idle_end(int pidfd)
{
    static int dying[IDLE_DYING_MAX];
    static unsigned count;

    (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0); /* fails only when it is dead already */
    if (count == IDLE_DYING_MAX)
        clone_reap(dying[--count]);
    dying[count++] = pidfd;
    for (unsigned i = 0; i < count;) {
        siginfo_t info = {0};
        if (waitid(P_PIDFD, (id_t)dying[i], &info, WEXITED | WNOHANG | __WALL) == 0 && info.si_pid == 0) {
            i++;
            continue;
        }
        (void)close(dying[i]);
        dying[i] = dying[--count];
    }
}

void clone_reap(int pidfd)
{
    siginfo_t info;

    while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | __WALL) < 0 && errno == EINTR)
        ;
    (void)close(pidfd);
}
