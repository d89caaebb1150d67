/* The decoded list of managers: shared by managed_fields.c and apply_patch.c, and by nothing else. */
#pragma once

#include "apiserver/field_value.h"
#include "apiserver/managed_fields.h"
#include "base/error.h"

struct managed_entry {
    /* Borrowed from the list this was decoded from, or from the write. */
    const char *manager, *api_version, *subresource;
    const char *time; /* "" when the entry has none */
    int64_t time_ns;
    bool apply; /* operation Apply; else Update */
    struct field_set *set;
    struct json *encoded; /* the entry as it was, while nothing changed; else NULL */
};

struct managed_list {
    struct managed_entry *entries;
    size_t count, capacity;
    struct json *source; /* what the strings are borrowed from */
};

void managed_list_free(struct managed_list *list);

/* keep: unchanged entries are encoded again as they were. NULL or [] gives an empty list. */
int managed_list_decode(struct managed_list *list, const struct json *encoded, bool keep, struct error *err);
/* Sorted as Kubernetes does, without empty entries; NULL when none is left. */
struct json *managed_list_encode(struct managed_list *list);

/* The entry of the write's manager, or NULL. Apply entries are found whatever their version. */
struct managed_entry *managed_list_find(const struct managed_list *list, const struct managed_write *w, bool apply);
struct managed_entry *managed_list_add(struct managed_list *list, const struct managed_write *w, bool apply);
/* Takes set. */
void managed_entry_replace(struct managed_entry *entry, struct field_set *set);
void managed_entry_touch(struct managed_entry *entry, const char *time);
/* No entry but except (may be NULL) keeps a path of gone. */
void managed_list_take_away(struct managed_list *list, const struct managed_entry *except,
                            const struct field_set *gone);

/* The fields that are tracked for this write: a field_filter whose arg is the managed_write. */
bool managed_is_tracked(const void *write, const char *parent, const char *name);
struct field_scope managed_scope(const struct managed_write *w);
bool managed_lists_only_times_differ(const struct json *a, const struct json *b);
