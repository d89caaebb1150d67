/*
 * LimitRanges: defaults that a namespace gives to containers, and the bounds of what may be asked for. In the words of
 * Kubernetes.
 */
#pragma once

#include "apiserver/server_internal.h"

/* Fills in what the LimitRanges of its namespace give to the containers of a new pod; spec and metadata are the
 * caller's own. Notes in an annotation what it did. */
void limit_ranges_default(struct apiserver *s, const char *ns, struct json *metadata, struct json *spec);
/* -1: c's object is beyond a bound, and c is answered. old is NULL when it is new. */
int limit_ranges_admit(struct api_call *c, const struct json *object, const struct json *old);

/* Without a server, for one item of a LimitRange. */
/* Appends what is wrong to the array of strings. */
char **limit_check_pod(const struct json *item, const struct json *spec, char **problems);
char **limit_check_claim(const struct json *item, const struct json *claim, char **problems);
/* What was given, as the annotation tells it ("cpu request for container a"), appended to the array of strings. */
char **limit_default_container(const struct json *item, struct json *container, const char *what, char **given);
/* A LimitRange fills in itself: default from max, defaultRequest from default and min. item is the caller's own. */
void limit_default_item(struct json *item);
