/*
 * exec and attach. A session (exec_session.c) is the side of the guest: the process, its streams, its end. A link is
 * the client's side: channels of a WebSocket (exec_channels.c) or streams of SPDY (exec_spdy.c). Both sides may be
 * slow: each is paused while the other is behind, so that nothing is dropped and nothing piles up.
 *
 * A link has a session for as long as it lives and ends with exec_session_gone(); the session outlives it where a
 * process is still to be hung up on.
 */
#pragma once

#include "gateway/internal.h"

#define EXEC_INPUT_HIGH_BYTES (256u << 10) /* above it the client waits */

struct exec_link;
struct exec_session;

enum exec_channel { EXEC_STDIN, EXEC_STDOUT, EXEC_STDERR, EXEC_ERROR, EXEC_RESIZE };

struct exec_link_ops {
    void (*send)(struct exec_link *l, enum exec_channel channel, const void *data, size_t len);
    size_t (*pending)(const struct exec_link *l); /* bytes that the client has not taken yet */
    void (*pause)(struct exec_link *l, bool pause);
    /* All output was sent; status, borrowed, is the last word. The link closes. */
    void (*finish)(struct exec_link *l, const struct json *status);
};

/* The first member of either link. */
struct exec_link {
    const struct exec_link_ops *ops;
    struct exec_session *session;
};

/* What is asked; nothing happens yet. NULL: err says what is wrong with it. */
struct exec_session *exec_session_new(const struct gateway *g, const struct stream_target *target,
                                      const struct http_request *req, bool attach, struct error *err);
bool exec_session_wants(const struct exec_session *s, enum exec_channel channel);
/* Starts the process, or attaches to it. */
int exec_session_begin(struct exec_session *s, struct error *err);
void exec_session_bind(struct exec_session *s, struct exec_link *l);
/* The client has gone, or never came: s is the session's own from here on. */
void exec_session_gone(struct exec_session *s);

/* From the link. They do nothing where no process is, or no longer. */
void exec_session_stdin(struct exec_session *s, const void *data, size_t len);
void exec_session_stdin_eof(struct exec_session *s);
void exec_session_resize(struct exec_session *s, const char *text, size_t len);
void exec_session_drained(struct exec_session *s);                       /* the client has taken everything */
void exec_session_fail(struct exec_session *s, const struct error *err); /* it could not begin */

/* Versions of the protocol, 1 to 5: "v4.channel.k8s.io" is 4, "channel.k8s.io" 1; 0: it is none of them. */
int exec_protocol_version(const char *name);
/* How a version says how it ended: from 4 on as a Status, before as text and only of a failure, else NULL. */
char *exec_last_words(const struct json *status, int version);

/* The two links; each answers the request and takes the session. */
void exec_accept_channels(struct exec_session *s, struct http_request *req, const char *protocol);
const char *exec_choose_channels(const struct http_request *req); /* NULL: none that is spoken */
void exec_accept_spdy(struct exec_session *s, const struct gateway *g, struct http_request *req, const char *protocol);
const char *exec_choose_spdy(const struct http_request *req);
