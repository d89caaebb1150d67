/*
 * Names of images as users write them.
 *
 *     host                       the host's own /usr and friends: needs no download
 *     dir:/srv/rootfs            a directory of the host, where that is allowed
 *     busybox, ghcr.io/a/b:1.2, name@sha256:...   imported images, normalised as everywhere:
 *                                docker.io/library/busybox:latest
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>

enum image_kind { IMAGE_HOST, IMAGE_DIR, IMAGE_NAMED };

struct image_ref {
    enum image_kind kind;
    char *name; /* owned: normalised name; for IMAGE_DIR the absolute path; "host" for IMAGE_HOST */
};

/* Fails with EINVAL and reason InvalidImageName. */
int image_ref_parse(const char *text, struct image_ref *ret, struct error *err);
void image_ref_clear(struct image_ref *ref);
