/* Sockets on the loopback interface for tests that run server and client on one event loop. */
#pragma once

#include "test.h"

#include "base/fdio.h"
#include "base/strbuf.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static inline int loopback_listen(uint16_t *ret_port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    *ret_port = ntohs(sa.sin_port);
    return fd;
}

static inline int loopback_connect(uint16_t port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    return fd;
}

/* Connects and sends text. */
static inline int loopback_send(uint16_t port, const char *text)
{
    int fd = loopback_connect(port);

    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    return fd;
}

/* Runs the loop until the other side closes; everything it sent, and how it ended: 0, or the errno of read(). */
static inline char *loopback_read(struct event_base *base, int fd, int *ret_end)
{
    struct strbuf b = {0};
    char buf[4096];
    int end = 0;

    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    for (;;) {
        ssize_t n = read(fd, buf, sizeof(buf));
        if (n > 0) {
            strbuf_add(&b, buf, (size_t)n);
        } else if (n == 0 || errno != EAGAIN) {
            end = n == 0 ? 0 : errno;
            break;
        } else {
            (void)event_base_loop(base, EVLOOP_ONCE);
        }
    }
    (void)close(fd);
    if (ret_end)
        *ret_end = end;
    return strbuf_detach(&b);
}

/* Lets the loop do what it can for a while. */
static inline void loopback_run(struct event_base *base, int ms)
{
    struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

    (void)event_base_loopexit(base, &tv);
    (void)event_base_dispatch(base);
}
