/* Bytes of a client behind the upgrade, whole and in pieces; the first byte says how the server answers streams. */
#include "fuzz.h"

#include "wire/http.h"
#include "wire/spdy.h"

static struct spdy *session;
static uint8_t behaviour;
static size_t open_streams;

static void on_open(void *arg, uint32_t stream, const struct http_headers *headers, bool fin)
{
    (void)arg;
    (void)headers;
    (void)fin;
    if (++open_streams > 1u << 20)
        abort();
    if (behaviour & 1)
        spdy_reply(session, stream);
    if (behaviour & 2)
        spdy_data(session, stream, "hello", 5, behaviour & 4);
    if (behaviour & 8)
        spdy_reset(session, stream, SPDY_CANCEL);
}

static void on_data(void *arg, void *owner, uint32_t stream, const void *data, size_t len, bool fin)
{
    (void)arg;
    (void)owner;
    if (behaviour & 16)
        spdy_data(session, stream, data, len, fin);
}

static void on_reset(void *arg, void *owner, uint32_t stream)
{
    (void)arg;
    (void)owner;
    spdy_data(session, stream, "gone", 4, true);
}

static void on_write(void *arg, const void *head, size_t head_len, const void *data, size_t len)
{
    (void)arg;
    (void)head;
    (void)data;
    if (head_len + len == 0)
        abort();
}

static void run(const uint8_t *data, size_t size, size_t piece)
{
    static const struct spdy_callbacks callbacks = {on_open, on_data, on_reset, on_write};
    _cleanup_error_ struct error err = ERROR_INIT;

    session = spdy_new(&callbacks, NULL);
    open_streams = 0;
    for (size_t at = 0; at < size; at += piece)
        if (spdy_feed(session, data + at, MIN(piece, size - at), &err) < 0)
            break;
    spdy_free(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    behaviour = data[0];
    run(data + 1, size - 1, 1);
    run(data + 1, size - 1, size);
    return 0;
}
