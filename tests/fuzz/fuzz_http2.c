/*
 * A server's HTTP/2 connection: the input is what a client sends behind the preface, in pieces whose sizes are in the
 * input too. Handlers answer at once, later, in pieces, or never.
 */
#include "fuzz.h"

#include "base/macros.h"
#include "wire/http.h"

#include <event2/event.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECES_MAX 64

static struct event_base *base;
static struct http_server *server;
static struct sockaddr_in address;
static unsigned live;

static void on_finish(void *arg UNUSED, const struct http_request *req UNUSED, int status UNUSED)
{
    live--;
}

static void on_close(void *arg UNUSED, struct http_request *req)
{
    if (!http_is_closed(req) || http_write(req, "x", 1))
        abort();
    http_end(req);
}

static void on_drain(void *arg UNUSED, struct http_request *req)
{
    http_on_drain(req, NULL, NULL);
    (void)http_write(req, "more", 4);
    http_end(req);
}

static void handle(void *arg UNUSED, struct http_request *req)
{
    size_t len;
    const char *body = http_body(req, &len);

    live++;
    http_on_finish(req, on_finish, NULL);
    http_on_close(req, on_close, NULL);
    if (!http_header(req, "host"))
        abort();
    switch (http_path(req)[1]) {
    case 'e':
        http_respond(req, 200, "text/plain", body, len);
        return;
    case 's':
        http_start(req, 200, http_query(req, "type"));
        http_on_drain(req, on_drain, NULL);
        (void)http_write(req, "some", 4);
        return;
    case 'h':
        return; /* until the client goes */
    case 'u':
        if (http_take_over(req, 101))
            abort();
        return;
    default:
        http_end(req);
    }
}

static void turn(void)
{
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
}

static void start(void)
{
    static const struct http_server_options options = {
        .max_head_bytes = 2048, .max_body_bytes = 4096, .max_output_bytes = 65536, .http2_plain = true};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    base = event_base_new();
    if (!base || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 16) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        abort();
    server = http_server_new(base, fd, NULL, &options, handle, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    const struct linger reset = {.l_onoff = 1};

    if (!server)
        start();
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        abort();
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)); /* no ports left waiting */
    (void)send(fd, preface, sizeof(preface), MSG_NOSIGNAL);
    for (int i = 0; i < PIECES_MAX && size; i++) {
        size_t n = i == PIECES_MAX - 1 ? size : MIN(size, (size_t)1 + data[0] * 4u);
        (void)send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        data += n;
        size -= n;
        turn();
        turn();
    }
    (void)close(fd);
    for (int i = 0; i < 20 && http_server_connections(server); i++)
        turn();
    if (http_server_connections(server) || live)
        abort();
    return 0;
}
