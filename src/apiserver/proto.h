/*
 * Kubernetes' protobuf encoding of built-in kinds: "k8s\0", then an envelope with the type and the object's own
 * message. Typed Go clients and kubectl's imperative commands send it and like to be answered in it.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"
#include "wire/json.h"

/* A new object with apiVersion and kind. NULL with EINVAL for what is malformed or of a kind that is not known. */
struct json *proto_decode(const void *data, size_t len, struct error *err);

/* Whether objects of the kind can be encoded. */
bool proto_has_kind(const char *api_version, const char *kind);
/*
 * Appends the object with its envelope. EINVAL: it is of a kind that cannot be, or not as its kind says (then out ends
 * as it was).
 */
int proto_encode(const struct json *object, struct strbuf *out, struct error *err);

/*
 * Lists, item by item: proto_list_begin() appends the envelope and the list's metadata, proto_list_item() each item.
 * items_len is what all the items will take together: the sum of the lengths proto_list_item() has appended or is yet
 * to append.
 */
void proto_list_begin(const char *api_version, const char *list_kind, const struct json *metadata, size_t items_len,
                      struct strbuf *out);
int proto_list_item(const struct json *item, struct strbuf *out, struct error *err);

/* Appends a frame of a watch: its length in four bytes, then the event. */
int proto_watch_frame(const char *type, const struct json *object, struct strbuf *out, struct error *err);
