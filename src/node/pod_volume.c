/* Volumes and volumeMounts of a Pod: kinds that exist here, targets that may be covered. */
#include "node/pod_spec.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/quantity.h"
#include "sandbox/paths.h"

#define PATH_LEN_MAX 4095

static const struct {
    const char *name;
    enum pod_volume_kind kind;
} kinds[] = {
    {"emptyDir", POD_VOLUME_EMPTY_DIR},  {"configMap", POD_VOLUME_CONFIG_MAP},
    {"secret", POD_VOLUME_SECRET},       {"downwardAPI", POD_VOLUME_DOWNWARD_API},
    {"projected", POD_VOLUME_PROJECTED}, {"persistentVolumeClaim", POD_VOLUME_PVC},
    {"hostPath", POD_VOLUME_HOST_PATH},
};

/* No component is "..", none is empty but a last one. */
static bool path_is_plain(const char *path)
{
    for (const char *p = path; *p;) {
        size_t len = strcspn(p, "/");
        if (len == 2 && strncmp(p, "..", 2) == 0)
            return false;
        p += len + (p[len] == '/');
    }
    return strlen(path) <= PATH_LEN_MAX;
}

static bool is_at_or_below(const char *path, const char *prefix)
{
    size_t len = strlen(prefix);

    while (len && prefix[len - 1] == '/')
        len--;
    return strncmp(path, prefix, len) == 0 && (path[len] == '/' || !path[len]);
}

static int check_host_path(const struct pod_volume *v, size_t i, const struct pod_spec_options *options,
                           struct error *err)
{
    const char *path = json_str_or(json_get(v->source, "path"), "");
    const char *type = json_str_or(json_get(v->source, "type"), "");

    if (*path != '/' || !path_is_plain(path))
        return pod_spec_refuse(err, REASON_CONFIG, "must be an absolute path without \"..\"",
                               "spec.volumes[%zu].hostPath.path", i);
    if (*type && !streq(type, "Directory") && !streq(type, "DirectoryOrCreate") && !streq(type, "File"))
        return pod_spec_refuse(err, REASON_CONFIG, "only Directory, DirectoryOrCreate and File are allowed",
                               "spec.volumes[%zu].hostPath.type", i);
    for (char *const *p = options->host_path_prefixes; p && *p; p++)
        if (is_at_or_below(path, *p))
            return 0;
    return pod_spec_refuse(err, REASON_CONFIG,
                           "directories of the host are not allowed (holt up --allow-host-path PREFIX)",
                           "spec.volumes[%zu].hostPath", i);
}

static int check_empty_dir(struct pod_volume *v, const struct json *pod, size_t i, struct error *err)
{
    const char *medium = json_str_or(json_get(v->source, "medium"), "");
    const struct json *limit = json_get(v->source, "sizeLimit");

    v->memory = streq(medium, "Memory");
    if (v->memory && json_size(json_at(pod, "spec", "initContainers", NULL)))
        return pod_spec_refuse(err, REASON_CONFIG, "volumes in memory are not passed on by init containers",
                               "spec.volumes[%zu].emptyDir.medium", i);
    if (*medium && !v->memory)
        return pod_spec_refuse(err, REASON_CONFIG, "only \"\" and \"Memory\" are supported by this node",
                               "spec.volumes[%zu].emptyDir.medium", i);
    if (!limit)
        return 0;
    struct quantity bytes;
    if (quantity_of_json(limit, &bytes) < 0 || quantity_value(&bytes) < 0)
        return pod_spec_refuse(err, REASON_CONFIG, "is no quantity of bytes", "spec.volumes[%zu].emptyDir.sizeLimit",
                               i);
    v->size_limit = (uint64_t)quantity_value(&bytes);
    return 0;
}

static int check_projected(const struct pod_volume *v, size_t i, struct error *err)
{
    const struct json *sources = json_get(v->source, "sources");

    for (size_t n = 0; n < json_size(sources); n++)
        for (struct json_iter it = {0}; json_each(json_item(sources, n), &it);)
            if (!streq(it.key, "secret") && !streq(it.key, "configMap") && !streq(it.key, "downwardAPI"))
                return pod_spec_refuse(err, REASON_CONFIG, "is not supported by this node",
                                       "spec.volumes[%zu].projected.sources[%zu].%s", i, n, it.key);
    return 0;
}

static int parse_volume(struct pod_volume *v, const struct json *pod, const struct json *object, size_t i,
                        const struct pod_spec_options *options, struct error *err)
{
    v->name = json_str_or(json_get(object, "name"), "");
    if (!path_component_ok(v->name))
        return pod_spec_refuse(err, REASON_CONFIG, "is no name of a volume", "spec.volumes[%zu].name", i);
    for (struct json_iter it = {0}; json_each(object, &it);) {
        size_t k = 0;
        if (streq(it.key, "name"))
            continue;
        while (k < ARRAY_LEN(kinds) && !streq(kinds[k].name, it.key))
            k++;
        if (k == ARRAY_LEN(kinds))
            return pod_spec_refuse(err, REASON_CONFIG, "this kind of volume is not supported by this node",
                                   "spec.volumes[%zu].%s", i, it.key);
        v->kind = kinds[k].kind;
        v->source = it.value;
    }
    switch (v->kind) {
    case POD_VOLUME_EMPTY_DIR:
        return check_empty_dir(v, pod, i, err);
    case POD_VOLUME_HOST_PATH:
        return check_host_path(v, i, options, err);
    case POD_VOLUME_PROJECTED:
        return check_projected(v, i, err);
    case POD_VOLUME_PVC:
        v->read_only = json_bool_or(json_get(v->source, "readOnly"), false);
        return 0;
    default:
        return 0;
    }
}

int pod_spec_parse_volumes(struct pod_spec *s, const struct pod_spec_options *options, struct error *err)
{
    const struct json *volumes = json_at(s->pod, "spec", "volumes", NULL);

    s->volumes = xcalloc(json_size(volumes) + 1, sizeof(*s->volumes));
    for (size_t i = 0; i < json_size(volumes); i++) {
        int r = parse_volume(&s->volumes[s->volume_count++], s->pod, json_item(volumes, i), i, options, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The sandbox's own mounts: covering them would undo masks, or break what the guest needs. */
static bool target_is_taken(const char *path)
{
    static const char *const taken[] = {"/proc", "/sys", "/dev"};

    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        if (is_at_or_below(path, taken[i]))
            return !is_at_or_below(path, "/dev/shm");
    return false;
}

static int parse_mount(const struct pod_spec *s, struct pod_container *c, const struct json *object, size_t i,
                       struct error *err)
{
    struct pod_mount *m = &c->mounts[c->mount_count];
    const char *name = json_str_or(json_get(object, "name"), "");
    const char *propagation = json_str_or(json_get(object, "mountPropagation"), "None");

    *m = (struct pod_mount){.target = json_str_or(json_get(object, "mountPath"), ""),
                            .sub_path = json_str(json_get(object, "subPath")),
                            .read_only = json_bool_or(json_get(object, "readOnly"), false)};
    while (m->volume < s->volume_count && !streq(s->volumes[m->volume].name, name))
        m->volume++;
    if (m->volume == s->volume_count)
        return pod_spec_refuse(err, REASON_CONFIG, "there is no such volume", "%s.volumeMounts[%zu].name", c->field, i);
    if (*m->target != '/' || !path_is_plain(m->target) || !m->target[strspn(m->target, "/.")])
        return pod_spec_refuse(err, REASON_CONFIG, "must be an absolute path below / without \"..\"",
                               "%s.volumeMounts[%zu].mountPath", c->field, i);
    if (target_is_taken(m->target))
        return pod_spec_refuse(err, REASON_CONFIG, "covers what is the sandbox's own", "%s.volumeMounts[%zu].mountPath",
                               c->field, i);
    if (m->sub_path && (*m->sub_path == '/' || !path_is_plain(m->sub_path)))
        return pod_spec_refuse(err, REASON_CONFIG, "must be a relative path without \"..\"",
                               "%s.volumeMounts[%zu].subPath", c->field, i);
    if (m->sub_path && !*m->sub_path)
        m->sub_path = NULL;
    if (json_get(object, "subPathExpr"))
        return pod_spec_refuse(err, REASON_CONFIG, "is not supported by this node", "%s.volumeMounts[%zu].subPathExpr",
                               c->field, i);
    if (!streq(propagation, "None"))
        return pod_spec_refuse(err, REASON_CONFIG, "mounts do not leave a sandbox",
                               "%s.volumeMounts[%zu].mountPropagation", c->field, i);
    for (size_t k = 0; k < c->mount_count; k++)
        if (streq(c->mounts[k].target, m->target))
            return pod_spec_refuse(err, REASON_CONFIG, "is used twice", "%s.volumeMounts[%zu].mountPath", c->field, i);
    m->read_only = m->read_only || s->volumes[m->volume].read_only;
    c->mount_count++;
    return 0;
}

int pod_spec_parse_mounts(struct pod_spec *s, struct pod_container *c, struct error *err)
{
    const struct json *mounts = json_get(c->object, "volumeMounts");

    c->mounts = xcalloc(json_size(mounts) + 1, sizeof(*c->mounts));
    for (size_t i = 0; i < json_size(mounts); i++) {
        int r = parse_mount(s, c, json_item(mounts, i), i, err);
        if (r < 0)
            return r;
    }
    return 0;
}
