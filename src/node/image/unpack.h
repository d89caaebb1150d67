/*
 * The store's side of the unpacking helper (extract_main.c): starts it, feeds it an archive while computing the
 * archive's digest, and collects its report. Blocks until the helper is gone; not for an event loop.
 */
#pragma once

#include "base/error.h"
#include "node/image/digest.h"

#include <stdint.h>

enum unpack_mode { UNPACK_LAYER, UNPACK_FILES, UNPACK_PROBE, UNPACK_COPY };

struct unpack_request {
    const char *helper; /* path of holt-extract */
    enum unpack_mode mode;
    int archive_fd; /* read to its end */
    int target_fd;  /* directory; unused for UNPACK_PROBE */
    uint64_t max_bytes, max_entries;
};

struct unpack_result {
    char hex[SHA256_HEX + 1]; /* sha256 of the whole archive as read */
    char *kind;               /* UNPACK_PROBE: "oci-layout", "docker-archive", "rootfs" */
    char **opaque;            /* paths of opaque directories, NULL-terminated; NULL = none */
    size_t opaque_count;
    char **skipped; /* UNPACK_COPY: what was left out, NULL-terminated; NULL = none */
    size_t skipped_count;
    uint64_t bytes; /* unpacked */
};

/* holt-extract beside this program, or where packages put it; the caller frees. */
char *unpack_default_helper(void);
int unpack_run(const struct unpack_request *request, struct unpack_result *ret, struct error *err);
void unpack_result_clear(struct unpack_result *r);
