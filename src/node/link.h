/*
 * The node's connection to the main process of one running container: starts it or attaches to it again, writes its
 * output to the log, and tells its end. One descriptor while it lives.
 *
 * A container that writes without end is read at LINK_BYTES_PER_SECOND on average and waits when it is faster, as for a
 * slow terminal; the node's own work comes first. While no node is there the guest drops what it has no room for, and
 * the log says so.
 */
#pragma once

#include "node/log_file.h"
#include "wire/guest_client.h"

#define LINK_BYTES_PER_SECOND (8 << 20)
#define LINK_BURST (16 << 20)

struct link;

struct link_callbacks {
    void (*started)(void *arg); /* the process runs (also after a successful attach) */
    /* The last callback is one of these; the link may be freed in it. */
    void (*exited)(void *arg, const struct guest_exit *exit);
    void (*refused)(void *arg, const struct error *err); /* the guest could not start it; code is an errno value */
    void (*lost)(void *arg, const struct error *err);    /* the guest, or an attached process, is gone without a word */
    /* Offsets of the log are to be saved: a new file was begun. */
    void (*log_rotated)(void *arg);
};

/* socket_path: of the guest. log: borrowed. callbacks: static. */
struct link *link_start(struct event_base *base, const char *socket_path, const struct guest_start_request *request,
                        struct log_file *log, const struct link_callbacks *callbacks, void *arg, struct error *err);
/* Goes on where the log ends. */
struct link *link_attach(struct event_base *base, const char *socket_path, struct log_file *log,
                         const struct link_callbacks *callbacks, void *arg, struct error *err);
void link_free(struct link *l);

/* Connects to a guest's socket; any length of path. Does not wait: EAGAIN when too many do. */
int link_connect(const char *socket_path, struct error *err);
