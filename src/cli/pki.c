#include "cli/pki.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "wire/json.h"
#include "wire/tls.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#define PEM_MAX_BYTES 65536
#define CA_DAYS 3650
#define CERT_SECONDS (365LL * 24 * 3600)
/* A certificate with less than this left is replaced at start. */
#define RENEW_SECONDS (30LL * 24 * 3600)

static int read_pem(const char *path, char **ret, struct error *err)
{
    return file_read_at(AT_FDCWD, path, PEM_MAX_BYTES, ret, NULL, err);
}

static int write_pem(const char *path, const char *text, mode_t mode, struct error *err)
{
    return file_write_atomic_at(AT_FDCWD, path, text, strlen(text), mode, err);
}

/* 1 = still good, 0 = missing or about to expire. */
static int usable(const char *cert_path, const char *key_path)
{
    _cleanup_free_ char *pem = NULL, *key = NULL;

    if (read_pem(cert_path, &pem, NULL) < 0 || read_pem(key_path, &key, NULL) < 0)
        return 0;
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    int ok = 0;
    if (cert) {
        time_t limit = time(NULL) + RENEW_SECONDS;
        ok = X509_cmp_time(X509_get0_notAfter(cert), &limit) > 0;
    }
    X509_free(cert);
    BIO_free(bio);
    return ok;
}

static int write_pair(const char *cert_path, const char *key_path, const struct tls_cert *cert, struct error *err)
{
    int r = write_pem(key_path, cert->key_pem, 0600, err);

    return r < 0 ? r : write_pem(cert_path, cert->cert_pem, 0644, err);
}

static int load_ca(const struct pki_paths *p, struct tls_cert *ret, struct error *err)
{
    int r = read_pem(p->ca_cert, &ret->cert_pem, err);

    return r < 0 ? r : read_pem(p->ca_key, &ret->key_pem, err);
}

/* Which names a server certificate was made for is kept beside it, so that another --listen makes a new one. */
static int make_server_cert(const struct pki_paths *p, const char *listen_host, struct error *err)
{
    _cleanup_free_ char *names_path = xasprintf("%s/server.names", p->dir);
    _cleanup_free_ char *names = NULL;
    bool same = file_read_at(AT_FDCWD, names_path, 1024, &names, NULL, NULL) == 0 && streq(names, listen_host);

    if (same && usable(p->server_cert, p->server_key))
        return 0;
    bool wildcard = streq(listen_host, "0.0.0.0") || streq(listen_host, "::");
    const char *dns[] = {"localhost",
                         "kubernetes",
                         "kubernetes.default",
                         "kubernetes.default.svc",
                         "kubernetes.default.svc.cluster.local",
                         NULL};
    const char *ips[] = {"127.0.0.1", "::1", wildcard ? NULL : listen_host, NULL};
    struct tls_cert_request request = {
        .common_name = "holt", .dns_names = dns, .ip_addresses = ips, .server = true, .valid_seconds = CERT_SECONDS};
    _cleanup_(tls_cert_free) struct tls_cert ca = {0}, cert = {0};
    int r = load_ca(p, &ca, err);
    if (r == 0)
        r = tls_issue(&ca, &request, &cert, err);
    if (r == 0)
        r = write_pair(p->server_cert, p->server_key, &cert, err);
    if (r == 0)
        r = write_pem(names_path, listen_host, 0644, err);
    return r;
}

struct pki_paths pki_paths_of(const char *data_dir)
{
    return (struct pki_paths){.dir = xasprintf("%s/pki", data_dir),
                              .ca_cert = xasprintf("%s/pki/ca.crt", data_dir),
                              .ca_key = xasprintf("%s/pki/ca.key", data_dir),
                              .server_cert = xasprintf("%s/pki/server.crt", data_dir),
                              .server_key = xasprintf("%s/pki/server.key", data_dir)};
}

int pki_prepare(const char *data_dir, const char *listen_host, struct pki_paths *ret, struct error *err)
{
    struct pki_paths p = pki_paths_of(data_dir);

    *ret = p;
    int fd = mkdirs_at(AT_FDCWD, p.dir, 0700, err);
    if (fd < 0)
        return fd;
    (void)close(fd);
    if (!usable(p.ca_cert, p.ca_key)) {
        _cleanup_(tls_cert_free) struct tls_cert ca = {0};
        int r = tls_make_ca("holt CA", CA_DAYS, &ca, err);
        if (r == 0)
            r = write_pair(p.ca_cert, p.ca_key, &ca, err);
        if (r < 0)
            return r;
        (void)unlink(p.server_cert); /* signed by the old CA */
    }
    return make_server_cert(&p, listen_host, err);
}

void pki_paths_free(struct pki_paths *p)
{
    free(p->dir);
    free(p->ca_cert);
    free(p->ca_key);
    free(p->server_cert);
    free(p->server_key);
    *p = (struct pki_paths){0};
}

static char *base64(const char *text)
{
    size_t len = strlen(text);
    char *out = xmalloc(len / 3 * 4 + 5);

    (void)EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)text, (int)len);
    return out;
}

int pki_kubeconfig(const struct pki_paths *pki, const char *server, const char *user, const char *const *groups,
                   int64_t valid_seconds, char **ret, struct error *err)
{
    _cleanup_(tls_cert_free) struct tls_cert ca = {0}, cert = {0};
    struct tls_cert_request request = {
        .common_name = user, .organizations = groups, .client = true, .valid_seconds = valid_seconds};
    int r = load_ca(pki, &ca, err);
    if (r == 0)
        r = tls_issue(&ca, &request, &cert, err);
    if (r < 0)
        return error_wrap(err, "kubeconfig for %s", user);

    _cleanup_free_ char *ca_data = base64(ca.cert_pem), *cert_data = base64(cert.cert_pem);
    _cleanup_free_ char *key_data = base64(cert.key_pem);
    /* JSON is YAML: every client reads it. */
    _cleanup_json_ struct json *config = json_build(
        "{s:s, s:s, s:[{s:s, s:{s:s, s:s}}], s:[{s:s, s:{s:s, s:s}}], s:[{s:s, s:{s:s, s:s}}], s:s}", "apiVersion",
        "v1", "kind", "Config", "clusters", "name", "holt", "cluster", "server", server, "certificate-authority-data",
        ca_data, "users", "name", user, "user", "client-certificate-data", cert_data, "client-key-data", key_data,
        "contexts", "name", "holt", "context", "cluster", "holt", "user", user, "current-context", "holt");
    *ret = json_text_pretty(config);
    explicit_bzero(key_data, strlen(key_data));
    return 0;
}

int pki_write_kubeconfig(const struct pki_paths *pki, const char *server, const char *user, const char *const *groups,
                         const char *path, struct error *err)
{
    char *text = NULL;
    int r = pki_kubeconfig(pki, server, user, groups, CERT_SECONDS, &text, err);

    if (r < 0)
        return r;
    r = file_write_atomic_at(AT_FDCWD, path, text, strlen(text), 0600, err);
    explicit_bzero(text, strlen(text));
    free(text);
    return r;
}
