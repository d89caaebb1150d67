/* The messages of proto_messages.c, and what the decoder and the encoder read of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * fields: "NUMBER NAME TYPE, ...". Types: s string, b bool, i32, i64, y bytes (base64 in JSON), double, else a message:
 * of the same package, of meta/v1, or with its package in front. In front of a type [] means repeated and {} a map by
 * strings. Behind it * means that presence counts (zero is kept), ! that JSON always has the member, ~ that the
 * message's members belong to the outer object.
 */
struct proto_message {
    const char *name; /* "core/v1.Pod", in order */
    const char *fields;
};
extern const struct proto_message proto_messages[];
extern const size_t proto_message_count;

/* Envelopes begin with it. */
#define PROTO_MAGIC "k8s" /* and its NUL */
#define PROTO_MAGIC_LEN sizeof(PROTO_MAGIC)

enum proto_wire { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_LENGTH = 2, PROTO_FIXED32 = 5 };

enum proto_type {
    PROTO_STRING,
    PROTO_BOOL,
    PROTO_INT32,
    PROTO_INT64,
    PROTO_DOUBLE,
    PROTO_BYTES,
    /* Messages whose JSON is not an object of their fields: */
    PROTO_TIME,
    PROTO_MICRO_TIME,
    PROTO_QUANTITY,
    PROTO_INT_OR_STRING,
    PROTO_DURATION,
    PROTO_JSON_TEXT, /* FieldsV1, JSON: 1 is JSON text */
    PROTO_RAW,       /* RawExtension: 1 is JSON text or an envelope */
    PROTO_STRINGS,   /* Verbs, ExtraValue: 1 are the items of a plain array */
    PROTO_SCHEMA_OR_ARRAY,
    PROTO_SCHEMA_OR_BOOL,
    PROTO_SCHEMA_OR_STRINGS,
    PROTO_MESSAGE,
    PROTO_UNKNOWN /* a message that is not in the table */
};

struct proto_field {
    uint64_t number;
    char name[64];
    enum proto_type type;
    bool repeated, map, keep_zero, always, inlined;
    const struct proto_message *message; /* of PROTO_MESSAGE, and of the schema in PROTO_SCHEMA_OR_… */
};

struct proto_fields {
    struct proto_field *items;
    size_t count;
};

/* Read from the text when they are first asked for, and kept. */
const struct proto_fields *proto_fields(const struct proto_message *m);
/* NULL: m has no field of that number. */
const struct proto_field *proto_find_field(const struct proto_message *m, uint64_t number);
/* "rbac.authorization.k8s.io/v1" and "Role" → "rbac/v1.Role"; NULL: not in the table. */
const struct proto_message *proto_find_kind(const char *api_version, const char *kind);
