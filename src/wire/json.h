/*
 * JSON values, reference-counted, and immutable once shared.
 *
 * `struct json` is a value of any type; NULL is the JSON null and is accepted wherever a value is. Whoever holds the
 * only reference may change a value; a value that others may see is never changed: copy it first (json_copy is deep,
 * json_copy_shallow copies one level and shares the members).
 *
 * Values belong to one thread: counts are plain numbers, and keys are shared between all objects of the process.
 *
 * Functions that put a value somewhere (json_set, json_push) take ownership of it. Getters lend: what they return lives
 * as long as its container.
 *
 * The parser is strict where Kubernetes leans on it: 64-bit integers stay exact, trailing bytes, invalid UTF-8, depth
 * beyond JSON_DEPTH_MAX are errors; duplicate keys are an error or reported (json_parse_options).
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

#define JSON_DEPTH_MAX 256

struct json;

enum json_kind { JSON_NULL, JSON_BOOL, JSON_INT, JSON_DOUBLE, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

/* Life. json_unref accepts NULL. */
struct json *json_ref(struct json *v);
void json_unref(struct json *v);
DEFINE_CLEANUP(json_unref, struct json *);
#define _cleanup_json_ _cleanup_(json_unref_p)

struct json *json_copy(const struct json *v);
struct json *json_copy_shallow(const struct json *v);

/* Making. */
struct json *json_object_make(void);
struct json *json_array_make(void);
struct json *json_string(const char *s);
struct json *json_string_n(const char *s, size_t len);
struct json *json_int(int64_t i);
struct json *json_double(double d);
struct json *json_boolean(bool b);

/* Looking. */
enum json_kind json_kind(const struct json *v);
bool json_is(const struct json *v, enum json_kind kind);
/* NULL unless v is a string; the text may hold NUL bytes only when json_string_len says so. */
const char *json_str(const struct json *v);
size_t json_string_len(const struct json *v);
/* The text of v if it is a string, else fallback. */
const char *json_str_or(const struct json *v, const char *fallback);
/* Integers and whole doubles; fallback for everything else. */
int64_t json_int_or(const struct json *v, int64_t fallback);
double json_double_or(const struct json *v, double fallback);
bool json_bool_or(const struct json *v, bool fallback);

/* Objects. A missing key and a non-object give NULL; json_has tells a null member from a missing one. */
struct json *json_get(const struct json *object, const char *key);
bool json_has(const struct json *object, const char *key);
/* json_at(v, "spec", "podTemplate", NULL): nested json_get. */
struct json *json_at(const struct json *object, ...) __attribute__((sentinel));
/* json_str(json_at(...)). */
const char *json_str_at(const struct json *object, ...) __attribute__((sentinel));
size_t json_size(const struct json *container); /* members of an object or items of an array, else 0 */
/* Replaces an existing member in place (its position stays). Takes value. */
void json_set(struct json *object, const char *key, struct json *value);
void json_set_str(struct json *object, const char *key, const char *value); /* NULL removes the key */
void json_set_int(struct json *object, const char *key, int64_t value);
void json_set_bool(struct json *object, const char *key, bool value);
void json_remove(struct json *object, const char *key);
/* The object under key, made if it is missing or not an object. */
struct json *json_ensure_object(struct json *object, const char *key);
struct json *json_ensure_array(struct json *object, const char *key);

/* for (struct json_iter it = {0}; json_each(object, &it);) it.key, it.value — in insertion order. Do not change the
 * object meanwhile. */
struct json_iter {
    const char *key;
    struct json *value;
    void *entry;
    bool started;
};
bool json_each(const struct json *object, struct json_iter *it);

/* Arrays. */
struct json *json_item(const struct json *array, size_t index);
void json_push(struct json *array, struct json *value);
void json_set_item(struct json *array, size_t index, struct json *value);
void json_insert_item(struct json *array, size_t index, struct json *value);
void json_remove_item(struct json *array, size_t index);

/* Deep equality; 1 and 1.0 are equal, member order does not matter. */
bool json_equal(const struct json *a, const struct json *b);

/* Text. */
struct json_parse_options {
    /* Called for every duplicate key with its path ("spec.containers[0].image"); the last value wins. NULL: duplicates
     * are an error. */
    void (*duplicate)(void *arg, const char *path);
    void *arg;
};
/* Returns NULL both for an error (err set) and for the text "null" (err clear). */
struct json *json_parse(const char *text, size_t len, struct error *err);
struct json *json_parse_with(const char *text, size_t len, const struct json_parse_options *options, struct error *err);
/* Compact, without a newline at the end. */
void json_write(const struct json *v, struct strbuf *out);
/* As json_write, with members sorted by name: values that differ only in order give the same text. */
void json_write_sorted(const struct json *v, struct strbuf *out);
char *json_text(const struct json *v);
char *json_text_pretty(const struct json *v);
/* Appends s as a JSON string literal, quotes included. */
void json_write_string(const char *s, size_t len, struct strbuf *out);

/*
 * Builder for literals in code:
 *     json_build("{s:s, s:i, s:b, s:o, s:[s, s]}", "name", n, "count", (int64_t)3, "on", true, "meta", meta, "l", "a",
 * "b") s string (a NULL string drops the member), i int64_t, b bool (int), o takes a value (NULL drops the member), O
 * refs a value, n null. A malformed format aborts: formats are literals.
 */
struct json *json_build(const char *format, ...);
