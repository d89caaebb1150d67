/*
 * PersistentVolumeClaims of this machine: each is a directory below D/volumes/pvc, bound at once to a PersistentVolume
 * made for it; removed with its data when the claim is gone and no Pod mounts it.
 */
#pragma once

#include "node/node.h"

struct claims *claims_new(struct node *n);
void claims_free(struct claims *c);
/* The directory of a claim, malloc'd; made when missing. NULL with ENOENT: there is no such claim (yet). */
char *claims_path(void *claims, const char *ns, const char *name, struct error *err);
/* Removes the data of claims that are gone and that no sandbox mounts any more. */
void claims_collect(struct claims *c);
/* The same, and for claims that were deleted while the node was away; nothing before all claims are known. */
void claims_sweep(struct claims *c);
