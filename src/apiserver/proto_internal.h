/* The table of proto_messages.c. */
#pragma once

#include <stddef.h>

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
