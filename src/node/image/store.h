/*
 * Images on this machine: content-addressed layers, each unpacked once, and names that point at lists of layers.
 *
 *     D/images/layers/<sha256>/   one unpacked layer, a lower directory of overlay roots; never changed afterwards
 *     D/images/refs/<sha256 of the name>.json   {name, id, digest, layers, config, size, created}
 *     D/images/tmp/               unpacking happens here; whatever is found here at rest is left over from a crash
 *     D/images/lock               shared: importing and looking up; exclusive: removing
 *
 * A layer's name is the SHA-256 of its blob as it was imported (compressed or not), computed while it is unpacked.
 * D/images has mode 0700: set-id programs of images are out of the host users' reach.
 *
 * Layers in use by Pods are named in D/pods/<uid>/layers (written by image_store_lookup under the shared lock) and are
 * not collected. Everything here blocks; only image_store_lookup() is cheap enough for an event loop.
 */
#pragma once

#include "base/error.h"
#include "node/image/manifest.h"

struct image_store;

/* helper: path of holt-extract, NULL = beside this program. Makes the directories that are missing. */
struct image_store *image_store_open(const char *data_dir, const char *helper, struct error *err);
void image_store_close(struct image_store *s);
DEFINE_CLEANUP(image_store_close, struct image_store *);

/* What a sandbox is made from. */
struct image {
    char *id;      /* "sha256:..." of the image configuration; "" for host and dir: images */
    char **lowers; /* directories, topmost first */
    struct image_config config;
};
void image_clear(struct image *i);

/*
 * Finds an imported image by its normalised name (reference.h). hold_path, when not NULL, is a file to write that
 * keeps the layers from being collected until it is removed. ENOENT: no such image. EAGAIN: a removal runs, try again
 * in some milliseconds.
 */
int image_store_lookup(struct image_store *s, const char *name, const char *hold_path, struct image *ret,
                       struct error *err);

/* A directory or tar of: docker-archive, OCI layout, root file system. ref: which image of several, may be NULL. */
int image_store_import(struct image_store *s, const char *name, const char *path, const char *ref, struct error *err);
/* The documents of refs/, sorted by name. */
int image_store_list(struct image_store *s, struct json **ret, struct error *err);
/* Forgets the name and removes the layers that nothing uses any more. */
int image_store_remove(struct image_store *s, const char *name, struct error *err);

/* Removes what imports that were killed have left. May take long. */
void image_store_tidy(struct image_store *s);

/* For import.c. */
/* The lock: operation is LOCK_SH or LOCK_EX, or'ed with LOCK_NB or not. Held until the returned descriptor is closed.
 */
int image_store_lock(const struct image_store *s, int operation, struct error *err);
int image_store_dir(const struct image_store *s); /* borrowed descriptor of D/images */
const char *image_store_helper(const struct image_store *s);
/* A new directory below tmp/; *ret_name is its path below D/images (malloc'd). */
int image_store_temp(struct image_store *s, char **ret_name, struct error *err);
int image_store_put_ref(struct image_store *s, const char *name, const char *id, const char *digest,
                        const struct json *layers, const struct image_config *config, int64_t size, struct error *err);
bool image_store_has_layer(const struct image_store *s, const char *hex);
/* Moves an unpacked layer from below tmp/ to its place; it becomes the store's. */
int image_store_put_layer(struct image_store *s, const char *temp, const char *hex, struct error *err);
