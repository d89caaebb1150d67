#include "node/volumes.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#define DEFAULT_MODE 0644
#define MODE_MAX 0777
#define DIR_MODE 0777 /* of emptyDir and claims: any user of the container may write */

void volume_set_clear(struct volume_set *v)
{
    free(v->mounts);
    strv_free(v->strings);
    *v = (struct volume_set){0};
}

/* Files made of objects. */

struct writer {
    const struct pod_spec *spec;
    const struct pod_container *container;
    const struct pod_sources *sources;
    int dir; /* the volume */
    mode_t default_mode;
    const char *field; /* "spec.volumes[2]" */
};

static bool relative_path_ok(const char *path)
{
    if (!*path || *path == '/' || strlen(path) > 4000)
        return false;
    for (const char *p = path; *p;) {
        size_t len = strcspn(p, "/");
        if (!len || (len == 1 && *p == '.') || (len == 2 && strncmp(p, "..", 2) == 0))
            return false;
        p += len + (p[len] == '/');
    }
    return true;
}

static int refuse(const struct writer *w, const char *why, struct error *err)
{
    return pod_spec_refuse(err, REASON_CONFIG, why, "%s", w->field);
}

static int write_file(const struct writer *w, const char *path, const struct json *mode_json, const char *data,
                      size_t len, struct error *err)
{
    int64_t mode = json_int_or(mode_json, w->default_mode);

    if (!relative_path_ok(path) || mode < 0 || mode > MODE_MAX)
        return refuse(w, "an item has a path or mode that cannot be", err);
    const char *slash = strrchr(path, '/');
    _cleanup_free_ char *parent = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
    _cleanup_close_ int dir = mkdirs_at(w->dir, parent, 0755, err);
    if (dir < 0)
        return dir;
    _cleanup_close_ int fd =
        openat(dir, slash ? slash + 1 : path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : fd_write_all(fd, data, len);
    if (r == 0 && w->spec->fs_group >= 0) {
        mode |= 0040;
        r = fchown(fd, (uid_t)-1, (gid_t)w->spec->fs_group) < 0 ? -errno : 0;
    }
    if (r == 0 && fchmod(fd, (mode_t)mode) < 0)
        r = -errno;
    return r < 0 ? error_set_errno(err, -r, "write %s of volume %s", path, w->field) : 0;
}

/* All keys of an object, or those that items names. */
static int write_object(const struct writer *w, enum pod_ref_kind kind, const struct json *ref, const char *name,
                        struct error *err)
{
    const struct json *object = w->sources->get(w->sources->arg, kind, name), *items = json_get(ref, "items");
    bool optional = json_bool_or(json_get(ref, "optional"), false);
    static const char *const members[] = {"data", "binaryData"};
    int r = 0;

    if (!object) {
        _cleanup_free_ char *why =
            xasprintf("%s \"%s\" not found", kind == POD_REF_SECRET ? "secret" : "configmap", name);
        return optional ? 0 : refuse(w, why, err);
    }
    for (size_t i = 0; r == 0 && i < json_size(items); i++) {
        const struct json *item = json_item(items, i);
        const char *key = json_str_or(json_get(item, "key"), "");
        size_t len;
        _cleanup_free_ char *value = pod_ref_value(kind, object, key, &len);
        _cleanup_free_ char *why = value ? NULL : xasprintf("%s has no key \"%s\"", name, key);
        if (value)
            r = write_file(w, json_str_or(json_get(item, "path"), ""), json_get(item, "mode"), value, len, err);
        else if (!optional)
            r = refuse(w, why, err);
    }
    for (size_t m = 0; !items && m < ARRAY_LEN(members); m++)
        for (struct json_iter it = {0}; r == 0 && json_each(json_get(object, members[m]), &it);) {
            size_t len;
            _cleanup_free_ char *value = pod_ref_value(kind, object, it.key, &len);
            r = value ? write_file(w, it.key, NULL, value, len, err) : refuse(w, "a value is not base64", err);
        }
    return r;
}

static int write_downward(const struct writer *w, const struct json *source, struct error *err)
{
    const struct json *items = json_get(source, "items");

    for (size_t i = 0; i < json_size(items); i++) {
        const struct json *item = json_item(items, i), *resource = json_get(item, "resourceFieldRef");
        _cleanup_error_ struct error why = ERROR_INIT;
        _cleanup_free_ char *text =
            resource ? pod_resource_text(w->spec, w->container, resource, w->sources, &why)
                     : pod_field_text(w->spec, json_str_or(json_at(item, "fieldRef", "fieldPath", NULL), ""),
                                      w->sources, &why);
        if (!text)
            return refuse(w, error_text(&why), err);
        int r = write_file(w, json_str_or(json_get(item, "path"), ""), json_get(item, "mode"), text, strlen(text), err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int write_projected(const struct writer *w, const struct json *source, struct error *err)
{
    const struct json *sources = json_get(source, "sources");
    int r = 0;

    for (size_t i = 0; r == 0 && i < json_size(sources); i++) {
        const struct json *map = json_get(json_item(sources, i), "configMap");
        const struct json *secret = json_get(json_item(sources, i), "secret");
        const struct json *downward = json_get(json_item(sources, i), "downwardAPI");
        if (map)
            r = write_object(w, POD_REF_CONFIG_MAP, map, json_str_or(json_get(map, "name"), ""), err);
        if (r == 0 && secret)
            r = write_object(w, POD_REF_SECRET, secret, json_str_or(json_get(secret, "name"), ""), err);
        if (r == 0 && downward)
            r = write_downward(w, downward, err);
    }
    return r;
}

static int write_content(const struct writer *w, const struct pod_volume *v, struct error *err)
{
    switch (v->kind) {
    case POD_VOLUME_CONFIG_MAP:
        return write_object(w, POD_REF_CONFIG_MAP, v->source, json_str_or(json_get(v->source, "name"), ""), err);
    case POD_VOLUME_SECRET:
        return write_object(w, POD_REF_SECRET, v->source, json_str_or(json_get(v->source, "secretName"), ""), err);
    case POD_VOLUME_DOWNWARD_API:
        return write_downward(w, v->source, err);
    default:
        return write_projected(w, v->source, err);
    }
}

/* No sandbox of the Pod runs while one is being made, so nobody sees the volume change. */
static int make_content(const struct pod_spec *s, const struct pod_container *c, const struct volume_context *ctx,
                        size_t index, const char *path, struct error *err)
{
    const struct pod_volume *v = &s->volumes[index];
    _cleanup_free_ char *field = xasprintf("spec.volumes[%zu]", index);
    struct writer w = {.spec = s,
                       .container = c,
                       .sources = ctx->sources,
                       .dir = -1,
                       .default_mode = (mode_t)json_int_or(json_get(v->source, "defaultMode"), DEFAULT_MODE),
                       .field = field};
    int r = remove_tree_at(AT_FDCWD, path, err);
    if (r < 0)
        return r;
    _cleanup_close_ int made = mkdirs_at(AT_FDCWD, path, 0755, err);
    if (made < 0)
        return made;
    w.dir = openat(made, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w.dir < 0)
        return error_set_errno(err, errno, "open %s", path);
    r = write_content(&w, v, err);
    (void)close(w.dir);
    return r;
}

/* Directories that the container writes to. */

/* The group applies to the root of the volume only: no walk through what may be large. */
static int apply_fs_group(const struct pod_spec *s, int dir, const char *path, struct error *err)
{
    struct stat st;

    if (s->fs_group < 0)
        return 0;
    if (fstat(dir, &st) < 0)
        return error_set_errno(err, errno, "stat %s", path);
    mode_t mode = (st.st_mode & 07777) | 02770;
    if (st.st_gid != (gid_t)s->fs_group && fchown(dir, (uid_t)-1, (gid_t)s->fs_group) < 0)
        return error_set_errno(err, errno, "set the group of %s", path);
    if ((st.st_mode & 07777) != mode && fchmod(dir, mode) < 0)
        return error_set_errno(err, errno, "set the mode of %s", path);
    return 0;
}

static int make_directory(const struct pod_spec *s, const char *path, struct error *err)
{
    struct stat st;
    bool is_new = lstat(path, &st) < 0;
    _cleanup_close_ int made = mkdirs_at(AT_FDCWD, path, 0755, err);

    if (made < 0)
        return made;
    _cleanup_close_ int dir = openat(made, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || (is_new && fchmod(dir, DIR_MODE) < 0))
        return error_set_errno(err, errno, "prepare %s", path);
    return apply_fs_group(s, dir, path, err);
}

static int host_path(const struct pod_volume *v, char **ret, uint32_t *ret_owner, struct error *err)
{
    const char *path = json_str_or(json_get(v->source, "path"), ""),
               *type = json_str_or(json_get(v->source, "type"), "");
    struct stat st;

    if (streq(type, "DirectoryOrCreate")) {
        _cleanup_close_ int made = mkdirs_at(AT_FDCWD, path, 0755, err);
        if (made < 0)
            return made;
    }
    if (lstat(path, &st) < 0)
        return error_set_errno(err, errno, "hostPath %s", path);
    if (streq(type, "File") ? !S_ISREG(st.st_mode) : *type && !S_ISDIR(st.st_mode))
        return error_set(err, EINVAL, "hostPath %s is not of type %s", path, type);
    *ret = xstrdup(path);
    *ret_owner = st.st_uid;
    return 0;
}

/*
 * path/sub, whose missing directories are made. What is there may have been put there by a sandbox: no link is
 * followed.
 */
static int sub_path(const char *path, const char *sub, bool create, char **ret, struct error *err)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    _cleanup_close_ int at = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    _cleanup_free_ char *copy = xstrdup(sub);
    char *save = NULL;

    if (at < 0)
        return error_set_errno(err, errno, "open %s", path);
    for (char *part = strtok_r(copy, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
        if (streq(part, "."))
            continue;
        int next = (int)syscall(SYS_openat2, at, part, &how, sizeof(how));
        if (next < 0 && errno == ENOENT && create) {
            if (mkdirat(at, part, 0755) == 0 && fchmodat(at, part, DIR_MODE, 0) < 0)
                return error_set_errno(err, errno, "create subPath %s", sub);
            next = (int)syscall(SYS_openat2, at, part, &how, sizeof(how));
        }
        if (next < 0)
            return error_set_errno(err, errno, "open subPath %s", sub);
        (void)close(at);
        at = next;
    }
    *ret = xasprintf("%s/%s", path, sub);
    return 0;
}

static int volume_path(const struct pod_spec *s, const struct pod_container *c, const struct volume_context *ctx,
                       size_t index, char **ret, uint32_t *ret_owner, struct error *err)
{
    const struct pod_volume *v = &s->volumes[index];
    _cleanup_free_ char *path = NULL;
    int r = 0;

    *ret_owner = 0;
    switch (v->kind) {
    case POD_VOLUME_EMPTY_DIR:
        path = xasprintf("%s/volumes/%s", ctx->pod_data, v->name);
        r = make_directory(s, path, err);
        break;
    case POD_VOLUME_PVC:
        path = ctx->claim_path(ctx->claim_arg, object_namespace(s->pod),
                               json_str_or(json_get(v->source, "claimName"), ""), err);
        r = path ? make_directory(s, path, err) : -ENOENT;
        break;
    case POD_VOLUME_HOST_PATH:
        r = host_path(v, &path, ret_owner, err);
        break;
    default:
        path = xasprintf("%s/volumes/%s", ctx->pod_run, v->name);
        r = make_content(s, c, ctx, index, path, err);
        break;
    }
    if (r == 0)
        *ret = take_ptr(path);
    return r;
}

static bool is_content(enum pod_volume_kind kind)
{
    return kind == POD_VOLUME_CONFIG_MAP || kind == POD_VOLUME_SECRET || kind == POD_VOLUME_DOWNWARD_API ||
           kind == POD_VOLUME_PROJECTED;
}

int volumes_make(const struct pod_spec *s, const struct pod_container *c, const struct volume_context *ctx,
                 struct volume_set *ret, struct error *err)
{
    _cleanup_(volume_set_clear) struct volume_set set = {0};
    _cleanup_free_ bool *made = xcalloc(s->volume_count + 1, sizeof(*made));

    set.mounts = xcalloc(c->mount_count + 1, sizeof(*set.mounts));
    for (size_t i = 0; i < c->mount_count; i++) {
        const struct pod_mount *m = &c->mounts[i];
        const struct pod_volume *v = &s->volumes[m->volume];
        struct native_mount *to = &set.mounts[set.count++];
        *to = (struct native_mount){.target = m->target, .read_only = m->read_only || is_content(v->kind)};
        if (v->kind == POD_VOLUME_EMPTY_DIR && v->memory) {
            to->kind = NATIVE_MOUNT_TMPFS;
            to->size_bytes = v->size_limit;
            to->mode = 01777;
            continue;
        }
        /* A volume that is mounted twice is made once. */
        _cleanup_free_ char *path = NULL, *sub = NULL;
        int r;
        if (made[m->volume] && is_content(v->kind)) {
            path = xasprintf("%s/volumes/%s", ctx->pod_run, v->name);
            r = 0;
        } else {
            r = volume_path(s, c, ctx, m->volume, &path, &to->owner, err);
        }
        if (r == 0 && m->sub_path)
            r = sub_path(path, m->sub_path, !m->read_only && !is_content(v->kind), &sub, err);
        if (r < 0)
            return err && err->reason ? r : error_wrap(err, "volume %s", v->name);
        made[m->volume] = true;
        char *source = sub ? take_ptr(sub) : take_ptr(path);
        set.strings = strv_append(set.strings, source);
        to->kind = NATIVE_MOUNT_BIND;
        to->source = source;
        to->idmap = true;
    }
    *ret = set;
    set = (struct volume_set){0};
    return 0;
}
