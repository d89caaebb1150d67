#include "node/image/extract.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define PATH_LEN_MAX 4095
#define NAME_LEN_MAX 255
#define DEPTH_MAX 256
#define OWNER_MAX 65535
#define READ_BLOCK (256 * 1024)
/* An archive that grows more than this much once it has made RATIO_FREE bytes is a bomb. */
#define RATIO_MAX 250
#define RATIO_FREE (512ull << 20)

#define WHITEOUT ".wh."
#define WHITEOUT_META ".wh..wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"

struct extract {
    const struct extract_options *options;
    struct archive *archive;
    int target;
    struct extract_result result;
    /* The directory of the last entry: archives come in the order of directories. */
    char *parent_path;
    int parent_fd;
};

static void forget_parent(struct extract *x)
{
    free(x->parent_path);
    x->parent_path = NULL;
    if (x->parent_fd >= 0)
        (void)close(x->parent_fd);
    x->parent_fd = -1;
}

/* "./a//b/" → "a/b"; "." for the target itself. */
static int clean_path(const char *name, char **ret, struct error *err)
{
    _cleanup_(strbuf_free) struct strbuf out = {0};
    size_t depth = 0;

    if (*name == '/')
        return error_set(err, EINVAL, "the entry \"%.200s\" has an absolute name", name);
    if (strlen(name) > PATH_LEN_MAX)
        return error_set(err, ENAMETOOLONG, "an entry has a name of more than %d bytes", PATH_LEN_MAX);
    for (const char *p = name; *p;) {
        size_t len = strcspn(p, "/");
        if (len == 2 && strncmp(p, "..", 2) == 0)
            return error_set(err, EINVAL, "the entry \"%.200s\" points above the root", name);
        if (len > NAME_LEN_MAX)
            return error_set(err, ENAMETOOLONG, "the entry \"%.200s\" has a part of more than %d bytes", name,
                             NAME_LEN_MAX);
        if (len && !(len == 1 && *p == '.')) {
            if (++depth > DEPTH_MAX)
                return error_set(err, ENAMETOOLONG, "an entry lies more than %d directories deep", DEPTH_MAX);
            if (out.len)
                strbuf_addc(&out, '/');
            strbuf_add(&out, p, len);
        }
        p += len;
        p += strspn(p, "/");
    }
    if (!out.len)
        strbuf_addc(&out, '.');
    *ret = strbuf_detach(&out);
    return 0;
}

static int open_in_target(const struct extract *x, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};

    return (int)syscall(SYS_openat2, x->target, path, &how, sizeof(how));
}

/* Opens the directory path, making what is missing of it; links of the archive are followed inside the target. */
static int open_directory(const struct extract *x, const char *path, struct error *err)
{
    int fd = open_in_target(x, path, O_PATH | O_DIRECTORY);
    if (fd >= 0 || errno != ENOENT)
        return fd >= 0 ? fd : error_set_errno(err, errno, "open the directory \"%.200s\"", path);

    _cleanup_free_ char *copy = xstrdup(path);
    for (char *slash = copy; slash;) {
        slash = strchr(slash, '/');
        if (slash)
            *slash = '\0';
        _cleanup_close_ int at = open_in_target(x, copy, O_PATH | O_DIRECTORY);
        if (at < 0) {
            char *name = strrchr(copy, '/');
            _cleanup_free_ char *above = name ? xstrndup(copy, (size_t)(name - copy)) : xstrdup(".");
            _cleanup_close_ int parent = open_in_target(x, above, O_PATH | O_DIRECTORY);
            if (parent < 0 || mkdirat(parent, name ? name + 1 : copy, 0755) < 0)
                return errno == EEXIST
                           ? error_set(err, ELOOP, "\"%.200s\" lies below a link that leads to no directory", path)
                           : error_set_errno(err, errno, "make the directory \"%.200s\"", copy);
        }
        if (slash)
            *slash++ = '/';
    }
    fd = open_in_target(x, path, O_PATH | O_DIRECTORY);
    return fd >= 0 ? fd : error_set_errno(err, errno, "open the directory \"%.200s\"", path);
}

/* The directory that path lies in (borrowed) and the last part of path. */
static int open_parent(struct extract *x, const char *path, const char **ret_name, struct error *err)
{
    const char *slash = strrchr(path, '/');
    _cleanup_free_ char *parent = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");

    *ret_name = slash ? slash + 1 : path;
    if (x->parent_path && streq(parent, x->parent_path))
        return x->parent_fd;
    forget_parent(x);
    int fd = open_directory(x, parent, err);
    if (fd < 0)
        return fd;
    x->parent_path = take_ptr(parent);
    x->parent_fd = fd;
    return fd;
}

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* Makes room for an entry that is not a directory. */
static int remove_existing(int parent, const char *name, const char *path, struct error *err)
{
    struct stat st;

    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "stat \"%.200s\"", path);
    if (S_ISDIR(st.st_mode))
        return error_set(err, EEXIST, "the entry \"%.200s\" replaces a directory of the same archive", path);
    if (unlinkat(parent, name, 0) < 0)
        return error_set_errno(err, errno, "replace \"%.200s\"", path);
    return 0;
}

static int add_bytes(struct extract *x, uint64_t n, struct error *err)
{
    if (n > x->options->max_bytes - x->result.bytes)
        return error_set(err, EFBIG, "the archive unpacks to more than %" PRIu64 " bytes", x->options->max_bytes);
    x->result.bytes += n;
    int64_t read_so_far = archive_filter_bytes(x->archive, -1);
    if (x->result.bytes > RATIO_FREE && read_so_far > 0 && x->result.bytes / RATIO_MAX > (uint64_t)read_so_far)
        return error_set(err, EFBIG, "the archive unpacks to more than %d times its size", RATIO_MAX);
    return 0;
}

static int set_owner_and_mode(struct extract *x, int fd, struct archive_entry *e, const char *path, struct error *err)
{
    bool layer = x->options->kind == EXTRACT_LAYER;
    mode_t mode = archive_entry_mode(e) & (layer ? 07777 : 0777);

    if (x->options->kind == EXTRACT_FILES)
        return 0;
    if (layer && fchownat(fd, "", (uid_t)archive_entry_uid(e), (gid_t)archive_entry_gid(e), AT_EMPTY_PATH) < 0)
        return error_set_errno(err, errno, "set the owner of \"%.200s\"", path);
    if (fchmod(fd, mode) < 0)
        return error_set_errno(err, errno, "set the mode of \"%.200s\"", path);
    return 0;
}

static void entry_times(struct archive_entry *e, struct timespec times[2])
{
    times[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
    times[1] = archive_entry_mtime_is_set(e) ? (struct timespec){archive_entry_mtime(e), archive_entry_mtime_nsec(e)}
                                             : (struct timespec){.tv_nsec = UTIME_OMIT};
}

static int write_blocks(struct extract *x, int fd, const char *path, struct error *err)
{
    int64_t end = 0;

    for (;;) {
        const void *data;
        size_t len;
        int64_t offset;
        int r = archive_read_data_block(x->archive, &data, &len, &offset);
        if (r == ARCHIVE_EOF)
            break;
        if (r < ARCHIVE_WARN)
            return error_set(err, EINVAL, "read \"%.200s\": %s", path, archive_error_string(x->archive));
        if (offset < end || len > INT64_MAX - (uint64_t)offset)
            return error_set(err, EINVAL, "the entry \"%.200s\" has overlapping blocks", path);
        int failed = add_bytes(x, (uint64_t)(offset - end) + len, err);
        if (failed < 0)
            return failed;
        end = offset + (int64_t)len;
        for (const char *p = data; len;) {
            ssize_t n = pwrite(fd, p, len, offset);
            if (n < 0 && errno == EINTR)
                continue;
            if (n <= 0)
                return error_set_errno(err, n < 0 ? errno : EIO, "write \"%.200s\"", path);
            p += n;
            offset += n;
            len -= (size_t)n;
        }
    }
    if (ftruncate(fd, end) < 0)
        return error_set_errno(err, errno, "set the size of \"%.200s\"", path);
    return 0;
}

static int place_file(struct extract *x, int parent, const char *name, struct archive_entry *e, const char *path,
                      struct error *err)
{
    int r = remove_existing(parent, name, path, err);
    if (r < 0)
        return r;
    _cleanup_close_ int fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(err, errno, "create \"%.200s\"", path);
    r = write_blocks(x, fd, path, err);
    if (r == 0)
        r = set_owner_and_mode(x, fd, e, path, err);
    if (r < 0)
        return r;
    struct timespec times[2];
    entry_times(e, times);
    if (futimens(fd, times) < 0)
        return error_set_errno(err, errno, "set the time of \"%.200s\"", path);
    return 0;
}

static int place_directory(struct extract *x, int parent, const char *name, struct archive_entry *e, const char *path,
                           struct error *err)
{
    struct stat st;
    bool root = streq(path, ".");

    if (!root && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode)) {
        int r = remove_existing(parent, name, path, err);
        if (r < 0)
            return r;
        forget_parent(x); /* it may have been reached by the link just removed */
        const char *again;
        parent = open_parent(x, path, &again, err);
        if (parent < 0)
            return parent;
        if (is_whiteout(&st) && x->options->opaque)
            x->options->opaque(x->options->arg, path);
    }
    if (!root && mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
        return error_set_errno(err, errno, "make the directory \"%.200s\"", path);
    _cleanup_close_ int fd = root ? openat(x->target, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                  : openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno, "open the directory \"%.200s\"", path);
    return set_owner_and_mode(x, fd, e, path, err);
}

static int place_symlink(struct extract *x, int parent, const char *name, struct archive_entry *e, const char *path,
                         struct error *err)
{
    const char *target = archive_entry_symlink(e);
    struct timespec times[2];

    if (!target || !*target || strlen(target) > PATH_LEN_MAX)
        return error_set(err, EINVAL, "the symbolic link \"%.200s\" has no proper target", path);
    int r = remove_existing(parent, name, path, err);
    if (r < 0)
        return r;
    if (symlinkat(target, parent, name) < 0)
        return error_set_errno(err, errno, "create the symbolic link \"%.200s\"", path);
    entry_times(e, times);
    if (x->options->kind == EXTRACT_LAYER &&
        fchownat(parent, name, (uid_t)archive_entry_uid(e), (gid_t)archive_entry_gid(e), AT_SYMLINK_NOFOLLOW) < 0)
        return error_set_errno(err, errno, "set the owner of \"%.200s\"", path);
    if (utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return error_set_errno(err, errno, "set the time of \"%.200s\"", path);
    return 0;
}

static int place_hardlink(struct extract *x, int parent, const char *name, const char *link, const char *path,
                          struct error *err)
{
    _cleanup_free_ char *target = NULL;
    int r = clean_path(link, &target, err);
    if (r < 0)
        return error_wrap(err, "hard link \"%.200s\"", path);
    if (streq(target, path))
        return 0;
    const char *slash = strrchr(target, '/');
    _cleanup_free_ char *above = slash ? xstrndup(target, (size_t)(slash - target)) : xstrdup(".");
    const char *last = slash ? slash + 1 : target;
    _cleanup_close_ int from = open_in_target(x, above, O_PATH | O_DIRECTORY);
    struct stat st;
    if (from < 0 || fstatat(from, last, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return error_set(err, EINVAL, "the hard link \"%.200s\" points to \"%.200s\", which is no file of the archive",
                         path, link);
    r = remove_existing(parent, name, path, err);
    if (r < 0)
        return r;
    if (linkat(from, last, parent, name, 0) < 0)
        return error_set_errno(err, errno, "create the hard link \"%.200s\"", path);
    return 0;
}

/* name begins with ".wh.". */
static int place_whiteout(struct extract *x, int parent, const char *name, const char *path, struct error *err)
{
    struct stat st;

    if (streq(name, WHITEOUT_OPAQUE)) {
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *above = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
        if (x->options->opaque)
            x->options->opaque(x->options->arg, above);
        return 0;
    }
    if (str_skip_prefix(name, WHITEOUT_META))
        return 0; /* book-keeping of aufs */
    const char *hidden = name + strlen(WHITEOUT);
    if (!*hidden || streq(hidden, ".") || streq(hidden, ".."))
        return error_set(err, EINVAL, "the whiteout \"%.200s\" hides nothing", path);
    if (fstatat(parent, hidden, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        /* A whiteout concerns lower layers only: what this one holds stays, without what lies below it. */
        if (S_ISDIR(st.st_mode) && x->options->opaque) {
            const char *slash = strrchr(path, '/');
            _cleanup_free_ char *dir = xasprintf("%.*s%s", slash ? (int)(slash - path + 1) : 0, path, hidden);
            x->options->opaque(x->options->arg, dir);
        }
        return 0;
    }
    if (mknodat(parent, hidden, S_IFCHR | 0600, makedev(0, 0)) < 0)
        return error_set_errno(err, errno, "create the whiteout \"%.200s\"", path);
    return 0;
}

static int check_owner(struct archive_entry *e, const char *path, struct error *err)
{
    int64_t uid = archive_entry_uid(e), gid = archive_entry_gid(e);

    if (uid < 0 || uid > OWNER_MAX || gid < 0 || gid > OWNER_MAX)
        return error_set(err, ERANGE, "the entry \"%.200s\" belongs to %" PRId64 ":%" PRId64 ", outside of 0..%d", path,
                         uid, gid, OWNER_MAX);
    return 0;
}

static int place_entry(struct extract *x, struct archive_entry *e, struct error *err)
{
    const char *raw = archive_entry_pathname(e), *link = archive_entry_hardlink(e), *name;
    _cleanup_free_ char *path = NULL;

    if (!raw)
        return error_set(err, EILSEQ, "an entry has a name that cannot be represented");
    int r = clean_path(raw, &path, err);
    if (r == 0 && x->options->kind == EXTRACT_LAYER)
        r = check_owner(e, path, err);
    if (r < 0)
        return r;
    mode_t type = archive_entry_filetype(e);
    if (streq(path, "."))
        return type == AE_IFDIR && !link ? place_directory(x, x->target, ".", e, path, err)
                                         : error_set(err, EINVAL, "the root of the archive is no directory");
    if (x->options->kind == EXTRACT_COPY && !link && type != AE_IFREG && type != AE_IFDIR) {
        x->options->skipped(x->options->arg, path);
        return 0;
    }
    if (!link && type != AE_IFREG && type != AE_IFDIR && type != AE_IFLNK) {
        if (str_skip_prefix(path, "dev/"))
            return 0;
        return error_set(err, EPERM, "the entry \"%.200s\" is a device, FIFO or socket", path);
    }
    int parent = open_parent(x, path, &name, err);
    if (parent < 0)
        return parent;
    if (x->options->kind == EXTRACT_LAYER && str_skip_prefix(name, WHITEOUT))
        return place_whiteout(x, parent, name, path, err);
    if (link)
        return place_hardlink(x, parent, name, link, path, err);
    if (type == AE_IFDIR)
        return place_directory(x, parent, name, e, path, err);
    if (type == AE_IFLNK)
        return place_symlink(x, parent, name, e, path, err);
    return place_file(x, parent, name, e, path, err);
}

static struct archive *open_archive(int fd, struct error *err)
{
    struct archive *a = archive_read_new();

    if (!a || archive_read_support_format_tar(a) != ARCHIVE_OK || archive_read_support_format_empty(a) != ARCHIVE_OK ||
        archive_read_support_filter_gzip(a) != ARCHIVE_OK || archive_read_support_filter_zstd(a) != ARCHIVE_OK ||
        archive_read_support_filter_xz(a) != ARCHIVE_OK || archive_read_support_filter_bzip2(a) != ARCHIVE_OK)
        (void)error_set(err, ENOSYS, "libarchive lacks tar, gzip, zstd, xz or bzip2");
    else if (archive_read_open_fd(a, fd, READ_BLOCK) != ARCHIVE_OK)
        (void)error_set(err, EINVAL, "open the archive: %s", archive_error_string(a));
    else if (archive_filter_count(a) > 2) /* the decompressor and the file */
        (void)error_set(err, EINVAL, "the archive is compressed more than once");
    else
        return a;
    (void)archive_read_free(a); /* the error above is what counts */
    return NULL;
}

/* 1: *ret is the next entry; 0: end. */
static int next_entry(struct archive *a, struct archive_entry **ret, struct error *err)
{
    int r = archive_read_next_header(a, ret);

    if (r == ARCHIVE_EOF)
        return 0;
    /* A warning is about what we do not use (attributes, charsets of owner names). */
    if (r < ARCHIVE_WARN)
        return error_set(err, EINVAL, "read the archive: %s", archive_error_string(a));
    return 1;
}

int extract_archive(int archive_fd, int target_fd, const struct extract_options *options, struct extract_result *ret,
                    struct error *err)
{
    struct extract x = {.options = options, .target = target_fd, .parent_fd = -1};
    struct archive_entry *e;

    x.archive = open_archive(archive_fd, err);
    if (!x.archive)
        return -EINVAL;
    int r;
    while ((r = next_entry(x.archive, &e, err)) > 0) {
        if (++x.result.entries > options->max_entries) {
            r = error_set(err, E2BIG, "the archive has more than %" PRIu64 " entries", options->max_entries);
            break;
        }
        r = place_entry(&x, e, err);
        if (r < 0)
            break;
    }
    forget_parent(&x);
    (void)archive_read_free(x.archive); /* nothing was written by it */
    if (r == 0)
        *ret = x.result;
    return r;
}

int extract_probe(int archive_fd, const char **ret_kind, struct error *err)
{
    struct archive *a = open_archive(archive_fd, err);
    struct archive_entry *e;
    int r;

    if (!a)
        return -EINVAL;
    *ret_kind = "rootfs";
    while ((r = next_entry(a, &e, err)) > 0) {
        const char *name = archive_entry_pathname(e);
        if (name && str_skip_prefix(name, "./"))
            name += 2;
        if (name && streq(name, "oci-layout")) {
            *ret_kind = "oci-layout";
            r = 0;
            break;
        }
        if (name && streq(name, "manifest.json"))
            *ret_kind = "docker-archive";
    }
    (void)archive_read_free(a); /* read only */
    return r < 0 ? r : 0;
}
