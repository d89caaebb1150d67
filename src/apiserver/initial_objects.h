/*
 * Objects that are there without anybody having made them: the namespaces every client expects, the default
 * StorageClass, the two PriorityClasses of the system, and the Service that is the API server's by custom.
 */
#pragma once

#include "apiserver/server_internal.h"

/* Makes what is missing. server_address: "10.0.0.1:6443"; NULL: there is none. */
int initial_objects_make(struct apiserver *s, const char *server_address, struct error *err);
