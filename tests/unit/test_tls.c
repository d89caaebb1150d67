/* Certificates as OpenSSL reads them back, and handshakes between contexts over a pair of memory buffers. */
#include "test.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "wire/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

static struct tls_cert ca, other_ca;

static int make_cas(void **state UNUSED)
{
    return tls_make_ca("test CA", 30, &ca, NULL) | tls_make_ca("other CA", 30, &other_ca, NULL);
}

static int free_cas(void **state UNUSED)
{
    tls_cert_free(&ca);
    tls_cert_free(&other_ca);
    return 0;
}

static X509 *read_cert(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *x = PEM_read_bio_X509(bio, NULL, NULL, NULL);

    BIO_free(bio);
    assert_non_null(x);
    return x;
}

static void test_names(void **state UNUSED)
{
    static const char *const dns[] = {"localhost", "*.example.com", "a_b.example", NULL};
    static const char *const ips[] = {"127.0.0.1", "::1", "node-1", NULL};
    struct tls_cert_request q = {
        .common_name = "s", .dns_names = dns, .ip_addresses = ips, .server = true, .valid_seconds = 3600};
    _cleanup_(tls_cert_free) struct tls_cert c = {0};

    assert_int_equal(tls_issue(&ca, &q, &c, NULL), 0);
    X509 *x = read_cert(c.cert_pem);
    assert_int_equal(X509_check_host(x, "localhost", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(x, "www.example.com", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(x, "node-1", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(x, "elsewhere", 0, 0, NULL), 0);
    assert_int_equal(X509_check_ip_asc(x, "127.0.0.1", 0), 1);
    assert_int_equal(X509_check_ip_asc(x, "::1", 0), 1);
    assert_int_equal(X509_check_ip_asc(x, "10.0.0.1", 0), 0);
    assert_int_equal(X509_check_ca(x), 0);
    X509_free(x);
    X509 *root = read_cert(ca.cert_pem);
    assert_int_equal(X509_check_ca(root), 1);
    X509_free(root);
}

/* One name must never become two. */
static void test_bad_names(void **state UNUSED)
{
    static const char *const bad[] = {"a,DNS:b", "a,IP:10.0.0.1", "a b", "",      ".",    "a..b", ".a",
                                      "a.",      "a\nb",          "*",   "a.*.b", "*a.b", "a/b",  "caf\xc3\xa9",
                                      "a:b"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const char *names[] = {bad[i], NULL};
        struct tls_cert_request as_dns = {.common_name = "s", .dns_names = names, .server = true, .valid_seconds = 60};
        struct tls_cert_request as_ip = {
            .common_name = "s", .ip_addresses = names, .server = true, .valid_seconds = 60};
        _cleanup_(tls_cert_free) struct tls_cert c = {0};
        _cleanup_error_ struct error err = ERROR_INIT;

        if (tls_issue(&ca, &as_dns, &c, &err) != -EINVAL || tls_issue(&ca, &as_ip, &c, NULL) != -EINVAL)
            print_error("accepted: %s\n", bad[i]);
        assert_int_equal(err.code, EINVAL);
        assert_null(c.cert_pem);
    }
    assert_int_equal(ERR_peek_error(), 0);
}

/* Both sides of a connection; moves bytes until neither has anything to say. */
struct pair {
    SSL *server, *client;
};

static bool handshake(struct pair *p, SSL_CTX *server, SSL_CTX *client, const char *host)
{
    BIO *a = NULL, *b = NULL;

    assert_int_equal(BIO_new_bio_pair(&a, 0, &b, 0), 1);
    *p = (struct pair){SSL_new(server), SSL_new(client)};
    SSL_set_bio(p->server, a, a);
    SSL_set_bio(p->client, b, b);
    SSL_set_accept_state(p->server);
    SSL_set_connect_state(p->client);
    assert_int_equal(SSL_set1_host(p->client, host), 1);
    int s = 0, c = 0;
    for (int i = 0; i < 20 && (s != 1 || c != 1); i++) {
        c = SSL_do_handshake(p->client);
        s = SSL_do_handshake(p->server);
    }
    /* With TLS 1.3 the client hears of its refused certificate only when it reads. */
    char byte;
    (void)SSL_read(p->client, &byte, 1);
    bool ok = s == 1 && c == 1 && SSL_get_error(p->client, -1) == SSL_ERROR_WANT_READ;
    ERR_clear_error();
    return ok;
}

static void pair_free(struct pair *p)
{
    SSL_free(p->server);
    SSL_free(p->client);
}

static void issue(const struct tls_cert *by, const char *cn, const char *const *groups, bool server, int64_t seconds,
                  struct tls_cert *ret)
{
    static const char *const dns[] = {"server.test", NULL};
    struct tls_cert_request q = {.common_name = cn,
                                 .organizations = groups,
                                 .dns_names = server ? dns : NULL,
                                 .server = server,
                                 .client = !server,
                                 .valid_seconds = seconds};

    assert_int_equal(tls_issue(by, &q, ret, NULL), 0);
}

static void test_handshakes(void **state UNUSED)
{
    static const char *const groups[] = {"system:masters", "system:nodes", NULL};
    static const char *const long_name =
        "system:serviceaccount:a-namespace-with-a-long-name:a-service-account-with-an-even-longer-name";
    enum { GOOD, NONE, FOREIGN, EXPIRED, SERVER_CERT };
    static const struct {
        int client_cert;
        bool trusts;
        const char *host;
        bool connects, identified;
    } cases[] = {
        {GOOD, true, "server.test", true, true},          {NONE, true, "server.test", true, false},
        {FOREIGN, true, "server.test", false, false},     {EXPIRED, true, "server.test", false, false},
        {SERVER_CERT, true, "server.test", false, false}, {GOOD, false, "server.test", false, false},
        {GOOD, true, "elsewhere.test", false, false},
    };
    _cleanup_(tls_cert_free) struct tls_cert server = {0};
    struct tls_cert certs[5] = {0};

    issue(&ca, "s", NULL, true, 3600, &server);
    issue(&ca, long_name, groups, false, 3600, &certs[GOOD]);
    issue(&other_ca, "mallory", groups, false, 3600, &certs[FOREIGN]);
    issue(&ca, "late", groups, false, -10, &certs[EXPIRED]);
    issue(&ca, "s2", NULL, true, 3600, &certs[SERVER_CERT]);
    SSL_CTX *st = tls_server_context(&server, ca.cert_pem, NULL);
    assert_non_null(st);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        SSL_CTX *ct = tls_client_context(cases[i].trusts ? ca.cert_pem : other_ca.cert_pem,
                                         cases[i].client_cert == NONE ? NULL : &certs[cases[i].client_cert], NULL);
        _cleanup_free_ char *cn = NULL;
        _cleanup_strv_ char **os = NULL;
        struct pair p;

        assert_non_null(ct);
        bool connected = handshake(&p, st, ct, cases[i].host);
        if (connected != cases[i].connects)
            print_error("case %zu: %d\n", i, connected);
        assert_int_equal(connected, cases[i].connects);
        bool identified = connected && tls_peer_identity(p.server, &cn, &os);
        assert_int_equal(identified, cases[i].identified);
        if (identified) {
            assert_string_equal(cn, long_name);
            assert_int_equal(strv_len(os), 2);
            assert_string_equal(os[0], "system:masters");
        }
        if (connected) {
            assert_int_equal(SSL_session_reused(p.server), 0);
            assert_true(SSL_version(p.server) >= TLS1_2_VERSION);
        }
        pair_free(&p);
        tls_context_free(ct);
    }
    tls_context_free(st);
    for (size_t i = 0; i < ARRAY_LEN(certs); i++)
        tls_cert_free(&certs[i]);
}

static void test_versions(void **state UNUSED)
{
    static const struct {
        int version;
        const char *ciphers;
        bool connects;
    } cases[] = {{TLS1_1_VERSION, NULL, false},
                 {TLS1_2_VERSION, NULL, true},
                 {TLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA256", false}, /* CBC */
                 {TLS1_2_VERSION, "ECDHE-ECDSA-CHACHA20-POLY1305", true},
                 {TLS1_3_VERSION, NULL, true}};
    _cleanup_(tls_cert_free) struct tls_cert server = {0};

    issue(&ca, "s", NULL, true, 3600, &server);
    SSL_CTX *st = tls_server_context(&server, NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        SSL_CTX *ct = tls_client_context(ca.cert_pem, NULL, NULL);
        struct pair p;

        (void)SSL_CTX_set_min_proto_version(ct, cases[i].version);
        (void)SSL_CTX_set_max_proto_version(ct, cases[i].version);
        if (cases[i].ciphers)
            assert_int_equal(SSL_CTX_set_cipher_list(ct, cases[i].ciphers), 1);
        assert_int_equal(handshake(&p, st, ct, "server.test"), cases[i].connects);
        pair_free(&p);
        tls_context_free(ct);
    }
    tls_context_free(st);
}

static void test_alpn(void **state UNUSED)
{
    static const unsigned char offers[][12] = {"\x08http/1.1\x02h2", "\x08http/1.1", "\x02h3"};
    static const size_t lens[] = {12, 9, 3}, chosen_lens[] = {2, 8, 0}; /* h2, http/1.1, none of ours */
    _cleanup_(tls_cert_free) struct tls_cert server = {0};

    issue(&ca, "s", NULL, true, 3600, &server);
    SSL_CTX *st = tls_server_context(&server, NULL, NULL), *ct = tls_client_context(ca.cert_pem, NULL, NULL);
    for (size_t i = 0; i < 3; i++) {
        const unsigned char *chosen;
        unsigned len;
        struct pair p;

        assert_int_equal(SSL_CTX_set_alpn_protos(ct, offers[i], (unsigned)lens[i]), 0);
        assert_true(handshake(&p, st, ct, "server.test"));
        SSL_get0_alpn_selected(p.client, &chosen, &len);
        assert_int_equal(len, chosen_lens[i]);
        pair_free(&p);
    }
    tls_context_free(st);
    tls_context_free(ct);
}

static void test_bad_input(void **state UNUSED)
{
    _cleanup_(tls_cert_free) struct tls_cert a = {0}, b = {0};
    _cleanup_error_ struct error err = ERROR_INIT;

    issue(&ca, "a", NULL, true, 3600, &a);
    issue(&ca, "b", NULL, true, 3600, &b);
    struct tls_cert mixed = {a.cert_pem, b.key_pem}, junk = {(char *)"junk", (char *)"junk"};
    assert_null(tls_server_context(&mixed, NULL, &err));
    assert_int_equal(err.code, EPROTO);
    assert_null(tls_server_context(&junk, NULL, &err));
    assert_null(tls_server_context(&a, "junk", &err));
    assert_null(tls_client_context("junk", NULL, &err));
    struct tls_cert_request q = {.common_name = "x", .client = true, .valid_seconds = 60};
    struct tls_cert c = {0};
    assert_int_equal(tls_issue(&junk, &q, &c, &err), -EPROTO);
    assert_int_equal(ERR_peek_error(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),    cmocka_unit_test(test_bad_names), cmocka_unit_test(test_handshakes),
        cmocka_unit_test(test_versions), cmocka_unit_test(test_alpn),      cmocka_unit_test(test_bad_input),
    };
    return cmocka_run_group_tests_name("tls", tests, make_cas, free_cas);
}
