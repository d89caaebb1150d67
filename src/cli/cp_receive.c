#include "cli/cp_receive.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/strutil.h"
#include "node/image/unpack.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#define ENTRIES_MAX 10000000
#define SKIPPED_SHOWN 10
#define RENAME_NO_REPLACE 1u

/* One name from one directory to another; directories that are there already are filled, all else is replaced. */
static int move_entry(int from, const char *name, int to, const char *to_name, struct error *err);

static int move_content(int from, int to, struct error *err)
{
    int copy = fcntl(from, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    int r = 0;

    if (!dir) {
        int code = errno;
        if (copy >= 0)
            (void)close(copy);
        return error_set_errno(err, code, "read a directory");
    }
    for (struct dirent *e; r == 0 && (errno = 0, e = readdir(dir));)
        if (!streq(e->d_name, ".") && !streq(e->d_name, ".."))
            r = move_entry(from, e->d_name, to, e->d_name, err);
    if (r == 0 && errno)
        r = error_set_errno(err, errno, "read a directory");
    (void)closedir(dir);
    return r;
}

/* The unpacker bounds how deep directories lie. */
static int fill_directory(int from, const char *name, int to, const char *to_name, struct error *err)
{
    _cleanup_close_ int source = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_close_ int target = openat(to, to_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (source < 0)
        return error_set_errno(err, errno, "open %s", name);
    if (target < 0 && (errno == ELOOP || errno == ENOTDIR))
        return error_set(err, ENOTDIR, "%s is there already and is no directory: remove it first", to_name);
    if (target < 0)
        return error_set_errno(err, errno, "open %s", to_name);
    int r = move_content(source, target, err);
    return r < 0 ? error_wrap(err, "%s", to_name) : 0;
}

static int move_entry(int from, const char *name, int to, const char *to_name, struct error *err)
{
    struct stat st;

    if (syscall(SYS_renameat2, from, name, to, to_name, RENAME_NO_REPLACE) == 0)
        return 0;
    if (errno != EEXIST && errno != EINVAL) /* EINVAL: the file system knows no flags */
        return error_set_errno(err, errno, "write %s", to_name);
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return error_set_errno(err, errno, "stat %s", name);
    if (S_ISDIR(st.st_mode) && faccessat(to, to_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return fill_directory(from, name, to, to_name, err);
    if (renameat(from, name, to, to_name) < 0)
        return error_set_errno(err, errno, "write %s", to_name);
    return 0;
}

static void tell_skipped(const struct unpack_result *result)
{
    for (size_t i = 0; i < result->skipped_count && i < SKIPPED_SHOWN; i++)
        (void)fprintf(stderr, "holt: left out, neither a file nor a directory: %s\n", result->skipped[i]);
    if (result->skipped_count > SKIPPED_SHOWN)
        (void)fprintf(stderr, "holt: and %zu more\n", result->skipped_count - SKIPPED_SHOWN);
}

/* The archive must hold what was asked for, and nothing beside it. */
static int check_top(int fresh, const char *wanted, struct error *err)
{
    int copy = fcntl(fresh, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    bool found = false;
    int r = 0;

    if (!dir)
        return error_set_errno(err, errno, "read the unpacked archive");
    for (struct dirent *e; (e = readdir(dir));) {
        if (streq(e->d_name, ".") || streq(e->d_name, ".."))
            continue;
        if (streq(e->d_name, wanted))
            found = true;
        else
            r = error_set(err, EPERM, "the sandbox sent \"%s\", which was not asked for: nothing was copied",
                          e->d_name);
    }
    (void)closedir(dir);
    return r < 0 || found ? r : error_set(err, ENOENT, "nothing that can be copied came from the sandbox");
}

static int move_wanted(const struct cp_receive *q, int fresh, int dir, struct error *err)
{
    int r = check_top(fresh, q->wanted, err);

    return r < 0 ? r : move_entry(fresh, q->wanted, dir, q->name, err);
}

/* "SANDBOX:DIR/.": all that is in it was asked for. */
static int move_directory(const struct cp_receive *q, int fresh, int dir, struct error *err)
{
    if (mkdirat(dir, q->name, 0777) < 0 && errno != EEXIST)
        return error_set_errno(err, errno, "make the directory %s", q->name);
    _cleanup_close_ int target = openat(dir, q->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return target < 0 ? error_set_errno(err, errno, "open %s", q->name) : move_content(fresh, target, err);
}

static int unpack_and_move(const struct cp_receive *q, int dir, int fresh, struct error *err)
{
    _cleanup_free_ char *helper = unpack_default_helper();
    struct unpack_result result = {0};
    struct statvfs fs;

    if (fstatvfs(fresh, &fs) < 0)
        return error_set_errno(err, errno, "find out how much room there is");
    const struct unpack_request request = {.helper = helper,
                                           .mode = UNPACK_COPY,
                                           .archive_fd = q->archive,
                                           .target_fd = fresh,
                                           .max_bytes = (uint64_t)fs.f_bavail * fs.f_frsize,
                                           .max_entries = ENTRIES_MAX};
    int r = unpack_run(&request, &result, err);
    if (r == 0)
        tell_skipped(&result);
    if (r == 0)
        r = streq(q->wanted, ".") ? move_directory(q, fresh, dir, err) : move_wanted(q, fresh, dir, err);
    unpack_result_clear(&result);
    return r;
}

int cp_receive(const struct cp_receive *q, struct error *err)
{
    _cleanup_free_ char *suffix = random_hex(8);
    _cleanup_free_ char *name = xasprintf(".holt-cp-%s", suffix);
    _cleanup_close_ int dir = open(q->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0)
        return error_set_errno(err, errno, "open %s", q->dir);
    if (mkdirat(dir, name, 0700) < 0)
        return error_set_errno(err, errno, "write to %s", q->dir);
    _cleanup_close_ int fresh = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = fresh < 0 ? error_set_errno(err, errno, "open %s/%s", q->dir, name) : unpack_and_move(q, dir, fresh, err);
    (void)remove_tree_at(dir, name, NULL); /* what could not be removed lies there for everyone to see */
    return r;
}
