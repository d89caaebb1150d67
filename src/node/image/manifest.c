#include "node/image/manifest.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "node/image/reference.h"

#include <signal.h>

#define WORDS_MAX 4096            /* arguments or environment entries of a configuration */
#define WORD_LEN_MAX (128 * 1024) /* what execve takes for one string */
#define PATH_LEN_MAX 4095

bool digest_parse(const char *text, char hex[SHA256_HEX + 1])
{
    const char *p = text ? str_skip_prefix(text, "sha256:") : NULL;

    if (!p || strlen(p) != SHA256_HEX || strspn(p, "0123456789abcdef") != SHA256_HEX)
        return false;
    memcpy(hex, p, SHA256_HEX + 1);
    return true;
}

const char *image_architecture(void)
{
#if defined(__x86_64__)
    return "amd64";
#elif defined(__aarch64__)
    return "arm64";
#else
#error "the OCI name of this architecture is not known"
#endif
}

void image_manifest_clear(struct image_manifest *m)
{
    free(m->config.path);
    for (size_t i = 0; i < m->layer_count; i++)
        free(m->layers[i].path);
    free(m->layers);
    *m = (struct image_manifest){0};
}

/* A string without NUL bytes inside. */
static const char *plain_string(const struct json *v)
{
    const char *s = json_str(v);

    return s && strlen(s) == json_string_len(v) ? s : NULL;
}

static int descriptor_parse(const struct json *v, const char *what, struct image_blob *ret, struct error *err)
{
    const char *digest = plain_string(json_get(v, "digest"));
    const struct json *size = json_get(v, "size");

    *ret = (struct image_blob){.size = -1};
    if (!digest_parse(digest, ret->hex))
        return error_set(err, EINVAL, "the %s has no sha256 digest", what);
    if (!json_is(size, JSON_INT) || json_int_or(size, -1) < 0)
        return error_set(err, EINVAL, "the %s has no size", what);
    ret->size = json_int_or(size, -1);
    if (json_size(json_get(v, "urls")))
        return error_set(err, EINVAL, "the %s is to be fetched from a URL, which holt does not do", what);
    return 0;
}

static bool platform_matches(const struct json *entry, const char *architecture)
{
    const struct json *platform = json_get(entry, "platform");

    if (!platform)
        return true;
    return streq(json_str_or(json_get(platform, "os"), ""), "linux") &&
           streq(json_str_or(json_get(platform, "architecture"), ""), architecture);
}

static bool media_type_is_index(const char *type)
{
    return type && (streq(type, "application/vnd.oci.image.index.v1+json") ||
                    streq(type, "application/vnd.docker.distribution.manifest.list.v2+json"));
}

int image_index_select(const struct json *index, const char *tag, const char *architecture, struct image_blob *ret,
                       bool *ret_nested, struct error *err)
{
    const struct json *manifests = json_get(index, "manifests"), *found = NULL;
    size_t candidates = 0;

    if (json_int_or(json_get(index, "schemaVersion"), 0) != 2 || !json_is(manifests, JSON_ARRAY))
        return error_set(err, EINVAL, "index.json is no OCI index of schema version 2");
    for (size_t i = 0; i < json_size(manifests); i++) {
        const struct json *entry = json_item(manifests, i);
        const char *name = json_str_at(entry, "annotations", "org.opencontainers.image.ref.name", NULL);
        if (!platform_matches(entry, architecture) || (tag && !streq_null(name, tag)))
            continue;
        if (!found)
            found = entry;
        candidates++;
    }
    if (!found)
        return error_set(err, ENOENT, "the index holds no image for linux/%s%s%s", architecture,
                         tag ? " with the name " : "", tag ? tag : "");
    if (candidates > 1)
        return error_set(err, EINVAL, "the index holds %zu images; say which with --ref", candidates);
    *ret_nested = media_type_is_index(json_str(json_get(found, "mediaType")));
    return descriptor_parse(found, "manifest", ret, err);
}

static bool layer_type_known(const char *type)
{
    static const char *const known[] = {
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.oci.image.layer.v1.tar+zstd",
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
    };

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (type && streq(type, known[i]))
            return true;
    return false;
}

static int check_layer_count(size_t count, struct error *err)
{
    if (count > IMAGE_LAYERS_MAX)
        return error_set(err, E2BIG, "the image has %zu layers, more than %d", count, IMAGE_LAYERS_MAX);
    if (!count)
        return error_set(err, EINVAL, "the image has no layers");
    return 0;
}

int image_manifest_parse(const struct json *manifest, struct image_manifest *ret, struct error *err)
{
    _cleanup_(image_manifest_clear) struct image_manifest m = {0};
    const struct json *layers = json_get(manifest, "layers");

    if (json_int_or(json_get(manifest, "schemaVersion"), 0) != 2 || !json_is(layers, JSON_ARRAY))
        return error_set(err, EINVAL, "the document is no image manifest of schema version 2");
    int r = descriptor_parse(json_get(manifest, "config"), "image configuration", &m.config, err);
    if (r < 0)
        return r;
    r = check_layer_count(json_size(layers), err);
    if (r < 0)
        return r;
    m.layers = xcalloc(json_size(layers), sizeof(*m.layers));
    for (size_t i = 0; i < json_size(layers); i++) {
        const struct json *layer = json_item(layers, i);
        const char *type = json_str(json_get(layer, "mediaType"));
        if (!layer_type_known(type))
            return error_set(err, ENOTSUP, "layer %zu has the media type \"%.100s\", which holt does not read", i,
                             type ? type : "");
        r = descriptor_parse(layer, "layer", &m.layers[i], err);
        if (r < 0)
            return r;
        m.layer_count++;
    }
    *ret = m;
    m = (struct image_manifest){0};
    return 0;
}

static bool archive_path_ok(const char *path)
{
    return path && *path && *path != '/' && strlen(path) <= PATH_LEN_MAX;
}

/* Tags compare normalised: "busybox" is docker.io/library/busybox:latest. */
static bool repo_tags_hold(const struct json *tags, const char *tag)
{
    for (size_t i = 0; i < json_size(tags); i++) {
        struct image_ref ref;
        if (image_ref_parse(json_str_or(json_item(tags, i), ""), &ref, NULL) < 0)
            continue;
        bool same = streq(ref.name, tag);
        image_ref_clear(&ref);
        if (same)
            return true;
    }
    return false;
}

int docker_manifest_parse(const struct json *manifest, const char *tag, struct image_manifest *ret, struct error *err)
{
    _cleanup_(image_manifest_clear) struct image_manifest m = {0};
    const struct json *entry = NULL;

    if (!json_is(manifest, JSON_ARRAY))
        return error_set(err, EINVAL, "manifest.json is no list of images");
    for (size_t i = 0; i < json_size(manifest); i++)
        if (json_size(manifest) == 1 || (tag && repo_tags_hold(json_get(json_item(manifest, i), "RepoTags"), tag)))
            entry = json_item(manifest, i);
    if (!entry)
        return error_set(err, ENOENT, "the archive holds %zu images and none is tagged %s", json_size(manifest),
                         tag ? tag : "so");
    const char *config = plain_string(json_get(entry, "Config"));
    const struct json *layers = json_get(entry, "Layers");
    if (!archive_path_ok(config) || !json_is(layers, JSON_ARRAY))
        return error_set(err, EINVAL, "manifest.json names no configuration or no layers");
    int r = check_layer_count(json_size(layers), err);
    if (r < 0)
        return r;
    m.config = (struct image_blob){.path = xstrdup(config), .size = -1};
    m.layers = xcalloc(json_size(layers), sizeof(*m.layers));
    for (size_t i = 0; i < json_size(layers); i++) {
        const char *path = plain_string(json_item(layers, i));
        if (!archive_path_ok(path))
            return error_set(err, EINVAL, "manifest.json: layer %zu has no proper path", i);
        m.layers[m.layer_count++] = (struct image_blob){.path = xstrdup(path), .size = -1};
    }
    *ret = m;
    m = (struct image_manifest){0};
    return 0;
}

static int words_parse(const struct json *v, const char *what, char ***ret, struct error *err)
{
    _cleanup_strv_ char **words = NULL;

    if (!v)
        return 0;
    if (!json_is(v, JSON_ARRAY) || json_size(v) > WORDS_MAX)
        return error_set(err, EINVAL, "the image's %s is no list of at most %d strings", what, WORDS_MAX);
    for (size_t i = 0; i < json_size(v); i++) {
        const char *word = plain_string(json_item(v, i));
        if (!word || strlen(word) >= WORD_LEN_MAX)
            return error_set(err, EINVAL, "the image's %s holds something that is no proper string", what);
        words = strv_append(words, xstrdup(word));
    }
    *ret = take_ptr(words);
    return 0;
}

static int word_parse(const struct json *v, const char *what, char **ret, struct error *err)
{
    if (!v)
        return 0;
    const char *s = plain_string(v);
    if (!s || strlen(s) > PATH_LEN_MAX)
        return error_set(err, EINVAL, "the image's %s is no proper string", what);
    if (*s)
        *ret = xstrdup(s);
    return 0;
}

static int stop_signal_parse(const char *text, int *ret, struct error *err)
{
    static const struct {
        const char *name;
        int number;
    } names[] = {{"SIGTERM", SIGTERM}, {"SIGINT", SIGINT},   {"SIGQUIT", SIGQUIT}, {"SIGHUP", SIGHUP},
                 {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGKILL", SIGKILL}, {"SIGWINCH", SIGWINCH}};
    int64_t number;

    *ret = 0;
    if (!text || !*text)
        return 0;
    if (parse_i64(text, &number) && number > 0 && number <= SIGRTMAX) {
        *ret = (int)number;
        return 0;
    }
    if (strncmp(text, "SIGRTMIN+", 9) == 0 && parse_i64(text + 9, &number) && number >= 0 &&
        SIGRTMIN + number <= SIGRTMAX) {
        *ret = SIGRTMIN + (int)number;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (streq(text, names[i].name) || streq(text, names[i].name + 3)) {
            *ret = names[i].number;
            return 0;
        }
    return error_set(err, EINVAL, "the image's StopSignal \"%.20s\" is not known", text);
}

/* The members of "config" (OCI and docker name them alike), or of what image_config_to_json made. */
static int run_config_parse(const struct json *run, struct image_config *ret, struct error *err)
{
    _cleanup_(image_config_clear) struct image_config c = {0};
    int r = words_parse(json_get(run, "Entrypoint"), "Entrypoint", &c.entrypoint, err);

    if (r == 0)
        r = words_parse(json_get(run, "Cmd"), "Cmd", &c.cmd, err);
    if (r == 0)
        r = words_parse(json_get(run, "Env"), "Env", &c.env, err);
    if (r == 0)
        r = word_parse(json_get(run, "WorkingDir"), "WorkingDir", &c.working_dir, err);
    if (r == 0)
        r = word_parse(json_get(run, "User"), "User", &c.user, err);
    if (r == 0)
        r = stop_signal_parse(json_str(json_get(run, "StopSignal")), &c.stop_signal, err);
    if (r < 0)
        return r;
    for (char **e = c.env; e && *e; e++)
        if (!strchr(*e, '=') || **e == '=')
            return error_set(err, EINVAL, "the image's Env holds \"%.60s\", which is no NAME=VALUE", *e);
    if (c.working_dir && *c.working_dir != '/')
        return error_set(err, EINVAL, "the image's WorkingDir \"%.100s\" is not absolute", c.working_dir);
    *ret = c;
    c = (struct image_config){0};
    return 0;
}

int image_config_parse(const struct json *config, const char *architecture, size_t layer_count,
                       struct image_config *ret, struct error *err)
{
    const char *os = json_str_or(json_get(config, "os"), "linux");
    const char *arch = json_str_or(json_get(config, "architecture"), architecture);

    if (!json_is(config, JSON_OBJECT))
        return error_set(err, EINVAL, "the image configuration is no JSON object");
    if (!streq(os, "linux") || !streq(arch, architecture))
        return error_set(err, EINVAL, "the image is for %.20s/%.20s, this machine is linux/%s", os, arch, architecture);
    size_t ids = json_size(json_at(config, "rootfs", "diff_ids", NULL));
    if (ids != layer_count)
        return error_set(err, EINVAL, "the image configuration speaks of %zu layers, the manifest of %zu", ids,
                         layer_count);
    return run_config_parse(json_get(config, "config"), ret, err);
}

bool image_config_diff_id(const struct json *config, size_t layer, char hex[SHA256_HEX + 1])
{
    return digest_parse(json_str(json_item(json_at(config, "rootfs", "diff_ids", NULL), layer)), hex);
}

void image_config_clear(struct image_config *c)
{
    strv_free(c->entrypoint);
    strv_free(c->cmd);
    strv_free(c->env);
    free(c->working_dir);
    free(c->user);
    *c = (struct image_config){0};
}

static struct json *words_to_json(char *const *words)
{
    if (!words)
        return NULL;
    struct json *v = json_array_make();
    for (; *words; words++)
        json_push(v, json_string(*words));
    return v;
}

struct json *image_config_to_json(const struct image_config *c)
{
    _cleanup_free_ char *signal_text = c->stop_signal ? xasprintf("%d", c->stop_signal) : NULL;

    return json_build("{s:o, s:o, s:o, s:s, s:s, s:s}", "Entrypoint", words_to_json(c->entrypoint), "Cmd",
                      words_to_json(c->cmd), "Env", words_to_json(c->env), "WorkingDir", c->working_dir, "User",
                      c->user, "StopSignal", signal_text);
}

int image_config_from_json(const struct json *v, struct image_config *ret, struct error *err)
{
    if (!json_is(v, JSON_OBJECT))
        return error_set(err, EINVAL, "the stored image configuration is no JSON object");
    return run_config_parse(v, ret, err);
}
