/*
 * Kubernetes quantities: "100m", "1.5Gi", "2e3", "1Ei". Held exactly as a count of 10^-9; finer fractions round up,
 * away from zero, as Kubernetes does.
 */
#pragma once

#include "base/error.h"
#include "wire/json.h"

#include <stdbool.h>
#include <stdint.h>

struct quantity {
    __int128 nano;
    bool binary; /* written with Ki, Mi, ...: decides how it is printed */
};

int quantity_parse(const char *text, struct quantity *ret, struct error *err);
/* As JSON has it: a string or a number. Its text is the caller's. */
char *quantity_json_text(const struct json *v);
int quantity_of_json(const struct json *v, struct quantity *ret);
/* -1, 0, 1. */
int quantity_compare(const struct quantity *a, const struct quantity *b);
/* Whole units rounded up; clamped to int64. "1500m" → 2. */
int64_t quantity_value(const struct quantity *q);
/* Thousandths rounded up; clamped. CPU: "0.5" → 500. */
int64_t quantity_milli(const struct quantity *q);
/* Shorthands for text. */
int quantity_parse_bytes(const char *text, int64_t *ret, struct error *err);
int quantity_parse_milli(const char *text, int64_t *ret, struct error *err);
/* The canonical form ("1500m", "2Gi"); the caller frees. */
char *quantity_format(const struct quantity *q);
