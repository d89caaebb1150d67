/* Shared by the files of the gateway. */
#pragma once

#include "gateway/gateway.h"

struct http_client;
struct log_session;
struct usage_question;

struct gateway {
    struct event_base *base;
    struct informer *pods;
    char *data_dir, *run_dir;
    struct stream_backend backend;
    struct log_session *logs; /* those not yet at their end */
    struct http_client *node; /* its socket; NULL until it is needed */
    struct usage_question *questions;
};

/* Whether the Pod runs here, to refuse in time what would need its guest later. */
int gateway_check_guest(const struct gateway *g, const struct json *pod, struct error *err);
/* A connection to the Pod's guest; a failure says what the client should hear. */
int gateway_connect_guest(const struct gateway *g, const struct json *pod, struct error *err);
/* Answers with a Status object, which is taken. */
void gateway_refuse(struct http_request *req, struct json *status);
/* The same with what gateway_connect_guest and the like have to say. */
void gateway_refuse_error(struct http_request *req, const struct error *err);

/* exec.c, log.c, port_forward.c, proxy.c: implementations of struct stream_backend. */
void gateway_exec(void *arg, const struct stream_target *target, struct http_request *req);
void gateway_attach(void *arg, const struct stream_target *target, struct http_request *req);
void gateway_log(void *arg, const struct stream_target *target, struct http_request *req);
void gateway_proxy(void *arg, const struct proxy_target *target, struct http_request *req);
void gateway_port_forward(void *arg, const struct stream_target *target, struct http_request *req);
/* The Pod changed: its followers may have come to their end. */
void gateway_logs_changed(struct gateway *g, const struct json *pod, bool gone);
void gateway_logs_free(struct gateway *g);

/* usage.c */
void gateway_usage(void *arg, usage_done done, void *done_arg);
void gateway_usage_free(struct gateway *g);
