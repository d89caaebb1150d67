/* Media types: what form of answer a client wants, and in what form its body is. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum answer_form { FORM_OBJECT, FORM_TABLE, FORM_METADATA };
enum answer_encoding { ENCODING_JSON, ENCODING_YAML, ENCODING_PROTOBUF };

struct answer_type {
    enum answer_form form;
    enum answer_encoding encoding;
    bool stream; /* the media type is to say stream=watch */
};

/* What there is of a resource: protobuf of built-in kinds, and no YAML of a watch. Tables are JSON. */
#define OFFER_PROTOBUF 1u
#define OFFER_WATCH 2u

/* Reads an Accept header (NULL = anything): the first clause of the highest quality that can be served. false: none
 * can (406). */
bool negotiate_answer(const char *accept, unsigned offer, struct answer_type *ret);
const char *answer_media_type(const struct answer_type *t);

enum body_form {
    BODY_JSON,
    BODY_YAML,
    BODY_PROTOBUF,
    BODY_JSON_PATCH,
    BODY_MERGE_PATCH,
    BODY_STRATEGIC_PATCH,
    BODY_APPLY,
    BODY_UNKNOWN
};
/* Of a Content-Type header; NULL and empty are JSON. */
enum body_form negotiate_body(const char *content_type);
