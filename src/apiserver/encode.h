/* Objects in the encoding a client has asked for. */
#pragma once

#include "apiserver/negotiate.h"
#include "base/strbuf.h"
#include "wire/json.h"

/*
 * Appends an object that has apiVersion and kind, a line's end behind it where it is text. *encoding becomes JSON, and
 * out is that, when the object cannot be encoded as wanted: of a kind that has no protobuf message, for one.
 */
void encode_object(const struct json *object, enum answer_encoding *encoding, struct strbuf *out);
