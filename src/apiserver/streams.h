/*
 * What the API server needs from whoever can reach into sandboxes: logs, streams and what they use. The gateway
 * implements it (gateway/exec.h) and the process main wires the two together; without it these subresources answer 503.
 *
 * The API server has authenticated, authorised and checked the request (Pod exists, container named) before it calls;
 * the backend owns the request from then on and answers it: an error as Status, or an upgrade.
 */
#pragma once

#include "wire/http.h"
#include "wire/json.h"

struct stream_target {
    struct json *pod;      /* borrowed for the call */
    const char *container; /* name, checked */
};

struct proxy_target {
    struct json *pod; /* borrowed for the call, as all here */
    uint16_t port;
    const char *prefix; /* what the path asked for has in front of the one inside: ends with "/proxy" */
    const char *target; /* path and query inside, as sent: begins with "/" */
};

/* readings: what the node has measured (node/usage.h); borrowed. NULL: err says why. */
typedef void (*usage_done)(void *arg, const struct json *readings, const struct error *err);

struct stream_backend {
    void *arg;
    void (*exec)(void *arg, const struct stream_target *target, struct http_request *req);
    void (*attach)(void *arg, const struct stream_target *target, struct http_request *req);
    void (*log)(void *arg, const struct stream_target *target, struct http_request *req);
    void (*port_forward)(void *arg, const struct stream_target *target, struct http_request *req);
    /* Passes the request on to a port of the Pod. */
    void (*proxy)(void *arg, const struct proxy_target *target, struct http_request *req);
    /* Asks what Pods and the node use; done runs once, later. */
    void (*usage)(void *arg, usage_done done, void *done_arg);
};
