#include "kube/kube_http.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "wire/yaml.h"

#include <fcntl.h>
#include <openssl/evp.h>

#define KUBECONFIG_MAX_BYTES (1 << 20)

/* The entry called name in a list of {name, <what>: {...}}. */
static const struct json *named(const struct json *config, const char *list, const char *what, const char *name)
{
    const struct json *items = json_get(config, list);

    for (size_t i = 0; i < json_size(items); i++)
        if (streq(json_str_or(json_get(json_item(items, i), "name"), ""), name))
            return json_get(json_item(items, i), what);
    return NULL;
}

static char *base64_decode(const char *text)
{
    size_t len = strlen(text);
    unsigned char *out = xmalloc(len / 4 * 3 + 4);
    int n = EVP_DecodeBlock(out, (const unsigned char *)text, (int)len);

    if (n < 0) {
        free(out);
        return NULL;
    }
    /* The decoder counts the padding as bytes. */
    for (size_t i = len; i > 0 && text[i - 1] == '=' && n > 0; i--)
        n--;
    out[n] = '\0';
    return (char *)out;
}

/* "<key>-data" inline as base64, or a file named by key, relative to the kubeconfig's directory. */
static int data_or_file(const struct json *o, const char *key, const char *path, char **ret, struct error *err)
{
    _cleanup_free_ char *data_key = xasprintf("%s-data", key);
    const char *data = json_str(json_get(o, data_key)), *file = json_str(json_get(o, key));

    if (data) {
        *ret = base64_decode(data);
        return *ret ? 0 : error_set(err, EINVAL, "%s: %s is not base64", path, data_key);
    }
    if (!file)
        return 0;
    const char *slash = strrchr(path, '/');
    _cleanup_free_ char *full =
        *file == '/' || !slash ? xstrdup(file) : xasprintf("%.*s/%s", (int)(slash - path), path, file);
    return file_read_at(AT_FDCWD, full, KUBECONFIG_MAX_BYTES, ret, NULL, err);
}

int kubeconfig_load(const char *path, struct kubeconfig *ret, struct error *err)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    if (file_read_at(AT_FDCWD, path, KUBECONFIG_MAX_BYTES, &text, &len, err) < 0)
        return error_wrap(err, "kubeconfig");
    _cleanup_json_ struct json *config = yaml_parse(text, len, NULL, err);
    if (!config)
        return error_wrap(err, "kubeconfig %s", path);

    const struct json *context =
        named(config, "contexts", "context", json_str_or(json_get(config, "current-context"), ""));
    const struct json *cluster = named(config, "clusters", "cluster", json_str_or(json_get(context, "cluster"), ""));
    const struct json *user = named(config, "users", "user", json_str_or(json_get(context, "user"), ""));
    const char *server = json_str(json_get(cluster, "server"));
    if (!server)
        return error_set(err, EINVAL, "kubeconfig %s: current-context names no cluster with a server", path);

    *ret = (struct kubeconfig){.server = xstrdup(server),
                               .ns = xstrdup(json_str_or(json_get(context, "namespace"), "default"))};
    const char *token = json_str(json_get(user, "token")), *token_file = json_str(json_get(user, "tokenFile"));
    int r = data_or_file(cluster, "certificate-authority", path, &ret->ca_pem, err);
    if (r == 0)
        r = data_or_file(user, "client-certificate", path, &ret->cert_pem, err);
    if (r == 0)
        r = data_or_file(user, "client-key", path, &ret->key_pem, err);
    if (r == 0 && token)
        ret->token = xstrdup(token);
    else if (r == 0 && token_file && (r = file_read_at(AT_FDCWD, token_file, 65536, &ret->token, NULL, err)) == 0)
        ret->token[strcspn(ret->token, "\r\n")] = '\0';
    if (r < 0)
        kubeconfig_free(ret);
    return r;
}

void kubeconfig_free(struct kubeconfig *c)
{
    free(c->server);
    free(c->ca_pem);
    free(c->cert_pem);
    if (c->key_pem)
        explicit_bzero(c->key_pem, strlen(c->key_pem));
    free(c->key_pem);
    free(c->token);
    free(c->ns);
    *c = (struct kubeconfig){0};
}
