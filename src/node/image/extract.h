/*
 * Unpacks one tar archive (plain, gzip, zstd, xz, bzip2) into a directory. Runs in the helper process `holt-extract`,
 * never in a daemon: libarchive parses bytes from strangers here, with Landlock, seccomp and rlimits around it
 * (extract_confine.h).
 *
 * The rules, for every entry:
 *   - names are relative, without ".." and without empty parts; parents are looked up below the target only, whatever
 *     symbolic links the archive planted (openat2 RESOLVE_IN_ROOT), and nothing is ever written through a link;
 *   - regular files, directories, symbolic links, and hard links to regular files of the same archive; devices, FIFOs
 *     and sockets are refused, except below dev/, where they are left out (a sandbox has its own /dev);
 *   - as a copy out of a sandbox: no links and nothing but files and directories, no set-id bits;
 *   - owners are 0..65535, set-id bits stay (layers are mounted nosuid), extended attributes are dropped;
 *   - as a layer: ".wh.NAME" becomes an overlay whiteout (character device 0:0); ".wh..wh..opq", and a directory that
 *     replaces a whiteout of the same archive, are reported as opaque: the caller marks them (that takes a privilege
 *     the helper does not have).
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum extract_kind {
    EXTRACT_FILES, /* all is ours, files 0600 */
    EXTRACT_LAYER, /* whiteouts mean something, owners and modes are kept */
    EXTRACT_COPY,  /* all is ours, permissions are kept; links, devices and the like are left out and reported */
};

struct extract_options {
    enum extract_kind kind;
    uint64_t max_bytes; /* of all files together, holes included */
    uint64_t max_entries;
    /* Called for each opaque directory with its path below the target ("." for the target). */
    void (*opaque)(void *arg, const char *path);
    /* EXTRACT_COPY: called for what is left out. */
    void (*skipped)(void *arg, const char *path);
    void *arg;
};

struct extract_result {
    uint64_t bytes, entries;
};

int extract_archive(int archive_fd, int target_fd, const struct extract_options *options, struct extract_result *ret,
                    struct error *err);

/*
 * What an archive is, by the names at its top: "oci-layout" (a file of this name), "docker-archive" (manifest.json),
 * else "rootfs". Reads it to the end.
 */
int extract_probe(int archive_fd, const char **ret_kind, struct error *err);
