#include "wire/guest_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_HEADER_SIZE 6

enum value_kind { VALUE_NONE, VALUE_U32, VALUE_U64, VALUE_TEXT };

static const uint8_t tag_kinds[GUEST_TAG_END] = {
    [GUEST_TAG_ID] = VALUE_TEXT,           [GUEST_TAG_ARG] = VALUE_TEXT,          [GUEST_TAG_ENV] = VALUE_TEXT,
    [GUEST_TAG_CWD] = VALUE_TEXT,          [GUEST_TAG_UID] = VALUE_U32,           [GUEST_TAG_GID] = VALUE_U32,
    [GUEST_TAG_GROUP] = VALUE_U32,         [GUEST_TAG_ROWS] = VALUE_U32,          [GUEST_TAG_COLS] = VALUE_U32,
    [GUEST_TAG_FLAGS] = VALUE_U32,         [GUEST_TAG_TIMEOUT_MS] = VALUE_U64,    [GUEST_TAG_RING_BYTES] = VALUE_U32,
    [GUEST_TAG_STDOUT_OFFSET] = VALUE_U64, [GUEST_TAG_STDERR_OFFSET] = VALUE_U64, [GUEST_TAG_SIGNAL] = VALUE_U32,
    [GUEST_TAG_SCOPE] = VALUE_U32,         [GUEST_TAG_GRACE_MS] = VALUE_U64,      [GUEST_TAG_PID] = VALUE_U32,
    [GUEST_TAG_CODE] = VALUE_U32,          [GUEST_TAG_TEXT] = VALUE_TEXT,         [GUEST_TAG_STREAM] = VALUE_U32,
    [GUEST_TAG_BYTES] = VALUE_U64,         [GUEST_TAG_STARTED_MS] = VALUE_U64,    [GUEST_TAG_VERSION] = VALUE_U32,
    [GUEST_TAG_COUNT] = VALUE_U32,         [GUEST_TAG_PORT] = VALUE_U32,
};

#define T(tag) (1u << GUEST_TAG_##tag)
#define REPEATED (T(ARG) | T(ENV) | T(GROUP))

struct frame_rule {
    uint32_t required;
    uint32_t optional;
};

static const struct frame_rule frame_rules[GUEST_FRAME_TYPE_END] = {
    [GUEST_START] = {T(ARG), T(ID) | T(ENV) | T(CWD) | T(UID) | T(GID) | T(GROUP) | T(ROWS) | T(COLS) | T(FLAGS) |
                                 T(TIMEOUT_MS) | T(RING_BYTES)},
    [GUEST_ATTACH] = {T(ID), T(STDOUT_OFFSET) | T(STDERR_OFFSET) | T(FLAGS)},
    [GUEST_SIGNAL] = {T(SIGNAL), T(ID) | T(SCOPE)},
    [GUEST_SHUTDOWN] = {T(GRACE_MS), 0},
    [GUEST_CONNECT] = {T(PORT), 0},
    [GUEST_RESIZE] = {T(ROWS) | T(COLS), 0},
    [GUEST_PONG] = {T(VERSION) | T(COUNT), 0},
    [GUEST_STARTED] = {T(ID) | T(PID), 0},
    [GUEST_ERROR] = {T(CODE) | T(TEXT), 0},
    [GUEST_DROPPED] = {T(STREAM) | T(BYTES), 0},
    [GUEST_EXIT] = {T(CODE) | T(SIGNAL) | T(FLAGS), 0},
    [GUEST_PROCESS] = {T(ID) | T(PID) | T(FLAGS) | T(STARTED_MS), T(ARG) | T(CODE) | T(SIGNAL)},
    /* GUEST_PING, GUEST_LIST, GUEST_STDIN_EOF and GUEST_DONE have no fields. */
};

static void put_u32(uint8_t *out, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(v >> (8 * i));
}

static void put_u64(uint8_t *out, uint64_t v)
{
    put_u32(out, (uint32_t)v);
    put_u32(out + 4, (uint32_t)(v >> 32));
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get_u64(const uint8_t *p)
{
    return get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

int guest_frame_parse(const void *data, size_t len, size_t payload_max, struct guest_frame *ret, size_t *ret_size)
{
    const uint8_t *p = data;
    *ret_size = GUEST_HEADER_SIZE;
    if (len < GUEST_HEADER_SIZE)
        return 0;
    uint32_t payload = get_u32(p);
    if (payload > payload_max || p[4] == 0 || p[4] >= GUEST_FRAME_TYPE_END || p[5] != 0 || p[6] != 0 || p[7] != 0)
        return -EPROTO;
    *ret_size = GUEST_HEADER_SIZE + (size_t)payload;
    if (len < *ret_size)
        return 0;
    *ret = (struct guest_frame){.type = p[4], .payload = p + GUEST_HEADER_SIZE, .len = payload};
    return 1;
}

bool guest_frame_output(const struct guest_frame *f, uint64_t *ret_offset, const uint8_t **ret_data, size_t *ret_len)
{
    if (f->len <= 8)
        return false;
    *ret_offset = get_u64(f->payload);
    *ret_data = f->payload + 8;
    *ret_len = f->len - 8;
    return true;
}

/* 1: *ret is the field at *pos, which moves on. 0: no more. -EPROTO. */
static int field_at(const struct guest_frame *f, size_t *pos, uint32_t *ret_tag, struct guest_value *ret)
{
    size_t left = f->len - *pos;
    if (left == 0)
        return 0;
    if (left < FIELD_HEADER_SIZE)
        return -EPROTO;
    const uint8_t *p = f->payload + *pos;
    uint32_t tag = (uint32_t)p[0] | (uint32_t)p[1] << 8;
    uint32_t len = get_u32(p + 2);
    if (tag == 0 || tag >= GUEST_TAG_END || len > left - FIELD_HEADER_SIZE)
        return -EPROTO;
    p += FIELD_HEADER_SIZE;
    *ret = (struct guest_value){.len = len};
    switch (tag_kinds[tag]) {
    case VALUE_U32:
        if (len != 4)
            return -EPROTO;
        ret->number = get_u32(p);
        break;
    case VALUE_U64:
        if (len != 8)
            return -EPROTO;
        ret->number = get_u64(p);
        break;
    default:
        if (len > 0 && memchr(p, 0, len) != NULL)
            return -EPROTO;
        ret->data = p;
    }
    *ret_tag = tag;
    *pos += FIELD_HEADER_SIZE + (size_t)len;
    return 1;
}

int guest_fields_parse(const struct guest_frame *f, struct guest_fields *ret)
{
    const struct frame_rule *rule = &frame_rules[f->type];
    struct guest_value value;
    size_t pos = 0;
    uint32_t tag;
    int r;

    ret->present = 0;
    while ((r = field_at(f, &pos, &tag, &value)) > 0) {
        uint32_t bit = 1u << tag;
        if (!((rule->required | rule->optional) & bit))
            return -EPROTO;
        if (ret->present & bit) {
            if (!(REPEATED & bit))
                return -EPROTO;
            continue;
        }
        ret->present |= bit;
        ret->value[tag] = value;
    }
    if (r < 0 || (ret->present & rule->required) != rule->required)
        return -EPROTO;
    return 0;
}

bool guest_field_next(const struct guest_frame *f, size_t *pos, enum guest_tag tag, struct guest_value *ret)
{
    uint32_t found;
    while (field_at(f, pos, &found, ret) > 0) {
        if (found == tag)
            return true;
    }
    return false;
}

char *guest_text(const struct guest_fields *f, enum guest_tag tag)
{
    if (!guest_has(f, tag))
        return NULL;
    const struct guest_value *v = &f->value[tag];
    char *s = malloc((size_t)v->len + 1);
    if (s == NULL)
        return NULL;
    memcpy(s, v->data, v->len);
    s[v->len] = 0;
    return s;
}

bool guest_buffer_reserve(struct guest_buffer *b, size_t n)
{
    if (b->failed)
        return false;
    if (b->size - b->end >= n)
        return true;
    size_t len = guest_buffer_len(b);
    if (b->start > 0 && b->start >= len && b->size - len >= n) {
        memmove(b->data, b->data + b->start, len);
    } else {
        size_t size = b->size < 512 ? 512 : b->size;
        while (size < len + n)
            size *= 2;
        uint8_t *data = malloc(size);
        if (data == NULL) {
            b->failed = true;
            return false;
        }
        if (len > 0)
            memcpy(data, b->data + b->start, len);
        free(b->data);
        b->data = data;
        b->size = size;
    }
    b->frame -= b->frame < b->start ? b->frame : b->start;
    b->start = 0;
    b->end = len;
    return true;
}

void guest_buffer_add(struct guest_buffer *b, const void *data, size_t n)
{
    if (n == 0 || !guest_buffer_reserve(b, n))
        return;
    memcpy(b->data + b->end, data, n);
    b->end += n;
}

void guest_buffer_consume(struct guest_buffer *b, size_t n)
{
    b->start += n;
    if (b->start == b->end) {
        bool failed = b->failed;
        guest_buffer_free(b);
        b->failed = failed;
    }
}

void guest_buffer_free(struct guest_buffer *b)
{
    free(b->data);
    *b = (struct guest_buffer){0};
}

void guest_buffer_trim(struct guest_buffer *b)
{
    size_t len = guest_buffer_len(b);
    uint8_t *data = len > 0 && len < b->size ? malloc(len) : NULL;
    if (data == NULL)
        return;
    memcpy(data, b->data + b->start, len);
    free(b->data);
    *b = (struct guest_buffer){.data = data, .end = len, .size = len, .failed = b->failed};
}

void guest_frame_begin(struct guest_buffer *b, enum guest_frame_type type)
{
    uint8_t header[GUEST_HEADER_SIZE] = {[4] = (uint8_t)type};
    if (!guest_buffer_reserve(b, GUEST_HEADER_SIZE))
        return;
    b->frame = b->end;
    guest_buffer_add(b, header, sizeof(header));
}

static void put_field(struct guest_buffer *b, enum guest_tag tag, const void *data, size_t len)
{
    if (len > GUEST_PAYLOAD_MAX) {
        b->failed = true;
        return;
    }
    uint8_t header[FIELD_HEADER_SIZE] = {(uint8_t)tag, (uint8_t)(tag >> 8)};
    put_u32(header + 2, (uint32_t)len);
    guest_buffer_add(b, header, sizeof(header));
    guest_buffer_add(b, data, len);
}

void guest_put_text_n(struct guest_buffer *b, enum guest_tag tag, const void *text, size_t len)
{
    put_field(b, tag, text, len);
}

void guest_put_text(struct guest_buffer *b, enum guest_tag tag, const char *text)
{
    put_field(b, tag, text, strlen(text));
}

void guest_put_number(struct guest_buffer *b, enum guest_tag tag, uint64_t number)
{
    uint8_t value[8];
    put_u64(value, number);
    put_field(b, tag, value, tag_kinds[tag] == VALUE_U64 ? 8 : 4);
}

void guest_frame_end(struct guest_buffer *b)
{
    if (b->failed)
        return;
    size_t payload = b->end - b->frame - GUEST_HEADER_SIZE;
    if (payload > GUEST_PAYLOAD_MAX) {
        b->failed = true;
        return;
    }
    put_u32(b->data + b->frame, (uint32_t)payload);
}

void guest_frame_bytes(struct guest_buffer *b, enum guest_frame_type type, const void *data, size_t len)
{
    guest_frame_begin(b, type);
    guest_buffer_add(b, data, len);
    guest_frame_end(b);
}

void guest_output_header(uint8_t out[GUEST_OUTPUT_HEADER_SIZE], enum guest_stream stream, uint64_t offset, size_t len)
{
    put_u32(out, (uint32_t)len + 8);
    put_u32(out + 4, stream == GUEST_STREAM_STDOUT ? GUEST_STDOUT : GUEST_STDERR);
    put_u64(out + GUEST_HEADER_SIZE, offset);
}

bool guest_id_valid(const char *id, size_t len)
{
    if (len == 0 || len > GUEST_ID_MAX || id[0] == '.')
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = id[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                  c == '-';
        if (!ok)
            return false;
    }
    return true;
}
