/* Which objects of a resource a list or a watch is about. */
#pragma once

#include "apiserver/server_internal.h"
#include "kube/object.h"

struct object_filter {
    const struct resource *resource;
    const char *ns;   /* NULL = all */
    const char *name; /* an exact metadata.name, or NULL; borrowed from fields or from the call */
    struct selector *labels;
    struct field_selector *fields;
};
/* From namespace, name and selectors of c; -1 with the refusal in c. */
int filter_read(struct api_call *c, struct object_filter *ret);
/* key and value as stored. */
bool filter_matches(const struct object_filter *f, const char *key, const struct json *value);
bool filter_selects(const struct object_filter *f); /* selectors were given */
void filter_clear(struct object_filter *f);
