/*
 * The process of a container: argv, environment, working directory and user, from the Pod, the image, and the
 * ConfigMaps and Secrets the Pod refers to. Pure but for reading the image's /etc/passwd and /etc/group (user.h).
 *
 * As Kubernetes does it: command replaces the image's entrypoint (and, without args, its cmd); args replace cmd.
 * Environment, later wins: the image's, HOSTNAME, HOME, envFrom in order, env in order. $(NAME) in command, args and
 * env values is replaced by what envFrom and env said before; $$ is a dollar sign; an unknown $(NAME) stays as it is.
 */
#pragma once

#include "node/image/store.h"
#include "node/pod_spec.h"

/* What a Pod refers to. */
enum pod_ref_kind { POD_REF_CONFIG_MAP, POD_REF_SECRET };

struct pod_ref {
    enum pod_ref_kind kind;
    const char *name; /* borrowed from the Pod */
};
/* Every ConfigMap and Secret that environment and volumes name, each once; malloc'd. */
size_t pod_spec_references(const struct pod_spec *s, struct pod_ref **ret);

/* Where values come from. */
struct pod_sources {
    /* The object, or NULL when there is none; borrowed. */
    const struct json *(*get)(void *arg, enum pod_ref_kind kind, const char *name);
    void *arg;
    const char *pod_ip, *host_ip;
    int64_t node_cpu_millis, node_memory_bytes; /* for resourceFieldRef without a limit */
};

struct pod_process {
    char **argv, **env;
    char *cwd;
    uint32_t uid, gid;
    uint32_t *groups;
    size_t group_count;
};
void pod_process_clear(struct pod_process *p);

/* Reason CreateContainerConfigError, or RunContainerError for a command line that cannot be. */
int pod_process_make(const struct pod_spec *s, const struct pod_container *c, const struct image *image,
                     const struct pod_sources *sources, struct pod_process *ret, struct error *err);

/* Text of a fieldRef ("metadata.labels['x']"); the caller frees; NULL with an error for what does not exist here. */
char *pod_field_text(const struct pod_spec *s, const char *path, const struct pod_sources *sources, struct error *err);
/* Text of a resourceFieldRef of this container. */
char *pod_resource_text(const struct pod_spec *s, const struct pod_container *c, const struct json *ref,
                        const struct pod_sources *sources, struct error *err);
/* The value of a key: ConfigMap data and binaryData, Secret data decoded. NULL: there is no such key. */
char *pod_ref_value(enum pod_ref_kind kind, const struct json *object, const char *key, size_t *ret_len);
