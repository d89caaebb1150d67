/* Mounts as descriptors: made detached, attached later by move_mount(). All functions return 0 or -errno. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A new file system. options: "key", "value" pairs, NULL-terminated; a NULL value sets a flag. */
int mountfd_new(const char *type, uint64_t attributes, const char *const *options, struct error *err);

/*
 * A private copy of the mount of path (below dirfd; "" = dirfd itself), without what is mounted below it.
 * attributes: MOUNT_ATTR_* to set. user_ns: owners are mapped by it; -1 = as they are.
 */
int mountfd_clone(int dirfd, const char *path, uint64_t attributes, int user_ns, struct error *err);

/* Attaches to the directory or file that target (O_PATH) is. */
int mountfd_attach(int mount, int target, struct error *err);

int mountfd_set(int mount, uint64_t attributes, struct error *err);

/*
 * Opens path inside root as a chroot would resolve it (magic links refused), O_PATH. What is missing is created as
 * directories owned by uid, the last one as a file when is_file. no_links: a symbolic link anywhere is an error, for
 * the places that must be what they seem.
 */
int mountfd_target(int root, const char *path, bool is_file, bool no_links, uid_t uid, struct error *err);
