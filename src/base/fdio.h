/* File descriptors: whole reads and writes, files by directory fd, descriptors over unix sockets. */
#pragma once

#include "base/error.h"

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* As many descriptors for this process as it may have; where that is not allowed it goes on with fewer. */
void files_limit_raise(void);
/* Writes all of data; 0 or -errno. Retries EINTR; not for non-blocking descriptors. */
int fd_write_all(int fd, const void *data, size_t len);
/* Reads exactly len bytes; -EPIPE when the stream ends before that. */
int fd_read_all(int fd, void *data, size_t len);

/*
 * Reads a whole file (dirfd may be AT_FDCWD), at most max bytes (-EFBIG beyond). *ret is NUL-terminated and owned by
 * the caller; ret_len may be NULL. Does not follow a symbolic link in the last component.
 */
int file_read_at(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len, struct error *err);
/* Creates or replaces path by way of a temporary file, fsync and rename: readers see the old or the new whole content.
 */
int file_write_atomic_at(int dirfd, const char *path, const void *data, size_t len, mode_t mode, struct error *err);
/* As above without fsync: for files that need not survive a power cut, such as those below /run. */
int file_replace_at(int dirfd, const char *path, const void *data, size_t len, mode_t mode, struct error *err);
/* One write(2) of a small value to an existing kernel file (cgroup, procfs, sysctl). */
int file_put_at(int dirfd, const char *path, const char *value, struct error *err);

/* mkdir -p below dirfd; each directory gets mode. Returns an O_PATH descriptor of the last one. */
int mkdirs_at(int dirfd, const char *path, mode_t mode, struct error *err);
/*
 * Removes path and all below it without following links or crossing mounts; a missing path is no error.
 * Safe against a concurrent attacker inside the tree: works by descriptor with O_NOFOLLOW.
 */
int remove_tree_at(int dirfd, const char *path, struct error *err);

/* Sends one message with descriptors; the peer receives the descriptors with O_CLOEXEC. */
#define FD_PASS_MAX 250 /* the kernel takes 253 */
int fds_send(int sock, const void *data, size_t len, const int *fds, size_t nfds, struct error *err);
/*
 * Receives one message of at most size bytes and at most max_fds descriptors (surplus ones are closed and -EMSGSIZE is
 * returned, as for a truncated message). Returns the length, 0 at end of stream. *ret_nfds is set on success.
 */
ssize_t fds_recv(int sock, void *data, size_t size, int *fds, size_t max_fds, size_t *ret_nfds, struct error *err);

/* Binds and listens on a unix stream socket at a path of any length (through a directory descriptor). Mode 0600. */
int unix_listen_at(int dirfd, const char *name, int backlog, struct error *err);
int unix_connect_at(int dirfd, const char *name, struct error *err);
/* For event loops: -EAGAIN instead of waiting for a listener whose queue is full. */
int unix_connect_nonblock_at(int dirfd, const char *name, struct error *err);
