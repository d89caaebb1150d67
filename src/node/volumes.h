/*
 * The mounts of a container: directories on disk, memory, files made of ConfigMaps, Secrets and the Pod itself,
 * PersistentVolumeClaims, directories of the host.
 *
 *     D/pods/<uid>/volumes/<name>   emptyDir
 *     R/pods/<uid>/volumes/<name>   what comes from ConfigMap, Secret, downwardAPI, projected: in memory, made anew for
 *                                   each start of a container, mounted read-only
 *     D/volumes/pvc/...             paths.h
 *
 * Everything is owned by root outside and appears as root's inside (idmapped); fsGroup becomes the group of the
 * volume's root. An emptyDir of medium Memory is a tmpfs of the sandbox and begins empty when the container starts
 * again.
 */
#pragma once

#include "node/native/native.h"
#include "node/pod_env.h"

struct volume_context {
    const char *pod_data, *pod_run; /* D/pods/<uid>, R/pods/<uid>; exist */
    const struct pod_sources *sources;
    /* The directory of a claim of the Pod's namespace, existing; the caller frees. NULL: not (yet) there. */
    char *(*claim_path)(void *arg, const char *ns, const char *claim, struct error *err);
    void *claim_arg;
};

struct volume_set {
    struct native_mount *mounts;
    size_t count;
    char **strings; /* what the mounts point at */
};
void volume_set_clear(struct volume_set *v);

/* Reason CreateContainerConfigError where the Pod is at fault. ENOENT: something it refers to is not there yet. */
int volumes_make(const struct pod_spec *s, const struct pod_container *c, const struct volume_context *ctx,
                 struct volume_set *ret, struct error *err);
