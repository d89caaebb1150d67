/* The server's end of SPDY/3.1 against a client made by hand. */
#include "test.h"

#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "wire/http.h"
#include "wire/spdy.h"

#include <zlib.h>

enum { SYN_STREAM = 1, RST_STREAM = 3, SETTINGS, PING = 6, GOAWAY, HEADERS };

/* What the callbacks heard, one word each, and what was sent, as hexadecimal. */
static struct strbuf heard, sent;
static struct spdy *session;
static bool reply;

static void on_open(void *arg UNUSED, uint32_t stream, const struct http_headers *headers, bool fin)
{
    strbuf_addf(&heard, "open %u", stream);
    for (size_t i = 0; i < headers->count; i++)
        strbuf_addf(&heard, " %s=%s", headers->items[i].name, headers->items[i].value);
    strbuf_addf(&heard, "%s\n", fin ? " fin" : "");
    if (reply)
        spdy_reply(session, stream);
}

/* Pieces of data read the same however they are cut. */
static void on_data(void *arg UNUSED, void *owner UNUSED, uint32_t stream, const void *data, size_t len, bool fin)
{
    for (size_t i = 0; i < len; i++)
        strbuf_addf(&heard, "%u:%c\n", stream, ((const char *)data)[i]);
    if (fin)
        strbuf_addf(&heard, "%u:fin\n", stream);
}

static void on_reset(void *arg UNUSED, void *owner, uint32_t stream)
{
    strbuf_addf(&heard, "reset %u%s\n", stream, owner == &session ? " owned" : "");
}

static void on_write(void *arg UNUSED, const void *head, size_t head_len, const void *data, size_t len)
{
    for (size_t i = 0; i < head_len; i++)
        strbuf_addf(&sent, "%02x", ((const uint8_t *)head)[i]);
    for (size_t i = 0; i < len; i++)
        strbuf_addf(&sent, "%02x", ((const uint8_t *)data)[i]);
    strbuf_addc(&sent, '\n');
}

static const struct spdy_callbacks callbacks = {on_open, on_data, on_reset, on_write};

/* The client: its compressed stream, without a dictionary (it may do without), and the bytes made so far. */
struct client {
    z_stream z;
    struct strbuf out;
};

static void put_u32(struct strbuf *b, uint32_t v)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        strbuf_addc(b, (char)(v >> shift));
}

static int setup(void **state)
{
    struct client *c = xcalloc(1, sizeof(*c));

    assert_int_equal(deflateInit(&c->z, 9), Z_OK);
    session = spdy_new(&callbacks, NULL);
    reply = false;
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    struct client *c = *state;

    (void)deflateEnd(&c->z); /* in the middle of its stream */
    strbuf_free(&c->out);
    free(c);
    spdy_free(session);
    strbuf_free(&heard);
    strbuf_free(&sent);
    return 0;
}

static void control(struct client *c, unsigned type, unsigned flags, const void *body, size_t len)
{
    put_u32(&c->out, 0x80030000u | type);
    put_u32(&c->out, flags << 24 | (uint32_t)len);
    strbuf_add(&c->out, body, len);
}

static void deflate_to(struct client *c, const void *data, size_t len, struct strbuf *out)
{
    uint8_t piece[4096];

    c->z.next_in = (Bytef *)(uintptr_t)data;
    c->z.avail_in = (uInt)len;
    do {
        c->z.next_out = piece;
        c->z.avail_out = sizeof(piece);
        assert_int_not_equal(deflate(&c->z, Z_SYNC_FLUSH), Z_STREAM_ERROR);
        strbuf_add(out, (const char *)piece, sizeof(piece) - c->z.avail_out);
    } while (c->z.avail_out == 0);
}

/* A SYN_STREAM whose header block, before compression, is this. */
static void open_raw(struct client *c, uint32_t id, unsigned flags, const void *block, size_t len)
{
    _cleanup_(strbuf_free) struct strbuf body = {0};

    put_u32(&body, id);
    put_u32(&body, 0);
    strbuf_add(&body, "\0\0", 2);
    deflate_to(c, block, len, &body);
    control(c, SYN_STREAM, flags, body.data, body.len);
}

static void open_stream(struct client *c, uint32_t id, unsigned flags, const char *type)
{
    _cleanup_(strbuf_free) struct strbuf block = {0};

    put_u32(&block, 1);
    put_u32(&block, 10);
    strbuf_adds(&block, "streamtype");
    put_u32(&block, (uint32_t)strlen(type));
    strbuf_adds(&block, type);
    open_raw(c, id, flags, block.data, block.len);
}

static void data(struct client *c, uint32_t id, unsigned flags, const char *text)
{
    put_u32(&c->out, id);
    put_u32(&c->out, flags << 24 | (uint32_t)strlen(text));
    strbuf_adds(&c->out, text);
}

static void two_numbers(struct client *c, unsigned type, uint32_t a, uint32_t b)
{
    _cleanup_(strbuf_free) struct strbuf body = {0};

    put_u32(&body, a);
    put_u32(&body, b);
    control(c, type, 0, body.data, body.len);
}

static int feed(struct client *c)
{
    struct error err = ERROR_INIT;
    int r = spdy_feed(session, c->out.data, c->out.len, &err);

    assert_true(r == 0 || (r == -EPROTO && *error_text(&err)));
    error_clear(&err);
    strbuf_free(&c->out);
    return r;
}

static void make_session(struct client *c)
{
    static const uint8_t ping[] = {0, 0, 0, 1};

    control(c, SETTINGS, 0, "\0\0\0\0", 4);
    open_stream(c, 1, 1, "error");
    open_stream(c, 3, 0, "stdin");
    data(c, 3, 0, "hi");
    open_stream(c, 5, 0, "stdout");
    control(c, PING, 0, ping, sizeof(ping));
    data(c, 3, 0, "");
    data(c, 3, 1, "!");
    data(c, 3, 0, "behind the end");
    data(c, 99, 0, "nobody's");
    two_numbers(c, RST_STREAM, 5, 5);
    two_numbers(c, GOAWAY, 0, 0);
}

static void test_session(void **state)
{
    struct client *c = *state;

    make_session(c);
    assert_int_equal(feed(c), 0);
    assert_string_equal(strbuf_str(&heard), "open 1 streamtype=error fin\nopen 3 streamtype=stdin\n3:h\n3:i\n"
                                            "open 5 streamtype=stdout\n3:!\n3:fin\nreset 5\n");
    assert_string_equal(strbuf_str(&sent), "800300060000000400000001\n");
}

static void feed_cut(const struct strbuf *bytes, size_t at, size_t piece)
{
    spdy_free(session);
    session = spdy_new(&callbacks, NULL);
    strbuf_free(&heard);
    strbuf_free(&sent);
    assert_int_equal(spdy_feed(session, bytes->data, at, NULL), 0);
    for (size_t n; at < bytes->len; at += n) {
        n = MIN(piece, bytes->len - at);
        assert_int_equal(spdy_feed(session, bytes->data + at, n, NULL), 0);
    }
}

static void test_cut_anywhere(void **state)
{
    struct client *c = *state;

    make_session(c);
    feed_cut(&c->out, 0, c->out.len);
    _cleanup_free_ char *whole = strbuf_detach(&heard);
    for (size_t at = 1; at < c->out.len; at++) {
        feed_cut(&c->out, at, c->out.len);
        assert_string_equal(strbuf_str(&heard), whole);
        assert_string_equal(strbuf_str(&sent), "800300060000000400000001\n");
    }
    feed_cut(&c->out, 0, 1);
    assert_string_equal(strbuf_str(&heard), whole);
}

/* Of a client that begins with the protocol's dictionary. */
static void test_dictionary(void **state)
{
    static const uint8_t frame[] = {0x80, 0x03, 0x00, 0x01, 0x00, 0x00, 0x00, 0x3e, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
                                    0x00, 0x00, 0x00, 0x00, 0x78, 0xf9, 0xe3, 0xc6, 0xa7, 0xc2, 0x02, 0x25, 0x3a, 0x06,
                                    0x06, 0x06, 0xce, 0x22, 0x48, 0xfc, 0x64, 0x82, 0xd2, 0x2d, 0xa3, 0x01, 0x38, 0xe5,
                                    0x95, 0x14, 0xa5, 0x26, 0xe6, 0x42, 0x0b, 0x17, 0xd6, 0x54, 0x50, 0xd0, 0x43, 0x0a,
                                    0xea, 0x22, 0x70, 0x9e, 0xb0, 0x30, 0xb0, 0x30, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff};
    struct client *c = *state;

    strbuf_add(&c->out, (const char *)frame, sizeof(frame));
    assert_int_equal(feed(c), 0);
    assert_string_equal(strbuf_str(&heard), "open 1 requestid=0 streamtype=error port=8080\n");
}

static void test_answers(void **state)
{
    struct client *c = *state;

    reply = true;
    open_stream(c, 1, 0, "data");
    open_stream(c, 3, 1, "error");
    assert_int_equal(feed(c), 0);
    assert_string_equal(strbuf_str(&sent), "80030002000000180000000178f9e3c6a7c2000400fbff00000000000000ffff\n"
                                           "800300020000001200000003000400fbff00000000000000ffff\n");
    strbuf_free(&sent);
    spdy_data(session, 1, "ab", 2, false);
    spdy_data(session, 1, NULL, 0, false); /* says nothing */
    spdy_data(session, 3, "c", 1, true);   /* both sides have ended: gone */
    spdy_data(session, 3, "d", 1, false);
    spdy_reset(session, 3, SPDY_CANCEL);
    spdy_reply(session, 3);
    spdy_data(session, 1, NULL, 0, true);
    spdy_data(session, 1, "e", 1, false); /* its end is over, the client's is not */
    spdy_goaway(session);
    spdy_reset(session, 1, SPDY_CANCEL);
    assert_string_equal(strbuf_str(&sent), "00000001000000026162\n"
                                           "000000030100000163\n"
                                           "0000000101000000\n"
                                           "80030007000000080000000300000000\n"
                                           "80030003000000080000000100000005\n");
    strbuf_free(&heard);
    spdy_own(session, 1, &session); /* gone as well */
    data(c, 1, 0, "late");
    two_numbers(c, RST_STREAM, 1, 5);
    assert_int_equal(feed(c), 0);
    assert_string_equal(strbuf_str(&heard), "");
}

static void test_owner(void **state)
{
    struct client *c = *state;

    open_stream(c, 1, 0, "data");
    open_stream(c, 3, 0, "data");
    assert_int_equal(feed(c), 0);
    spdy_own(session, 3, &session);
    strbuf_free(&heard);
    two_numbers(c, RST_STREAM, 1, 5);
    two_numbers(c, RST_STREAM, 3, 5);
    assert_int_equal(feed(c), 0);
    assert_string_equal(strbuf_str(&heard), "reset 1\nreset 3 owned\n");
}

static void test_long_data_is_cut(void **state)
{
    struct client *c = *state;
    size_t len = (1u << 24) + 5;
    _cleanup_free_ char *much = xcalloc(1, len);

    open_stream(c, 1, 0, "data");
    assert_int_equal(feed(c), 0);
    spdy_data(session, 1, much, len, true);
    assert_true(strncmp(strbuf_str(&sent), "0000000100ffffff", 16) == 0);
    assert_non_null(strstr(strbuf_str(&sent), "\n0000000101000006000000000000\n"));
}

static void test_late_headers_end_a_stream(void **state)
{
    struct client *c = *state;
    _cleanup_(strbuf_free) struct strbuf body = {0};

    open_stream(c, 1, 0, "data");
    put_u32(&body, 1);
    deflate_to(c, "\0\0\0\0", 4, &body);
    control(c, HEADERS, 1, body.data, body.len);
    data(c, 1, 0, "late");
    assert_int_equal(feed(c), 0);
    assert_string_equal(strbuf_str(&heard), "open 1 streamtype=data\n1:fin\n");
}

static void test_number_of_streams(void **state)
{
    struct client *c = *state;

    for (uint32_t i = 0; i <= SPDY_STREAMS_MAX; i++)
        open_stream(c, 2 * i + 1, 0, "data");
    assert_int_equal(feed(c), 0);
    assert_string_equal(strbuf_str(&sent), "80030003000000080000200100000003\n"); /* the last is refused */
    strbuf_free(&heard);
    two_numbers(c, RST_STREAM, 1, 5);
    open_stream(c, 2 * SPDY_STREAMS_MAX + 3, 0, "data");
    assert_int_equal(feed(c), 0);
    assert_non_null(strstr(strbuf_str(&heard), "open 8195 "));
}

static void test_bad_streams(void **state)
{
    static const struct {
        uint32_t first, second;
    } cases[] = {{0, 0}, {2, 0}, {1, 1}, {3, 1}, {0x80000001u, 1}};
    struct client *c = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        void *again = c;
        open_stream(c, cases[i].first, 0, "data");
        if (cases[i].second) {
            assert_int_equal(feed(c), 0);
            open_stream(c, cases[i].second, 0, "data");
        }
        assert_int_equal(feed(c), -EPROTO);
        teardown(&again);
        setup(&again);
        c = *state = again;
    }
}

static void test_bad_blocks(void **state)
{
#define BLOCK(text) text, sizeof(text) - 1
    static const struct {
        const char *block;
        size_t len;
    } cases[] = {
        {BLOCK("")},
        {BLOCK("\0\0\0")},
        {BLOCK("\0\0\0\1")},
        {BLOCK("\0\0\0\1\0\0\0\1a")},
        {BLOCK("\0\0\0\1\0\0\0\1a\0\0\0\2b")},
        {BLOCK("\0\0\0\1\377\377\377\377a\0\0\0\1b")},
        {BLOCK("\0\0\0\1\0\0\0\1a\0\0\0\1bc")},
        {BLOCK("\0\0\0\1\0\0\0\1a\0\0\0\3b\0c")},
        {BLOCK("\377\377\377\377")},
    };
    struct client *c = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        void *again = c;
        open_raw(c, 1, 0, cases[i].block, cases[i].len);
        assert_int_equal(feed(c), -EPROTO);
        assert_string_equal(strbuf_str(&heard), "");
        teardown(&again);
        setup(&again);
        c = *state = again;
    }
}

static void test_bad_compression(void **state)
{
    struct client *c = *state;

    control(c, SYN_STREAM, 0, "\0\0\0\1\0\0\0\0\0\0no zlib", 17);
    assert_int_equal(feed(c), -EPROTO);
}

/* A small frame that inflates to a large block. */
static void test_large_block(void **state)
{
    struct client *c = *state;
    size_t len = SPDY_HEADER_BLOCK_MAX * 100;
    _cleanup_free_ char *block = xcalloc(1, len);

    open_raw(c, 1, 0, block, len);
    assert_true(c->out.len < SPDY_CONTROL_MAX);
    assert_int_equal(feed(c), -EPROTO);
}

static void test_bad_frames(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        int expected;
    } cases[] = {
        {BLOCK("\200\2\0\6\0\0\0\0"), -EPROTO},        /* version 2 */
        {BLOCK("\201\3\0\6\0\0\0\0"), -EPROTO},        /* version 259 */
        {BLOCK("\200\3\0\1\0\1\0\1"), -EPROTO},        /* a byte above SPDY_CONTROL_MAX */
        {BLOCK("\200\3\0\4\0\1\0\0"), 0},              /* that much, to come */
        {BLOCK("\200\3\0\1\0\0\0\0"), -EPROTO},        /* a stream without number */
        {BLOCK("\200\3\0\10\0\0\0\3\0\0\0"), -EPROTO}, /* headers without number */
        {BLOCK("\200\3\0\3\0\0\0\0"), 0},              /* a reset of nothing */
        {BLOCK("\200\3\0\6\0\0\0\4\0\0\0\2"), 0},      /* an answer to a ping of ours */
        {BLOCK("\200\3\0\143\0\0\0\2ab"), 0},          /* of a type that is unknown */
        {BLOCK("\0\0\0\7\0\377\377\377"), 0},          /* data for nobody, to come */
    };
    struct client *c = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        void *again = c;
        strbuf_add(&c->out, cases[i].bytes, cases[i].len);
        assert_int_equal(feed(c), cases[i].expected);
        assert_string_equal(strbuf_str(&sent), "");
        teardown(&again);
        setup(&again);
        c = *state = again;
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_session, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_anywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dictionary, setup, teardown),
        cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_data_is_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late_headers_end_a_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(test_number_of_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_compression, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_block, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_frames, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
