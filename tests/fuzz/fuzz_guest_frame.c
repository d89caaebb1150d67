/* Frames of the guest protocol as both sides read them: nothing beyond the input is touched, and what is accepted
 * holds. */
#include "fuzz.h"

#include "wire/guest_request.h"

/* Each field of an accepted frame lies within it, is of an allowed kind, and is found again by its tag. */
static void check_fields(const struct guest_frame *frame)
{
    struct guest_fields fields;
    struct guest_value v;
    if (guest_fields_parse(frame, &fields) < 0)
        return;
    for (int tag = 1; tag < GUEST_TAG_END; tag++) {
        size_t pos = 0, count = 0;
        while (guest_field_next(frame, &pos, (enum guest_tag)tag, &v)) {
            count++;
            if (v.data != NULL && (v.data < frame->payload || v.data + v.len > frame->payload + frame->len))
                abort();
            if (v.data != NULL && v.len > 0 && memchr(v.data, 0, v.len) != NULL)
                abort();
        }
        if ((count > 0) != guest_has(&fields, (enum guest_tag)tag))
            abort();
        free(guest_text(&fields, GUEST_TAG_CWD));
    }
}

static void check_reply(const struct guest_frame *frame)
{
    struct guest_reply reply;
    struct error err = ERROR_INIT;
    if (guest_reply_parse(frame, &reply, &err) < 0) {
        if (err.code != EPROTO)
            abort();
        error_clear(&err);
        return;
    }
    bool ok = reply.type == frame->type;
    if (reply.type == GUEST_ERROR)
        ok = ok && reply.error.code > 0 && reply.error.text != NULL;
    if (reply.type == GUEST_STARTED)
        ok = ok && guest_id_valid(reply.started.id, strlen(reply.started.id));
    if (reply.type == GUEST_STDOUT || reply.type == GUEST_STDERR)
        ok = ok && reply.output.len > 0 && reply.output.data + reply.output.len == frame->payload + frame->len;
    if (reply.type == GUEST_EXIT)
        ok = ok && reply.exit.code >= 0 && reply.exit.code <= 255;
    if (!ok)
        abort();
    guest_reply_free(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct guest_frame frame, again;
    size_t frame_size, need;
    /* An exact copy, so that the sanitizer sees a read past the end. */
    while (size > 0) {
        uint8_t *copy = malloc(size);
        memcpy(copy, data, size);
        int r = guest_frame_parse(copy, size, GUEST_REPLY_MAX, &frame, &frame_size);
        if (r > 0) {
            if (frame_size > size || frame.payload + frame.len != copy + frame_size)
                abort();
            /* Any shorter piece asks for more, and for no more than the frame. */
            if (guest_frame_parse(copy, frame_size - 1, GUEST_REPLY_MAX, &again, &need) != 0 || need > frame_size)
                abort();
            check_fields(&frame);
            check_reply(&frame);
        }
        free(copy);
        if (r <= 0)
            break;
        data += frame_size;
        size -= frame_size;
    }
    return 0;
}
