/*
 * Bytes of a client behind the handshake, to a real server on a socket pair: whole and in pieces. The first byte says
 * what the server does with messages.
 */
#include "fuzz.h"

#include "wire/http.h"
#include "wire/websocket.h"

#include <event2/event.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static struct event_base *base;
static int port;
static int behaviour;
static struct websocket *ws;

static void on_message(void *arg, struct websocket *w, bool binary, const char *data, size_t len)
{
    (void)arg;
    if (behaviour & 1)
        websocket_send2(w, binary, data, len / 2, data + len / 2, len - len / 2);
    if (behaviour & 2)
        websocket_pause(w, true);
    if (behaviour & 4)
        websocket_close(w, 1000, "enough");
}

static void on_closed(void *arg, struct websocket *w, int code)
{
    (void)arg;
    (void)w;
    if (code < 1000 || code > 4999)
        abort();
    ws = NULL;
}

static const struct websocket_callbacks callbacks = {.message = on_message, .closed = on_closed};

static void handle(void *arg, struct http_request *req)
{
    (void)arg;
    ws = websocket_accept(req, NULL, 4096, &callbacks, NULL);
}

static void start(void)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    (void)signal(SIGPIPE, SIG_IGN);
    base = event_base_new();
    if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 16) < 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
        abort();
    port = ntohs(sa.sin_port);
    (void)http_server_new(base, fd, NULL, NULL, handle, NULL);
}

static void turns(int n)
{
    for (int i = 0; i < n; i++)
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char handshake[] = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                                    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    if (size < 1 || size > 32768)
        return 0;
    if (!base)
        start();
    behaviour = data[0];
    sa.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct linger at_once = {.l_onoff = 1}; /* no TIME_WAIT: there are many connections */
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        abort();
    size_t cut = behaviour & 8 ? size / 2 : size;
    if (write(fd, handshake, sizeof(handshake) - 1) < 0 || (cut > 1 && write(fd, data + 1, cut - 1) < 0))
        abort();
    turns(3);
    if (ws && cut < size && write(fd, data + cut, size - cut) < 0)
        abort();
    turns(2);
    if (ws && (behaviour & 2))
        websocket_pause(ws, false);
    turns(2);
    (void)close(fd);
    for (int i = 0; ws && i < 1000; i++) {
        websocket_pause(ws, false);
        turns(1);
    }
    if (ws)
        abort(); /* it never ends */
    return 0;
}
