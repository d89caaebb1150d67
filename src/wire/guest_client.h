/*
 * The host's end of the guest protocol (guest_frame.h), on libevent: one client is one connection is one operation.
 *
 *     static const struct guest_callbacks callbacks = {.output = on_output, .exited = on_exit, .failed = on_failed};
 *     struct guest_client *c = guest_start(base, fd, &request, &callbacks, self, err);
 *     ...
 *     guest_client_free(c);
 *
 * fd is a connected stream socket; it belongs to the client from the call on, also when the call fails. Callbacks come
 * from the event loop, never from inside a call to this module. After one of exited, done and failed, the last of every
 * operation, nothing follows. The client may be freed at any time, also in a callback, and is the caller's to free.
 * To free it before the end leaves the process running, unless it was started with GUEST_FLAG_HUP_ON_CLOSE.
 *
 * The guest is not trusted: what it sends is held to the protocol, to the operation and to limits; anything else is
 * failed with EPROTO. A guest that went away is failed with ECONNRESET, "the sandbox closed the connection". The
 * process that uses this ignores SIGPIPE.
 */
#pragma once

#include "wire/guest_request.h"

#include <event2/event.h>

struct guest_client;

/* Any member may be NULL. Data and texts are borrowed for the call. */
struct guest_callbacks {
    void (*started)(void *arg, const char *id, uint32_t pid);
    void (*output)(void *arg, enum guest_stream stream, uint64_t offset, const void *data, size_t len);
    void (*dropped)(void *arg, enum guest_stream stream, uint64_t bytes);
    void (*pong)(void *arg, const struct guest_pong *pong);
    void (*process)(void *arg, const struct guest_process_info *info); /* of guest_list, one call each */
    /* Input that was queued has gone out down to GUEST_CLIENT_LOW bytes: more may be sent. */
    void (*drained)(void *arg);
    /* The last callback. */
    void (*exited)(void *arg, const struct guest_exit *exit); /* of start and attach */
    void (*done)(void *arg);                                  /* of the others */
    void (*failed)(void *arg, const struct error *err);       /* of all; code is the guest's errno value or ours */
};

#define GUEST_CLIENT_LOW (32 * 1024)

struct guest_client *guest_start(struct event_base *base, int fd, const struct guest_start_request *request,
                                 const struct guest_callbacks *callbacks, void *arg, struct error *err);
struct guest_client *guest_attach(struct event_base *base, int fd, const char *id, uint64_t stdout_offset,
                                  uint64_t stderr_offset, uint32_t flags, const struct guest_callbacks *callbacks,
                                  void *arg, struct error *err);
/* id may be GUEST_ID_ALL. */
struct guest_client *guest_signal(struct event_base *base, int fd, const char *id, int sig, enum guest_scope scope,
                                  const struct guest_callbacks *callbacks, void *arg, struct error *err);
struct guest_client *guest_list(struct event_base *base, int fd, const struct guest_callbacks *callbacks, void *arg,
                                struct error *err);
struct guest_client *guest_ping(struct event_base *base, int fd, const struct guest_callbacks *callbacks, void *arg,
                                struct error *err);
struct guest_client *guest_shutdown(struct event_base *base, int fd, uint64_t grace_ms,
                                    const struct guest_callbacks *callbacks, void *arg, struct error *err);
void guest_client_free(struct guest_client *client);
DEFINE_CLEANUP(guest_client_free, struct guest_client *);

/*
 * For a started or attached process. These queue and return at once; after the last callback they do nothing.
 * Whoever feeds a fast source looks at guest_client_pending() and goes on when drained is called.
 */
void guest_client_stdin(struct guest_client *client, const void *data, size_t len);
void guest_client_stdin_eof(struct guest_client *client);
void guest_client_resize(struct guest_client *client, uint16_t rows, uint16_t cols);
void guest_client_signal(struct guest_client *client, int sig, enum guest_scope scope);
/* Bytes queued and not yet taken by the socket. */
size_t guest_client_pending(const struct guest_client *client);

/*
 * Stops and resumes reading, for a consumer that is slow; at most one callback more comes after a pause. The guest then
 * drops output, or holds up the process, as GUEST_FLAG_LOSSLESS says.
 */
void guest_client_pause(struct guest_client *client);
void guest_client_resume(struct guest_client *client);

/*
 * One request without an event loop, for commands: sends it (encoded by guest_request_*) and waits for one answer.
 * timeout_ms bounds the whole call. fd stays the caller's. A GUEST_ERROR answer is the error; *ret is freed by the
 * caller with guest_reply_free. Not for start and attach.
 */
int guest_call(int fd, const struct guest_buffer *request, int timeout_ms, struct guest_reply *ret, struct error *err);
