/*
 * Which requests are put on record, and how much of them: audit.k8s.io/v1 Policy. The first rule that fits decides;
 * when none does, nothing is recorded. Pure.
 */
#pragma once

#include "apiserver/authn.h"
#include "apiserver/request_info.h"

enum audit_level { AUDIT_NONE, AUDIT_METADATA, AUDIT_REQUEST, AUDIT_REQUEST_RESPONSE, AUDIT_LEVEL_COUNT };
enum audit_stage { STAGE_REQUEST_RECEIVED, STAGE_RESPONSE_STARTED, STAGE_RESPONSE_COMPLETE, STAGE_PANIC, STAGE_COUNT };
/* "Metadata", "ResponseComplete": as in policies and records. */
const char *audit_level_name(enum audit_level level);
const char *audit_stage_name(enum audit_stage stage);

struct audit_decision {
    enum audit_level level;
    unsigned omitted_stages; /* a bit each */
    bool omit_managed_fields;
};

struct audit_policy;

/* YAML or JSON; what is unknown or missing is EINVAL with the path of the field. */
struct audit_policy *audit_policy_parse(const char *text, size_t len, struct error *err);
/* Every request at Metadata when it is complete; those that only tell what the API is, and leases renewed, not at all.
 */
struct audit_policy *audit_policy_default(void);
void audit_policy_free(struct audit_policy *p);
DEFINE_CLEANUP(audit_policy_free, struct audit_policy *);

/* user NULL: nobody we know. verb: as RBAC has it, or the method in lower case. */
struct audit_decision audit_policy_decide(const struct audit_policy *p, const struct user_info *user,
                                          const struct request_info *info, const char *verb);
