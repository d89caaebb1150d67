/*
 * The image "host": the programs of this machine, without its data. /usr (and /bin, /lib… where they are directories)
 * are seen through overlays; all else is a skeleton made by us: an /etc with users, resolver and the few settings that
 * programs need to start, copied from a fixed list of public files, and empty /home, /root, /var, /tmp. Nothing else
 * of the host's /etc, /home, /root, /var, /opt or /run is there.
 */
#pragma once

#include "node/native/native.h"

struct host_image {
    char *skeleton;              /* the lower of the root */
    struct native_mount *mounts; /* NATIVE_MOUNT_OVERLAY, to come before those of the Pod; strings are static */
    size_t mount_count;
};

/*
 * Makes the skeleton below dir (created when missing), or finds the one made before: a start later costs a few
 * stat(2). One that no longer fits the host (new certificates, another ld.so.cache) is left for those who use it, and
 * another is made beside it.
 */
int host_image_prepare(const char *dir, struct host_image *ret, struct error *err);
void host_image_done(struct host_image *image);

/* Where `holt run` keeps it. */
#define HOST_IMAGE_RUN_DIR "/run/holt/host-image"
