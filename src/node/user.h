/*
 * Who "USER[:GROUP]" of an image is. Reads /etc/passwd and /etc/group of the image's layers itself, with limits: no
 * name service, no library of the image, no file outside of its layers.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct image_user {
    uint32_t uid, gid;
    char *home;       /* never NULL */
    uint32_t *groups; /* those whose member lists name the user */
    size_t group_count;
};
void image_user_clear(struct image_user *u);

/*
 * lowers: topmost first. text: NULL or "" = root; numbers need no entry. uid and gid >= 0 override what text says (the
 * Pod's runAsUser, runAsGroup).
 */
int image_user_resolve(char *const *lowers, const char *text, int64_t uid, int64_t gid, struct image_user *ret,
                       struct error *err);
