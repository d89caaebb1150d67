/*
 * The end of namespaces and of custom kinds: both go only when nothing is left in them. Driven by events: by the
 * deletion mark, and by each object that goes; nothing polls. A restart finds what was under way.
 */
#pragma once

#include "apiserver/server_internal.h"

struct terminations;
struct terminations *terminations_new(struct apiserver *s);
void terminations_free(struct terminations *t);
/* Looks for namespaces and definitions that are being deleted. */
void terminations_scan(struct terminations *t);
/* Takes up a namespace, or a definition ("widgets.example.com"), when it is being deleted. */
void terminations_check_namespace(struct terminations *t, const struct json *ns);
void terminations_check_crd(struct terminations *t, const struct json *crd);
/* An object is gone: someone may have waited for it. */
void terminations_object_gone(struct terminations *t, const char *store_name, const struct json *object);
