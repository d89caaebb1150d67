#include "wire/http_leash.h"

#include "base/memory.h"
#include "wire/http2.h"
#include "wire/http_server_internal.h"

#include <event2/bufferevent.h>
#include <sys/socket.h>

struct http_leash {
    struct http_request *req; /* NULL: answered or taken over */
    int fd;                   /* of what was taken over, -1 = nothing: borrowed, and only as long as the cookie fits */
    uint64_t cookie;          /* the kernel's name of the socket, which no other ever has */
    void (*over)(void *arg);
    void *arg;
};

struct http_leash *http_leash_new(struct http_request *req, void (*over)(void *arg), void *arg)
{
    struct http_leash *l = xcalloc(1, sizeof(*l));

    *l = (struct http_leash){.req = req, .fd = -1, .over = over, .arg = arg};
    req->leash = l;
    return l;
}

void http_leash_free(struct http_leash *l)
{
    if (l && l->req)
        l->req->leash = NULL;
    free(l);
}

static bool socket_cookie(int fd, uint64_t *ret)
{
    socklen_t len = sizeof(*ret);

    return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_COOKIE, ret, &len) == 0;
}

void http_leash_taken_over(struct http_leash *l, struct bufferevent *bev)
{
    int fd = bev ? bufferevent_getfd(bev) : -1;

    l->req->leash = NULL;
    l->req = NULL;
    if (socket_cookie(fd, &l->cookie))
        l->fd = fd;
    else if (l->over)
        l->over(l->arg);
}

void http_leash_answered(struct http_leash *l)
{
    l->req = NULL;
    if (l->over)
        l->over(l->arg);
}

static bool still_open(const struct http_leash *l)
{
    uint64_t cookie;

    return socket_cookie(l->fd, &cookie) && cookie == l->cookie;
}

bool http_leash_over(const struct http_leash *l)
{
    return !l->req && !still_open(l);
}

void http_leash_cut(struct http_leash *l)
{
    struct http_request *req = l->req;

    if (!req) {
        if (still_open(l))
            (void)shutdown(l->fd, SHUT_RDWR); /* fails only when the peer was faster */
    } else if (req->conn && req->on_close && (req->stream || !req->started || req->chunked)) {
        void (*told)(void *arg, struct http_request *req) = take_ptr(req->on_close);
        told(req->on_close_arg, req);
    } else if (req->stream) {
        http2_answer_abort(req);
        http_request_detach(req);
    } else if (req->conn) {
        http_conn_close(req->conn);
    }
}
