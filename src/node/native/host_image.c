#include "node/native/host_image.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "base/strutil.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define FORMAT "1" /* another number when the skeleton changes */
#define FILE_BYTES_MAX (8 * 1024 * 1024)
#define DEPTH_MAX 8
#define USER_ID 1000

/* Directories of programs. A link (merged /usr) is reproduced, a directory becomes an overlay. */
static const char *const program_dirs[] = {
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libo32", "/libx32",
};

static const struct {
    const char *path;
    mode_t mode;
    uid_t owner;
} skeleton_dirs[] = {
    {"dev", 0755, 0},       {"etc", 0755, 0},     {"home", 0755, 0},      {"home/user", 0755, USER_ID},
    {"media", 0755, 0},     {"mnt", 0755, 0},     {"opt", 0755, 0},       {"proc", 0555, 0},
    {"root", 0700, 0},      {"run", 0755, 0},     {"run/lock", 01777, 0}, {"srv", 0755, 0},
    {"sys", 0555, 0},       {"tmp", 01777, 0},    {"var", 0755, 0},       {"var/cache", 0755, 0},
    {"var/lib", 0755, 0},   {"var/log", 0755, 0}, {"var/spool", 0755, 0}, {"var/tmp", 01777, 0},
    {"var/empty", 0755, 0},
};

static const struct {
    const char *path, *content;
} skeleton_files[] = {
    {"etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"
                   "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                   "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
                   "mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
                   "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
                   "user:x:1000:1000:user:/home/user:/bin/bash\n"
                   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group", "root:x:0:\ndaemon:x:1:\nbin:x:2:\ntty:x:5:\nmail:x:8:\nwww-data:x:33:\nstaff:x:50:\n"
                  "users:x:100:\nuser:x:1000:\nnogroup:x:65534:\n"},
    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n"
                          "protocols: files\n"},
    {"etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"},
    {"etc/resolv.conf", ""},
    {"etc/shells", "/bin/sh\n/bin/bash\n"},
    {"etc/profile", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexport PATH\n"},
};

static const struct {
    const char *path, *target;
} skeleton_links[] = {
    {"etc/mtab", "/proc/self/mounts"},
    {"var/run", "/run"},
    {"var/lock", "/run/lock"},
};

/* What programs need of the host's /etc and what holds no secret. Copied if it is there and everybody may read it. */
static const char *const copied[] = {
    "etc/ld.so.cache",
    "etc/ld.so.conf",
    "etc/ld.so.conf.d",
    "etc/alternatives",
    "etc/ssl/certs",
    "etc/ssl/openssl.cnf",
    "etc/os-release",
    "etc/debian_version",
    "etc/localtime",
    "etc/timezone",
    "etc/services",
    "etc/protocols",
    "etc/mime.types",
    "etc/magic",
    "etc/terminfo",
    "etc/inputrc",
    "etc/fonts",
    "etc/perl",
    "etc/python3",
    "etc/python3.11",
    "etc/python3.12",
    "etc/python3.13",
    "etc/ca-certificates.conf",
    "etc/pki/tls/certs",
    "etc/pki/ca-trust/extracted",
    "etc/crypto-policies",
};

/* When one of these changes, so does the key. */
static const char *const watched[] = {
    "/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs", "/etc/localtime", "/usr/lib/os-release",
};

static int copy_entry(int from, int to, const char *name, unsigned depth, struct error *err);

static void close_dir(DIR **d)
{
    if (*d)
        (void)closedir(*d); /* read only */
}

static int copy_dir(int from, int to, const char *name, const struct stat *st, unsigned depth, struct error *err)
{
    if (depth >= DEPTH_MAX)
        return error_set(err, ELOOP, "%s is nested too deeply", name);
    if (mkdirat(to, name, st->st_mode & 0755) < 0 && errno != EEXIST)
        return error_set_errno(err, errno, "create %s", name);
    _cleanup_close_ int into = openat(to, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int fd = openat(from, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    _cleanup_(close_dir) DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (into < 0 || !d)
        return error_set_errno(err, errno, "open %s", name);
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(d);
        if (!e)
            return errno ? error_set_errno(err, errno, "read %s", name) : 0;
        if (streq(e->d_name, ".") || streq(e->d_name, ".."))
            continue;
        int r = copy_entry(dirfd(d), into, e->d_name, depth + 1, err);
        if (r < 0)
            return error_wrap(err, "%s", name);
    }
}

static int copy_link(int from, int to, const char *name, struct error *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

    if (n < 0)
        return error_set_errno(err, errno, "read link %s", name);
    target[n] = '\0';
    if (symlinkat(target, to, name) < 0)
        return error_set_errno(err, errno, "create link %s", name);
    return 0;
}

static int write_file(int dir, const char *name, const char *data, size_t len, mode_t mode, struct error *err)
{
    _cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return error_set_errno(err, errno, "create %s", name);
    int r = fd_write_all(fd, data, len);
    return r < 0 ? error_set_errno(err, -r, "write %s", name) : 0;
}

/* Skips what is private or no plain file: the list is a hope about the host, not a promise. */
static int copy_entry(int from, int to, const char *name, unsigned depth, struct error *err)
{
    struct stat st;

    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "stat %s", name);
    if (S_ISLNK(st.st_mode))
        return copy_link(from, to, name, err);
    if (st.st_uid != 0 || !(st.st_mode & S_IROTH))
        return 0;
    if (S_ISDIR(st.st_mode))
        return copy_dir(from, to, name, &st, depth, err);
    if (!S_ISREG(st.st_mode) || st.st_size > FILE_BYTES_MAX)
        return 0;
    _cleanup_free_ char *data = NULL;
    size_t len;
    int r = file_read_at(from, name, FILE_BYTES_MAX, &data, &len, err);
    return r < 0 ? r : write_file(to, name, data, len, st.st_mode & 0755, err);
}

/* path: "etc/ssl/certs", below the host's root and below the skeleton alike. */
static int copy_path(int host, int skeleton, const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/');
    _cleanup_free_ char *parent = xstrndup(path, (size_t)(slash - path));
    _cleanup_close_ int from = openat(host, parent, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (from < 0)
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "open /%s", parent);
    if (faccessat(from, slash + 1, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "look for /%s", path);
    _cleanup_close_ int to = mkdirs_at(skeleton, parent, 0755, err);
    if (to < 0)
        return to;
    int r = copy_entry(from, to, slash + 1, 0, err);
    return r < 0 ? error_wrap(err, "copy /%s", path) : 0;
}

/* name: below the host's root and below the skeleton alike, so never an absolute path. */
static int make_program_dir(int host, int skeleton, const char *name, struct error *err)
{
    struct stat st;

    if (fstatat(host, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "stat /%s", name);
    if (S_ISLNK(st.st_mode))
        return copy_link(host, skeleton, name, err);
    if (mkdirat(skeleton, name, 0755) < 0)
        return error_set_errno(err, errno, "create %s", name);
    return 0;
}

static int fill(int skeleton, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(skeleton_dirs); i++) {
        const char *path = skeleton_dirs[i].path;
        if (mkdirat(skeleton, path, 0700) < 0)
            return error_set_errno(err, errno, "create %s", path);
        if (fchownat(skeleton, path, skeleton_dirs[i].owner, skeleton_dirs[i].owner, AT_SYMLINK_NOFOLLOW) < 0 ||
            fchmodat(skeleton, path, skeleton_dirs[i].mode, 0) < 0)
            return error_set_errno(err, errno, "set owner and mode of %s", path);
    }
    for (size_t i = 0; i < ARRAY_LEN(skeleton_files); i++) {
        int r = write_file(skeleton, skeleton_files[i].path, skeleton_files[i].content,
                           strlen(skeleton_files[i].content), 0644, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < ARRAY_LEN(skeleton_links); i++)
        if (symlinkat(skeleton_links[i].target, skeleton, skeleton_links[i].path) < 0)
            return error_set_errno(err, errno, "create link %s", skeleton_links[i].path);
    _cleanup_close_ int host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (host < 0)
        return error_set_errno(err, errno, "open /");
    for (size_t i = 0; i < ARRAY_LEN(program_dirs); i++) {
        int r = make_program_dir(host, skeleton, program_dirs[i] + 1, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < ARRAY_LEN(copied); i++) {
        int r = copy_path(host, skeleton, copied[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Names the state of the host that the skeleton was made from. */
static char *make_key(void)
{
    struct strbuf text = {0};

    strbuf_adds(&text, FORMAT);
    for (size_t i = 0; i < ARRAY_LEN(watched); i++) {
        struct stat st = {0};
        if (lstat(watched[i], &st) == 0)
            strbuf_addf(&text, "-%" PRIx64 ".%lx.%lx", (uint64_t)st.st_ino, (unsigned long)st.st_mtim.tv_sec,
                        (unsigned long)st.st_mtim.tv_nsec);
        else
            strbuf_adds(&text, "-0");
    }
    _cleanup_free_ char *whole = strbuf_detach(&text);
    return xasprintf("%08x", fnv1a32(whole));
}

/* Under another name first: what bears the key is complete. Of two that build at once one is thrown away. */
static int build(int base, const char *key, struct error *err)
{
    char suffix[9];
    random_name_suffix(suffix, 8);
    _cleanup_free_ char *temp = xasprintf("%s.%s.tmp", key, suffix);

    if (mkdirat(base, temp, 0755) < 0)
        return error_set_errno(err, errno, "create %s", temp);
    mode_t mask = umask(0);
    _cleanup_close_ int skeleton = openat(base, temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int r = skeleton < 0 ? error_set_errno(err, errno, "open %s", temp) : fill(skeleton, err);
    (void)umask(mask); /* cannot fail */
    if (r == 0 && fchmod(skeleton, 0755) < 0)
        r = error_set_errno(err, errno, "set the mode of %s", temp);
    if (r == 0 && renameat(base, temp, base, key) == 0)
        return 0;
    if (r == 0 && errno != EEXIST && errno != ENOTEMPTY)
        r = error_set_errno(err, errno, "rename %s", temp);
    (void)remove_tree_at(base, temp, NULL); /* what counts is told already */
    return r;
}

int host_image_prepare(const char *dir, struct host_image *ret, struct error *err)
{
    _cleanup_free_ char *key = make_key();
    _cleanup_free_ char *path = xasprintf("%s/%s", dir, key);

    if (access(path, F_OK) < 0) {
        _cleanup_close_ int base = mkdirs_at(AT_FDCWD, dir, 0755, err);
        int r = base < 0 ? base : build(base, key, err);
        if (r < 0)
            return error_wrap(err, "make the image \"host\" in %s", dir);
    }
    struct host_image image = {.skeleton = take_ptr(path),
                               .mounts = xcalloc(ARRAY_LEN(program_dirs), sizeof(*image.mounts))};
    for (size_t i = 0; i < ARRAY_LEN(program_dirs); i++) {
        struct stat st;
        if (lstat(program_dirs[i], &st) == 0 && S_ISDIR(st.st_mode))
            image.mounts[image.mount_count++] = (struct native_mount){
                .kind = NATIVE_MOUNT_OVERLAY, .source = program_dirs[i], .target = program_dirs[i]};
    }
    *ret = image;
    return 0;
}

void host_image_done(struct host_image *image)
{
    free(image->skeleton);
    free(image->mounts);
    *image = (struct host_image){0};
}
