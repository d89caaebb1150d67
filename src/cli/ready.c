#include "cli/ready.h"

#include "base/fdio.h"

#include <event2/event.h>
#include <fcntl.h>
#include <unistd.h>

void ready_end(struct ready *r)
{
    if (r->beat)
        event_free(r->beat);
    r->beat = NULL;
    if (r->fd > 0)
        (void)close((int)r->fd);
    r->fd = 0;
}

static void on_beat(evutil_socket_t fd, short what, void *arg)
{
    struct ready *r = arg;

    (void)fd;
    (void)what;
    if (write((int)r->fd, ".", 1) < 0 && errno != EAGAIN) /* nobody listens any more */
        ready_end(r);
}

void ready_tell(struct event_base *base, struct ready *r)
{
    const struct timeval every = {.tv_sec = READY_BEAT_S};

    if (r->fd <= 0)
        return;
    (void)fd_write_all((int)r->fd, "ready\n", 6); /* a supervisor that is gone ends us anyway */
    if (!r->alive) {
        ready_end(r);
        return;
    }
    (void)fcntl((int)r->fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl((int)r->fd, F_SETFL, O_NONBLOCK); /* a reader that is slow must not hold us up */
    r->beat = event_new(base, -1, EV_PERSIST, on_beat, r);
    if (!r->beat || event_add(r->beat, &every) < 0)
        ready_end(r);
}
