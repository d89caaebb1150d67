/* The files of api/, packed at build time as JSON by tools/pack_api.py: an array of documents each. */
#pragma once

#include <stddef.h>

struct api_file {
    const char *name; /* "core/pod" */
    const char *text;
    size_t len;
};
extern const struct api_file api_files[];
extern const size_t api_file_count;
