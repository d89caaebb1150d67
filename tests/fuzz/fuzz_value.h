/*
 * JSON values from fuzz input, built of a few words that mean something to the code under test: bytes as such would
 * seldom be JSON, and hardly ever a patch.
 */
#pragma once

#include "base/macros.h"
#include "fuzz.h"
#include "wire/json.h"

struct fuzz_input {
    const uint8_t *data;
    size_t size;
    const char *const *words; /* of keys and strings */
    size_t word_count;
};

#define FUZZ_DEPTH_MAX 8

static inline uint8_t fuzz_byte(struct fuzz_input *in)
{
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

static inline const char *fuzz_word(struct fuzz_input *in)
{
    return in->words[fuzz_byte(in) % in->word_count];
}

static inline struct json *fuzz_value(struct fuzz_input *in, int depth)
{
    uint8_t kind = fuzz_byte(in);
    size_t n = depth < FUZZ_DEPTH_MAX ? kind >> 4 : 0;
    struct json *v;

    switch (kind & 7) {
    case 0:
        return NULL;
    case 1:
        return json_boolean(kind & 8);
    case 2:
        return kind & 8 ? json_int(kind >> 4) : json_double((kind >> 4) / 2.0);
    case 3:
    case 4:
        return json_string(fuzz_word(in));
    case 5:
        v = json_array_make();
        for (size_t i = 0; i < n && in->size; i++)
            json_push(v, fuzz_value(in, depth + 1));
        return v;
    default:
        v = json_object_make();
        for (size_t i = 0; i < n && in->size; i++) {
            const char *key = fuzz_word(in);
            json_set(v, key, fuzz_value(in, depth + 1));
        }
        return v;
    }
}

/* A value that can be written, read again, and then is the same. */
static inline void fuzz_check_value(const struct json *v)
{
    struct error err = ERROR_INIT;
    char *text = json_text(v);
    struct json *again = json_parse(text, strlen(text), &err);

    if (err.code || !json_equal(v, again))
        abort();
    json_unref(again);
    free(text);
}
