/* Connections to ports of a sandbox, against a guest that says whatever the test wants. */
#include "test.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "wire/guest_connect.h"
#include "wire/guest_request.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

static struct event_base *base;
static int guest; /* its end of the connection */
static struct guest_connect *call;
static struct bufferevent *connected;
static int failed;
static char *text;

static void on_connected(void *arg, struct bufferevent *bev)
{
    assert_ptr_equal(arg, &guest);
    connected = bev;
}

static void on_failed(void *arg, const struct error *err)
{
    assert_ptr_equal(arg, &guest);
    failed = err->code;
    text = xstrdup(error_text(err));
}

static int setup(void **state UNUSED)
{
    static const struct guest_connect_callbacks callbacks = {on_connected, on_failed};
    _cleanup_error_ struct error err = ERROR_INIT;
    int ends[2];

    base = event_base_new();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    guest = ends[1];
    connected = NULL;
    failed = 0;
    call = guest_connect(base, ends[0], 8080, &callbacks, &guest, &err);
    assert_non_null(call);
    return 0;
}

static int teardown(void **state UNUSED)
{
    if (connected)
        bufferevent_free(connected);
    free(take_ptr(text));
    if (guest >= 0)
        assert_int_equal(close(guest), 0);
    event_base_free(base);
    return 0;
}

static void turn(void)
{
    for (int i = 0; i < 5; i++)
        assert_true(event_base_loop(base, EVLOOP_NONBLOCK) >= 0);
}

static void say(const void *data, size_t len)
{
    assert_int_equal(write(guest, data, len), (ssize_t)len);
}

static void test_request(void **state UNUSED)
{
    struct guest_buffer expected = {0};
    uint8_t got[256];

    assert_int_equal(guest_request_connect(&expected, 8080, NULL), 0);
    turn();
    assert_int_equal(read(guest, got, sizeof(got)), (ssize_t)guest_buffer_len(&expected));
    assert_memory_equal(got, expected.data + expected.start, guest_buffer_len(&expected));
    guest_buffer_free(&expected);
    guest_connect_free(call);
    turn();
    assert_int_equal(read(guest, got, sizeof(got)), 0);
    assert_true(!connected && !failed);
}

static struct guest_buffer done_frame(void)
{
    struct guest_buffer b = {0};

    guest_frame_begin(&b, GUEST_DONE);
    guest_frame_end(&b);
    return b;
}

/* The answer may come byte by byte; what follows it is the connection's. */
static void test_connected(void **state UNUSED)
{
    struct guest_buffer b = done_frame();
    size_t len = guest_buffer_len(&b);

    for (size_t i = 0; i + 1 < len; i++) {
        say(b.data + b.start + i, 1);
        turn();
        assert_true(!connected && !failed);
    }
    guest_buffer_add(&b, "hello", 5);
    say(b.data + b.start + len - 1, 6);
    turn();
    guest_buffer_free(&b);
    assert_non_null(connected);
    assert_int_equal(failed, 0);
    struct evbuffer *in = bufferevent_get_input(connected);
    assert_int_equal(evbuffer_get_length(in), 5);
    assert_memory_equal(evbuffer_pullup(in, 5), "hello", 5);
    say("more", 4);
    turn();
    assert_int_equal(evbuffer_get_length(in), 5); /* nothing is read before its new owner wants it */
    assert_int_equal(bufferevent_enable(connected, EV_READ), 0);
    turn();
    assert_int_equal(evbuffer_get_length(in), 9);
}

static void refuse(int code, const char *why)
{
    struct guest_buffer b = {0};

    guest_frame_begin(&b, GUEST_ERROR);
    guest_put_number(&b, GUEST_TAG_CODE, (uint64_t)code);
    guest_put_text(&b, GUEST_TAG_TEXT, why);
    guest_frame_end(&b);
    say(b.data + b.start, guest_buffer_len(&b));
    guest_buffer_free(&b);
    turn();
}

static void test_refused(void **state UNUSED)
{
    refuse(ECONNREFUSED, "Connection refused");
    assert_int_equal(failed, ECONNREFUSED);
    assert_string_equal(text, "Connection refused");
    assert_null(connected);
}

/* A guest from before there were ports calls the request a breach of the protocol. */
static void test_older_guest(void **state UNUSED)
{
    refuse(EPROTO, "unknown frame");
    assert_int_equal(failed, EPROTO);
    assert_non_null(strstr(text, "older holt"));
}

static void test_end(void **state UNUSED)
{
    turn();
    assert_int_equal(close(guest), 0);
    guest = -1;
    turn();
    assert_int_equal(failed, ECONNRESET);
}

static void test_end_within_the_answer(void **state UNUSED)
{
    struct guest_buffer b = done_frame();

    turn();
    say(b.data + b.start, guest_buffer_len(&b) - 1);
    guest_buffer_free(&b);
    assert_int_equal(shutdown(guest, SHUT_WR), 0);
    turn();
    assert_int_equal(failed, ECONNRESET);
}

static void test_garbage(void **state UNUSED)
{
    uint8_t garbage[64];

    for (size_t i = 0; i < sizeof(garbage); i++)
        garbage[i] = 0xff;
    say(garbage, sizeof(garbage));
    turn();
    assert_int_equal(failed, EPROTO);
}

/* Well formed, and no answer to this. */
static void test_other_frame(void **state UNUSED)
{
    struct guest_buffer b = {0};

    guest_frame_bytes(&b, GUEST_STDOUT, "x", 1);
    say(b.data + b.start, guest_buffer_len(&b));
    guest_buffer_free(&b);
    turn();
    assert_int_equal(failed, EPROTO);
    assert_null(connected);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_request, setup, teardown),
        cmocka_unit_test_setup_teardown(test_connected, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_older_guest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end_within_the_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_garbage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_frame, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
