#include "node/image/store.h"

#include "base/fdio.h"
#include "base/hashmap.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "node/image/reference.h"
#include "node/image/unpack.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>

#define REF_MAX (8u << 20)
#define HOLD_MAX (1u << 20)
#define TRASH "trash-"

struct image_store {
    int dir;      /* D/images */
    int data_dir; /* D */
    char *path;   /* of D/images, absolute: lowers are given out as paths */
    char *helper;
};

static int open_dirs(struct image_store *s, const char *data_dir, struct error *err)
{
    static const char *const parts[] = {"layers", "refs", "tmp"};

    s->data_dir = mkdirs_at(AT_FDCWD, data_dir, 0755, err);
    if (s->data_dir < 0)
        return s->data_dir;
    if (mkdirat(s->data_dir, "images", 0700) < 0 && errno != EEXIST)
        return error_set_errno(err, errno, "create %s/images", data_dir);
    s->dir = openat(s->data_dir, "images", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->dir < 0)
        return error_set_errno(err, errno, "open %s/images", data_dir);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (mkdirat(s->dir, parts[i], 0700) < 0 && errno != EEXIST)
            return error_set_errno(err, errno, "create %s/images/%s", data_dir, parts[i]);
    _cleanup_free_ char *real = realpath(data_dir, NULL);
    if (!real)
        return error_set_errno(err, errno, "resolve %s", data_dir);
    s->path = xasprintf("%s/images", real);
    return 0;
}

struct image_store *image_store_open(const char *data_dir, const char *helper, struct error *err)
{
    _cleanup_(image_store_close_p) struct image_store *s = xcalloc(1, sizeof(*s));

    s->dir = s->data_dir = -1;
    s->helper = helper ? xstrdup(helper) : unpack_default_helper();
    return open_dirs(s, data_dir, err) < 0 ? NULL : take_ptr(s);
}

void image_store_close(struct image_store *s)
{
    if (!s)
        return;
    if (s->dir >= 0)
        (void)close(s->dir);
    if (s->data_dir >= 0)
        (void)close(s->data_dir);
    free(s->path);
    free(s->helper);
    free(s);
}

int image_store_dir(const struct image_store *s)
{
    return s->dir;
}

const char *image_store_helper(const struct image_store *s)
{
    return s->helper;
}

void image_clear(struct image *i)
{
    free(i->id);
    strv_free(i->lowers);
    image_config_clear(&i->config);
    *i = (struct image){0};
}

int image_store_lock(const struct image_store *s, int operation, struct error *err)
{
    _cleanup_close_ int fd = openat(s->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return error_set_errno(err, errno, "open the lock of the image store");
    while (flock(fd, operation) < 0) {
        if (errno == EINTR)
            continue;
        if (errno == EWOULDBLOCK)
            return error_set(err, EAGAIN, "images are being removed");
        return error_set_errno(err, errno, "lock the image store");
    }
    return take_fd(fd);
}

static char *ref_path(const char *name)
{
    char hex[SHA256_HEX + 1];

    digest_of(name, strlen(name), hex);
    return xasprintf("refs/%s.json", hex);
}

static int read_ref(const struct image_store *s, const char *path, struct json **ret, struct error *err)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    int r = file_read_at(s->dir, path, REF_MAX, &text, &len, err);

    if (r < 0)
        return r;
    *ret = json_parse(text, len, err);
    if (!*ret)
        return error_wrap(err, "read %s/%s", s->path, path);
    return 0;
}

typedef int (*ref_visitor)(void *arg, const char *file, struct json *ref);

/* Calls visit for each reference until it returns something else than 0. */
static int each_ref(const struct image_store *s, ref_visitor visit, void *arg, struct error *err)
{
    int fd = openat(s->dir, "refs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = 0;

    if (!dir) {
        r = error_set_errno(err, errno, "open %s/refs", s->path);
        if (fd >= 0)
            (void)close(fd);
        return r;
    }
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        if (!str_has_suffix(e->d_name, ".json"))
            continue;
        _cleanup_free_ char *path = xasprintf("refs/%s", e->d_name);
        _cleanup_json_ struct json *ref = NULL;
        _cleanup_error_ struct error gone = ERROR_INIT;
        r = read_ref(s, path, &ref, &gone);
        if (r == -ENOENT)
            r = 0; /* removed meanwhile */
        else if (r < 0)
            (void)error_move(err, &gone);
        else
            r = visit(arg, path, ref);
    }
    (void)closedir(dir);
    return r;
}

/* "repository@sha256:...": any name of the repository whose manifest has this digest. */
struct by_digest {
    const char *name;
    struct json *found;
};

static int match_digest(void *arg, const char *file UNUSED, struct json *ref)
{
    struct by_digest *by = arg;
    const char *name = json_str_or(json_get(ref, "name"), ""), *at = strchr(by->name, '@');
    const char *tag = strrchr(name, ':');
    size_t repository = (size_t)(at - by->name);

    if (!tag || strlen(name) - strlen(tag) != repository || strncmp(name, by->name, repository) != 0 ||
        !streq(json_str_or(json_get(ref, "digest"), ""), at + 1))
        return 0;
    by->found = json_ref(ref);
    return 1;
}

static int find_ref(const struct image_store *s, const char *name, struct json **ret, struct error *err)
{
    _cleanup_free_ char *path = ref_path(name);
    int r = read_ref(s, path, ret, err);

    if (r != -ENOENT)
        return r;
    error_clear(err);
    if (strchr(name, '@')) {
        struct by_digest by = {.name = name};
        r = each_ref(s, match_digest, &by, err);
        if (r < 0)
            return r;
        if (by.found) {
            *ret = by.found;
            return 0;
        }
    }
    return error_set(err, ENOENT, "no image %s on this node", name);
}

int image_store_lookup(struct image_store *s, const char *name, const char *hold_path, struct image *ret,
                       struct error *err)
{
    _cleanup_close_ int lock = image_store_lock(s, LOCK_SH | LOCK_NB, err);
    _cleanup_json_ struct json *ref = NULL;
    _cleanup_(image_clear) struct image image = {0};
    _cleanup_(strbuf_free) struct strbuf hold = {0};

    if (lock < 0)
        return lock;
    int r = find_ref(s, name, &ref, err);
    if (r < 0)
        return r;
    r = image_config_from_json(json_get(ref, "config"), &image.config, err);
    if (r < 0)
        return error_wrap(err, "image %s", name);
    const struct json *layers = json_get(ref, "layers");
    size_t count = json_size(layers);
    image.lowers = xcalloc(count + 1, sizeof(*image.lowers));
    for (size_t i = 0; i < count; i++) {
        const char *hex = json_str_or(json_item(layers, i), "");
        if (strlen(hex) != SHA256_HEX || !image_store_has_layer(s, hex))
            return error_set(err, EIO, "image %s lacks its layer %.64s; import it again", name, hex);
        image.lowers[count - 1 - i] = xasprintf("%s/layers/%s", s->path, hex);
        strbuf_addf(&hold, "%s\n", hex);
    }
    image.id = xstrdup(json_str_or(json_get(ref, "id"), ""));
    if (hold_path) {
        _cleanup_close_ int fd = open(hold_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        r = fd < 0 ? -errno : fd_write_all(fd, strbuf_str(&hold), hold.len);
        if (r < 0)
            return error_set_errno(err, -r, "write %s", hold_path);
    }
    *ret = image;
    image = (struct image){0};
    return 0;
}

bool image_store_has_layer(const struct image_store *s, const char *hex)
{
    _cleanup_free_ char *path = xasprintf("layers/%s", hex);

    return faccessat(s->dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int image_store_temp(struct image_store *s, char **ret_name, struct error *err)
{
    _cleanup_free_ char *hex = random_hex(8), *name = xasprintf("tmp/%s", hex);

    if (mkdirat(s->dir, name, 0755) < 0)
        return error_set_errno(err, errno, "create %s/%s", s->path, name);
    *ret_name = take_ptr(name);
    return 0;
}

int image_store_put_layer(struct image_store *s, const char *temp, const char *hex, struct error *err)
{
    _cleanup_free_ char *path = xasprintf("layers/%s", hex);

    /* A name of a layer must never stand for content that a power cut took. */
    if (syncfs(s->dir) < 0)
        return error_set_errno(err, errno, "write the layer to disk");
    if (renameat(s->dir, temp, s->dir, path) == 0)
        return 0;
    if (errno == EEXIST || errno == ENOTEMPTY) /* someone else imported it meanwhile */
        return remove_tree_at(s->dir, temp, err);
    return error_set_errno(err, errno, "store layer %s", hex);
}

int image_store_put_ref(struct image_store *s, const char *name, const char *id, const char *digest,
                        const struct json *layers, const struct image_config *config, int64_t size, struct error *err)
{
    char now[TIME_RFC3339_MAX];
    _cleanup_free_ char *path = ref_path(name), *text = NULL;
    _cleanup_json_ struct json *ref = NULL;

    time_format_rfc3339(time_now_ns(), 0, now);
    ref = json_build("{s:s, s:s, s:s, s:o, s:o, s:i, s:s}", "name", name, "id", id, "digest", digest, "layers",
                     json_copy(layers), "config", image_config_to_json(config), "size", size, "created", now);
    text = json_text(ref);
    return file_write_atomic_at(s->dir, path, text, strlen(text), 0600, err);
}

static int add_ref(void *arg, const char *file UNUSED, struct json *ref)
{
    struct json *list = arg;
    const char *name = json_str_or(json_get(ref, "name"), "");
    size_t at = 0;

    while (at < json_size(list) && strcmp(json_str_or(json_get(json_item(list, at), "name"), ""), name) < 0)
        at++;
    json_insert_item(list, at, json_ref(ref));
    return 0;
}

int image_store_list(struct image_store *s, struct json **ret, struct error *err)
{
    _cleanup_json_ struct json *list = json_array_make();
    int r = each_ref(s, add_ref, list, err);

    if (r == 0)
        *ret = take_ptr(list);
    return r;
}

/* Removing. */

static int mark_ref_layers(void *arg, const char *file UNUSED, struct json *ref)
{
    struct hashmap *used = arg;
    const struct json *layers = json_get(ref, "layers");

    for (size_t i = 0; i < json_size(layers); i++)
        (void)hashmap_put(used, json_str_or(json_item(layers, i), ""), used); /* a set: the old value is the same */
    return 0;
}

static int mark_pod_layers(const struct image_store *s, struct hashmap *used, struct error *err)
{
    int fd = openat(s->data_dir, "pods", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "open the directory of Pods");
    DIR *dir = fdopendir(fd);
    int r = 0;
    if (!dir) {
        (void)close(fd);
        return error_set_errno(err, ENOMEM, "read the directory of Pods");
    }
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        _cleanup_free_ char *path = xasprintf("%s/layers", e->d_name), *text = NULL;
        _cleanup_error_ struct error missing = ERROR_INIT;
        if (*e->d_name == '.')
            continue;
        r = file_read_at(dirfd(dir), path, HOLD_MAX, &text, NULL, &missing);
        if (r == -ENOENT || r == -ENOTDIR)
            r = 0;
        else if (r < 0)
            (void)error_move(err, &missing);
        char *save = NULL;
        for (char *hex = text ? strtok_r(text, "\n", &save) : NULL; hex; hex = strtok_r(NULL, "\n", &save))
            (void)hashmap_put(used, hex, used); /* as above */
    }
    (void)closedir(dir);
    return r;
}

static DIR *open_part(const struct image_store *s, const char *part, struct error *err)
{
    int fd = openat(s->dir, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        (void)error_set_errno(err, errno, "open %s/%s", s->path, part);
        if (fd >= 0)
            (void)close(fd);
    }
    return dir;
}

/* Renames the entries of a part that are not in used to tmp/trash-*: quick, so the lock is held shortly. */
static int move_to_trash(const struct image_store *s, const char *part, const struct hashmap *used, struct error *err)
{
    DIR *dir = open_part(s, part, err);
    int r = dir ? 0 : -EIO;

    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        if (*e->d_name == '.' || str_skip_prefix(e->d_name, TRASH) || hashmap_get(used, e->d_name))
            continue;
        _cleanup_free_ char *to = xasprintf("tmp/" TRASH "%s", e->d_name);
        if (renameat(dirfd(dir), e->d_name, s->dir, to) < 0)
            r = error_set_errno(err, errno, "move %s/%s away", part, e->d_name);
    }
    if (dir)
        (void)closedir(dir);
    return r;
}

static int empty_trash(const struct image_store *s, struct error *err)
{
    DIR *dir = open_part(s, "tmp", err);
    int r = dir ? 0 : -EIO;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!str_skip_prefix(e->d_name, TRASH))
            continue;
        int one = remove_tree_at(dirfd(dir), e->d_name, r < 0 ? NULL : err);
        r = r < 0 ? r : one;
    }
    if (dir)
        (void)closedir(dir);
    return r;
}

static int forget(struct image_store *s, const char *name, struct error *err)
{
    _cleanup_close_ int lock = image_store_lock(s, LOCK_EX, err);
    _cleanup_free_ char *path = ref_path(name);
    struct hashmap used = {0}, none = {0};

    if (lock < 0)
        return lock;
    if (unlinkat(s->dir, path, 0) < 0) {
        if (errno == ENOENT)
            return error_set(err, ENOENT, "no image %s on this node", name);
        return error_set_errno(err, errno, "remove %s", path);
    }
    int r = each_ref(s, mark_ref_layers, &used, err);
    if (r == 0)
        r = mark_pod_layers(s, &used, err);
    if (r == 0)
        r = move_to_trash(s, "layers", &used, err);
    if (r == 0) /* no import runs under this lock, so what lies here was left by a crash */
        r = move_to_trash(s, "tmp", &none, err);
    hashmap_free(&used, NULL);
    return r;
}

int image_store_remove(struct image_store *s, const char *name, struct error *err)
{
    int r = forget(s, name, err);

    return r < 0 ? r : empty_trash(s, err);
}

void image_store_tidy(struct image_store *s)
{
    _cleanup_close_ int lock = image_store_lock(s, LOCK_EX | LOCK_NB, NULL);
    struct hashmap none = {0};

    if (lock < 0)
        return; /* an import runs; its directory is no rest */
    int r = move_to_trash(s, "tmp", &none, NULL);
    (void)close(take_fd(lock));
    if (r == 0)
        (void)empty_trash(s, NULL); /* what stays is tried again */
}
