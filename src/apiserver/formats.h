/*
 * The formats of strings that schemas may name. Formats nobody knows are accepted, as Kubernetes does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct format;

/* NULL when the format is not one that is checked. */
const struct format *format_find(const char *name);
bool format_check(const struct format *f, const char *text, size_t len);
/* As messages call it. */
const char *format_name(const struct format *f);
