#include "base/fdio.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/strutil.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define READ_SIZE 4096
#define RENAME_NO_REPLACE 1u /* the C library of the static program has neither the call nor the flag */

void files_limit_raise(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files); /* where it may not: with what there is */
}

int fd_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int fd_read_all(int fd, void *data, size_t len)
{
    char *p = data;

    while (len) {
        ssize_t n = read(fd, p, len);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (n == 0)
            return -EPIPE;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int file_read_at(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len, struct error *err)
{
    _cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    if (fd < 0)
        return error_set_errno(err, errno, "open %s", path);

    char first[READ_SIZE]; /* most files fit, and get a block of their size */
    char *into = first;
    _cleanup_free_ char *data = NULL;
    size_t len = 0, capacity = sizeof(first);
    for (;;) {
        if (len == capacity - 1) {
            capacity *= 2;
            data = xrealloc(data, capacity);
            if (into == first)
                memcpy(data, first, len);
            into = data;
        }
        ssize_t n = read(fd, into + len, capacity - len - 1);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return error_set_errno(err, errno, "read %s", path);
        }
        if (n == 0)
            break;
        len += (size_t)n;
        if (len > max)
            return error_set(err, EFBIG, "%s is larger than %zu bytes", path, max);
    }
    into[len] = '\0';
    *ret = data ? take_ptr(data) : memcpy(xmalloc(len + 1), first, len + 1);
    if (ret_len)
        *ret_len = len;
    return 0;
}

static int write_and_rename(int dirfd, const char *path, const void *data, size_t len, mode_t mode, bool sync,
                            struct error *err)
{
    char suffix[9];
    random_name_suffix(suffix, 8);
    _cleanup_free_ char *temp = xasprintf("%s.%s.tmp", path, suffix);
    _cleanup_close_ int fd = openat(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return error_set_errno(err, errno, "create %s", temp);

    int r = fd_write_all(fd, data, len);
    if (r == 0 && fchmod(fd, mode) < 0)
        r = -errno;
    if (r == 0 && sync && fsync(fd) < 0)
        r = -errno;
    if (r == 0 && renameat(dirfd, temp, dirfd, path) < 0)
        r = -errno;
    if (r < 0) {
        (void)unlinkat(dirfd, temp, 0); /* the failure below is what counts */
        return error_set_errno(err, -r, "write %s", path);
    }
    return 0;
}

int file_write_atomic_at(int dirfd, const char *path, const void *data, size_t len, mode_t mode, struct error *err)
{
    return write_and_rename(dirfd, path, data, len, mode, true, err);
}

int file_replace_at(int dirfd, const char *path, const void *data, size_t len, mode_t mode, struct error *err)
{
    return write_and_rename(dirfd, path, data, len, mode, false, err);
}

int file_put_at(int dirfd, const char *path, const char *value, struct error *err)
{
    _cleanup_close_ int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return error_set_errno(err, errno, "open %s", path);
    int r = fd_write_all(fd, value, strlen(value));
    if (r < 0)
        return error_set_errno(err, -r, "write \"%s\" to %s", value, path);
    return 0;
}

int mkdirs_at(int dirfd, const char *path, mode_t mode, struct error *err)
{
    _cleanup_free_ char *copy = xstrdup(path);
    _cleanup_close_ int at = openat(dirfd, *path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return error_set_errno(err, errno, "open the parent of %s", path);

    char *save = NULL;
    for (char *part = strtok_r(copy, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
        if (mkdirat(at, part, mode) < 0 && errno != EEXIST)
            return error_set_errno(err, errno, "mkdir %s of %s", part, path);
        int next = openat(at, part, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (next < 0)
            return error_set_errno(err, errno, "open directory %s of %s", part, path);
        (void)close(at);
        at = next;
    }
    return take_fd(at);
}

/*
 * Removal needs two descriptors and no stack however deep the tree is: a directory that is not empty is moved up to the
 * root of the tree, and dealt with there.
 */
struct removal {
    DIR *root;
    dev_t dev;
    unsigned serial; /* of names at the root */
    bool progress;
    int error; /* the last one, negative */
};

static void move_up(struct removal *r, int dir, const char *name)
{
    char to[32];

    for (;;) {
        (void)snprintf(to, sizeof(to), "removed-%u", r->serial++);
        if (syscall(SYS_renameat2, dir, name, dirfd(r->root), to, RENAME_NO_REPLACE) == 0) {
            r->progress = true;
            return;
        }
        if (errno != EEXIST) {
            r->error = -errno;
            return;
        }
    }
}

static bool is_gone(struct removal *r, int result)
{
    r->progress |= result == 0;
    return result == 0 || errno == ENOENT;
}

/* Removes what is in a directory at the root. */
static void empty_directory(struct removal *r, DIR *dir)
{
    for (struct dirent *e; (errno = 0, e = readdir(dir));) {
        struct stat st;
        if (streq(e->d_name, ".") || streq(e->d_name, "..") || is_gone(r, unlinkat(dirfd(dir), e->d_name, 0)))
            continue;
        if (errno != EISDIR && errno != EPERM) {
            r->error = -errno;
            continue;
        }
        if (is_gone(r, unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR)))
            continue;
        if (errno != ENOTEMPTY && errno != EEXIST)
            r->error = -errno;
        else if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            r->error = -errno;
        else if (st.st_dev != r->dev)
            r->error = -EXDEV;
        else
            move_up(r, dirfd(dir), e->d_name);
    }
    if (errno)
        r->error = -errno;
}

static void remove_directory(struct removal *r, const char *name)
{
    int fd = openat(dirfd(r->root), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    DIR *dir = NULL;

    if (fd < 0 || fstat(fd, &st) < 0)
        r->error = -errno;
    else if (st.st_dev != r->dev)
        r->error = -EXDEV;
    else if (!(dir = fdopendir(fd)))
        r->error = -errno;
    if (dir) {
        empty_directory(r, dir);
        (void)closedir(dir);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    if (dir && !is_gone(r, unlinkat(dirfd(r->root), name, AT_REMOVEDIR)))
        r->error = -errno;
}

/* One look at the root; returns how many entries it saw. */
static size_t remove_pass(struct removal *r)
{
    size_t seen = 0;

    r->progress = false;
    r->error = 0;
    rewinddir(r->root);
    for (struct dirent *e; (errno = 0, e = readdir(r->root));) {
        if (streq(e->d_name, ".") || streq(e->d_name, ".."))
            continue;
        seen++;
        if (is_gone(r, unlinkat(dirfd(r->root), e->d_name, 0)))
            continue;
        if (errno == EISDIR || errno == EPERM)
            remove_directory(r, e->d_name);
        else
            r->error = -errno;
    }
    if (errno)
        r->error = -errno;
    return seen;
}

/* Takes fd. */
static int remove_entries(int fd, dev_t dev)
{
    struct removal r = {.root = fdopendir(fd), .dev = dev};

    if (!r.root) {
        int code = errno;
        (void)close(fd);
        return -code;
    }
    while (remove_pass(&r) > 0 && r.progress)
        ;
    (void)closedir(r.root);
    return r.error;
}

int remove_tree_at(int dirfd, const char *path, struct error *err)
{
    int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT)
            return 0;
        if ((errno == ENOTDIR || errno == ELOOP) && (unlinkat(dirfd, path, 0) == 0 || errno == ENOENT))
            return 0;
        return error_set_errno(err, errno, "remove %s", path);
    }
    struct stat st;
    if (fstat(fd, &st) < 0) {
        int code = errno;
        (void)close(fd);
        return error_set_errno(err, code, "stat %s", path);
    }
    int r = remove_entries(fd, st.st_dev);
    if (r < 0)
        return error_set_errno(err, -r, "remove the content of %s", path);
    if (unlinkat(dirfd, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return error_set_errno(err, errno, "remove %s", path);
    return 0;
}

int fds_send(int sock, const void *data, size_t len, const int *fds, size_t nfds, struct error *err)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (nfds > FD_PASS_MAX)
        return error_set(err, E2BIG, "more than %d descriptors in a message", FD_PASS_MAX);
    if (nfds) {
        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
    }
    for (;;) {
        ssize_t n = sendmsg(sock, &msg, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set_errno(err, errno, "send message");
        if ((size_t)n != len)
            return error_set(err, EIO, "message sent in part");
        return 0;
    }
}

ssize_t fds_recv(int sock, void *data, size_t size, int *fds, size_t max_fds, size_t *ret_nfds, struct error *err)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
    } control = {0};
    struct iovec iov = {.iov_base = data, .iov_len = size};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof(control.space)};
    ssize_t n;

    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_set_errno(err, errno, "receive message");

    size_t got = 0;
    int overflow = (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (got < max_fds) {
                fds[got++] = fd;
            } else {
                (void)close(fd);
                overflow = 1;
            }
        }
    }
    if (overflow) {
        for (size_t i = 0; i < got; i++)
            (void)close(fds[i]);
        return error_set(err, EMSGSIZE, "message or descriptor list too long");
    }
    *ret_nfds = got;
    return n;
}

/* A sun_path holds 108 bytes; going through /proc/self/fd keeps any directory depth usable. */
static int unix_address(int dirfd, const char *name, struct sockaddr_un *sa, struct error *err)
{
    *sa = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = dirfd == AT_FDCWD ? snprintf(sa->sun_path, sizeof(sa->sun_path), "%s", name)
                              : snprintf(sa->sun_path, sizeof(sa->sun_path), "/proc/self/fd/%d/%s", dirfd, name);
    if (n < 0 || (size_t)n >= sizeof(sa->sun_path))
        return error_set(err, ENAMETOOLONG, "socket path %s is too long", name);
    return 0;
}

int unix_listen_at(int dirfd, const char *name, int backlog, struct error *err)
{
    struct sockaddr_un sa;
    if (unix_address(dirfd, name, &sa, err) < 0)
        return -ENAMETOOLONG;
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(err, errno, "create unix socket");
    if (fchmod(fd, 0600) < 0)
        return error_set_errno(err, errno, "set the mode of socket %s", name);
    (void)unlinkat(dirfd, name, 0); /* a left-over socket of an earlier run */
    if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        return error_set_errno(err, errno, "bind %s", name);
    if (fchmodat(dirfd, name, 0600, 0) < 0)
        return error_set_errno(err, errno, "set the mode of %s", name);
    if (listen(fd, backlog) < 0)
        return error_set_errno(err, errno, "listen on %s", name);
    return take_fd(fd);
}

static int connect_at(int dirfd, const char *name, int flags, struct error *err)
{
    struct sockaddr_un sa;
    if (unix_address(dirfd, name, &sa, err) < 0)
        return -ENAMETOOLONG;
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0)
        return error_set_errno(err, errno, "create unix socket");
    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        return error_set_errno(err, errno, "connect to %s", name);
    return take_fd(fd);
}

int unix_connect_at(int dirfd, const char *name, struct error *err)
{
    return connect_at(dirfd, name, 0, err);
}

int unix_connect_nonblock_at(int dirfd, const char *name, struct error *err)
{
    return connect_at(dirfd, name, SOCK_NONBLOCK, err);
}
