/*
 * Imported images for `holt run`. The small static program knows nothing of them: there run_find_image is NULL, and
 * cmd_run() answers RUN_NEEDS_CORE for its caller to start the whole program instead.
 */
#pragma once

#include "base/error.h"

#define RUN_NEEDS_CORE (-2)

struct run_image {
    char **lowers;        /* directories, topmost first */
    char **env, **words;  /* words: entrypoint and cmd; NULL = none */
    char *workdir, *user; /* NULL = not set */
    int lock;             /* while it is open the image is not removed; -1 = none */
};

extern int (*run_find_image)(const char *data_dir, const char *name, struct run_image *ret, struct error *err);
int run_image_find(const char *data_dir, const char *name, struct run_image *ret, struct error *err);
