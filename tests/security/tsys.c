/*
 * One system call, as seen from where this runs: `tsys NAME [ARGUMENT...]` makes it in a child and prints "OK", the
 * name of the error, or "KILLED". Static, so that it runs in any root.
 *
 * An argument is a number (0x… too), NULL, BUF (4096 zero bytes), or a text, passed by address. NAME may be a number.
 * "x32 NUMBER" makes the call with the x32 bit, "int80 NUMBER" through the 32-bit gate.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALL(name)                                                                                                     \
    {                                                                                                                  \
#name, SYS_##name                                                                                              \
    }

static const struct {
    const char *name;
    long number;
} calls[] = {
    CALL(acct),
    CALL(add_key),
    CALL(adjtimex),
    CALL(bpf),
    CALL(chroot),
    CALL(clock_adjtime),
    CALL(clock_settime),
    CALL(clone),
    CALL(delete_module),
    CALL(fanotify_init),
    CALL(finit_module),
    CALL(getpid),
    CALL(init_module),
    CALL(ioctl),
    CALL(ioprio_set),
    CALL(kcmp),
    CALL(kexec_load),
    CALL(keyctl),
    CALL(kill),
    CALL(lookup_dcookie),
    CALL(mbind),
    CALL(migrate_pages),
    CALL(mknodat),
    CALL(mount),
    CALL(move_pages),
    CALL(nfsservctl),
    CALL(open_by_handle_at),
    CALL(openat),
    CALL(perf_event_open),
    CALL(personality),
    CALL(pivot_root),
    CALL(prctl),
    CALL(prlimit64),
    CALL(process_vm_readv),
    CALL(ptrace),
    CALL(quotactl),
    CALL(reboot),
    CALL(request_key),
    CALL(sched_setaffinity),
    CALL(sched_setscheduler),
    CALL(setdomainname),
    CALL(sethostname),
    CALL(setns),
    CALL(setpriority),
    CALL(settimeofday),
    CALL(setsockopt),
    CALL(socket),
    CALL(socketpair),
    CALL(swapoff),
    CALL(swapon),
    CALL(syslog),
    CALL(umount2),
    CALL(unshare),
    CALL(userfaultfd),
    CALL(vhangup),
    CALL(vmsplice),
#if defined(__x86_64__)
    CALL(ioperm),
    CALL(iopl),
    CALL(kexec_file_load),
    CALL(modify_ldt),
    {"sysfs", SYS_sysfs},
    {"ustat", SYS_ustat},
    {"uselib", SYS_uselib},
    {"sysctl", SYS__sysctl},
#endif
    {"io_uring_setup", 425},
    {"io_uring_enter", 426},
    {"io_uring_register", 427},
    {"open_tree", 428},
    {"move_mount", 429},
    {"fsopen", 430},
    {"fsconfig", 431},
    {"fsmount", 432},
    {"fspick", 433},
    {"pidfd_open", 434},
    {"clone3", 435},
    {"pidfd_getfd", 438},
    {"mount_setattr", 442},
    {"quotactl_fd", 443},
    {"memfd_secret", 447},
    {"cachestat", 451},
    {"statmount", 457},
    {"listmount", 458},
    {"open_tree_attr", 467},
};

static char zeros[4096];

static long number_of(const char *name)
{
    char *end;
    long n = strtol(name, &end, 0);

    if (*name && !*end)
        return n;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(calls[i].name, name) == 0)
            return calls[i].number;
    fprintf(stderr, "tsys: unknown call %s\n", name);
    exit(2);
}

static long argument(char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 0);

    if (*text && !*end)
        return (long)n;
    if (strcmp(text, "NULL") == 0)
        return 0;
    if (strcmp(text, "BUF") == 0)
        return (long)zeros;
    return (long)text;
}

static long int80(long number)
{
#if defined(__x86_64__)
    long ret;
    __asm__ volatile("int $0x80"
                     : "=a"(ret)
                     : "0"(number), "b"(0), "c"(0), "d"(0)
                     : "memory", "r8", "r9", "r10", "r11");
    if (ret < 0 && ret > -4096) {
        errno = (int)-ret;
        return -1;
    }
    return ret;
#else
    (void)number;
    errno = ENOSYS;
    return -1;
#endif
}

static void child(int argc, char **argv)
{
    long a[6] = {0};
    long r;

    if (strcmp(argv[1], "int80") == 0) {
        r = int80(number_of(argv[2]));
    } else if (strcmp(argv[1], "x32") == 0) {
        r = syscall(number_of(argv[2]) | 0x40000000);
    } else {
        for (int i = 2; i < argc && i < 8; i++)
            a[i - 2] = argument(argv[i]);
        long nr = number_of(argv[1]);
        r = syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
        if (r == 0 && (nr == SYS_clone || nr == 435))
            _exit(0); /* the child of the child */
    }
    puts(r < 0 ? strerrorname_np(errno) ? strerrorname_np(errno) : "UNKNOWN" : "OK");
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv)
{
    int status;

    if (argc < 2 || (argc < 3 && (strcmp(argv[1], "x32") == 0 || strcmp(argv[1], "int80") == 0)))
        return 2;
    pid_t pid = fork();
    if (pid < 0)
        return 2;
    if (pid == 0)
        child(argc, argv);
    if (waitpid(pid, &status, 0) < 0)
        return 2;
    if (WIFSIGNALED(status))
        puts("KILLED");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}
