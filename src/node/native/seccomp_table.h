/*
 * Names of the system calls, for seccomp.c: A(name) is allowed, P(name) answers EPERM, all others ENOSYS.
 * One list per group; those that only x86-64 has come last. Numbers from 424 up are the same on every architecture and
 * newer than some headers, so they are given: N(number, name).
 */
/* clang-format off */

#define SECCOMP_ALLOWED(A)                                                                                             \
    /* files */                                                                                                        \
    A(read)                                                                                                            \
    A(write)                                                                                                           \
    A(close)                                                                                                           \
    A(fstat)                                                                                                           \
    A(lseek)                                                                                                           \
    A(pread64) A(pwrite64) A(readv) A(writev) A(preadv) A(pwritev) A(preadv2) A(pwritev2) A(openat) A(mkdirat)         \
        A(mknodat) A(fchownat) A(newfstatat) A(unlinkat) A(renameat) A(renameat2) A(linkat) A(symlinkat) A(readlinkat) \
            A(fchmodat) A(faccessat) A(utimensat) A(statx) A(truncate) A(ftruncate) A(fallocate) A(fcntl) A(flock)     \
                A(fsync) A(fdatasync) A(sync) A(syncfs) A(sync_file_range) A(dup) A(dup3) A(pipe2) A(getdents64)       \
                    A(getcwd) A(chdir) A(fchdir) A(fchmod) A(fchown) A(umask) A(statfs) A(fstatfs) A(sendfile)         \
                        A(splice) A(tee) A(copy_file_range) A(readahead) A(fadvise64) A(memfd_create)                  \
                            A(name_to_handle_at) A(setxattr) A(lsetxattr) A(fsetxattr) A(getxattr) A(lgetxattr)        \
                                A(fgetxattr) A(listxattr) A(llistxattr) A(flistxattr) A(removexattr) A(lremovexattr)   \
                                    A(fremovexattr) A(inotify_init1) A(inotify_add_watch) A(inotify_rm_watch)          \
                                        A(io_setup) A(io_destroy) A(io_submit) A(io_cancel) A(io_getevents)            \
                                            A(io_pgetevents) /* memory */                                              \
        A(brk) A(mmap) A(munmap) A(mremap) A(mprotect) A(madvise) A(mincore) A(msync) A(mlock) A(mlock2) A(munlock)    \
            A(mlockall) A(munlockall) A(membarrier) A(pkey_mprotect) A(pkey_alloc) A(pkey_free)                        \
                A(remap_file_pages) /* processes */                                                                    \
        A(execve) A(execveat) A(exit) A(exit_group) A(wait4) A(waitid) A(getpid) A(getppid) A(gettid) A(getpgid)       \
            A(setpgid) A(getsid) A(setsid) A(getuid) A(geteuid) A(getgid) A(getegid) A(getresuid) A(getresgid)         \
                A(setuid) A(setgid) A(setreuid) A(setregid) A(setresuid) A(setresgid) A(setfsuid) A(setfsgid)          \
                    A(getgroups) A(setgroups) A(capget) A(capset) A(getrusage) A(times) A(prlimit64) A(getrlimit)      \
                        A(setrlimit) A(getpriority) A(setpriority) A(ioprio_get) A(ioprio_set) A(set_tid_address)      \
                            A(set_robust_list) A(get_robust_list) A(rseq) A(restart_syscall) A(ptrace)                 \
                                A(process_vm_readv) A(process_vm_writev) A(seccomp) A(getcpu) A(sched_yield)           \
                                    A(sched_setparam) A(sched_getparam) A(sched_setscheduler) A(sched_getscheduler)    \
                                        A(sched_get_priority_max) A(sched_get_priority_min) A(sched_rr_get_interval)   \
                                            A(sched_setaffinity) A(sched_getaffinity) A(sched_setattr)                 \
                                                A(sched_getattr) /* signals, time, waiting */                          \
        A(kill) A(tkill) A(tgkill) A(rt_sigaction) A(rt_sigprocmask) A(rt_sigreturn) A(rt_sigpending) A(rt_sigsuspend) \
            A(rt_sigtimedwait) A(rt_sigqueueinfo) A(rt_tgsigqueueinfo) A(sigaltstack) A(signalfd4) A(nanosleep)        \
                A(clock_nanosleep) A(clock_gettime) A(clock_getres) A(gettimeofday) A(getitimer) A(setitimer) A(       \
                    timer_create) A(timer_settime) A(timer_gettime) A(timer_getoverrun) A(timer_delete)                \
                    A(timerfd_create) A(timerfd_settime) A(timerfd_gettime) A(eventfd2) A(epoll_create1) A(epoll_ctl)  \
                        A(epoll_pwait) A(pselect6) A(ppoll) A(                                                         \
                            futex) /* sockets and System V; socket, socketpair and setsockopt go by their arguments */ \
        A(bind) A(listen) A(accept) A(accept4) A(connect) A(getsockname) A(getpeername) A(getsockopt) A(sendto)        \
            A(recvfrom) A(sendmsg) A(recvmsg) A(sendmmsg) A(recvmmsg) A(shutdown) A(shmget) A(shmat) A(shmctl)         \
                A(shmdt) A(semget) A(semop) A(semctl) A(semtimedop) A(msgget) A(msgsnd) A(msgrcv) A(msgctl) A(mq_open) \
                    A(mq_unlink) A(mq_timedsend) A(mq_timedreceive) A(mq_notify) A(mq_getsetattr) /* the system */     \
        A(uname) A(sysinfo) A(getrandom)

/* The interfaces of old that the other architectures never had. */
#define SECCOMP_ALLOWED_X86_64(A)                                                                                      \
    A(open)                                                                                                            \
    A(creat)                                                                                                           \
    A(stat)                                                                                                            \
    A(lstat)                                                                                                           \
    A(access)                                                                                                          \
    A(pipe) A(select) A(poll) A(dup2) A(pause) A(alarm) A(fork) A(vfork) A(getdents) A(rename) A(mkdir) A(rmdir)       \
        A(link) A(unlink) A(symlink) A(readlink) A(chmod) A(chown) A(lchown) A(getpgrp) A(utime) A(utimes)             \
            A(futimesat) A(mknod) A(arch_prctl) A(time) A(epoll_create) A(epoll_wait) A(inotify_init) A(signalfd)      \
                A(eventfd)

#define SECCOMP_ALLOWED_NEW(N)                                                                                         \
    N(424, pidfd_send_signal)                                                                                          \
    N(434, pidfd_open)                                                                                                 \
    N(436, close_range)                                                                                                \
    N(437, openat2)                                                                                                    \
    N(438, pidfd_getfd)                                                                                                \
    N(439, faccessat2) N(440, process_madvise) N(441, epoll_pwait2) N(444, landlock_create_ruleset)                    \
        N(445, landlock_add_rule) N(446, landlock_restrict_self) N(448, process_mrelease) N(449, futex_waitv)          \
            N(452, fchmodat2) N(453, map_shadow_stack) N(454, futex_wake) N(455, futex_wait) N(456, futex_requeue)     \
                N(462, mseal) N(463, setxattrat) N(464, getxattrat) N(465, listxattrat) N(466, removexattrat)

#define SECCOMP_REFUSED(P)                                                                                             \
    P(mount)                                                                                                           \
    P(umount2)                                                                                                         \
    P(pivot_root)                                                                                                      \
    P(chroot)                                                                                                          \
    P(setns)                                                                                                           \
    P(swapon) P(swapoff) P(reboot) P(sethostname) P(setdomainname) P(init_module) P(delete_module) P(finit_module)     \
        P(kexec_load) P(quotactl) P(acct) P(syslog) P(settimeofday) P(clock_settime) P(adjtimex) P(clock_adjtime)      \
            P(vhangup) P(open_by_handle_at) P(fanotify_init) P(fanotify_mark) P(bpf) P(kcmp) P(vmsplice) P(mbind)      \
                P(set_mempolicy) P(get_mempolicy) P(migrate_pages) P(move_pages) P(perf_event_open) P(lookup_dcookie)  \
                    P(nfsservctl)

#define SECCOMP_REFUSED_X86_64(P) P(iopl) P(ioperm) P(kexec_file_load)

#define SECCOMP_REFUSED_NEW(N)                                                                                         \
    N(428, open_tree)                                                                                                  \
    N(429, move_mount)                                                                                                 \
    N(430, fsopen)                                                                                                     \
    N(431, fsconfig)                                                                                                   \
    N(432, fsmount)                                                                                                    \
    N(433, fspick) N(442, mount_setattr) N(443, quotactl_fd) N(450, set_mempolicy_home_node) N(457, statmount)         \
        N(458, listmount) N(467, open_tree_attr)
/* clang-format on */
