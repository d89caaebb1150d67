/*
 * CEL, the Common Expression Language, as Kubernetes validates with it: compiled once, evaluated on JSON values under a
 * cost limit.
 *
 *     static const char *const variables[] = {"self", "oldSelf", NULL};
 *     struct cel_program *p = cel_compile("self.size <= 10", variables, &err);
 *     struct cel_binding b[] = {{.value = object, .schema = node}, {.unset = true}};
 *     struct cel_budget budget = {.steps = CEL_COST_MAX};
 *     bool ok;
 *     r = cel_eval_bool(p, b, &budget, &ok, &err);
 *
 * What the language has: literals; operators; `in`, `?:`; field selection and indexing, with optionals (`.?`, `[?]`);
 * has(), all, exists, exists_one, map, filter and their two-variable forms, transformList, transformMap, optMap,
 * optFlatMap, cel.bind; lists and maps; int, uint, double, string, bytes, bool, timestamp, duration, type; the
 * Kubernetes libraries for strings, lists, sets, regular expressions, URLs, IP addresses and CIDRs, quantities and
 * named formats. Unknown names and functions, and wrong numbers of arguments, are errors of compilation; types are
 * checked when an expression runs, and before that as far as schemas tell.
 *
 * A schema beside a value gives it the types JSON lacks: date-time and duration formats, numbers that are doubles,
 * lists that are sets or maps (compared whatever their order). Without one, values are what they look like.
 *
 * Characters, not bytes, are what sizes and indices count. A member whose name is no identifier is written escaped
 * (`foo__dash__bar`), see cel_unescape().
 */
#pragma once

#include "apiserver/schema_walk.h"
#include "base/error.h"
#include "wire/json.h"

#include <stdbool.h>
#include <stdint.h>

/* One step is one node evaluated, one element looked at, or ten bytes of text read. */
#define CEL_COST_MAX 10000000
#define CEL_TEXT_MAX (64 * 1024)
#define CEL_NODES_MAX 10000
#define CEL_DEPTH_MAX 200
#define CEL_MEMORY_MAX (32u << 20)

struct cel_program;

struct cel_binding {
    const struct json *value;
    struct schema_node schema; /* may be unknown */
    bool optional;             /* the variable is an optional: of value, or none */
    bool unset;                /* the variable has no value; with optional: none */
};

struct cel_budget {
    int64_t steps; /* what is left */
};

/* variables ends with NULL; bindings come in its order. EINVAL with a message that shows the place. */
struct cel_program *cel_compile(const char *text, const char *const *variables, struct error *err);
void cel_free(struct cel_program *p);
DEFINE_CLEANUP(cel_free, struct cel_program *);

/* Whether the expression mentions the variable. */
bool cel_mentions(const struct cel_program *p, const char *variable);

/* false: the value is known to be of another type than "bool", "string", ... */
bool cel_may_give(const struct cel_program *p, const char *type);

/*
 * What can be said without values, when objects are as the schemas say: no field is selected that there cannot be, the
 * types of operands go together, and the whole is of the wanted type ("bool"), as far as each is known. schemas come in
 * the order of the variables; unknown nodes for those without.
 */
int cel_check_schemas(const struct cel_program *p, const struct schema_node *schemas, const char *wanted,
                      struct error *err);

/*
 * Evaluation. Errors: EINVAL, the expression failed (no such key, overflow, wrong types, not a bool/string); ENOSPC, it
 * exceeded the budget or the memory limit.
 */
int cel_eval_bool(const struct cel_program *p, const struct cel_binding *bindings, struct cel_budget *budget, bool *ret,
                  struct error *err);
/* The caller frees; NULL with err set. */
char *cel_eval_string(const struct cel_program *p, const struct cel_binding *bindings, struct cel_budget *budget,
                      struct error *err);
/* As JSON: timestamps, durations and quantities as their text, uints as integers. *ret may become NULL (null). */
int cel_eval_json(const struct cel_program *p, const struct cel_binding *bindings, struct cel_budget *budget,
                  struct json **ret, struct error *err);

/* "foo__dash__bar" → "foo-bar", "__in__" → "in"; NULL when the name is no escape. The caller frees. */
char *cel_unescape(const char *name);
