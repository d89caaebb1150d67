#include "wire/dial.h"

#include "base/memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static SSL *new_ssl(const struct dial_target *t)
{
    SSL *ssl = SSL_new(t->tls);
    unsigned char addr[16];
    const char *host = t->host ? t->host : "localhost";
    bool numeric = inet_pton(AF_INET, host, addr) == 1 || inet_pton(AF_INET6, host, addr) == 1;
    bool ok = ssl && (numeric ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1
                              : SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1);

    if (ok)
        return ssl;
    SSL_free(ssl);
    ERR_clear_error();
    return NULL;
}

struct bufferevent *dial_new(struct event_base *base, const struct dial_target *t)
{
    const int options = BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS;

    if (!t->tls)
        return bufferevent_socket_new(base, -1, options);
    SSL *ssl = new_ssl(t);
    struct bufferevent *bev =
        ssl ? bufferevent_openssl_socket_new(base, -1, ssl, BUFFEREVENT_SSL_CONNECTING, options) : NULL;
    if (bev)
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    return bev;
}

static int connect_address(struct bufferevent *bev, const struct sockaddr *sa, socklen_t len)
{
    int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (bufferevent_setfd(bev, fd) < 0) {
        (void)close(fd);
        return -1;
    }
    return bufferevent_socket_connect(bev, sa, (int)len); /* bev owns fd */
}

static int dial_unix(struct bufferevent *bev, const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    size_t len = strlen(path);

    if (len >= sizeof(sa.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(sa.sun_path, path, len + 1);
    return connect_address(bev, (struct sockaddr *)&sa, sizeof(sa));
}

int dial(struct event_base *base, struct bufferevent *bev, const struct dial_target *t, struct evdns_base **dns)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(t->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(t->port)};

    if (t->unix_path)
        return dial_unix(bev, t->unix_path);
    if (inet_pton(AF_INET, t->host, &v4.sin_addr) == 1)
        return connect_address(bev, (struct sockaddr *)&v4, sizeof(v4));
    if (inet_pton(AF_INET6, t->host, &v6.sin6_addr) == 1)
        return connect_address(bev, (struct sockaddr *)&v6, sizeof(v6));
    if (!*dns)
        *dns = evdns_base_new(base, EVDNS_BASE_INITIALIZE_NAMESERVERS | EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    if (!*dns) {
        errno = EHOSTUNREACH;
        return -1;
    }
    return bufferevent_socket_connect_hostname(bev, *dns, AF_UNSPEC, t->host, t->port);
}

/* A socket made for a name gets its close-on-exec flag here; the rest only costs latency, or a late end, if refused. */
void dial_connected(struct bufferevent *bev)
{
    const int on = 1;
    int fd = bufferevent_getfd(bev);

    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

char *dial_tls_failure(struct bufferevent *bev)
{
    unsigned long code = bufferevent_get_openssl_error(bev);
    char text[256];

    if (!code)
        return NULL;
    ERR_error_string_n(code, text, sizeof(text));
    if (!ERR_reason_error_string(code)) /* a number of the system, not of the library */
        (void)snprintf(text, sizeof(text), "the other side ended the connection");
    SSL *ssl = bufferevent_openssl_get_ssl(bev);
    long verify = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;

    return verify != X509_V_OK ? xasprintf("TLS: %s", X509_verify_cert_error_string(verify))
                               : xasprintf("TLS: %s", text);
}
