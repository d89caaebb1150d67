/* New connections of the server: how many, and what when there is no room. */
#include "wire/http_server_internal.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/timeutil.h"

#include <arpa/inet.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* On one turn of the loop: each costs a TLS handshake soon. */
#define ACCEPT_BATCH 16
/* Descriptors that connections leave for everything else the process does. */
#define SPARE_FILES 256
#define COMPLAIN_SECONDS 60
/* A peer that vanished without a word (power, network) is noticed after about two minutes. */
#define KEEPALIVE_IDLE_S 60
#define KEEPALIVE_INTERVAL_S 15
#define KEEPALIVE_PROBES 4

static char *peer_text(const struct sockaddr *sa)
{
    char host[INET6_ADDRSTRLEN] = "";

    if (sa->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, sa, sizeof(v4));
        (void)inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host));
        return xasprintf("%s:%u", host, ntohs(v4.sin_port));
    }
    if (sa->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, sa, sizeof(v6));
        (void)inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host));
        return xasprintf("[%s]:%u", host, ntohs(v6.sin6_port));
    }
    return xstrdup("unix");
}

static int64_t unix_peer_uid(int fd, int family)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (family != AF_UNIX || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return -1;
    return cred.uid;
}

/* Options that only cost latency or a late end when they are refused. */
static void tune(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                   {SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
                   {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
                   {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES}};

    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

static void conn_open(struct http_server *s, int fd, const struct sockaddr *sa)
{
    struct http_conn *c = xcalloc(1, sizeof(*c));
    SSL *ssl = s->tls ? SSL_new(s->tls) : NULL;

    if (sa->sa_family != AF_UNIX)
        tune(fd);
    c->bev =
        s->tls
            ? (ssl ? bufferevent_openssl_socket_new(s->base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE)
                   : NULL)
            : bufferevent_socket_new(s->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (!c->bev) {
        (void)close(fd);
        free(c);
        return;
    }
    if (ssl)
        bufferevent_openssl_set_allow_dirty_shutdown(c->bev, 1);
    c->server = s;
    c->low_priority = true; /* as all events */
    c->peer = peer_text(sa);
    c->peer_uid = unix_peer_uid(fd, sa->sa_family);
    c->next = s->conns;
    c->prev = &s->conns;
    if (s->conns)
        s->conns->prev = &c->next;
    s->conns = c;
    s->count++;
    http_conn_begin(c);
}

/* What keeps happening is told once a minute: whoever causes it must not fill the log. */
static void complain(struct http_server *s, const char *what)
{
    int64_t now = time_monotonic_ns();

    s->complaints++;
    if (s->complained_ns && now - s->complained_ns < COMPLAIN_SECONDS * NSEC_PER_SEC)
        return;
    _cleanup_free_ char *count = xasprintf("%zu", s->count), *times = xasprintf("%u", s->complaints);
    log_warn(what, "connections", count, "times", times, NULL);
    s->complaints = 0;
    s->complained_ns = now;
}

/* No descriptors left, or no memory: asking again at once would only burn the processor. */
static void pause_accepting(struct http_server *s, int code)
{
    _cleanup_free_ char *text = xasprintf("cannot accept connections: %s", strerror(code));

    complain(s, text);
    (void)event_del(s->accept_event);
    s->accept_paused = true;
}

void http_on_accept(evutil_socket_t fd, short what UNUSED, void *arg)
{
    struct http_server *s = arg;

    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct sockaddr_storage sa = {0};
        socklen_t len = sizeof(sa);
        int conn = accept4(fd, (struct sockaddr *)&sa, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (conn < 0) {
            if (errno == ECONNABORTED || errno == EINTR)
                continue;
            if (errno != EAGAIN)
                pause_accepting(s, errno);
            return;
        }
        if (s->count >= s->options.max_connections) {
            (void)close(conn);
            complain(s, "too many connections, more are closed");
        } else {
            conn_open(s, conn, (struct sockaddr *)&sa);
        }
    }
}

void http_accept_resume(struct http_server *s)
{
    if (s->accept_paused && !s->draining && event_add(s->accept_event, NULL) == 0)
        s->accept_paused = false;
}

void http_accept_limit(struct http_server *s)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == RLIM_INFINITY)
        return;
    size_t most = (size_t)files.rlim_cur, spare = MIN((size_t)SPARE_FILES, most / 2);
    s->options.max_connections = MIN(s->options.max_connections, most - spare);
}
