/*
 * Kubernetes' protobuf encoding of requests: "k8s\0", then an envelope with the type and the object's own message.
 * Typed Go clients and kubectl's imperative commands send it; answers may always be JSON, so there is no encoder.
 */
#pragma once

#include "base/error.h"
#include "wire/json.h"

/* A new object with apiVersion and kind. NULL with EINVAL for what is malformed or of a kind that is not known. */
struct json *proto_decode(const void *data, size_t len, struct error *err);
