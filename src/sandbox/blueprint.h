/*
 * Building what a sandbox is made of: its Pod, headless Service and PersistentVolumeClaims, from a Sandbox object.
 * Pure: objects in, objects out. Every returned object is new and owned by the caller.
 */
#pragma once

#include "wire/json.h"

#include <stdbool.h>

#define SANDBOX_HASH_SIZE 9

/* FNV-1a of a name as 8 hex digits: label values that point at an object. */
void sandbox_name_hash(const char *name, char out[SANDBOX_HASH_SIZE]);

struct json *sandbox_build_pod(const struct json *sandbox);
/*
 * The merge patch that brings a Pod's labels and annotations in line with the Sandbox's podTemplate; NULL when they
 * are. Keys that came from an earlier podTemplate and left it are removed; keys of others are not touched.
 */
struct json *sandbox_pod_metadata_patch(const struct json *sandbox, const struct json *pod);

struct json *sandbox_build_service(const struct json *sandbox);
/* What differs in an existing Service; ports only when the Sandbox asks for the Service explicitly. NULL: nothing. */
struct json *sandbox_service_patch(const struct json *sandbox, const struct json *service, bool with_ports);

/* "<template>-<sandbox>". */
char *sandbox_pvc_name(const struct json *sandbox, const struct json *template);
struct json *sandbox_build_pvc(const struct json *sandbox, const struct json *template);
