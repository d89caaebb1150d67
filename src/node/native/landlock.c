#include "node/native/landlock.h"

#include "node/native/sys.h"

#include <linux/landlock.h>
#include <stdint.h>
#include <sys/stat.h>

/* linux/landlock.h of kernels that the build machine need not have. */
#define FS_TRUNCATE (1ULL << 14)               /* ABI 3 */
#define FS_IOCTL_DEV (1ULL << 15)              /* ABI 5 */
#define SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0) /* ABI 6 */
#define SCOPE_SIGNAL (1ULL << 1)               /* ABI 6 */

#define FS_REMOVE (LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE)
#define FS_MAKE                                                                                                        \
    (LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |                        \
     LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM)
#define FS_MAKE_DEVICE (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
#define FS_READ (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_WRITE (LANDLOCK_ACCESS_FS_WRITE_FILE | FS_REMOVE | FS_MAKE | LANDLOCK_ACCESS_FS_REFER | FS_TRUNCATE)
/* What a rule on a file, not a directory, may grant. */
#define FS_OF_FILES                                                                                                    \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE | FS_TRUNCATE |         \
     FS_IOCTL_DEV)

struct ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi < 0 ? 0 : (int)abi;
}

static uint64_t known_access(int abi)
{
    uint64_t access = FS_READ | FS_WRITE | FS_MAKE_DEVICE | FS_IOCTL_DEV;

    if (abi < 2)
        access &= ~LANDLOCK_ACCESS_FS_REFER;
    if (abi < 3)
        access &= ~FS_TRUNCATE;
    if (abi < 5)
        access &= ~FS_IOCTL_DEV;
    return access;
}

static int allow(int ruleset, int path, uint64_t access, struct error *err)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = path};

    if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return error_set_errno(err, errno, "add a Landlock rule");
    return 0;
}

int landlock_confine(int root, int dev, bool read_only, const int *writable, size_t writable_count, struct error *err)
{
    int abi = landlock_abi();
    if (abi == 0)
        return error_set(err, ENOSYS, "the kernel has no Landlock");

    uint64_t known = known_access(abi);
    struct ruleset_attr attr = {
        .handled_access_fs = known,
        .scoped = abi >= 6 ? SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL : 0,
    };
    size_t attr_size = abi >= 6 ? sizeof(attr) : abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
    _cleanup_close_ int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, attr_size, 0);
    if (ruleset < 0)
        return error_set_errno(err, errno, "create a Landlock ruleset");

    int r = allow(ruleset, root, (read_only ? FS_READ : FS_READ | FS_WRITE) & known, err);
    if (r < 0)
        return r;
    r = allow(ruleset, dev, (FS_READ | FS_WRITE | FS_IOCTL_DEV) & known, err);
    if (r < 0)
        return r;
    for (size_t i = 0; read_only && i < writable_count; i++) {
        struct stat st;
        if (fstat(writable[i], &st) < 0)
            return error_set_errno(err, errno, "stat a writable mount");
        uint64_t access = (FS_READ | FS_WRITE) & known;
        r = allow(ruleset, writable[i], S_ISDIR(st.st_mode) ? access : access & FS_OF_FILES, err);
        if (r < 0)
            return r;
    }
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return error_set_errno(err, errno, "enter the Landlock domain");
    return 0;
}
