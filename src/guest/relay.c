#include "guest/relay.h"

#include "base/macros.h"
#include "guest/loop.h"
#include "wire/guest_frame.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK (64 * 1024)
/* What epoll tells without being asked: the end of both directions, and errors. The mask must not be empty. */
#define ONLY_THE_END EPOLLPRI

/* One socket of the two, and what is on its way to it. */
struct end {
    struct watch watch;
    struct guest_buffer out;
    bool read_over;  /* it will send no more */
    bool write_over; /* its end was told */
};

struct relay {
    struct end host, inside;
    bool connecting;
    bool second; /* ::1 is being tried */
    uint16_t port;
};

static size_t relay_count;
static uint8_t chunk[CHUNK];

static void relay_free(struct relay *r)
{
    watch_close(&r->host.watch);
    watch_close(&r->inside.watch);
    guest_buffer_free(&r->host.out);
    guest_buffer_free(&r->inside.out);
    free(r);
    relay_count--;
}

/* Writes what waits for this end. false: it is gone. */
static bool flush(struct end *e)
{
    while (guest_buffer_len(&e->out) > 0) {
        ssize_t n = write(e->watch.fd, e->out.data + e->out.start, guest_buffer_len(&e->out));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        guest_buffer_consume(&e->out, (size_t)n);
    }
    return !e->out.failed;
}

/* Takes from one end a chunk for the other, once that one has taken the last. */
static bool move(struct end *from, struct end *to)
{
    if (!from->read_over && guest_buffer_len(&to->out) == 0) {
        ssize_t n = read(from->watch.fd, chunk, sizeof(chunk));
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        from->read_over = n == 0;
        if (n > 0)
            guest_buffer_add(&to->out, chunk, (size_t)n);
    }
    if (!flush(to))
        return false;
    if (from->read_over && !to->write_over && guest_buffer_len(&to->out) == 0) {
        to->write_over = true;
        (void)shutdown(to->watch.fd, SHUT_WR); /* fails only where there is nobody to tell */
    }
    return true;
}

/* An end that is not to be read yet must not wake us by having ended, unless the end is all that is left to know. */
static void wait_for(struct end *e, const struct end *other, bool want_end)
{
    bool reads = !e->read_over && guest_buffer_len(&other->out) == 0;
    watch_events(&e->watch, (want_end || e->read_over ? ONLY_THE_END : 0) | (reads ? EPOLLIN : 0) |
                                (guest_buffer_len(&e->out) > 0 ? EPOLLOUT : 0));
}

static void pump(struct relay *r)
{
    if (!move(&r->host, &r->inside) || !move(&r->inside, &r->host) || (r->host.write_over && r->inside.write_over)) {
        relay_free(r);
        return;
    }
    wait_for(&r->host, &r->inside, true);
    wait_for(&r->inside, &r->host, false);
}

static bool try_connect(struct relay *r);

/* The end of connecting: 0 or errno. */
static void connected(struct relay *r, int code)
{
    if (code != 0 && !r->second) {
        watch_close(&r->inside.watch);
        r->second = true;
        if (try_connect(r))
            return;
    }
    r->connecting = false;
    guest_frame_begin(&r->host.out, code == 0 ? GUEST_DONE : GUEST_ERROR);
    if (code != 0) {
        guest_put_number(&r->host.out, GUEST_TAG_CODE, (uint64_t)code);
        guest_put_text(&r->host.out, GUEST_TAG_TEXT, strerror(code));
    }
    guest_frame_end(&r->host.out);
    if (code != 0) {
        (void)flush(&r->host); /* the socket was empty: it has room for this */
        relay_free(r);
        return;
    }
    pump(r);
}

static void inside_ready(struct watch *w, uint32_t events)
{
    struct relay *r = container_of(container_of(w, struct end, watch), struct relay, inside);
    int code = 0;
    socklen_t len = sizeof(code);

    if (r->connecting) {
        if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
            code = errno;
        connected(r, code);
        return;
    }
    /* Both directions over, and nothing left to read that the other end has room for. */
    if ((events & (EPOLLERR | EPOLLHUP)) && r->inside.read_over)
        relay_free(r);
    else
        pump(r);
}

static void host_ready(struct watch *w, uint32_t events)
{
    struct relay *r = container_of(container_of(w, struct end, watch), struct relay, host);

    if (events & (EPOLLERR | EPOLLHUP)) {
        /* The client has closed: nobody waits for answers; what it sent before goes in as far as there is room. */
        while (!r->connecting && !r->host.read_over && guest_buffer_len(&r->inside.out) == 0)
            if (!move(&r->host, &r->inside))
                break;
        relay_free(r);
    } else if (!r->connecting)
        pump(r);
}

/* true: on the way. */
static bool try_connect(struct relay *r)
{
    struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(r->port)};
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(r->port), .sin6_addr = in6addr_loopback};
    int fd = socket(r->second ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    a4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0)
        return false;
    int done = r->second ? connect(fd, (const struct sockaddr *)&a6, sizeof(a6))
                         : connect(fd, (const struct sockaddr *)&a4, sizeof(a4));
    /* At loopback it is decided at once, mostly; it is looked at in the next turn all the same. */
    if ((done < 0 && errno != EINPROGRESS) || !watch_open(&r->inside.watch, fd, EPOLLOUT, inside_ready)) {
        (void)close(fd);
        return false;
    }
    return true;
}

int relay_open(int fd, uint64_t port, const void *early, size_t early_len)
{
    if (port == 0 || port > UINT16_MAX)
        return EINVAL;
    if (relay_count >= RELAY_MAX)
        return EAGAIN;
    struct relay *r = calloc(1, sizeof(*r));
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (r == NULL || own < 0) {
        free(r);
        if (own >= 0)
            (void)close(own);
        return r == NULL ? ENOMEM : EMFILE;
    }
    *r = (struct relay){.host.watch.fd = -1, .inside.watch.fd = -1, .connecting = true, .port = (uint16_t)port};
    relay_count++;
    guest_buffer_add(&r->inside.out, early, early_len);
    if (!watch_open(&r->host.watch, own, ONLY_THE_END, host_ready)) {
        (void)close(own);
        relay_free(r);
        return ENOMEM;
    }
    int code = try_connect(r) ? 0 : errno;
    if (code != 0) {
        r->second = true;
        code = try_connect(r) ? 0 : code;
    }
    if (code != 0)
        relay_free(r);
    return code;
}
