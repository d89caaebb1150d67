#include "node/pod_env.h"

#include "base/base64.h"
#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "node/user.h"

#include <inttypes.h>

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define VALUE_MAX (128 * 1024 - 256) /* execve takes strings below 128 KiB */

/* References. */

static void add_ref(struct pod_ref **refs, size_t *count, enum pod_ref_kind kind, const struct json *name)
{
    const char *text = json_str(name);

    if (!text || !*text)
        return;
    for (size_t i = 0; i < *count; i++)
        if ((*refs)[i].kind == kind && streq((*refs)[i].name, text))
            return;
    *refs = xreallocarray(*refs, *count + 1, sizeof(**refs));
    (*refs)[(*count)++] = (struct pod_ref){kind, text};
}

static void add_env_refs(struct pod_ref **refs, size_t *count, const struct json *container)
{
    const struct json *env = json_get(container, "env"), *from = json_get(container, "envFrom");

    for (size_t i = 0; i < json_size(env); i++) {
        const struct json *value = json_get(json_item(env, i), "valueFrom");
        add_ref(refs, count, POD_REF_CONFIG_MAP, json_at(value, "configMapKeyRef", "name", NULL));
        add_ref(refs, count, POD_REF_SECRET, json_at(value, "secretKeyRef", "name", NULL));
    }
    for (size_t i = 0; i < json_size(from); i++) {
        add_ref(refs, count, POD_REF_CONFIG_MAP, json_at(json_item(from, i), "configMapRef", "name", NULL));
        add_ref(refs, count, POD_REF_SECRET, json_at(json_item(from, i), "secretRef", "name", NULL));
    }
}

static void add_volume_refs(struct pod_ref **refs, size_t *count, const struct pod_volume *v)
{
    const struct json *sources = json_get(v->source, "sources");

    if (v->kind == POD_VOLUME_CONFIG_MAP)
        add_ref(refs, count, POD_REF_CONFIG_MAP, json_get(v->source, "name"));
    if (v->kind == POD_VOLUME_SECRET)
        add_ref(refs, count, POD_REF_SECRET, json_get(v->source, "secretName"));
    for (size_t i = 0; v->kind == POD_VOLUME_PROJECTED && i < json_size(sources); i++) {
        add_ref(refs, count, POD_REF_CONFIG_MAP, json_at(json_item(sources, i), "configMap", "name", NULL));
        add_ref(refs, count, POD_REF_SECRET, json_at(json_item(sources, i), "secret", "name", NULL));
    }
}

size_t pod_spec_references(const struct pod_spec *s, struct pod_ref **ret)
{
    size_t count = 0;

    *ret = NULL;
    for (size_t i = 0; i < s->container_count; i++)
        add_env_refs(ret, &count, s->containers[i].object);
    for (size_t i = 0; i < s->volume_count; i++)
        add_volume_refs(ret, &count, &s->volumes[i]);
    return count;
}

char *pod_ref_value(enum pod_ref_kind kind, const struct json *object, const char *key, size_t *ret_len)
{
    const struct json *plain = json_get(json_get(object, "data"), key);

    if (kind == POD_REF_CONFIG_MAP && json_is(plain, JSON_STRING)) {
        *ret_len = json_string_len(plain);
        return xmemdup(json_str(plain), *ret_len + 1);
    }
    const struct json *coded = kind == POD_REF_SECRET ? plain : json_get(json_get(object, "binaryData"), key);
    return json_is(coded, JSON_STRING) ? base64_decode(json_str(coded), json_string_len(coded), ret_len) : NULL;
}

/* Fields. */

/* The key of "metadata.labels['key']", malloc'd, or NULL. */
static char *subscript(const char *path, const char *list)
{
    const char *rest = str_skip_prefix(path, list);

    if (!rest || strncmp(rest, "['", 2) != 0 || !str_has_suffix(rest, "']") || strlen(rest) < 4)
        return NULL;
    return xstrndup(rest + 2, strlen(rest) - 4);
}

char *pod_field_text(const struct pod_spec *s, const char *path, const struct pod_sources *sources, struct error *err)
{
    const struct json *pod = s->pod;
    const struct {
        const char *path, *text;
    } fields[] = {
        {"metadata.name", object_name(pod)},
        {"metadata.namespace", object_namespace(pod)},
        {"metadata.uid", object_uid(pod)},
        {"spec.nodeName", json_str_or(json_at(pod, "spec", "nodeName", NULL), "")},
        {"spec.serviceAccountName", json_str_or(json_at(pod, "spec", "serviceAccountName", NULL), "")},
        {"status.podIP", sources->pod_ip},
        {"status.podIPs", sources->pod_ip},
        {"status.hostIP", sources->host_ip},
        {"status.hostIPs", sources->host_ip},
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (streq(path, fields[i].path))
            return xstrdup(fields[i].text);

    _cleanup_free_ char *label = subscript(path, "metadata.labels"), *note = subscript(path, "metadata.annotations");
    if (label || note) {
        const char *text = label ? object_label(pod, label) : object_annotation(pod, note);
        return xstrdup(text ? text : "");
    }
    bool labels = streq(path, "metadata.labels");
    if (labels || streq(path, "metadata.annotations")) {
        _cleanup_(strbuf_free) struct strbuf b = {0};
        const struct json *map = json_at(pod, "metadata", labels ? "labels" : "annotations", NULL);
        for (struct json_iter it = {0}; json_each(map, &it);) {
            if (b.len)
                strbuf_addc(&b, '\n');
            strbuf_addf(&b, "%s=", it.key);
            json_write_string(json_str_or(it.value, ""), strlen(json_str_or(it.value, "")), &b);
        }
        return strbuf_detach(&b);
    }
    (void)error_set(err, EINVAL, "there is no field \"%.100s\" to refer to", path);
    return NULL;
}

static int64_t container_resource(const struct pod_container *c, const char *list, const char *name, bool milli)
{
    const struct json *v = json_at(c->object, "resources", list, name, NULL);
    struct quantity q;

    if (!v || quantity_of_json(v, &q) < 0)
        return 0;
    return milli ? quantity_milli(&q) : quantity_value(&q);
}

char *pod_resource_text(const struct pod_spec *s, const struct pod_container *c, const struct json *ref,
                        const struct pod_sources *sources, struct error *err)
{
    const char *resource = json_str_or(json_get(ref, "resource"), "");
    const char *container = json_str_or(json_get(ref, "containerName"), c->name);
    const char *divisor_text = json_str_or(json_get(ref, "divisor"), "1");
    const char *dot = strchr(resource, '.'), *name = dot ? dot + 1 : "";
    bool limit = strncmp(resource, "limits.", 7) == 0, cpu = streq(name, "cpu");

    if ((!limit && strncmp(resource, "requests.", 9) != 0) ||
        (!cpu && !streq(name, "memory") && !streq(name, "ephemeral-storage"))) {
        (void)error_set(err, EINVAL, "there is no resource \"%.100s\" to refer to", resource);
        return NULL;
    }
    for (size_t i = 0; i < s->container_count; i++)
        if (streq(s->containers[i].name, container))
            c = &s->containers[i];
    int64_t value = container_resource(c, limit ? "limits" : "requests", name, cpu);
    if (!value && limit)
        value = cpu ? sources->node_cpu_millis : streq(name, "memory") ? sources->node_memory_bytes : 0;
    struct quantity divisor;
    if (quantity_parse(streq(divisor_text, "0") ? "1" : divisor_text, &divisor, err) < 0)
        return NULL;
    int64_t by = MAX(cpu ? quantity_milli(&divisor) : quantity_value(&divisor), 1);
    return xasprintf("%" PRId64, value / by + (value % by != 0));
}

/* Environment: an ordered list without repeats. */

struct env {
    char **entries;         /* NAME=value */
    struct hashmap index;   /* name → entry */
    struct hashmap pod_set; /* names whose values $(NAME) may use */
};

static void env_free(struct env *e)
{
    strv_free(e->entries);
    hashmap_free(&e->index, NULL);
    hashmap_free(&e->pod_set, NULL);
}

static const char *env_get(const struct env *e, const char *name)
{
    const char *entry = hashmap_get(&e->index, name);

    return entry ? entry + strlen(name) + 1 : NULL;
}

static void env_set(struct env *e, const char *name, const char *value)
{
    char *entry = xasprintf("%s=%s", name, value), *old = hashmap_put(&e->index, name, entry);

    if (!old) {
        e->entries = strv_append(e->entries, entry);
        return;
    }
    for (size_t i = 0; e->entries[i]; i++)
        if (e->entries[i] == old)
            e->entries[i] = entry;
    free(old);
}

static char *expand(const struct env *e, const char *text)
{
    struct strbuf out = {0};

    while (*text) {
        size_t plain = strcspn(text, "$");
        strbuf_add(&out, text, plain);
        text += plain;
        if (!*text)
            break;
        const char *end = text[1] == '(' ? strchr(text, ')') : NULL;
        if (text[1] == '$') {
            strbuf_addc(&out, '$');
            text += 2;
        } else if (end) {
            _cleanup_free_ char *name = xstrndup(text + 2, (size_t)(end - text - 2));
            if (hashmap_get(&e->pod_set, name))
                strbuf_adds(&out, env_get(e, name));
            else
                strbuf_add(&out, text, (size_t)(end - text + 1));
            text = end + 1;
        } else {
            strbuf_addc(&out, *text++);
        }
    }
    return strbuf_detach(&out);
}

static void env_set_by_pod(struct env *e, const char *name, const char *value)
{
    env_set(e, name, value);
    (void)hashmap_put(&e->pod_set, name, e); /* a set */
}

static bool env_name_ok(const char *name)
{
    for (const char *p = name; *p; p++)
        if (*p < ' ' || *p > '~' || *p == '=')
            return false;
    return *name;
}

static const char *ref_words(enum pod_ref_kind kind)
{
    return kind == POD_REF_SECRET ? "secret" : "configmap";
}

static int add_env_from(struct env *e, const struct pod_container *c, const struct json *from, size_t i,
                        const struct pod_sources *sources, struct error *err)
{
    const struct json *secret = json_get(from, "secretRef"), *map = json_get(from, "configMapRef");
    enum pod_ref_kind kind = secret ? POD_REF_SECRET : POD_REF_CONFIG_MAP;
    const struct json *ref = secret ? secret : map;
    const char *name = json_str_or(json_get(ref, "name"), ""), *prefix = json_str_or(json_get(from, "prefix"), "");
    const struct json *object = sources->get(sources->arg, kind, name);

    if (!object) {
        if (json_bool_or(json_get(ref, "optional"), false))
            return 0;
        _cleanup_free_ char *why = xasprintf("%s \"%s\" not found", ref_words(kind), name);
        return pod_spec_refuse(err, REASON_CONFIG, why, "%s.envFrom[%zu]", c->field, i);
    }
    for (struct json_iter it = {0}; json_each(json_get(object, "data"), &it);) {
        _cleanup_free_ char *key = xasprintf("%s%s", prefix, it.key);
        size_t len;
        _cleanup_free_ char *value = pod_ref_value(kind, object, it.key, &len);
        if (value && env_name_ok(key) && strlen(value) == len)
            env_set_by_pod(e, key, value);
    }
    return 0;
}

/* 1: *ret is the value; 0: an optional reference leads nowhere. */
static int value_from_key(enum pod_ref_kind kind, const struct json *ref, const struct pod_sources *sources, char **ret,
                          struct error *err)
{
    const char *name = json_str_or(json_get(ref, "name"), ""), *key = json_str_or(json_get(ref, "key"), "");
    const struct json *object = sources->get(sources->arg, kind, name);
    size_t len = 0;
    char *value = object ? pod_ref_value(kind, object, key, &len) : NULL;

    if (value && strlen(value) != len) {
        free(value);
        return error_set(err, EINVAL, "key \"%s\" of %s \"%s\" holds a NUL byte", key, ref_words(kind), name);
    }
    *ret = value;
    if (value)
        return 1;
    if (json_bool_or(json_get(ref, "optional"), false))
        return 0;
    if (!object)
        return error_set(err, ENOENT, "%s \"%s\" not found", ref_words(kind), name);
    return error_set(err, ENOENT, "couldn't find key %s in %s %s/%s", key,
                     kind == POD_REF_SECRET ? "Secret" : "ConfigMap", object_namespace(object), name);
}

static int value_from(const struct pod_spec *s, const struct pod_container *c, const struct json *from,
                      const struct pod_sources *sources, char **ret, struct error *err)
{
    const struct json *ref;

    if ((ref = json_get(from, "configMapKeyRef")))
        return value_from_key(POD_REF_CONFIG_MAP, ref, sources, ret, err);
    if ((ref = json_get(from, "secretKeyRef")))
        return value_from_key(POD_REF_SECRET, ref, sources, ret, err);
    if ((ref = json_get(from, "fieldRef")))
        *ret = pod_field_text(s, json_str_or(json_get(ref, "fieldPath"), ""), sources, err);
    else if ((ref = json_get(from, "resourceFieldRef")))
        *ret = pod_resource_text(s, c, ref, sources, err);
    else
        return error_set(err, EINVAL, "this source of a value is not supported");
    return *ret ? 1 : -EINVAL;
}

static int make_env(struct env *e, const struct pod_spec *s, const struct pod_container *c, const struct image *image,
                    const char *home, const struct pod_sources *sources, struct error *err)
{
    const struct json *from = json_get(c->object, "envFrom"), *env = json_get(c->object, "env");

    env_set(e, "PATH", DEFAULT_PATH);
    for (char **p = image->config.env; p && *p; p++) {
        const char *equals = strchr(*p, '=');
        _cleanup_free_ char *name = xstrndup(*p, (size_t)(equals - *p));
        env_set(e, name, equals + 1);
    }
    env_set(e, "HOSTNAME", s->hostname);
    if (!env_get(e, "HOME"))
        env_set(e, "HOME", home);
    if (c->tty && !env_get(e, "TERM"))
        env_set(e, "TERM", "xterm");
    for (size_t i = 0; i < json_size(from); i++) {
        int r = add_env_from(e, c, json_item(from, i), i, sources, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < json_size(env); i++) {
        const struct json *entry = json_item(env, i), *indirect = json_get(entry, "valueFrom");
        const char *name = json_str_or(json_get(entry, "name"), "");
        _cleanup_free_ char *value = NULL;
        _cleanup_error_ struct error why = ERROR_INIT;
        int r = 1;
        if (!env_name_ok(name))
            return pod_spec_refuse(err, REASON_CONFIG, "is no name of a variable", "%s.env[%zu].name", c->field, i);
        if (indirect)
            r = value_from(s, c, indirect, sources, &value, &why);
        else
            value = expand(e, json_str_or(json_get(entry, "value"), ""));
        if (r > 0 && strlen(value) + strlen(name) > VALUE_MAX)
            r = error_set(&why, E2BIG, "the value is longer than a process can be given");
        if (r < 0)
            return pod_spec_refuse(err, REASON_CONFIG, error_text(&why), "%s.env[%zu]", c->field, i);
        if (r > 0)
            env_set_by_pod(e, name, value);
    }
    return 0;
}

static void append_expanded(char ***argv, const struct env *e, const struct json *words)
{
    for (size_t i = 0; i < json_size(words); i++)
        *argv = strv_append(*argv, expand(e, json_str_or(json_item(words, i), "")));
}

static void append_words(char ***argv, char *const *words)
{
    for (; words && *words; words++)
        *argv = strv_append(*argv, xstrdup(*words));
}

static char **make_argv(const struct env *e, const struct pod_container *c, const struct image *image)
{
    const struct json *command = json_get(c->object, "command"), *args = json_get(c->object, "args");
    char **argv = NULL;

    if (json_size(command))
        append_expanded(&argv, e, command);
    else
        append_words(&argv, image->config.entrypoint);
    if (json_size(args))
        append_expanded(&argv, e, args);
    else if (!json_size(command))
        append_words(&argv, image->config.cmd);
    return argv;
}

void pod_process_clear(struct pod_process *p)
{
    strv_free(p->argv);
    strv_free(p->env);
    free(p->cwd);
    free(p->groups);
    *p = (struct pod_process){0};
}

static int make_user(const struct pod_spec *s, const struct pod_container *c, const struct image *image,
                     struct image_user *user, struct error *err)
{
    _cleanup_error_ struct error why = ERROR_INIT;

    if (image_user_resolve(image->lowers, image->config.user, c->uid, c->gid, user, &why) < 0)
        return pod_spec_refuse(err, REASON_CONFIG, error_text(&why), "%s.image", c->field);
    if (c->non_root && !user->uid)
        return pod_spec_refuse(err, REASON_CONFIG, "the container has runAsNonRoot and the image runs as root",
                               "%s.securityContext.runAsNonRoot", c->field);
    user->groups = xreallocarray(user->groups, user->group_count + s->group_count + 1, sizeof(*user->groups));
    for (size_t i = 0; i < s->group_count; i++)
        user->groups[user->group_count++] = s->groups[i];
    return 0;
}

int pod_process_make(const struct pod_spec *s, const struct pod_container *c, const struct image *image,
                     const struct pod_sources *sources, struct pod_process *ret, struct error *err)
{
    _cleanup_(image_user_clear) struct image_user user = {0};
    _cleanup_(env_free) struct env env = {0};
    const char *cwd = json_str(json_get(c->object, "workingDir"));
    int r = make_user(s, c, image, &user, err);

    if (r == 0)
        r = make_env(&env, s, c, image, user.home, sources, err);
    if (r < 0)
        return r;
    if (cwd && *cwd && *cwd != '/')
        return pod_spec_refuse(err, REASON_CONFIG, "must be an absolute path", "%s.workingDir", c->field);
    _cleanup_strv_ char **argv = make_argv(&env, c, image);
    if (!argv)
        return pod_spec_refuse(err, REASON_CONFIG, "is missing, and the image has neither entrypoint nor cmd",
                               "%s.command", c->field);
    *ret = (struct pod_process){
        .argv = take_ptr(argv),
        .env = take_ptr(env.entries),
        .cwd = xstrdup(cwd && *cwd                 ? cwd
                       : image->config.working_dir ? image->config.working_dir
                                                   : "/"),
        .uid = user.uid,
        .gid = user.gid,
        .groups = take_ptr(user.groups),
        .group_count = user.group_count,
    };
    return 0;
}
