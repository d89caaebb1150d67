#include "node/native/uid_range.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "node/native/native.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#define SLOT_COUNT ((0x80000000u - UID_RANGE_FIRST) / NATIVE_UID_RANGE) /* ids above are negative to some programs */
#define LOCK_FILE "processes.lock"
#define OWNER_MAX 4096
#define SLOT_NAME_SIZE 16
#define RELEASED_MAX 64

static uint32_t slot_base(uint32_t slot)
{
    return UID_RANGE_FIRST + slot * NATIVE_UID_RANGE;
}

static int open_dir(const char *dir, struct error *err)
{
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT)
        fd = mkdirs_at(AT_FDCWD, dir, 0755, err);
    else if (fd < 0)
        return error_set_errno(err, errno, "open %s", dir);
    return fd;
}

int uid_range_hold(const char *dir, uint32_t *ret_base, uint32_t *ret_slot, struct error *err)
{
    _cleanup_close_ int dirfd = open_dir(dir, err);
    if (dirfd < 0)
        return dirfd;
    _cleanup_close_ int fd = openat(dirfd, LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_set_errno(err, errno, "open %s/%s", dir, LOCK_FILE);

    /* One byte of the file stands for one slot. */
    for (uint32_t slot = 0; slot < UID_RANGE_PROCESS_SLOTS; slot++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
        if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
            *ret_base = slot_base(slot);
            *ret_slot = slot;
            return take_fd(fd);
        }
        if (errno != EAGAIN && errno != EACCES)
            return error_set_errno(err, errno, "lock a user id range");
    }
    return error_set(err, EAGAIN, "all %u user id ranges for single runs are taken", UID_RANGE_PROCESS_SLOTS);
}

/* What this process gave back last is taken first: its user namespace may still be at hand (idmap.h). */
static uint32_t released[RELEASED_MAX];
static unsigned released_count;

/* The next slot to try: linear, from where the last one was found, so that the directory is not read. */
static uint32_t next_slot(void)
{
    static uint32_t next = UID_RANGE_PROCESS_SLOTS;

    if (released_count)
        return released[--released_count];
    uint32_t slot = next;
    next = next + 1 < SLOT_COUNT ? next + 1 : UID_RANGE_PROCESS_SLOTS;
    return slot;
}

int uid_range_claim(const char *dir, const char *owner, uint32_t *ret_base, struct error *err)
{
    _cleanup_close_ int dirfd = open_dir(dir, err);
    if (dirfd < 0)
        return dirfd;

    for (uint32_t tries = 0; tries < SLOT_COUNT; tries++) {
        uint32_t slot = next_slot();
        char name[SLOT_NAME_SIZE];
        (void)snprintf(name, sizeof(name), "%u", slot);
        _cleanup_close_ int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 && errno == EEXIST)
            continue;
        if (fd < 0)
            return error_set_errno(err, errno, "create %s/%s", dir, name);
        int r = fd_write_all(fd, owner, strlen(owner));
        if (r < 0) {
            (void)unlinkat(dirfd, name, 0); /* the failure below is what counts */
            return error_set_errno(err, -r, "write %s/%s", dir, name);
        }
        *ret_base = slot_base(slot);
        return 0;
    }
    return error_set(err, EAGAIN, "all user id ranges are taken");
}

int uid_range_release(const char *dir, uint32_t base, struct error *err)
{
    char name[SLOT_NAME_SIZE];

    if (base < UID_RANGE_FIRST || (base - UID_RANGE_FIRST) % NATIVE_UID_RANGE)
        return error_set(err, EINVAL, "%u is not the start of a user id range", base);
    (void)snprintf(name, sizeof(name), "%u", (base - UID_RANGE_FIRST) / NATIVE_UID_RANGE);
    _cleanup_close_ int dirfd = open_dir(dir, err);
    if (dirfd < 0)
        return dirfd;
    if (unlinkat(dirfd, name, 0) < 0)
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "remove %s/%s", dir, name);
    if (released_count < RELEASED_MAX)
        released[released_count++] = (base - UID_RANGE_FIRST) / NATIVE_UID_RANGE;
    return 0;
}

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir); /* read only */
}

int uid_range_list(const char *dir, void (*fn)(void *arg, uint32_t base, const char *owner), void *arg,
                   struct error *err)
{
    _cleanup_(close_dir) DIR *d = opendir(dir);
    if (!d)
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "open %s", dir);
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(d);
        if (!e)
            return errno ? error_set_errno(err, errno, "read %s", dir) : 0;
        uint64_t slot;
        if (!parse_u64(e->d_name, &slot) || slot >= SLOT_COUNT)
            continue;
        _cleanup_free_ char *owner = NULL;
        int r = file_read_at(dirfd(d), e->d_name, OWNER_MAX, &owner, NULL, err);
        if (r == -ENOENT) {
            error_clear(err);
            continue; /* released meanwhile */
        }
        if (r < 0)
            return r;
        fn(arg, slot_base((uint32_t)slot), owner);
    }
}
