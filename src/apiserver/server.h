/*
 * The API server: Kubernetes' API over a store of its own. It listens nowhere by itself: its owner gives it requests
 * (apiserver_handle is an http_handler), and controllers of the same process reach it through inproc.h.
 */
#pragma once

#include "apiserver/audit.h"
#include "apiserver/store.h"
#include "apiserver/streams.h"
#include "base/timeutil.h"

struct apiserver;
struct authenticator;
struct event_base;

struct apiserver_options {
    struct event_base *base;
    const char *store_path;
    enum store_durability durability;
    const struct clock *clock;    /* NULL = the system's */
    const char *node_name;        /* the one node pods are put on; NULL = somebody else binds them */
    const char *server_address;   /* "10.0.0.1:6443", told to clients by /api */
    const char *token_file;       /* NULL = none; see authn.h */
    const char *token_key_file;   /* signs tokens of ServiceAccounts, NULL = there are none; see jwt.h */
    const char *secrets_key_file; /* NULL = Secrets lie in the store in plain text; see seal.h */
    struct audit_options audit;   /* path NULL = no audit log */
};

/* Opens the store, serves what is defined there, and makes the namespaces every cluster has. */
struct apiserver *apiserver_new(const struct apiserver_options *options, struct error *err);
/* The end is near: watches end, and new ones do too as soon as they have begun. Other requests are answered as ever. */
void apiserver_drain(struct apiserver *s);
/* Ends watches, writes what is pending, closes the store. Requests in flight are answered. */
void apiserver_free(struct apiserver *s);

/* arg: the apiserver. */
void apiserver_handle(void *arg, struct http_request *req);
/* Copied; until then streams are answered with 503. */
void apiserver_set_streams(struct apiserver *s, const struct stream_backend *backend);
/* For tokens besides those of the file. */
struct authenticator *apiserver_authenticator(struct apiserver *s);
struct store *apiserver_store(struct apiserver *s);
