/* Media types: what form of answer a client wants, and in what form its body is. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum answer_form { FORM_OBJECT, FORM_TABLE, FORM_METADATA };

/*
 * Reads an Accept header (NULL = anything): the first clause of the highest quality that can be served. false: none
 * can (406). *ret_stream: the answer's type is to say stream=watch.
 */
bool negotiate_answer(const char *accept, enum answer_form *ret, bool *ret_stream);

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
