/*
 * The inside of CEL: text → tokens (lexer.c) → tree (parser.c) → resolved tree (check.c) → value (eval.c), with values
 * in value.c and the library in the files named after what they hold.
 */
#pragma once

#include "apiserver/cel/cel.h"
#include "apiserver/regex.h"
#include "base/arena.h"
#include "base/ip_range.h"
#include "base/strbuf.h"
#include "kube/quantity.h"

#include <string.h>

/* ---- values ---- */

enum cel_type {
    CEL_DYN, /* static analysis: not known */
    CEL_ERROR,
    CEL_NULL,
    CEL_BOOL,
    CEL_INT,
    CEL_UINT,
    CEL_DOUBLE,
    CEL_STRING,
    CEL_BYTES,
    CEL_LIST,
    CEL_MAP,
    CEL_TIMESTAMP,
    CEL_DURATION,
    CEL_TYPE,
    CEL_OPTIONAL,
    CEL_QUANTITY,
    CEL_URL,
    CEL_IP,
    CEL_CIDR,
    CEL_FORMAT,
    CEL_TYPE_COUNT,
};

struct cel_string {
    const char *data; /* not NUL-terminated in general */
    size_t len;
};

struct cel_value {
    enum cel_type type;
    union {
        bool b;
        int64_t i; /* int; duration in nanoseconds */
        uint64_t u;
        double d;
        struct cel_string s; /* string, bytes; the message of an error; the name of a format */
        enum cel_type t;     /* type */
        const struct cel_list *list;
        const struct cel_map *map;
        const struct cel_time *time;
        const struct cel_value *optional; /* NULL: none */
        const struct quantity *quantity;
        const struct cel_url *url;
        const struct ip_address *ip; /* CIDR too: with bits */
        const struct ip_range *cidr;
    };
};

/* Either a JSON array seen through its schema, or values. */
struct cel_list {
    const struct json *json;
    struct schema_node schema; /* of the list itself */
    const struct cel_value *items;
    size_t count;
};

struct cel_pair {
    struct cel_value key, value;
};

/* Either a JSON object seen through its schema, or pairs. */
struct cel_map {
    const struct json *json;
    struct schema_node schema; /* of the object itself */
    const struct cel_pair *pairs;
    size_t count;
};

struct cel_time {
    int64_t seconds; /* since 1970 */
    int32_t nanos;   /* 0..999999999 */
};

/* ---- the tree ---- */

enum cel_op {
    CEL_OP_LITERAL,
    CEL_OP_IDENT,    /* name; becomes VARIABLE or LITERAL (a type) */
    CEL_OP_VARIABLE, /* slot */
    CEL_OP_SELECT,   /* args[0].name */
    CEL_OP_OPT_SELECT,
    CEL_OP_HAS, /* has(args[0].name) */
    CEL_OP_INDEX,
    CEL_OP_OPT_INDEX,
    CEL_OP_CALL, /* name(args...), or args[0].name(args[1]...) with receiver */
    CEL_OP_AND,
    CEL_OP_OR,
    CEL_OP_COND,
    CEL_OP_LIST, /* args; flags: optional elements */
    CEL_OP_MAP,  /* args: key, value, key, value */
    CEL_OP_LOOP,
    CEL_OP_BIND, /* slot of args[0], in args[1] */
};

enum cel_loop {
    CEL_LOOP_ALL,
    CEL_LOOP_EXISTS,
    CEL_LOOP_EXISTS_ONE,
    CEL_LOOP_MAP,    /* [filter,] transform → list */
    CEL_LOOP_FILTER, /* → list */
    CEL_LOOP_TRANSFORM_MAP,
    CEL_LOOP_OPT_MAP,
    CEL_LOOP_OPT_FLAT_MAP,
};

struct cel_eval;
struct cel_function;
typedef struct cel_value cel_call(struct cel_eval *ev, const struct cel_value *args, size_t count);

struct cel_node {
    enum cel_op op;
    unsigned position; /* in the text, for messages */
    unsigned depth;
    struct cel_node **args;
    size_t count;
    const char *name;      /* as written */
    const char *unescaped; /* the member it may mean instead; or NULL */
    bool receiver;         /* args[0] is what the method is called on */
    const bool *optional;  /* elements of a list or entries of a map that may be none */
    struct cel_value literal;
    unsigned slot;
    enum cel_type type; /* static; CEL_DYN: not known */
    const struct cel_function *function;
    /* Loops: args[0] is the range, args[1] the condition or transformation, args[2] the transformation behind a filter.
     * slot is the first variable's, slot + 1 the second's. */
    enum cel_loop loop;
    const char *variables[2]; /* the second is NULL for one variable */
};

/* A compiled pattern and its text. */
struct cel_pattern {
    struct cel_pattern *next;
    struct cel_string text;
    struct regex *regex;
};

struct cel_program {
    char *text;
    struct cel_pattern *patterns; /* those that are literals */
    struct arena arena;
    struct cel_node *root;
    const char *const *variables; /* copied into the arena */
    size_t variable_count;
    unsigned slots; /* variables and those of loops */
    uint64_t mentioned;
};

/* Sets err to Kubernetes' way of showing a place in an expression; returns -EINVAL. */
int cel_error_at(const char *text, size_t position, struct error *err, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* ---- lexer ---- */

enum cel_token_kind {
    CEL_TOKEN_END,
    CEL_TOKEN_IDENT,
    CEL_TOKEN_QUOTED_IDENT, /* `name`: only behind a dot */
    CEL_TOKEN_INT,
    CEL_TOKEN_UINT,
    CEL_TOKEN_DOUBLE,
    CEL_TOKEN_STRING,
    CEL_TOKEN_BYTES,
    CEL_TOKEN_PUNCT, /* text is the operator */
};

struct cel_token {
    enum cel_token_kind kind;
    size_t position;
    struct cel_string text; /* identifiers and operators as written, strings unescaped */
    uint64_t u;
    double d;
};

struct cel_lexer {
    const char *text;
    size_t position, len;
    struct arena *arena;
};

int cel_next_token(struct cel_lexer *l, struct cel_token *ret, struct error *err);

/* Fills program->root, unresolved. */
int cel_parse(struct cel_program *p, struct error *err);
/* Resolves names and functions. */
int cel_resolve(struct cel_program *p, struct error *err);

/* ---- evaluation ---- */

struct cel_eval {
    const struct cel_program *program;
    struct arena arena;      /* all values made while it runs */
    struct cel_pattern last; /* the pattern most recently made that is no literal */
    struct cel_budget *budget;
    struct cel_value *slots;
    bool exhausted; /* of cost or memory: no operator may absorb this error */
};

/* Charges for work; true when the budget is gone, and then cel_exhausted() is what to return. */
bool cel_charge(struct cel_eval *ev, size_t steps);
struct cel_value cel_exhausted(void);

/* ---- values: value.c ---- */

struct cel_value cel_errorf(struct cel_eval *ev, const char *fmt, ...) PRINTF_LIKE(2, 3);
struct cel_value cel_no_overload(void);
/* data must outlive the evaluation. */
struct cel_value cel_string_value(const char *data, size_t len);
/* Moves what b holds. */
struct cel_value cel_string_take(struct cel_eval *ev, struct strbuf *b);
struct cel_value cel_list_value(struct cel_eval *ev, const struct cel_value *items, size_t count);
struct cel_value cel_optional_of(struct cel_eval *ev, struct cel_value v);
struct cel_value cel_time_value(struct cel_eval *ev, struct cel_time t);
static inline struct cel_value cel_null(void)
{
    return (struct cel_value){.type = CEL_NULL};
}
static inline struct cel_value cel_bool(bool b)
{
    return (struct cel_value){.type = CEL_BOOL, .b = b};
}
static inline struct cel_value cel_int(int64_t i)
{
    return (struct cel_value){.type = CEL_INT, .i = i};
}
static inline struct cel_value cel_double(double d)
{
    return (struct cel_value){.type = CEL_DOUBLE, .d = d};
}
static inline struct cel_value cel_none(void)
{
    return (struct cel_value){.type = CEL_OPTIONAL, .optional = NULL};
}

struct cel_value cel_from_json(struct cel_eval *ev, const struct json *v, struct schema_node schema);
/* false: cannot be JSON, err says why. *ret is owned. */
bool cel_to_json(struct cel_eval *ev, const struct cel_value *v, struct json **ret, struct error *err);

size_t cel_list_size(const struct cel_list *l);
struct cel_value cel_list_at(struct cel_eval *ev, const struct cel_list *l, size_t i);
size_t cel_map_size(const struct cel_map *m);
/* false: there is no such key. */
bool cel_map_find(struct cel_eval *ev, const struct cel_map *m, const struct cel_value *key, struct cel_value *ret);
/* The member of that name, which for objects may be written escaped. */
bool cel_map_member(struct cel_eval *ev, const struct cel_map *m, const char *name, const char *unescaped,
                    struct cel_value *ret);
/* All entries, in order: an array of cel_map_size() pairs. */
const struct cel_pair *cel_map_pairs(struct cel_eval *ev, const struct cel_map *m);

/* Equality over all types; never an error except through an exhausted budget (which makes it false). */
bool cel_equal(struct cel_eval *ev, const struct cel_value *a, const struct cel_value *b);
/* Order of two values of comparable types; false if there is none. *ret: <0, 0, >0; 2 for NaN, which is unordered. */
bool cel_compare(const struct cel_value *a, const struct cel_value *b, int *ret);
const char *cel_type_name(enum cel_type t);
/* false: not the name of a type. */
bool cel_type_by_name(const char *name, enum cel_type *ret);

static inline bool cel_is(const struct cel_value *v, enum cel_type t)
{
    return v->type == t;
}

/* ---- schemas: shape.c ---- */

/* What a schema makes of a scalar. */
enum cel_shape {
    CEL_SHAPE_PLAIN, /* what it looks like */
    CEL_SHAPE_INT,
    CEL_SHAPE_DOUBLE,
    CEL_SHAPE_TIMESTAMP,
    CEL_SHAPE_DATE,
    CEL_SHAPE_DURATION,
    CEL_SHAPE_BYTES,
};
enum cel_shape cel_shape(struct schema_node schema);
/* Whether an object of the schema may have the member, and that one's schema (unknown where anything goes). */
bool cel_shape_member(struct schema_node object, const char *name, struct schema_node *ret);
/* The schema of the values of a map, or of the items of a list; unknown for everything else. */
struct schema_node cel_shape_values(struct schema_node map);

/* ---- library ---- */

struct cel_function {
    const char *name;
    bool method;            /* called on a receiver, which is args[0] */
    unsigned char min, max; /* arguments, the receiver included */
    enum cel_type result;   /* CEL_DYN: depends */
    cel_call *call;
};

/* Tables end with a NULL name. */
extern const struct cel_function cel_operator_functions[], cel_conversion_functions[], cel_string_functions[],
    cel_text_functions[], cel_list_functions[], cel_time_functions[], cel_optional_functions[],
    cel_quantity_functions[], cel_url_functions[], cel_ip_functions[], cel_format_functions[];

/* UTF-8: the number of characters; the byte at which character number index starts (len when it is the end), or -1. */
size_t cel_char_count(struct cel_string s);
int64_t cel_char_offset(struct cel_string s, int64_t index);

/* strings.c: takes the regex of a literal into the program, so that it is compiled once and errors show early. */
int cel_add_pattern(struct cel_program *p, struct cel_string text, struct error *err);

/* time.c */
bool cel_parse_timestamp(struct cel_string s, struct cel_time *ret);
bool cel_parse_date(struct cel_string s, struct cel_time *ret);
bool cel_parse_duration(struct cel_string s, int64_t *ret_ns);
void cel_write_timestamp(struct cel_time t, struct strbuf *out);
void cel_write_duration(int64_t ns, struct strbuf *out);
/* The text of string(v), for every type that has one. */
bool cel_write_text(const struct cel_value *v, struct strbuf *out);
/* net.c */
void cel_write_cidr(const struct ip_range *r, struct strbuf *out);
bool cel_cidr_equal(const struct ip_range *a, const struct ip_range *b);
/* url.c */
bool cel_url_equal(const struct cel_url *a, const struct cel_url *b);
