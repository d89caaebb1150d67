/* One HTTP request on its way through the server: reading it (body, options), and the answer. */
#pragma once

#include "apiserver/audit.h"
#include "apiserver/fair_queue.h"
#include "apiserver/negotiate.h"
#include "apiserver/server_internal.h"
#include "apiserver/table.h"

struct long_list;

struct exchange {
    struct http_request *req;
    struct request_info info;
    struct user_info *user;
    struct audit_record *audit; /* borrowed from req; NULL = not recorded */
    struct api_call call;       /* borrows from the above */
    struct json *body;
    char **duplicates;
    char *field_manager;
    struct answer_type type;
    enum table_object include;
    struct resource *resource; /* keeps that of the call */
    struct fair_item waiting;
    void (*turn)(struct exchange *x); /* what to do when its turn has come */
    struct long_list *list;           /* that is being sent (list_answer.c) */
};

/* Takes req. */
struct exchange *exchange_new(struct apiserver *s, struct http_request *req);
/* The body in the form its Content-Type names, into x->call. -1: refused, see x->call. */
int exchange_read_body(struct exchange *x);
/* Query parameters and headers, into x->call. */
int exchange_read_options(struct exchange *x);
/* Answers with x->call.result as soon as what it tells is on disk, and frees x. */
void exchange_answer(struct exchange *x);
/* Answers with a Status (taken) and frees x. */
void exchange_refuse(struct exchange *x, struct json *status);
/* Frees x and its request, whose client is gone. */
void exchange_drop(struct exchange *x);
/* Frees x, whose request has been taken over by somebody else. */
void exchange_forget(struct exchange *x);

/* Answers req, which no exchange has, with a Status (taken). */
void answer_status(struct http_request *req, struct json *status);
