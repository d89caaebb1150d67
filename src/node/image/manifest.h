/*
 * The JSON documents of an image: OCI index and manifest, docker-archive's manifest.json, image configuration.
 * All of it is input from strangers: digests are checked for form here and against content by the store, layers that
 * would be fetched from a URL are refused, sizes and counts are bounded. Pure; fuzzed (tests/fuzz/fuzz_oci_manifest.c).
 */
#pragma once

#include "base/error.h"
#include "node/image/digest.h"
#include "wire/json.h"

#include <stdbool.h>
#include <stdint.h>

#define IMAGE_JSON_MAX (4u << 20) /* of one document */
#define IMAGE_LAYERS_MAX 127      /* what an overlay root can hold with room for the node's own lowers */

/* Content by digest. */
struct image_blob {
    char hex[SHA256_HEX + 1]; /* of the sha256; "" when the document names a file instead */
    char *path;               /* docker-archive: path inside the archive; NULL for OCI */
    int64_t size;             /* -1 = not known */
};

struct image_manifest {
    struct image_blob config;
    struct image_blob *layers; /* lowest first */
    size_t layer_count;
};
void image_manifest_clear(struct image_manifest *m);

/* Finds "sha256:<64 hex digits>"; false for anything else. */
bool digest_parse(const char *text, char hex[SHA256_HEX + 1]);
/* The value of uname's machine in OCI's words: "amd64", "arm64". */
const char *image_architecture(void);

/*
 * Picks the one manifest of an OCI index (index.json) to use: the entry with annotation
 * org.opencontainers.image.ref.name == tag if tag is given, and of the right platform. *ret_nested: it is itself an
 * index (multi-platform), to be read with this function again.
 */
int image_index_select(const struct json *index, const char *tag, const char *architecture, struct image_blob *ret,
                       bool *ret_nested, struct error *err);
int image_manifest_parse(const struct json *manifest, struct image_manifest *ret, struct error *err);
/* docker-archive's manifest.json; the only entry, or the one that lists tag among its RepoTags. */
int docker_manifest_parse(const struct json *manifest, const char *tag, struct image_manifest *ret, struct error *err);

struct image_config {
    char **entrypoint, **cmd, **env; /* NULL when not set */
    char *working_dir, *user;        /* NULL when not set */
    int stop_signal;                 /* 0 = SIGTERM */
};
/* Checks architecture and operating system; diff_ids must be as many as layers (docker and OCI alike). */
int image_config_parse(const struct json *config, const char *architecture, size_t layer_count,
                       struct image_config *ret, struct error *err);
/* The uncompressed digest of one layer, or false. */
bool image_config_diff_id(const struct json *config, size_t layer, char hex[SHA256_HEX + 1]);
void image_config_clear(struct image_config *c);
/* What the store keeps, and back. */
struct json *image_config_to_json(const struct image_config *c);
int image_config_from_json(const struct json *v, struct image_config *ret, struct error *err);
