/*
 * The audit log: one audit.k8s.io/v1 Event a line, written before the answer leaves the process. A record is begun when
 * it is known who asks for what, follows the request by itself, and is completed when the request is finished.
 *
 * What is secret is never in it: of Secrets, tokens and token reviews neither bodies nor messages are recorded,
 * whatever the policy says.
 *
 * The file is rotated by size (FILE.1 is the newest old one). When it cannot be written (a full disk), requests go on;
 * how many records were lost is logged when writing works again.
 */
#pragma once

#include "apiserver/audit_policy.h"
#include "base/timeutil.h"
#include "wire/json.h"

struct audit;
struct audit_record;
struct event_base;
struct http_request;

struct audit_options {
    const char *path;
    const char *policy_path; /* NULL = audit_policy_default() */
    int64_t max_bytes;       /* 0 = 100 MiB */
    int64_t backups;         /* old files to keep */
};

struct audit *audit_open(struct event_base *base, const struct clock *clock, const struct audit_options *options,
                         struct error *err);
/* Writes what is pending. Records begun are written when they end. */
void audit_free(struct audit *a);

/*
 * Gives the request its Audit-Id (the client's own when that is a sound one). Returns NULL when the policy leaves it
 * out, or a is NULL; all functions below accept that. Everything is copied. The record lives as long as the request.
 */
struct audit_record *audit_begin(struct audit *a, struct http_request *req, const struct user_info *user,
                                 const struct request_info *info);
void audit_impersonated(struct audit_record *r, const struct user_info *user);
/* Why it was allowed or not: annotations authorization.k8s.io/decision and reason. reason may be NULL. */
void audit_decision(struct audit_record *r, bool allowed, const char *reason);
void audit_request(struct audit_record *r, const struct json *body);
/* Whether audit_response() would record anything. */
bool audit_wants_response(const struct audit_record *r);
/* The body of the answer as it is sent; what is not JSON is left out. */
void audit_response(struct audit_record *r, const char *text, size_t len);
/* In place of it: the answer is too long for a line. Annotation audit.k8s.io/truncated. */
void audit_response_too_long(struct audit_record *r);
/* The Status of a failure. */
void audit_status(struct audit_record *r, const struct json *status);
/* The head of a long answer goes out. */
void audit_started(struct audit_record *r, int code);
