/*
 * What a Pod asks for, checked and turned into terms of the node. Pure.
 *
 * Everything the node does not do is refused here, with the field in err->field and in the message, and reason
 * CreateContainerConfigError (InvalidImageName for images): a Pod never runs with less than it asked for. The few
 * things that are left out without harm (a probe over HTTP) are named in warnings, which become Events.
 */
#pragma once

#include "node/native/native.h"
#include "wire/json.h"

#include <stdbool.h>
#include <stdint.h>

enum restart_policy { RESTART_ALWAYS, RESTART_ON_FAILURE, RESTART_NEVER };
enum pull_policy { PULL_IF_NOT_PRESENT, PULL_ALWAYS, PULL_NEVER };

enum pod_volume_kind {
    POD_VOLUME_EMPTY_DIR,
    POD_VOLUME_CONFIG_MAP,
    POD_VOLUME_SECRET,
    POD_VOLUME_DOWNWARD_API,
    POD_VOLUME_PROJECTED,
    POD_VOLUME_PVC,
    POD_VOLUME_HOST_PATH,
};

struct pod_volume {
    const char *name;
    enum pod_volume_kind kind;
    const struct json *source; /* the member of the volume that says its kind */
    bool memory;               /* emptyDir of medium Memory */
    uint64_t size_limit;       /* emptyDir; 0 = none */
    bool read_only;            /* persistentVolumeClaim.readOnly */
};

struct pod_mount {
    size_t volume; /* index into pod_spec.volumes */
    const char *target;
    const char *sub_path; /* NULL = the whole volume */
    bool read_only;
};

/* An exec probe. Others are warned of. */
struct pod_probe {
    char **command; /* NULL = no probe */
    int64_t initial_delay_s, period_s, timeout_s;
    int64_t success_threshold, failure_threshold;
};
enum pod_probe_kind { PROBE_STARTUP, PROBE_LIVENESS, PROBE_READINESS, PROBE_COUNT };

struct pod_container {
    char *field; /* "spec.containers[0]" */
    const char *name, *image;
    const struct json *object; /* the container, for env and command */
    enum pull_policy pull_policy;
    struct native_limits limits;
    uint64_t storage_limit; /* ephemeral-storage, bytes; 0 = none */
    uint64_t capabilities;
    bool read_only_root, non_root;
    bool tty, stdin_open;
    int64_t uid, gid; /* -1 = the image's */
    struct pod_mount *mounts;
    size_t mount_count;
    const char *message_path; /* terminationMessagePath */
    bool message_from_logs;
    struct pod_probe probes[PROBE_COUNT];
    char **pre_stop; /* lifecycle.preStop.exec */
};

/* Strings and values without other words are borrowed from the Pod, of which this holds a reference. */
struct pod_spec {
    struct json *pod;
    struct pod_container *containers; /* the init containers in order, then the main one */
    size_t container_count;
    struct pod_volume *volumes;
    size_t volume_count;
    enum restart_policy restart_policy;
    int64_t fs_group; /* -1 = none */
    uint32_t *groups; /* supplementalGroups */
    size_t group_count;
    char *hostname;
    char **warnings;
};

struct pod_spec_options {
    bool allow_dir_images;
    int64_t memory_bytes;            /* of the machine; 0 = not known */
    char *const *host_path_prefixes; /* hostPath volumes are allowed at and below these; NULL = none */
};

int pod_spec_parse(struct json *pod, const struct pod_spec_options *options, struct pod_spec *ret, struct error *err);
void pod_spec_clear(struct pod_spec *s);

static inline size_t pod_spec_init_count(const struct pod_spec *s)
{
    return s->container_count - 1;
}

/* Parts of the above, one file each. */
int pod_spec_parse_volumes(struct pod_spec *s, const struct pod_spec_options *options, struct error *err);
int pod_spec_parse_mounts(struct pod_spec *s, struct pod_container *c, struct error *err);
/* securityContext of Pod and container. */
int pod_spec_parse_pod_security(struct pod_spec *s, struct error *err);
int pod_spec_parse_security(struct pod_spec *s, struct pod_container *c, struct error *err);

/* "FIELD: why", with field and reason set. */
int pod_spec_refuse(struct error *err, const char *reason, const char *why, const char *field_format, ...)
    PRINTF_LIKE(4, 5);
#define REASON_CONFIG "CreateContainerConfigError"
