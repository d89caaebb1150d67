/* The server's end against frames made by hand, and both ends against each other, plain and with TLS. */
#include "loopback.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "wire/http.h"
#include "wire/tls.h"
#include "wire/websocket.h"

#include <event2/bufferevent.h>
#include <signal.h>

#define MESSAGE_MAX 100000
#define HANDSHAKE                                                                                                      \
    "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"                         \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
/* From RFC 6455, section 1.3. */
#define ACCEPT "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

static struct event_base *base;
static struct http_server *server;
static struct websocket *ws; /* the server's end */
static uint16_t port;
static int messages, closed_code, drained;
static size_t last_len;
static char *protocol;
/* What the server does with a message. */
static enum { ECHO, CLOSE_IN_MESSAGE, PAUSE_IN_MESSAGE, COUNT } behaviour;

static void on_message(void *arg UNUSED, struct websocket *w, bool binary, const char *data, size_t len)
{
    messages++;
    last_len = len;
    if (behaviour == ECHO)
        websocket_send(w, binary, data, len);
    else if (behaviour == CLOSE_IN_MESSAGE)
        websocket_close(w, 4000, "done");
    else if (behaviour == PAUSE_IN_MESSAGE)
        websocket_pause(w, true);
}

static void on_closed(void *arg UNUSED, struct websocket *w, int code)
{
    closed_code = code;
    websocket_send(w, true, "late", 4);
    websocket_close(w, 1000, NULL);
    ws = NULL;
}

static void on_drained(void *arg UNUSED, struct websocket *w UNUSED)
{
    drained++;
}

static const struct websocket_callbacks callbacks = {.message = on_message, .closed = on_closed, .drained = on_drained};

static void handle(void *arg UNUSED, struct http_request *req)
{
    if (!websocket_requested(req)) {
        http_respond(req, 404, "text/plain", "no\n", 3);
        return;
    }
    free(protocol);
    protocol = websocket_offered(req, 1);
    ws = websocket_accept(req, protocol, MESSAGE_MAX, &callbacks, NULL);
}

static void start(struct ssl_ctx_st *tls)
{
    base = event_base_new();
    server = http_server_new(base, loopback_listen(&port), tls, NULL, handle, NULL);
    messages = closed_code = drained = 0;
    behaviour = ECHO;
    ws = NULL;
}

static void stop(void)
{
    http_server_free(server);
    event_base_free(base);
    free(protocol);
    protocol = NULL;
}

static int setup(void **state UNUSED)
{
    start(NULL);
    return 0;
}

static int teardown(void **state UNUSED)
{
    stop();
    return 0;
}

/* A frame as a client sends it: masked. first is the byte of FIN, RSV and opcode. */
static void add_frame(struct strbuf *b, uint8_t first, const char *data, size_t len)
{
    static const uint8_t mask[4] = {1, 2, 3, 4};

    strbuf_addc(b, (char)first);
    if (len < 126) {
        strbuf_addc(b, (char)(0x80 | len));
    } else if (len < 65536) {
        strbuf_addc(b, (char)(0x80 | 126));
        strbuf_addc(b, (char)(len >> 8));
        strbuf_addc(b, (char)len);
    } else {
        strbuf_addc(b, (char)(0x80 | 127));
        for (int i = 7; i >= 0; i--)
            strbuf_addc(b, (char)((uint64_t)len >> (8 * i)));
    }
    strbuf_add(b, mask, 4);
    for (size_t i = 0; i < len; i++)
        strbuf_addc(b, (char)(data[i] ^ mask[i % 4]));
}

/* Sends the handshake and what follows, in one piece; what comes back behind the head, up to the end. */
static char *converse(const struct strbuf *frames, size_t *ret_len)
{
    _cleanup_(strbuf_free) struct strbuf all = {0}, got = {0};
    int fd = loopback_connect(port);
    char buf[65536];

    strbuf_adds(&all, HANDSHAKE "\r\n");
    strbuf_add(&all, frames->data, frames->len);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    bool told = false;
    for (size_t at = 0;;) {
        ssize_t w = at < all.len ? write(fd, all.data + at, all.len - at) : 0;
        at += w > 0 ? (size_t)w : 0;
        ssize_t n = read(fd, buf, sizeof(buf));
        if (n == 0)
            break;
        if (n > 0)
            strbuf_add(&got, buf, (size_t)n);
        else
            assert_int_equal(errno, EAGAIN); /* never a reset */
        if (!told && at == all.len && got.len && memchr(got.data, 0x88, got.len)) {
            told = true; /* the close frame: a polite client ends its side, too */
            (void)shutdown(fd, SHUT_WR);
        }
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
    }
    (void)close(fd);
    const char *body = got.len ? strstr(got.data, "\r\n\r\n") : NULL;
    if (!body)
        print_error("no answer, but %zu bytes: %s\n", got.len, strbuf_str(&got));
    assert_non_null(body);
    assert_non_null(str_skip_prefix(got.data, "HTTP/1.1 101 Switching Protocols\r\n"));
    *ret_len = got.len - (size_t)(body + 4 - got.data);
    return xmemdup(body + 4, *ret_len + 1);
}

static void test_handshakes(void **state UNUSED)
{
    static const struct {
        const char *sent, *has, *has_not;
    } cases[] = {
        {HANDSHAKE "Sec-WebSocket-Protocol: a, b/c+d\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
         "Sec-WebSocket-Protocol: b/c+d", "Extensions"},
        {HANDSHAKE "Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b\r\n\r\n", "Sec-WebSocket-Protocol: b\r",
         "400"},
        {HANDSHAKE "\r\n", ACCEPT, "Sec-WebSocket-Protocol"},
        {"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n"
         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
         "400 Bad Request", "101"},
        {"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
         "13\r\n\r\n",
         "Sec-WebSocket-Version: 13", "101"},
        {"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZSEh\r\n\r\n", /* 18 bytes */
         "400 Bad Request", "101"},
        {"POST /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
         "400 Bad Request", "101"},
        {"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n", "404 Not Found", "101"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int fd = loopback_send(port, cases[i].sent);
        loopback_run(base, 20);
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        _cleanup_free_ char *answer = loopback_read(base, fd, NULL);
        if (!strstr(answer, cases[i].has) || strstr(answer, cases[i].has_not))
            print_error("%s\ngave\n%s\n", cases[i].sent, answer);
        assert_non_null(strstr(answer, cases[i].has));
        assert_null(strstr(answer, cases[i].has_not));
        loopback_run(base, 5);
        assert_null(ws);
    }
}

/* What a client may and may not send: the frames, the code the server answers with, the messages it saw. */
static void test_frames(void **state UNUSED)
{
    static const char long_ping[126];
    static const struct {
        const char *name;
        struct {
            uint8_t first;
            const char *data;
            size_t len;
        } frames[4];
        int told, code, messages; /* code in the server's close frame; code its owner hears */
    } cases[] = {
        {"text, close", {{0x81, "hi", 2}, {0x88, "\x03\xe8", 2}}, 1000, 1000, 1},
        {"close without a code", {{0x88, "", 0}}, 0, 1005, 0},
        {"own code", {{0x88, "\x0f\xa1 bye", 6}}, 4001, 4001, 0},
        {"fragments with a ping inside",
         {{0x01, "a", 1}, {0x89, "p", 1}, {0x80, "b", 1}, {0x88, "\x03\xe8", 2}},
         1000,
         1000,
         1},
        {"empty message", {{0x82, "", 0}, {0x88, "\x03\xe8", 2}}, 1000, 1000, 1},
        {"message behind the close", {{0x88, "\x03\xe8", 2}, {0x82, "x", 1}}, 1000, 1000, 0},
        {"reserved bit", {{0xc1, "hi", 2}}, 1002, 1002, 0},
        {"unknown opcode", {{0x83, "hi", 2}}, 1002, 1002, 0},
        {"unknown control", {{0x8b, "hi", 2}}, 1002, 1002, 0},
        {"continuation of nothing", {{0x80, "hi", 2}}, 1002, 1002, 0},
        {"new message inside another", {{0x01, "a", 1}, {0x81, "b", 1}}, 1002, 1002, 0},
        {"fragmented ping", {{0x09, "a", 1}}, 0, 1002, 0},
        {"long ping", {{0x89, long_ping, 126}}, 0, 1002, 0},
        {"not UTF-8", {{0x81, "\xff\xfe", 2}}, 1007, 1007, 0},
        {"binary needs no UTF-8", {{0x82, "\xff\xfe", 2}, {0x88, "\x03\xe8", 2}}, 1000, 1000, 1},
        {"forbidden code", {{0x88, "\x03\xed", 2}}, 1002, 1002, 0},
        {"half a code", {{0x88, "\x03", 1}}, 0, 1005, 0}, /* wslay reads it as none */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(strbuf_free) struct strbuf b = {0};
        size_t len;

        messages = closed_code = 0;
        for (size_t k = 0; k < 4 && cases[i].frames[k].data; k++)
            add_frame(&b, cases[i].frames[k].first, cases[i].frames[k].data, cases[i].frames[k].len);
        _cleanup_free_ char *got = converse(&b, &len);
        loopback_run(base, 5);
        const uint8_t *end = memmem(got, len, "\x88", 1);
        int told = !end ? -1 : end[1] >= 2 ? end[2] << 8 | end[3] : 0;
        if (told != cases[i].told || closed_code != cases[i].code || messages != cases[i].messages)
            print_error("%s: told %d, heard %d, %d messages\n", cases[i].name, told, closed_code, messages);
        assert_int_equal(told, cases[i].told);
        assert_int_equal(closed_code, cases[i].code);
        assert_int_equal(messages, cases[i].messages);
        assert_null(ws);
    }
}

static void test_unmasked(void **state UNUSED)
{
    struct strbuf b = {0};
    size_t len;

    strbuf_add(&b, "\x81\x02hi", 4);
    _cleanup_free_ char *got = converse(&b, &len);
    assert_int_equal(messages, 0);
    assert_memory_equal(got, "\x88", 1);
    assert_memory_equal(got + 2, "\x03\xea", 2);
    strbuf_free(&b);
}

static void test_sizes(void **state UNUSED)
{
    static const size_t sizes[] = {0, 1, 125, 126, 127, 4096, 65535, 65536, MESSAGE_MAX, MESSAGE_MAX + 1, 3000000};
    char *data = xcalloc(1, 3000000);

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        _cleanup_(strbuf_free) struct strbuf b = {0};
        bool fits = sizes[i] <= MESSAGE_MAX;
        size_t len;

        messages = closed_code = 0;
        add_frame(&b, 0x82, data, sizes[i]);
        add_frame(&b, 0x88, "\x03\xe8", 2);
        _cleanup_free_ char *got = converse(&b, &len); /* the client sends all of it and is not cut off */
        loopback_run(base, 5);
        assert_int_equal(messages, fits);
        assert_int_equal(closed_code, fits ? 1000 : 1009);
        if (fits)
            assert_int_equal(last_len, sizes[i]);
        else
            assert_memory_equal(got, "\x88", 1);
    }
    free(data);
}

static void test_fragment_flood(void **state UNUSED)
{
    struct strbuf b = {0};
    size_t len;

    add_frame(&b, 0x02, "x", 1);
    for (int i = 0; i < 50000; i++)
        add_frame(&b, 0x00, "x", 1);
    add_frame(&b, 0x80, "x", 1);
    free(converse(&b, &len));
    loopback_run(base, 5);
    assert_int_equal(messages, 0);
    assert_int_equal(closed_code, 1008);
    strbuf_free(&b);
}

/* A peer that pings and never reads costs a bounded amount of memory, and is answered once it reads. */
static void test_ping_flood(void **state UNUSED)
{
    struct strbuf b = {0};
    char payload[125] = {0};
    int fd = loopback_send(port, HANDSHAKE "\r\n");
    size_t sent = 0, peak = 0;

    while (!ws)
        (void)event_base_loop(base, EVLOOP_ONCE);
    for (int i = 0; i < 1000; i++)
        add_frame(&b, 0x89, payload, sizeof(payload));
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    for (int idle = 0; sent < (64u << 20) && idle < 200;) {
        ssize_t n = write(fd, b.data + sent % b.len, b.len - sent % b.len);
        sent += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
        peak = MAX(peak, websocket_pending(ws));
    }
    assert_true(sent < (64u << 20)); /* it was made to wait */
    assert_true(peak < (1u << 20));
    size_t got = 0, pongs_expected = sent / 131 * 127;
    char buf[65536];
    for (int idle = 0; got < pongs_expected && idle < 1000;) {
        ssize_t n = read(fd, buf, sizeof(buf));
        got += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
    }
    assert_true(got >= pongs_expected);
    (void)close(fd);
    while (ws)
        (void)event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(closed_code, 1006);
    strbuf_free(&b);
}

static void test_server_closes(void **state UNUSED)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};
    size_t len;

    behaviour = CLOSE_IN_MESSAGE;
    add_frame(&b, 0x81, "go", 2);
    add_frame(&b, 0x81, "ignored", 7);
    add_frame(&b, 0x88, "\x0f\xa0", 2);
    _cleanup_free_ char *got = converse(&b, &len);
    loopback_run(base, 5);
    assert_int_equal(messages, 1);
    assert_int_equal(closed_code, 4000);
    assert_int_equal(len, 2 + 2 + 4);
    assert_memory_equal(got + 4, "done", 4);
}

/* A long reason is cut between characters, and the close frame still goes out. */
static void test_long_reason(void **state UNUSED)
{
    int fd = loopback_send(port, HANDSHAKE "\r\n");
    char reason[300];

    while (!ws)
        (void)event_base_loop(base, EVLOOP_ONCE);
    for (size_t i = 0; i + 1 < sizeof(reason); i++)
        reason[i] = "\xe2\x82\xac"[i % 3];
    reason[sizeof(reason) - 1] = '\0';
    websocket_close(ws, 1011, reason);
    loopback_run(base, 20);
    struct strbuf bye = {0};
    add_frame(&bye, 0x88, "\x03\xf3", 2);
    assert_int_equal(fd_write_all(fd, bye.data, bye.len), 0);
    strbuf_free(&bye);
    _cleanup_free_ char *answer = loopback_read(base, fd, NULL);
    const char *frame = strstr(answer, "\r\n\r\n") + 4;
    assert_int_equal((uint8_t)frame[0], 0x88);
    assert_int_equal(frame[1], 2 + 123);
    loopback_run(base, 5);
    assert_int_equal(closed_code, 1011);
}

/* Both ends of ours. */

struct client_end {
    struct http_headers handshake;
    struct websocket *ws;
    int code, failed;
    size_t received, messages;
    uint8_t sum;
};

static void client_message(void *arg, struct websocket *w UNUSED, bool binary UNUSED, const char *data, size_t len)
{
    struct client_end *c = arg;

    c->messages++;
    c->received += len;
    for (size_t i = 0; i < len; i++)
        c->sum = (uint8_t)(c->sum * 31 + (uint8_t)data[i]);
}

static void client_closed(void *arg, struct websocket *w UNUSED, int code)
{
    struct client_end *c = arg;

    c->ws = NULL;
    c->code = code;
}

static void on_upgraded(void *arg, struct bufferevent *bev, const struct http_headers *answer)
{
    static const struct websocket_callbacks client_callbacks = {.message = client_message, .closed = client_closed};
    struct client_end *c = arg;

    c->ws = websocket_connected(base, bev, &c->handshake, answer, 4u << 20, &client_callbacks, c);
    assert_non_null(c->ws);
}

static void on_failed(void *arg, const struct error *err)
{
    struct client_end *c = arg;

    print_error("%s\n", error_text(err));
    c->failed++;
}

static struct http_client *client_connect(struct client_end *c, struct ssl_ctx_st *tls)
{
    static const struct http_call_callbacks call_callbacks = {.failed = on_failed};
    struct http_client_options o = {.host = "127.0.0.1", .port = port, .tls = tls};
    struct http_client *client = http_client_new(base, &o);

    websocket_handshake(&c->handshake, "a,b");
    (void)http_call_upgrade(client, "GET", "/ws", &c->handshake, &call_callbacks, on_upgraded, c);
    while ((!c->ws || !ws) && !c->failed)
        (void)event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(c->failed, 0);
    return client;
}

/* Much data both ways, while the server pauses and resumes at every message: nothing is lost, nothing hangs. */
static void exchange(struct ssl_ctx_st *client_tls)
{
    struct client_end c = {0};
    struct http_client *client = client_connect(&c, client_tls);
    uint8_t sum = 0;
    char data[70000];
    size_t total = 0;

    assert_string_equal(protocol, "b");
    for (int i = 0; i < 200; i++) {
        size_t len = (size_t)(i * 7919) % sizeof(data);
        for (size_t k = 0; k < len; k++) {
            data[k] = (char)(i + (int)k);
            sum = (uint8_t)(sum * 31 + (uint8_t)data[k]);
        }
        websocket_send(c.ws, true, data, len);
        total += len;
    }
    for (int turns = 0; c.messages < 200 && turns < 100000; turns++) {
        websocket_pause(ws, turns % 3 == 0);
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
    }
    websocket_pause(ws, false);
    for (int turns = 0; c.messages < 200 && turns < 1000; turns++)
        loopback_run(base, 1);
    assert_int_equal(c.messages, 200);
    assert_int_equal(c.received, total);
    assert_int_equal(c.sum, sum);
    websocket_close(c.ws, 1000, "bye");
    while (ws || c.ws)
        (void)event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(closed_code, 1000);
    assert_int_equal(c.code, 1000);
    http_headers_free(&c.handshake);
    http_client_free(client);
}

static void test_exchange(void **state UNUSED)
{
    exchange(NULL);
    assert_true(drained > 0);
}

/* While paused nothing is delivered; what waits comes when reading goes on, though nothing new arrives. */
static void pause_and_resume(struct ssl_ctx_st *client_tls)
{
    struct client_end c = {0};
    struct http_client *client = client_connect(&c, client_tls);
    static const char block[60000];

    behaviour = PAUSE_IN_MESSAGE;
    for (int i = 0; i < 20; i++)
        websocket_send(c.ws, true, block, sizeof(block));
    for (int i = 1; i <= 20; i++) {
        for (int turns = 0; messages < i && turns < 1000; turns++)
            loopback_run(base, 1);
        assert_int_equal(messages, i);
        loopback_run(base, 2);
        assert_int_equal(messages, i);
        websocket_pause(ws, false);
    }
    websocket_pause(ws, true);
    websocket_close(ws, 1001, NULL); /* ends a pause */
    while (ws || c.ws)
        (void)event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(c.code, 1001);
    http_headers_free(&c.handshake);
    http_client_free(client);
}

static void test_pause(void **state UNUSED)
{
    pause_and_resume(NULL);
}

/* What is queued before the close arrives, however slowly the peer reads. */
static void test_close_behind_output(void **state UNUSED)
{
    struct client_end c = {0};
    struct http_client *client = client_connect(&c, NULL);
    static const char block[1 << 20];

    websocket_pause(c.ws, true);
    for (int i = 0; i < 20; i++)
        websocket_send(ws, true, block, sizeof(block));
    websocket_close(ws, 1000, NULL);
    websocket_send(ws, true, "no more", 7);
    loopback_run(base, 50);
    assert_non_null(ws);
    websocket_pause(c.ws, false);
    while (ws || c.ws)
        (void)event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(c.received, 20u << 20);
    assert_int_equal(c.code, 1000);
    http_headers_free(&c.handshake);
    http_client_free(client);
}

static void test_lost(void **state UNUSED)
{
    int fd = loopback_send(port, HANDSHAKE "\r\n");

    while (!ws)
        (void)event_base_loop(base, EVLOOP_ONCE);
    (void)close(fd);
    while (ws)
        (void)event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(closed_code, 1006);
}

static void test_tls(void **state UNUSED)
{
    static const char *const ips[] = {"127.0.0.1", NULL};
    struct tls_cert_request q = {.common_name = "s", .ip_addresses = ips, .server = true, .valid_seconds = 3600};
    _cleanup_(tls_cert_free) struct tls_cert ca = {0}, s = {0};

    assert_int_equal(tls_make_ca("test", 1, &ca, NULL), 0);
    assert_int_equal(tls_issue(&ca, &q, &s, NULL), 0);
    struct ssl_ctx_st *st = tls_server_context(&s, NULL, NULL), *ct = tls_client_context(ca.cert_pem, NULL, NULL);
    stop();
    start(st);
    exchange(ct);
    messages = 0;
    pause_and_resume(ct);
    stop();
    tls_context_free(st);
    tls_context_free(ct);
    start(NULL);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_handshakes),
        CASE(test_frames),
        CASE(test_unmasked),
        CASE(test_sizes),
        CASE(test_fragment_flood),
        CASE(test_ping_flood),
        CASE(test_server_closes),
        CASE(test_long_reason),
        CASE(test_exchange),
        CASE(test_pause),
        CASE(test_close_behind_output),
        CASE(test_lost),
        CASE(test_tls),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("websocket", tests, NULL, NULL);
}
