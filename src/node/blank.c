#include "node/blank.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "node/native/idmap.h"
#include "node/native/netns.h"
#include "node/native/uid_range.h"
#include "node/node.h"

#include <event2/event.h>
#include <fcntl.h>
#include <sys/stat.h>

#define BLANKS 8
#define GUEST_BACKLOG 1024 /* a rush of starts, which take longer than connections */
#define REFILL_MS 10

struct waiting {
    char *data, *run; /* the directories */
    struct blank blank;
};

struct blanks {
    struct node *node;
    struct waiting *ready[BLANKS];
    size_t ready_count, making;
    struct event *timer; /* refills: not at once, when a start has better use for the time */
};

struct making {
    struct blanks *blanks;
    char *owner; /* of the range of ids */
    gid_t gid;
    struct waiting *waiting;
    struct error err;
};

/* The parts. */

static int make_dir(const char *parent, const char *name, mode_t mode, struct error *err)
{
    _cleanup_free_ char *path = name ? xasprintf("%s/%s", parent, name) : xstrdup(parent);

    if (mkdir(path, mode) < 0 && errno != EEXIST)
        return error_set_errno(err, errno, "create %s", path);
    return 0;
}

static int make_file(const char *parent, const char *name, mode_t mode, struct error *err)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", parent, name);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);

    if (fd < 0 || fchmod(fd, mode) < 0)
        return error_set_errno(err, errno, "create %s", path);
    return 0;
}

int blank_make_data(const char *dir, struct error *err)
{
    /* The second pair is for the overlay of the host's /usr; the backend makes what else it needs. */
    static const char *const dirs[] = {POD_ROOT, POD_ROOT "/upper", POD_ROOT "/work", POD_ROOT "/upper1",
                                       POD_ROOT "/work1"};
    int r = make_dir(dir, NULL, 0700, err);

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(dirs); i++)
        r = make_dir(dir, dirs[i], i ? 0755 : 0700, err);
    return r < 0 ? r : make_file(dir, POD_MESSAGE, 0666, err);
}

int blank_make_run(const char *dir, gid_t gid, struct error *err)
{
    static const char *const files[] = {POD_BEGUN, POD_LOWER "/etc/hosts", POD_LOWER "/etc/hostname",
                                        POD_LOWER "/etc/resolv.conf"};
    int r = make_dir(dir, NULL, 0710, err);

    if (r == 0 && gid != (gid_t)-1 && chown(dir, (uid_t)-1, gid) < 0)
        r = error_set_errno(err, errno, "set the group of %s", dir);
    if (r == 0)
        r = make_dir(dir, POD_LOWER, 0755, err);
    if (r == 0)
        r = make_dir(dir, POD_LOWER "/etc", 0755, err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(files); i++)
        r = make_file(dir, files[i], 0644, err);
    return r;
}

int blank_make_socket(const char *run_dir, gid_t gid, struct error *err)
{
    _cleanup_close_ int dir = open(run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_set_errno(err, errno, "open %s", run_dir);
    _cleanup_close_ int sock = unix_listen_at(dir, "guest.sock", GUEST_BACKLOG, err);
    if (sock < 0)
        return sock;
    if (gid != (gid_t)-1 && (fchownat(dir, "guest.sock", (uid_t)-1, gid, AT_SYMLINK_NOFOLLOW) < 0 ||
                             fchmodat(dir, "guest.sock", 0660, 0) < 0))
        return error_set_errno(err, errno, "set the group of the guest's socket");
    return take_fd(sock);
}

/* Making. */

static void waiting_free(struct waiting *w, bool remove)
{
    if (!w)
        return;
    if (remove) { /* what fails here is found by the sweep */
        (void)remove_tree_at(AT_FDCWD, w->data, NULL);
        (void)remove_tree_at(AT_FDCWD, w->run, NULL);
        if (w->blank.uid_base)
            (void)uid_range_release(UID_RANGE_DIR, w->blank.uid_base, NULL);
        if (w->blank.socket >= 0)
            (void)close(w->blank.socket);
        if (w->blank.net_ns > 0)
            (void)close(w->blank.net_ns);
    }
    free(w->data);
    free(w->run);
    free(w);
}

static void make_work(void *arg)
{
    struct making *m = arg;
    struct waiting *w = m->waiting;
    int r = blank_make_data(w->data, &m->err);

    if (r == 0)
        r = blank_make_run(w->run, m->gid, &m->err);
    if (r == 0)
        r = w->blank.socket = blank_make_socket(w->run, m->gid, &m->err);
    if (r >= 0)
        r = uid_range_claim(UID_RANGE_DIR, m->owner, &w->blank.uid_base, &m->err);
    if (r >= 0)
        w->blank.net_ns = netns_open(&m->err);
}

static void make_done(void *arg)
{
    struct making *m = arg;
    struct blanks *b = m->blanks;

    b->making--;
    /* Its user namespace is remembered by the backend. */
    if (!m->err.code && idmap_get(m->waiting->blank.uid_base, &m->err) >= 0 && b->ready_count < BLANKS) {
        b->ready[b->ready_count++] = m->waiting;
    } else {
        log_warn("cannot prepare for a Pod", "error", error_text(&m->err), NULL);
        waiting_free(m->waiting, true);
    }
    free(m->owner);
    error_clear(&m->err);
    free(m);
}

static void refill(struct blanks *b)
{
    struct node *n = b->node;

    while (b->ready_count + b->making < BLANKS) {
        _cleanup_free_ char *hex = random_hex(8);
        struct making *m = xcalloc(1, sizeof(*m));
        *m = (struct making){
            .blanks = b, .owner = node_owner(n), .gid = n->options.gid, .waiting = xcalloc(1, sizeof(*m->waiting))};
        *m->waiting = (struct waiting){.data = xasprintf("%s/blank/%s", n->data_dir, hex),
                                       .run = xasprintf("%s/blank/%s", n->run_dir, hex),
                                       .blank = {.socket = -1}};
        b->making++;
        jobs_run(n->jobs, make_work, make_done, m);
    }
}

static void on_timer(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    refill(arg);
}

static void refill_soon(struct blanks *b)
{
    struct timeval tv = {.tv_usec = REFILL_MS * 1000};

    if (b->timer && !evtimer_pending(b->timer, NULL))
        (void)evtimer_add(b->timer, &tv); /* blanks are a convenience */
}

struct blanks *blanks_new(struct node *n)
{
    struct blanks *b = xcalloc(1, sizeof(*b));

    b->node = n;
    b->timer = evtimer_new(n->base, on_timer, b);
    refill(b);
    return b;
}

void blanks_free(struct blanks *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->ready_count; i++)
        waiting_free(b->ready[i], true);
    if (b->timer)
        event_free(b->timer);
    free(b);
}

bool blanks_take(struct blanks *b, const char *pod_data, const char *pod_run, struct blank *ret)
{
    if (b)
        refill_soon(b);
    if (!b || !b->ready_count)
        return false;
    struct waiting *w = b->ready[b->ready_count - 1];
    /* Onto a directory with something in it this fails. */
    if (rename(w->data, pod_data) < 0)
        return false;
    if (rename(w->run, pod_run) < 0) {
        if (rename(pod_data, w->data) < 0)
            log_warn("cannot take back the directory of a Pod", "path", pod_data, NULL);
        return false;
    }
    b->ready_count--;
    *ret = w->blank;
    waiting_free(w, false);
    return true;
}

bool blanks_hold(const struct blanks *b, uint32_t uid_base)
{
    for (size_t i = 0; b && i < b->ready_count; i++)
        if (b->ready[i]->blank.uid_base == uid_base)
            return true;
    return b && b->making; /* it may be of one that is being made */
}
