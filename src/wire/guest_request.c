#include "wire/guest_request.h"

#include "base/memory.h"

/* Codes that come from a guest are brought into these ranges before anyone computes with them. */
#define ERRNO_MAX 4095
#define SIGNAL_MAX 64

static int finish(struct guest_buffer *out, struct error *err)
{
    guest_frame_end(out);
    if (!out->failed)
        return 0;
    guest_buffer_free(out);
    return error_set(err, E2BIG, "the request to the sandbox is longer than %d bytes", GUEST_PAYLOAD_MAX);
}

int guest_request_plain(struct guest_buffer *out, enum guest_frame_type type, struct error *err)
{
    guest_frame_begin(out, type);
    return finish(out, err);
}

static void put_start_numbers(struct guest_buffer *out, const struct guest_start_request *request)
{
    if (request->set_uid)
        guest_put_number(out, GUEST_TAG_UID, request->uid);
    if (request->set_gid)
        guest_put_number(out, GUEST_TAG_GID, request->gid);
    for (size_t i = 0; i < request->group_count; i++)
        guest_put_number(out, GUEST_TAG_GROUP, request->groups[i]);
    if (request->flags != 0)
        guest_put_number(out, GUEST_TAG_FLAGS, request->flags);
    if (request->rows != 0)
        guest_put_number(out, GUEST_TAG_ROWS, request->rows);
    if (request->cols != 0)
        guest_put_number(out, GUEST_TAG_COLS, request->cols);
    if (request->timeout_ms != 0)
        guest_put_number(out, GUEST_TAG_TIMEOUT_MS, request->timeout_ms);
    if (request->ring_bytes != 0)
        guest_put_number(out, GUEST_TAG_RING_BYTES, request->ring_bytes);
}

int guest_request_start(struct guest_buffer *out, const struct guest_start_request *request, struct error *err)
{
    if (request->argv == NULL || request->argv[0] == NULL)
        return error_set(err, EINVAL, "no command to start");
    guest_frame_begin(out, GUEST_START);
    if (request->id != NULL)
        guest_put_text(out, GUEST_TAG_ID, request->id);
    for (const char *const *a = request->argv; *a != NULL; a++)
        guest_put_text(out, GUEST_TAG_ARG, *a);
    for (const char *const *e = request->env; e != NULL && *e != NULL; e++)
        guest_put_text(out, GUEST_TAG_ENV, *e);
    if (request->cwd != NULL)
        guest_put_text(out, GUEST_TAG_CWD, request->cwd);
    put_start_numbers(out, request);
    return finish(out, err);
}

int guest_request_attach(struct guest_buffer *out, const char *id, uint64_t stdout_offset, uint64_t stderr_offset,
                         uint32_t flags, struct error *err)
{
    guest_frame_begin(out, GUEST_ATTACH);
    guest_put_text(out, GUEST_TAG_ID, id);
    guest_put_number(out, GUEST_TAG_STDOUT_OFFSET, stdout_offset);
    guest_put_number(out, GUEST_TAG_STDERR_OFFSET, stderr_offset);
    guest_put_number(out, GUEST_TAG_FLAGS, flags);
    return finish(out, err);
}

int guest_request_signal(struct guest_buffer *out, const char *id, int sig, enum guest_scope scope, struct error *err)
{
    guest_frame_begin(out, GUEST_SIGNAL);
    guest_put_text(out, GUEST_TAG_ID, id);
    guest_put_number(out, GUEST_TAG_SIGNAL, (uint64_t)sig);
    guest_put_number(out, GUEST_TAG_SCOPE, scope);
    return finish(out, err);
}

int guest_request_shutdown(struct guest_buffer *out, uint64_t grace_ms, struct error *err)
{
    guest_frame_begin(out, GUEST_SHUTDOWN);
    guest_put_number(out, GUEST_TAG_GRACE_MS, grace_ms);
    return finish(out, err);
}

int guest_request_connect(struct guest_buffer *out, uint16_t port, struct error *err)
{
    guest_frame_begin(out, GUEST_CONNECT);
    guest_put_number(out, GUEST_TAG_PORT, port);
    return finish(out, err);
}

static bool parse_exit(const struct guest_fields *f, struct guest_exit *ret)
{
    uint64_t code = guest_number(f, GUEST_TAG_CODE, 0), sig = guest_number(f, GUEST_TAG_SIGNAL, 0);
    if (code > 255 || sig > SIGNAL_MAX)
        return false;
    *ret = (struct guest_exit){
        .code = (int)code, .sig = (int)sig, .timed_out = guest_number(f, GUEST_TAG_FLAGS, 0) & GUEST_FLAG_TIMED_OUT};
    return true;
}

static bool parse_id(const struct guest_fields *f, char **ret)
{
    const struct guest_value *v = &f->value[GUEST_TAG_ID];
    if (!guest_id_valid((const char *)v->data, v->len))
        return false;
    *ret = xstrndup((const char *)v->data, v->len);
    return true;
}

static bool parse_process(const struct guest_frame *frame, const struct guest_fields *f, struct guest_process_info *ret)
{
    struct guest_value v;
    size_t count = 0, pos = 0;

    *ret = (struct guest_process_info){.pid = (uint32_t)guest_number(f, GUEST_TAG_PID, 0),
                                       .flags = (uint32_t)guest_number(f, GUEST_TAG_FLAGS, 0),
                                       .started_ms = (int64_t)guest_number(f, GUEST_TAG_STARTED_MS, 0)};
    if (!parse_exit(f, &ret->exit) || !parse_id(f, &ret->id))
        return false;
    while (guest_field_next(frame, &pos, GUEST_TAG_ARG, &v))
        count++;
    ret->argv = xcalloc(count + 1, sizeof(*ret->argv));
    pos = 0;
    for (size_t i = 0; i < count && guest_field_next(frame, &pos, GUEST_TAG_ARG, &v); i++)
        ret->argv[i] = xstrndup((const char *)v.data, v.len);
    return true;
}

static bool parse_stream(const struct guest_fields *f, enum guest_stream *ret)
{
    uint64_t stream = guest_number(f, GUEST_TAG_STREAM, 0);
    *ret = stream == GUEST_STREAM_STDERR ? GUEST_STREAM_STDERR : GUEST_STREAM_STDOUT;
    return stream < GUEST_STREAM_COUNT;
}

static bool parse_fields(const struct guest_frame *frame, struct guest_reply *ret)
{
    struct guest_fields f;
    if (guest_fields_parse(frame, &f) < 0)
        return false;
    switch (frame->type) {
    case GUEST_PONG:
        ret->pong.version = (uint32_t)guest_number(&f, GUEST_TAG_VERSION, 0);
        ret->pong.count = (uint32_t)guest_number(&f, GUEST_TAG_COUNT, 0);
        return true;
    case GUEST_STARTED:
        ret->started.pid = (uint32_t)guest_number(&f, GUEST_TAG_PID, 0);
        return parse_id(&f, &ret->started.id);
    case GUEST_ERROR: {
        uint64_t code = guest_number(&f, GUEST_TAG_CODE, 0);
        if (code == 0 || code > ERRNO_MAX)
            return false;
        ret->error.code = (int)code;
        ret->error.text = xstrndup((const char *)f.value[GUEST_TAG_TEXT].data, f.value[GUEST_TAG_TEXT].len);
        return true;
    }
    case GUEST_DROPPED:
        ret->dropped.bytes = guest_number(&f, GUEST_TAG_BYTES, 0);
        return parse_stream(&f, &ret->dropped.stream);
    case GUEST_EXIT:
        return parse_exit(&f, &ret->exit);
    case GUEST_PROCESS:
        return parse_process(frame, &f, &ret->process);
    default: /* GUEST_DONE has no fields; requests do not come from a guest */
        return frame->type == GUEST_DONE;
    }
}

int guest_reply_parse(const struct guest_frame *frame, struct guest_reply *ret, struct error *err)
{
    bool ok;
    *ret = (struct guest_reply){.type = frame->type};
    if (frame->type == GUEST_STDOUT || frame->type == GUEST_STDERR) {
        ret->output.stream = frame->type == GUEST_STDOUT ? GUEST_STREAM_STDOUT : GUEST_STREAM_STDERR;
        ok = guest_frame_output(frame, &ret->output.offset, &ret->output.data, &ret->output.len);
    } else {
        ok = parse_fields(frame, ret);
    }
    if (ok)
        return 0;
    guest_reply_free(ret);
    return error_set(err, EPROTO, "the sandbox broke the guest protocol: bad frame of type %d", (int)frame->type);
}

void guest_reply_free(struct guest_reply *reply)
{
    switch (reply->type) {
    case GUEST_STARTED:
        free(reply->started.id);
        break;
    case GUEST_ERROR:
        free(reply->error.text);
        break;
    case GUEST_PROCESS:
        free(reply->process.id);
        for (char **a = reply->process.argv; a != NULL && *a != NULL; a++)
            free(*a);
        free(reply->process.argv);
        break;
    default:
        break;
    }
    *reply = (struct guest_reply){0};
}
