/*
 * ObjectMeta: what must hold for every kind, whatever its schema says. Expects types to be right already (what has a
 * wrong type is passed over).
 */
#pragma once

#include "apiserver/field_errors.h"
#include "apiserver/names.h"

struct metadata_rules {
    bool namespaced;
    bool any_finalizer; /* also one without a domain */
    name_rule *name;    /* of the kind: name_check_subdomain for most */
};

/* A new object, after a name was generated for it. */
void metadata_validate(const struct json *object, const struct metadata_rules *rules, struct field_errors *errors);
/* What an update may not do; metadata_validate() is not needed beside it. resourceVersion is the caller's business. */
void metadata_validate_update(const struct json *object, const struct json *old, struct field_errors *errors);

/* A map of labels, or of annotations, at field. labels may be NULL. */
void labels_validate(const struct json *labels, const char *field, struct field_errors *errors);
void annotations_validate(const struct json *annotations, const char *field, struct field_errors *errors);
