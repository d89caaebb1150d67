/* The host's client against a guest that lies: everything but the protocol ends the operation with EPROTO. */
#include "guest_fixture.h"

#include "base/timeutil.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STARTED "\x11\0\0\0\x0b\0\0\0\x01\0\x01\0\0\0a\x12\0\x04\0\0\0\x01\0\0\0"
#define OUT(c) "\x09\0\0\0\x0d\0\0\0\0\0\0\0\0\0\0\0" c
#define EXIT_3 "\x1e\0\0\0\x10\0\0\0\x13\0\x04\0\0\0\x03\0\0\0\x0f\0\x04\0\0\0\0\0\0\0\x0a\0\x04\0\0\0\0\0\0\0"
#define DONE "\0\0\0\0\x12\0\0\0"
#define PONG "\x14\0\0\0\x0a\0\0\0\x18\0\x04\0\0\0\x01\0\0\0\x19\0\x04\0\0\0\0\0\0\0"

struct lie_case {
    const char *name;
    enum guest_frame_type operation;
    const char *bytes;
    size_t len;
    int code; /* of the error, 0 = a good end */
};

#define B(s) (s), sizeof(s) - 1

static const struct lie_case cases[] = {
    {"honest start", GUEST_START, B(STARTED OUT("x") EXIT_3), 0},
    {"nothing", GUEST_START, B(""), ECONNRESET},
    {"half a frame", GUEST_START, B("\x11\0\0\0\x0b\0\0\0\x01\0"), ECONNRESET},
    {"no end", GUEST_START, B(STARTED OUT("x")), ECONNRESET},
    {"4 GiB", GUEST_START, B("\xff\xff\xff\xff\x0b\0\0\0"), EPROTO},
    {"128 KiB + 1", GUEST_START, B("\x01\0\x02\0\x0b\0\0\0"), EPROTO},
    {"type 0", GUEST_START, B("\0\0\0\0\0\0\0\0"), EPROTO},
    {"output before the start", GUEST_START, B(OUT("x")), EPROTO},
    {"exit before the start", GUEST_START, B(EXIT_3), EPROTO},
    {"started twice", GUEST_START, B(STARTED STARTED), EPROTO},
    {"a request", GUEST_START, B(STARTED "\0\0\0\0\x04\0\0\0"), EPROTO},
    {"done for a start", GUEST_START, B(STARTED DONE), EPROTO},
    {"pong for a start", GUEST_START, B(PONG), EPROTO},
    {"output without bytes", GUEST_START, B(STARTED "\x08\0\0\0\x0d\0\0\0\0\0\0\0\0\0\0\0"), EPROTO},
    {"honest ping", GUEST_PING, B(PONG), 0},
    {"done for a ping", GUEST_PING, B(DONE), EPROTO},
    {"honest list", GUEST_LIST, B(DONE), 0},
    {"exit in a list", GUEST_LIST, B(EXIT_3), EPROTO},
    {"list without an end", GUEST_LIST, B(""), ECONNRESET},
};

static struct guest_client *make(struct event_base *base, int fd, enum guest_frame_type operation, struct run *r)
{
    static const char *const argv[] = {"x", NULL};
    struct guest_start_request q = {.argv = argv};
    struct error err = ERROR_INIT;
    switch (operation) {
    case GUEST_START:
        return guest_start(base, fd, &q, &run_callbacks, r, &err);
    case GUEST_LIST:
        return guest_list(base, fd, &run_callbacks, r, &err);
    default:
        return guest_ping(base, fd, &run_callbacks, r, &err);
    }
}

static void test_lies(void **state)
{
    (void)state;
    struct guest_fixture f = {.base = event_base_new()};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        /* At once, and byte by byte. */
        for (size_t piece = cases[i].len + 1;; piece = 1) {
            struct run r = {.f = &f, .keep = true};
            int pair[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
            r.client = make(f.base, pair[0], cases[i].operation, &r);
            assert_non_null(r.client);
            for (size_t at = 0; at < cases[i].len; at += piece) {
                (void)!write(pair[1], cases[i].bytes + at, MIN(piece, cases[i].len - at));
                event_base_loop(f.base, EVLOOP_NONBLOCK);
            }
            (void)shutdown(pair[1], SHUT_WR);
            run_wait(&r, 1000);
            if (r.error.code != cases[i].code || r.failed != (cases[i].code != 0))
                fail_msg("%s: %d %s", cases[i].name, r.error.code, error_text(&r.error));
            run_free(&r);
            close(pair[1]);
            if (piece == 1)
                break;
        }
    }
    event_base_free(f.base);
}

static void free_on_output(void *arg, enum guest_stream stream, uint64_t offset, const void *data, size_t len)
{
    (void)stream, (void)offset, (void)len;
    struct guest_client **c = arg;
    guest_client_free(*c);
    *c = NULL;
    assert_int_equal(((const char *)data)[0], 'x'); /* lent until the callback returns */
}

static void must_not_come(void *arg, const struct guest_exit *e)
{
    (void)arg, (void)e;
    fail_msg("a callback after guest_client_free");
}

static void test_free_in_callback(void **state)
{
    (void)state;
    static const struct guest_callbacks callbacks = {.output = free_on_output, .exited = must_not_come};
    static const char *const argv[] = {"x", NULL};
    static const char frames[] = STARTED OUT("x") OUT("y") EXIT_3;
    struct guest_start_request q = {.argv = argv};
    struct event_base *base = event_base_new();
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct guest_client *c = NULL;
    c = guest_start(base, pair[0], &q, &callbacks, &c, NULL);
    assert_non_null(c);
    assert_int_equal(write(pair[1], frames, sizeof(frames) - 1), sizeof(frames) - 1);
    for (int i = 0; i < 20 && c != NULL; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    assert_null(c);
    event_base_loop(base, EVLOOP_NONBLOCK);
    close(pair[1]);
    event_base_free(base);
}

static void test_pause(void **state)
{
    (void)state;
    static const char frames[] = STARTED OUT("x") EXIT_3;
    static const char *const argv[] = {"x", NULL};
    struct guest_start_request q = {.argv = argv};
    struct guest_fixture f = {.base = event_base_new()};
    struct run r = {.f = &f, .keep = true};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    r.client = guest_start(f.base, pair[0], &q, &run_callbacks, &r, NULL);
    guest_client_pause(r.client);
    assert_int_equal(write(pair[1], frames, sizeof(frames) - 1), sizeof(frames) - 1);
    close(pair[1]);
    fixture_turn(&f, 50);
    assert_false(r.started);
    guest_client_resume(r.client);
    run_wait(&r, 1000);
    assert_true(r.exited);
    assert_int_equal(r.exit.code, 3);
    assert_string_equal(run_out(&r), "x");
    /* After the end these do nothing. */
    guest_client_stdin(r.client, "x", 1);
    guest_client_resize(r.client, 1, 1);
    guest_client_pause(r.client);
    guest_client_resume(r.client);
    assert_int_equal(guest_client_pending(r.client), 0);
    run_free(&r);
    event_base_free(f.base);
}

static void on_drained(void *arg)
{
    ++*(int *)arg;
}

static void test_drained(void **state)
{
    (void)state;
    static const struct guest_callbacks callbacks = {.drained = on_drained};
    static const char *const argv[] = {"x", NULL};
    static char data[1 << 20];
    struct guest_start_request q = {.argv = argv, .flags = GUEST_FLAG_STDIN};
    struct event_base *base = event_base_new();
    int pair[2], drained = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct guest_client *c = guest_start(base, pair[0], &q, &callbacks, &drained, NULL);
    guest_client_stdin(c, data, sizeof(data));
    for (int i = 0; i < 10; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(drained, 0);
    assert_true(guest_client_pending(c) > sizeof(data) / 2);
    for (int i = 0; i < 1000 && guest_client_pending(c) > 0; i++) {
        (void)!recv(pair[1], data, sizeof(data), MSG_DONTWAIT);
        event_base_loop(base, EVLOOP_NONBLOCK);
    }
    event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(drained, 1);
    guest_client_free(c);
    close(pair[1]);
    event_base_free(base);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lies), cmocka_unit_test(test_free_in_callback),
                                       cmocka_unit_test(test_pause), cmocka_unit_test(test_drained)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
