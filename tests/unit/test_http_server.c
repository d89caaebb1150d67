/* The server against clients that are odd, slow, rude or gone. */
#include "loopback.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "wire/http.h"
#include "wire/http_leash.h"

#include <event2/bufferevent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <time.h>

static struct event_base *base;
static struct http_server *server;
static struct http_request *held;
static int handled, closed, finished[600];
static uint16_t port;
static char *peer_at_close;

static void on_closed(void *arg UNUSED, struct http_request *req)
{
    closed++;
    free(peer_at_close);
    peer_at_close = xstrdup(http_peer(req));
}

static void on_finished(void *arg UNUSED, const struct http_request *req, int status)
{
    assert_non_null(http_path(req));
    finished[status]++;
}

static void handle(void *arg UNUSED, struct http_request *req)
{
    const char *path = http_path(req);
    size_t len;
    const char *body = http_body(req, &len);

    handled++;
    http_on_finish(req, on_finished, NULL);
    if (streq(path, "/echo")) {
        http_respond(req, 200, "text/plain", body, len);
    } else if (streq(path, "/stream")) {
        http_start(req, 200, "text/plain");
        (void)http_write(req, "streamed", 8);
        http_end(req);
    } else if (streq(path, "/hold")) {
        held = req;
        http_on_close(req, on_closed, NULL);
    } else if (streq(path, "/inject")) {
        http_add_header(req, "X-Value", "a\r\nX-Evil: b");
        http_respond(req, 200, "text/plain\r\nX-Evil: c", "", 0);
    } else if (streq(path, "/count")) {
        size_t n = 0;
        while (http_query_n(req, "a", n))
            n = n ? n * 2 : 1;
        _cleanup_free_ char *text = xasprintf("at least %zu", n / 2);
        http_respond(req, 200, "text/plain", text, strlen(text));
    } else if (streq(path, "/free")) {
        http_server_free(server);
        server = NULL;
        http_respond(req, 200, "text/plain", "late", 4);
    } else if (streq(path, "/who")) {
        _cleanup_free_ char *text = xasprintf("%s %lld", http_peer(req), (long long)http_peer_uid(req));
        http_respond(req, 200, "text/plain", text, strlen(text));
    } else {
        http_respond(req, 404, "text/plain", "no\n", 3);
    }
}

static int setup(void **state UNUSED)
{
    static const struct http_server_options options = {.head_timeout_ms = 300,
                                                       .body_timeout_ms = 300,
                                                       .max_body_bytes = 1 << 20,
                                                       .max_output_bytes = 4 << 20,
                                                       .max_connections = 3};

    base = event_base_new();
    server = http_server_new(base, loopback_listen(&port), NULL, &options, handle, NULL);
    held = NULL;
    handled = closed = 0;
    memset(finished, 0, sizeof(finished));
    return 0;
}

static int teardown(void **state UNUSED)
{
    http_server_free(server);
    event_base_free(base);
    free(peer_at_close);
    peer_at_close = NULL;
    return 0;
}

static void run_until(const int *counter, int value)
{
    while (*counter < value)
        (void)event_base_loop(base, EVLOOP_ONCE);
}

static size_t occurrences(const char *text, const char *part)
{
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, part)); p++)
        n++;
    return n;
}

/* What is sent, what must be in the answer, what must not. */
static void test_answers(void **state UNUSED)
{
    static const struct {
        const char *sent, *has, *has_not;
    } cases[] = {
        {"HEAD /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "Transfer-Encoding: chunked", "streamed"},
        {"HEAD /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "Content-Length: 2",
         "ok"},
        {"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "\r\n\r\nstreamed", "keep-alive"},
        {"GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /echo HTTP/1.0\r\n\r\n", "Connection: keep-alive",
         "400"},
        {"GET /inject HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "X-Value: a", "\nX-Evil"},
        {"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2000000\r\n\r\n",
         "413 Request Entity Too Large", "100 Continue"},
        {"POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok", "200 OK", "100 Continue"},
        {"GET /a HTTP/1.1\r\nHost: x, y\r\n\r\n", "400 Bad Request", "404"},
        {"GET http://x?q=/echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "404", "200 OK"},
        {"GET http://x/echo?q=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "200 OK", "404"},
        {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nnever", "", "HTTP"}, /* the body's deadline */
        /* What follows an ambiguous message is never read as a request. */
        {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
         "GET /a HTTP/1.1\r\nHost: x\r\n\r\n",
         "400 Bad Request", "404"},
        {"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n1\r\nx\r\n0\r\n\r\n"
         "GET /a HTTP/1.1\r\nHost: x\r\n\r\n",
         "400 Bad Request", "404"},
        {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\n"
         "GET /a HTTP/1.1\r\nHost: x\r\n\r\n",
         "400 Bad Request", "404"},
        {"GET /a HTTP/1.1\r\nHost: x\r\nGET /b HTTP/1.1\r\n\r\n", "400 Bad Request", "404"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *answer = loopback_read(base, loopback_send(port, cases[i].sent), NULL);
        if (!strstr(answer, cases[i].has) || strstr(answer, cases[i].has_not))
            print_error("%s\ngave\n%s\n", cases[i].sent, answer);
        assert_non_null(strstr(answer, cases[i].has));
        assert_null(strstr(answer, cases[i].has_not));
    }
}

/* The second request waits for the first one's answer, and its handler does not run from within http_respond(). */
static void test_pipeline(void **state UNUSED)
{
    int fd = loopback_send(port, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"
                                 "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");

    run_until(&handled, 1);
    loopback_run(base, 20);
    assert_int_equal(handled, 1);
    http_respond(held, 200, "text/plain", "first", 5);
    assert_int_equal(handled, 1);
    _cleanup_free_ char *answer = loopback_read(base, fd, NULL);
    assert_int_equal(handled, 2);
    assert_int_equal(finished[200], 2);
    assert_int_equal(occurrences(answer, "200 OK"), 2);
    assert_non_null(strstr(answer, "first"));
}

/* A client that sends far ahead of the answers waits; nobody else pays for it. */
static void test_pipeline_flood(void **state UNUSED)
{
    static const char one[] = "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n";
    _cleanup_(strbuf_free) struct strbuf b = {0};

    strbuf_adds(&b, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    while (b.len < 300000)
        strbuf_adds(&b, one);
    strbuf_adds(&b, "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    int fd = loopback_send(port, b.data);
    run_until(&handled, 1);
    clock_t start = clock();
    loopback_run(base, 300);
    assert_true(clock() - start < CLOCKS_PER_SEC / 10);
    assert_int_equal(handled, 1);
    http_respond(held, 200, "text/plain", "first", 5);
    _cleanup_free_ char *answer = loopback_read(base, fd, NULL);
    assert_int_equal(occurrences(answer, "200 OK"), occurrences(b.data, "GET "));
}

static void test_half_close(void **state UNUSED)
{
    for (int i = 0; i < 20; i++) {
        int fd = loopback_send(port, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        _cleanup_free_ char *answer = loopback_read(base, fd, NULL);
        assert_non_null(strstr(answer, "streamed"));
    }
}

/* A refused upload: the answer must not be lost to a reset while the client is still sending. */
static void test_refused_upload(void **state UNUSED)
{
    static const char block[65536];
    int fd = loopback_send(port, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n");
    int end;

    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    for (size_t sent = 0, turns = 0; sent < 8000000 && turns < 1000; turns++) {
        ssize_t n = write(fd, block, sizeof(block));
        sent += n > 0 ? (size_t)n : 0;
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
    }
    _cleanup_free_ char *answer = loopback_read(base, fd, &end);
    assert_non_null(strstr(answer, "Request entity too large: limit is 1048576"));
    assert_int_equal(end, 0);
    assert_int_equal(handled, 0);
}

static void test_long_heads(void **state UNUSED)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};

    strbuf_adds(&b, "GET /a HTTP/1.1\r\nHost: x\r\nX: ");
    for (int i = 0; i < 70000; i++)
        strbuf_addc(&b, 'x');
    strbuf_adds(&b, "\r\n\r\n");
    _cleanup_free_ char *answer = loopback_read(base, loopback_send(port, strbuf_str(&b)), NULL);
    assert_non_null(strstr(answer, "431 Request Header Fields Too Large"));

    /* As many parameters as fit into a head cost no more than reading them. */
    strbuf_truncate(&b, 0);
    strbuf_adds(&b, "GET /count?a");
    for (int i = 0; i < 30000; i++)
        strbuf_adds(&b, "&a");
    strbuf_adds(&b, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    clock_t start = clock();
    _cleanup_free_ char *counted = loopback_read(base, loopback_send(port, strbuf_str(&b)), NULL);
    assert_non_null(strstr(counted, "at least 16384"));
    assert_true(clock() - start < CLOCKS_PER_SEC / 2);
}

static void test_chunk_flood(void **state UNUSED)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};

    strbuf_adds(&b, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 100; i++)
        strbuf_addf(&b, "1;%0200d\r\nx\r\n", 0);
    _cleanup_free_ char *answer = loopback_read(base, loopback_send(port, strbuf_str(&b)), NULL);
    assert_non_null(strstr(answer, "400 Bad Request"));
}

/* Whom it was stays known when the client has gone. */
static void test_vanished(void **state UNUSED)
{
    int fd = loopback_send(port, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");

    run_until(&handled, 1);
    assert_false(http_is_closed(held));
    (void)close(fd);
    run_until(&closed, 1);
    assert_true(http_is_closed(held));
    assert_non_null(str_skip_prefix(peer_at_close, "127.0.0.1:"));
    assert_string_equal(http_peer(held), peer_at_close);
    assert_false(http_write(held, "x", 1));
    http_respond(held, 200, "text/plain", "nobody", 6);
    assert_int_equal(http_server_connections(server), 0);
}

static void test_server_goes_first(void **state UNUSED)
{
    int fd = loopback_send(port, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");

    run_until(&handled, 1);
    http_server_free(server);
    server = NULL;
    assert_int_equal(closed, 1);
    http_start(held, 200, "text/plain");
    http_end(held);
    (void)close(fd);
}

static void test_freed_by_its_handler(void **state UNUSED)
{
    int fd = loopback_send(port, "GET /free HTTP/1.1\r\nHost: x\r\n\r\nGET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    _cleanup_free_ char *answer = loopback_read(base, fd, NULL);

    assert_string_equal(answer, "");
    assert_int_equal(handled, 1);
}

static int let_go;

static void on_over(void *arg UNUSED)
{
    let_go++;
}

/* A hold on a request that its owner does not know of. */
static struct http_leash *hold(int *ret_fd, void (*closed_cb)(void *arg, struct http_request *req))
{
    let_go = 0;
    *ret_fd = loopback_send(port, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    run_until(&handled, 1);
    http_on_close(held, closed_cb, NULL);
    return http_leash_new(held, on_over, NULL);
}

static void end_when_closed(void *arg UNUSED, struct http_request *req)
{
    closed++;
    http_end(req);
}

static void test_leash_answered(void **state UNUSED)
{
    int fd;
    struct http_leash *l = hold(&fd, on_closed);

    assert_false(http_leash_over(l));
    http_respond(held, 200, "text/plain", "done", 4);
    assert_int_equal(let_go, 1);
    assert_true(http_leash_over(l));
    http_leash_cut(l); /* too late */
    http_leash_free(l);
    /* One that is let go before. */
    handled = 0;
    l = hold(&fd, on_closed);
    http_leash_free(l);
    http_respond(held, 200, "text/plain", "done", 4);
    assert_int_equal(let_go, 0);
}

/* A stream that has begun ends properly: its owner takes the client for gone. */
static void test_leash_cuts_stream(void **state UNUSED)
{
    int fd;
    struct http_leash *l = hold(&fd, end_when_closed);

    http_start(held, 200, "text/plain");
    assert_true(http_write(held, "part", 4));
    http_leash_cut(l);
    assert_int_equal(closed, 1);
    assert_int_equal(let_go, 1);
    http_leash_free(l);
    http_server_drain(server, NULL, NULL);
    _cleanup_free_ char *answer = loopback_read(base, fd, NULL);
    assert_non_null(strstr(answer, "4\r\npart\r\n0\r\n\r\n"));
}

/* Half of a body whose length is told is no answer; nor can one be told that nobody listens for. */
static void test_leash_cuts_connection(void **state UNUSED)
{
    for (int sized = 0; sized < 2; sized++) {
        int fd;
        handled = closed = 0;
        struct http_leash *l = hold(&fd, sized ? end_when_closed : NULL);
        if (sized) {
            http_start_sized(held, 200, "text/plain", 10);
            assert_true(http_write(held, "part", 4));
        }
        http_leash_cut(l);
        assert_int_equal(closed, sized);
        _cleanup_free_ char *answer = loopback_read(base, fd, NULL);
        assert_null(strstr(answer, "0\r\n\r\n"));
        if (!sized)
            http_respond(held, 200, "text/plain", "late", 4);
        assert_int_equal(let_go, 1);
        http_leash_free(l);
        assert_int_equal(http_server_connections(server), 0);
    }
}

static int ended;

static void on_bev_event(struct bufferevent *bev UNUSED, short what UNUSED, void *arg UNUSED)
{
    ended++;
}

/* A connection that somebody took over; later its number is that of another one. */
static void test_leash_cuts_taken_over(void **state UNUSED)
{
    int fd, pair[2];
    struct http_leash *l = hold(&fd, NULL);
    struct bufferevent *bev = http_take_over(held, 101);
    char byte;

    ended = 0;
    assert_non_null(bev);
    assert_int_equal(let_go, 0);
    assert_false(http_leash_over(l));
    bufferevent_setcb(bev, NULL, NULL, on_bev_event, NULL);
    http_leash_cut(l);
    run_until(&ended, 1);
    _cleanup_free_ char *answer = loopback_read(base, fd, NULL);
    assert_null(strstr(answer, "late"));
    int number = bufferevent_getfd(bev);
    bufferevent_free(bev);
    (void)event_base_loop(base, EVLOOP_NONBLOCK); /* closes it */
    assert_true(http_leash_over(l));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    int here = pair[pair[1] == number], there = pair[pair[1] != number];
    if (here != number)
        assert_int_equal(dup3(here, number, O_CLOEXEC), number);
    assert_true(http_leash_over(l));
    http_leash_cut(l);
    assert_int_equal(write(number, "x", 1), 1);
    assert_int_equal(read(there, &byte, 1), 1);
    http_leash_free(l);
    (void)close(there);
    (void)close(here);
    if (here != number)
        (void)close(number);
}

static void test_drain(void **state UNUSED)
{
    int idle = loopback_connect(port), busy = loopback_send(port, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");

    run_until(&handled, 1);
    while (http_server_connections(server) < 2)
        (void)event_base_loop(base, EVLOOP_ONCE);
    http_server_drain(server, NULL, NULL);
    assert_int_equal(http_server_connections(server), 1);
    http_respond(held, 200, "text/plain", "last", 4);
    _cleanup_free_ char *answer = loopback_read(base, busy, NULL);
    assert_non_null(strstr(answer, "last"));
    assert_int_equal(http_server_connections(server), 0);
    (void)close(idle);
}

static void test_limits(void **state UNUSED)
{
    int fds[4];

    for (int i = 0; i < 4; i++)
        fds[i] = loopback_connect(port);
    loopback_run(base, 20);
    assert_int_equal(http_server_connections(server), 3);
    for (int i = 0; i < 4; i++)
        (void)close(fds[i]);
    loopback_run(base, 20);
    assert_int_equal(http_server_connections(server), 0);

    /* Without descriptors the loop rests, and accepts again when there are some. */
    int fd = loopback_send(port, "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)fd + 1;
    for (int filler; (filler = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < fd;) /* lower ones must be taken too */
        assert_true(filler >= 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    clock_t start = clock();
    loopback_run(base, 300);
    clock_t used = clock() - start;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(used < CLOCKS_PER_SEC / 10);
    assert_int_equal(http_server_connections(server), 0);
    _cleanup_free_ char *answer = loopback_read(base, fd, NULL);
    assert_non_null(strstr(answer, "200 OK"));
}

static void test_unix_socket(void **state UNUSED)
{
    char dir[] = "/tmp/holt-test-XXXXXX";
    _cleanup_error_ struct error err = ERROR_INIT;

    assert_non_null(mkdtemp(dir));
    _cleanup_close_ int dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = unix_listen_at(dirfd, "s", 8, &err);
    assert_true(fd >= 0);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    struct http_server *local = http_server_new(base, fd, NULL, NULL, handle, NULL);
    int client = unix_connect_at(dirfd, "s", &err);
    static const char text[] = "GET /who HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert_int_equal(fd_write_all(client, text, strlen(text)), 0);
    _cleanup_free_ char *answer = loopback_read(base, client, NULL);
    _cleanup_free_ char *expected = xasprintf("unix %u", getuid());
    assert_non_null(strstr(answer, expected));
    http_server_free(local);
    (void)remove_tree_at(AT_FDCWD, dir, NULL);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_answers),
        CASE(test_pipeline),
        CASE(test_pipeline_flood),
        CASE(test_half_close),
        CASE(test_refused_upload),
        CASE(test_long_heads),
        CASE(test_chunk_flood),
        CASE(test_vanished),
        CASE(test_server_goes_first),
        CASE(test_freed_by_its_handler),
        CASE(test_leash_answered),
        CASE(test_leash_cuts_stream),
        CASE(test_leash_cuts_connection),
        CASE(test_leash_cuts_taken_over),
        CASE(test_drain),
        CASE(test_unix_socket),
        CASE(test_limits), /* last: it leaves descriptors open */
    };
    (void)signal(SIGPIPE, SIG_IGN); /* as every program of holt does */
    return cmocka_run_group_tests_name("http_server", tests, NULL, NULL);
}
