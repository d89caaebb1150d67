/* The HTTPS transport of kube.h: JSON over HTTP/1.1, watches with reconnection, bearer token or client certificate. */
#pragma once

#include "kube/kube.h"

struct event_base;

struct kubeconfig {
    char *server; /* https://host:port */
    char *ca_pem;
    char *cert_pem, *key_pem; /* client certificate, or */
    char *token;
    char *ns; /* of the current context; "default" */
};
/* Reads a kubeconfig file's current context (data inline or in files). */
int kubeconfig_load(const char *path, struct kubeconfig *ret, struct error *err);
void kubeconfig_free(struct kubeconfig *c);

struct kube *kube_http_new(struct event_base *base, const struct kubeconfig *config, const char *user_agent,
                           struct error *err);

/* A plain HTTP client with the same address and credentials; *ret_tls is to be freed after it. */
struct http_client;
struct ssl_ctx_st;
struct http_client *kube_http_client_new(struct event_base *base, const struct kubeconfig *config,
                                         const char *user_agent, struct ssl_ctx_st **ret_tls, struct error *err);

/* For CLI commands: one request, run to its end on a loop of its own. ret may be NULL. Returns the HTTP status or
 * -errno. */
int kube_call_wait(struct event_base *base, struct kube *k, const struct kube_request *request, struct json **ret,
                   struct error *err);
