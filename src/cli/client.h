/* What the commands that talk to a running holt share: finding it, and streams into its sandboxes. */
#pragma once

#include "cli/cli.h"
#include "kube/kube_http.h"
#include "wire/http.h"

struct event_base;
struct ssl_ctx_st;

struct client {
    struct event_base *base;
    struct kubeconfig config;
    struct kube *kube;
    struct ssl_ctx_st *tls;
    struct http_client *http; /* for what is no plain API object: logs, streams */
    const char *ns;
};

/* --kubeconfig, else $KUBECONFIG, else that of the default data directory. */
int client_open(struct client *c, const char *kubeconfig, const char *ns, struct error *err);
void client_close(struct client *c);

/*
 * The Pod behind a Sandbox, or the Pod of that name when there is no such Sandbox. The caller owns the name. An error
 * says why nothing runs.
 */
int client_find_pod(struct client *c, const char *name, char **ret_pod, struct error *err);

struct stream_request {
    const char *pod;
    const char *const *argv; /* exec; NULL = attach */
    const char *process;     /* attach to this one; NULL = the main process */
    bool tty;
    int input;          /* descriptor to read from, -1 = none */
    int output, errors; /* descriptors to write to */
};
/* Runs a stream to its end. Returns the exit code of the process, or -errno. */
int client_stream(struct client *c, const struct stream_request *request, struct error *err);
