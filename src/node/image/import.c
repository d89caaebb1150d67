/* Importing images: what PATH is, reading its documents, unpacking its layers, and the reference at the end. */
#include "node/image/store.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "node/image/reference.h"
#include "node/image/unpack.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#define IMAGE_BYTES_MAX (64ull << 30)
#define IMAGE_ENTRIES_MAX (4u << 20)

struct import {
    struct image_store *store;
    const char *name, *ref;
    int source; /* directory the image is read from */
    struct json *layers;
    int64_t size;
};

/* A file of the source by a path that came from the image: nothing outside of it, no device, no waiting. */
static int open_source(const struct import *im, const char *path, struct error *err)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    _cleanup_close_ int fd = (int)syscall(SYS_openat2, im->source, path, &how, sizeof(how));
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set_errno(err, errno, "open %.200s", path);
    if (!S_ISREG(st.st_mode))
        return error_set(err, EINVAL, "%.200s is no regular file", path);
    return take_fd(fd);
}

static int read_source(const struct import *im, const char *path, char **ret, size_t *ret_len, struct error *err)
{
    _cleanup_close_ int fd = open_source(im, path, err);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return error_set_errno(err, errno, "stat %.200s", path);
    if (st.st_size > IMAGE_JSON_MAX)
        return error_set(err, EFBIG, "%.200s is larger than %u bytes", path, IMAGE_JSON_MAX);
    _cleanup_free_ char *data = xmalloc((size_t)st.st_size + 1);
    int r = fd_read_all(fd, data, (size_t)st.st_size);
    if (r < 0)
        return error_set_errno(err, -r, "read %.200s", path);
    data[st.st_size] = '\0';
    *ret = take_ptr(data);
    *ret_len = (size_t)st.st_size;
    return 0;
}

/* Reads a JSON document; expect: its digest when it is known beforehand, else NULL. */
static int read_document(const struct import *im, const char *path, const char *expect, struct json **ret,
                         char hex[SHA256_HEX + 1], struct error *err)
{
    _cleanup_free_ char *text = NULL;
    size_t len = 0;
    int r = read_source(im, path, &text, &len, err);

    if (r < 0)
        return r;
    digest_of(text, len, hex);
    if (expect && !streq(expect, hex))
        return error_set(err, EBADMSG, "%.200s has the digest sha256:%s, not the one it is named by", path, hex);
    _cleanup_error_ struct error bad = ERROR_INIT;
    *ret = json_parse(text, len, &bad);
    if (!*ret)
        return error_set(err, EINVAL, "%.200s is no JSON: %s", path, error_text(&bad));
    return 0;
}

static char *blob_path(const char *hex)
{
    return xasprintf("blobs/sha256/%s", hex);
}

/* The helper reports the paths; the attribute takes a privilege it does not have. */
static int mark_opaque(int target, char *const *paths, struct error *err)
{
    for (; paths && *paths; paths++) {
        struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                               .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
        _cleanup_close_ int fd = (int)syscall(SYS_openat2, target, *paths, &how, sizeof(how));
        if (fd < 0 && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR))
            continue; /* a later entry replaced the directory */
        if (fd < 0 || fsetxattr(fd, "trusted.overlay.opaque", "y", 1, 0) < 0)
            return error_set_errno(err, errno, "mark %.200s opaque", *paths);
    }
    return 0;
}

/*
 * Unpacks the layer read from fd and puts it into the store. expect: the digest it must have, or NULL; diff_id: the
 * digest it must have if it is not compressed, or NULL.
 */
static int add_layer(struct import *im, int fd, const char *expect, const char *diff_id, struct error *err)
{
    _cleanup_free_ char *temp = NULL;
    _cleanup_(unpack_result_clear) struct unpack_result result = {0};
    unsigned char magic[6] = {0};
    int r = image_store_temp(im->store, &temp, err);

    if (r < 0)
        return r;
    if (pread(fd, magic, sizeof(magic), 0) < 0 && errno != ESPIPE)
        return error_set_errno(err, errno, "read the layer");
    bool compressed = (magic[0] == 0x1f && magic[1] == 0x8b) || memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0 ||
                      memcmp(magic,
                             "\xfd"
                             "7zXZ",
                             5) == 0 ||
                      memcmp(magic, "BZh", 3) == 0;
    _cleanup_close_ int target = openat(image_store_dir(im->store), temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (target < 0)
        return error_set_errno(err, errno, "open %s", temp);
    struct unpack_request request = {.helper = image_store_helper(im->store),
                                     .mode = UNPACK_LAYER,
                                     .archive_fd = fd,
                                     .target_fd = target,
                                     .max_bytes = IMAGE_BYTES_MAX - (uint64_t)im->size,
                                     .max_entries = IMAGE_ENTRIES_MAX};
    r = unpack_run(&request, &result, err);
    if (r == 0 && expect && !streq(expect, result.hex))
        r = error_set(err, EBADMSG, "a layer has the digest sha256:%s instead of sha256:%s", result.hex, expect);
    if (r == 0 && diff_id && !compressed && !streq(diff_id, result.hex))
        r = error_set(err, EBADMSG, "a layer has the digest sha256:%s instead of sha256:%s", result.hex, diff_id);
    if (r == 0)
        r = mark_opaque(target, result.opaque, err);
    if (r == 0)
        r = image_store_put_layer(im->store, temp, result.hex, err);
    if (r < 0) {
        (void)remove_tree_at(image_store_dir(im->store), temp, NULL); /* the failure above is what counts */
        return r;
    }
    im->size += (int64_t)result.bytes;
    json_push(im->layers, json_string(result.hex));
    return 0;
}

static int add_layers(struct import *im, const struct image_manifest *m, const struct json *config, struct error *err)
{
    for (size_t i = 0; i < m->layer_count; i++) {
        const struct image_blob *blob = &m->layers[i];
        const char *hex = *blob->hex ? blob->hex : NULL;
        char diff_id[SHA256_HEX + 1];
        if (!image_config_diff_id(config, i, diff_id))
            return error_set(err, EINVAL, "the image configuration has no diff_id for layer %zu", i);
        if (hex && image_store_has_layer(im->store, hex)) {
            json_push(im->layers, json_string(hex));
            continue;
        }
        _cleanup_free_ char *path = hex ? blob_path(hex) : xstrdup(blob->path);
        _cleanup_close_ int fd = open_source(im, path, err);
        int r = fd < 0 ? fd : add_layer(im, fd, hex, diff_id, err);
        if (r < 0)
            return error_wrap(err, "layer %zu", i);
    }
    return 0;
}

static int finish(struct import *im, const struct image_manifest *m, const char *config_path, const char *digest,
                  struct error *err)
{
    _cleanup_json_ struct json *document = NULL;
    _cleanup_(image_config_clear) struct image_config config = {0};
    char hex[SHA256_HEX + 1];
    int r = read_document(im, config_path, *m->config.hex ? m->config.hex : NULL, &document, hex, err);

    if (r == 0)
        r = image_config_parse(document, image_architecture(), m->layer_count, &config, err);
    if (r == 0)
        r = add_layers(im, m, document, err);
    if (r < 0)
        return r;
    _cleanup_free_ char *id = xasprintf("sha256:%s", hex);
    return image_store_put_ref(im->store, im->name, id, digest, im->layers, &config, im->size, err);
}

static int import_oci(struct import *im, struct error *err)
{
    _cleanup_json_ struct json *index = NULL, *manifest = NULL;
    _cleanup_(image_manifest_clear) struct image_manifest m = {0};
    char hex[SHA256_HEX + 1];
    struct image_blob blob;
    bool nested;
    int r = read_document(im, "index.json", NULL, &index, hex, err);

    if (r == 0)
        r = image_index_select(index, im->ref, image_architecture(), &blob, &nested, err);
    if (r < 0)
        return r;
    if (nested) {
        _cleanup_free_ char *path = blob_path(blob.hex);
        json_unref(take_ptr(index));
        r = read_document(im, path, blob.hex, &index, hex, err);
        if (r == 0)
            r = image_index_select(index, NULL, image_architecture(), &blob, &nested, err);
        if (r == 0 && nested)
            r = error_set(err, EINVAL, "the OCI index is nested more than once");
        if (r < 0)
            return r;
    }
    _cleanup_free_ char *path = blob_path(blob.hex);
    r = read_document(im, path, blob.hex, &manifest, hex, err);
    if (r == 0)
        r = image_manifest_parse(manifest, &m, err);
    if (r < 0)
        return r;
    _cleanup_free_ char *config_path = blob_path(m.config.hex), *digest = xasprintf("sha256:%s", blob.hex);
    return finish(im, &m, config_path, digest, err);
}

static int import_docker(struct import *im, struct error *err)
{
    _cleanup_json_ struct json *document = NULL;
    _cleanup_(image_manifest_clear) struct image_manifest m = {0};
    char hex[SHA256_HEX + 1];
    int r = read_document(im, "manifest.json", NULL, &document, hex, err);

    if (r == 0)
        r = docker_manifest_parse(document, im->ref ? im->ref : im->name, &m, err);
    return r < 0 ? r : finish(im, &m, m.config.path, "", err);
}

/* A root file system is an image of one layer whose configuration is ours. */
static int put_rootfs(struct import *im, struct error *err)
{
    char *env[] = {(char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    char *cmd[] = {(char *)"/bin/sh", NULL};
    struct image_config config = {.cmd = cmd, .env = env};
    _cleanup_free_ char *id = xasprintf("sha256:%s", json_str_or(json_item(im->layers, 0), ""));
    return image_store_put_ref(im->store, im->name, id, "", im->layers, &config, im->size, err);
}

/* A directory becomes an archive by way of tar, in the order of names so that the same tree gives the same layer. */
static int import_directory(struct import *im, struct error *err)
{
    _cleanup_free_ char *from = xasprintf("/proc/self/fd/%d", im->source);
    char *argv[] = {(char *)"tar",
                    (char *)"--sort=name",
                    (char *)"--numeric-owner",
                    (char *)"--one-file-system",
                    (char *)"-C",
                    from,
                    (char *)"--warning=no-file-ignored",
                    (char *)"-cf",
                    (char *)"-",
                    (char *)".",
                    NULL};
    char *env[] = {(char *)"PATH=/usr/bin:/bin", (char *)"LC_ALL=C.UTF-8", NULL};
    posix_spawn_file_actions_t actions;
    int pipe_fds[2], status = 0;
    pid_t pid;

    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return error_set_errno(err, errno, "create a pipe");
    _cleanup_close_ int archive = pipe_fds[0];
    int r = posix_spawn_file_actions_init(&actions);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, im->source, im->source); /* clears close-on-exec */
    if (r == 0)
        r = posix_spawnp(&pid, "tar", &actions, NULL, argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(pipe_fds[1]);
    if (r != 0)
        return error_set_errno(err, r, "start tar");
    r = add_layer(im, archive, NULL, NULL, err);
    if (r < 0)
        (void)kill(pid, SIGKILL); /* our own unreaped child */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (r == 0 && status != 0)
        r = error_set(err, EIO, "tar could not read the whole directory");
    return r < 0 ? r : put_rootfs(im, err);
}

static int import_from_directory(struct import *im, struct error *err)
{
    if (faccessat(im->source, "oci-layout", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return import_oci(im, err);
    return import_directory(im, err);
}

/* docker-archive and OCI tars are unpacked beside the layers first. */
static int import_outer_archive(struct import *im, int archive, bool oci, struct error *err)
{
    _cleanup_free_ char *temp = NULL;
    _cleanup_(unpack_result_clear) struct unpack_result result = {0};
    int dir = image_store_dir(im->store), r = image_store_temp(im->store, &temp, err);

    if (r < 0)
        return r;
    im->source = openat(dir, temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (im->source < 0)
        return error_set_errno(err, errno, "open %s", temp);
    struct unpack_request request = {.helper = image_store_helper(im->store),
                                     .mode = UNPACK_FILES,
                                     .archive_fd = archive,
                                     .target_fd = im->source,
                                     .max_bytes = IMAGE_BYTES_MAX,
                                     .max_entries = IMAGE_ENTRIES_MAX};
    r = unpack_run(&request, &result, err);
    if (r == 0)
        r = oci ? import_oci(im, err) : import_docker(im, err);
    (void)close(im->source);
    im->source = -1;
    int removed = remove_tree_at(dir, temp, r < 0 ? NULL : err);
    return r < 0 ? r : removed;
}

static int import_from_archive(struct import *im, int archive, struct error *err)
{
    _cleanup_(unpack_result_clear) struct unpack_result probe = {0};
    struct unpack_request request = {
        .helper = image_store_helper(im->store), .mode = UNPACK_PROBE, .archive_fd = archive, .target_fd = -1};
    int r = unpack_run(&request, &probe, err);

    if (r < 0)
        return r;
    if (lseek(archive, 0, SEEK_SET) < 0)
        return error_set_errno(err, errno, "rewind the archive");
    if (streq_null(probe.kind, "rootfs")) {
        r = add_layer(im, archive, NULL, NULL, err);
        return r < 0 ? r : put_rootfs(im, err);
    }
    return import_outer_archive(im, archive, streq_null(probe.kind, "oci-layout"), err);
}

int image_store_import(struct image_store *s, const char *name, const char *path, const char *ref, struct error *err)
{
    image_store_tidy(s);
    _cleanup_close_ int lock = image_store_lock(s, LOCK_SH, err), fd = -1;
    _cleanup_json_ struct json *layers = json_array_make();
    struct import im = {.store = s, .name = name, .ref = ref, .source = -1, .layers = layers};
    struct stat st;

    if (lock < 0)
        return lock;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set_errno(err, errno, "open %s", path);
    int r;
    if (S_ISDIR(st.st_mode)) {
        im.source = fd;
        r = import_from_directory(&im, err);
    } else if (S_ISREG(st.st_mode)) {
        r = import_from_archive(&im, fd, err);
    } else {
        r = error_set(err, EINVAL, "%s is neither a directory nor a file", path);
    }
    return r < 0 ? error_wrap(err, "import %s", path) : 0;
}
