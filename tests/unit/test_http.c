/* Server and client against each other over real sockets, plain and with TLS. */
#include "test.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "wire/http.h"
#include "wire/tls.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

static struct event_base *base;
static struct http_server *server;
static struct http_client *client;
static struct http_request *held;
static struct bufferevent *taken;
static int closed_count;
static uint16_t port;

static void on_closed(void *arg UNUSED, struct http_request *req)
{
    closed_count++;
    http_end(req);
    held = NULL;
}

static void handle(void *arg UNUSED, struct http_request *req)
{
    const char *path = http_path(req);
    size_t len;
    const char *body = http_body(req, &len);

    if (streq(path, "/echo")) {
        http_add_header(req, "X-Query", http_query(req, "q") ? http_query(req, "q") : "none");
        http_respond(req, 200, "application/octet-stream", body, len);
    } else if (streq(path, "/stream")) {
        http_start(req, 200, "text/plain");
        for (int i = 0; i < 1000; i++)
            (void)http_write(req, "0123456789", 10);
        http_end(req);
    } else if (streq(path, "/hold")) {
        held = req;
        http_on_close(req, on_closed, NULL);
    } else if (streq(path, "/flood")) {
        static const char block[65536];
        http_start(req, 200, "text/plain");
        while (http_write(req, block, sizeof(block)))
            ;
        http_end(req);
    } else if (streq(path, "/upgrade")) {
        http_add_header(req, "Upgrade", "test");
        http_add_header(req, "Connection", "Upgrade");
        taken = http_take_over(req, 101);
        (void)bufferevent_write(taken, "raw", 3);
        (void)bufferevent_enable(taken, EV_READ | EV_WRITE);
    } else {
        http_respond(req, 404, "text/plain", "no\n", 3);
    }
}

static int listen_any(void)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    port = ntohs(sa.sin_port);
    return fd;
}

static void start(struct ssl_ctx_st *server_tls, struct ssl_ctx_st *client_tls)
{
    struct http_server_options options = {
        .head_timeout_ms = 500, .max_body_bytes = 1 << 20, .max_output_bytes = 4 << 20};

    base = event_base_new();
    server = http_server_new(base, listen_any(), server_tls, &options, handle, NULL);
    struct http_client_options co = {.host = "127.0.0.1", .port = port, .tls = client_tls};
    client = http_client_new(base, &co);
    closed_count = 0;
    held = NULL;
}

static void stop(void)
{
    http_client_free(client);
    http_server_free(server);
    event_base_free(base);
}

struct result {
    int status, done, failed;
    size_t len;
    char *query, *error;
    struct bufferevent *bev;
};

static void on_done(void *arg, int status, const struct http_headers *headers, const char *body UNUSED, size_t len)
{
    struct result *r = arg;
    const char *q = http_headers_get(headers, "x-query");

    r->status = status;
    r->len = len;
    r->done++;
    free(r->query);
    r->query = q ? xstrdup(q) : NULL;
    (void)event_base_loopbreak(base);
}

static void on_failed(void *arg, const struct error *err)
{
    struct result *r = arg;

    r->failed++;
    r->error = xstrdup(error_text(err));
    (void)event_base_loopbreak(base);
}

static const struct http_call_callbacks callbacks = {.done = on_done, .failed = on_failed};

static void finish(struct result *r)
{
    free(r->query);
    free(r->error);
}

static void test_calls(void **state UNUSED)
{
    start(NULL, NULL);
    struct result r = {0};
    _cleanup_free_ char *big = xcalloc(1, 1 << 20);

    (void)http_call(client, "POST", "/echo?q=a+b%2Fc", NULL, big, 1 << 20, 5000, &callbacks, &r);
    (void)event_base_dispatch(base);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.len, 1 << 20);
    assert_string_equal(r.query, "a b/c");
    for (int i = 0; i < 200; i++) { /* over one kept connection */
        (void)http_call(client, "GET", "/stream", NULL, NULL, 0, 5000, &callbacks, &r);
        (void)event_base_dispatch(base);
        assert_int_equal(r.len, 10000);
    }
    assert_int_equal(http_server_connections(server), 1);
    (void)http_call(client, "GET", "/nothing", NULL, NULL, 0, 5000, &callbacks, &r);
    (void)event_base_dispatch(base);
    assert_int_equal(r.status, 404);
    finish(&r);
    stop();
}

static void test_parallel(void **state UNUSED)
{
    start(NULL, NULL);
    struct result r = {0};

    for (int i = 0; i < 500; i++)
        (void)http_call(client, "GET", "/echo", NULL, NULL, 0, 10000, &callbacks, &r);
    while (r.done + r.failed < 500)
        (void)event_base_dispatch(base);
    assert_int_equal(r.done, 500);
    finish(&r);
    stop();
}

static void test_client_vanishes(void **state UNUSED)
{
    start(NULL, NULL);
    struct result r = {0};
    struct http_call *call = http_call(client, "GET", "/hold", NULL, NULL, 0, 0, &callbacks, &r);

    while (!held)
        (void)event_base_loop(base, EVLOOP_ONCE);
    http_call_cancel(call);
    while (!closed_count)
        (void)event_base_loop(base, EVLOOP_ONCE);
    assert_null(held);
    /* A deadline does the same, and tells. */
    (void)http_call(client, "GET", "/hold", NULL, NULL, 0, 50, &callbacks, &r);
    while (!r.failed)
        (void)event_base_loop(base, EVLOOP_ONCE);
    assert_non_null(strstr(r.error, "timed out"));
    while (closed_count < 2)
        (void)event_base_loop(base, EVLOOP_ONCE);
    finish(&r);
    stop();
}

static int raw_connect(const char *text)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    return fd;
}

/* Runs the server until it closes the connection; everything it sent. */
static char *read_to_end(int fd)
{
    struct strbuf b = {0};
    char buf[4096];

    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    for (;;) {
        ssize_t n = read(fd, buf, sizeof(buf));
        if (n > 0) {
            strbuf_add(&b, buf, (size_t)n);
        } else if (n == 0 || errno != EAGAIN) {
            break;
        } else {
            (void)event_base_loop(base, EVLOOP_ONCE);
        }
    }
    (void)close(fd);
    return strbuf_detach(&b);
}

static void test_raw(void **state UNUSED)
{
    static const struct {
        const char *sent, *expected;
    } cases[] = {
        {"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\nGET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
         "404 Not Found"},
        {"GET / HTTP/1.1\nHost: x\n\n", "400 Bad Request"},
        {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n", "413 Request"},
        {"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX", "400 Bad Request"},
        {"GET /echo HTTP/1.0\r\n\r\n", "200 OK"},
        {"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
         "100 Continue"},
        {"GET / HT", ""}, /* the head's deadline */
    };

    start(NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *answer = read_to_end(raw_connect(cases[i].sent));
        if (!strstr(answer, cases[i].expected))
            print_error("%s\ngave\n%s\n", cases[i].sent, answer);
        assert_non_null(strstr(answer, cases[i].expected));
    }
    stop();
}

/* A client that sends all of a body that is refused must still get to read why. */
static void test_refusal_is_heard(void **state UNUSED)
{
    start(NULL, NULL);
    int fd = raw_connect("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n");
    _cleanup_free_ char *body = xcalloc(1, 4000000);
    size_t sent = 0;

    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while (sent < 4000000) {
        ssize_t n = write(fd, body + sent, 4000000 - sent);
        if (n > 0)
            sent += (size_t)n;
        else if (errno != EAGAIN)
            break;
        (void)event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    }
    assert_int_equal(sent, 4000000);
    (void)shutdown(fd, SHUT_WR);
    _cleanup_free_ char *answer = read_to_end(fd);
    assert_non_null(strstr(answer, "413 "));
    stop();
}

static void test_slow_reader(void **state UNUSED)
{
    start(NULL, NULL);
    int fd = raw_connect("GET /flood HTTP/1.1\r\nHost: x\r\n\r\n");

    (void)event_base_loop(base, EVLOOP_ONCE);
    while (http_server_connections(server))
        (void)event_base_loop(base, EVLOOP_ONCE);
    (void)close(fd);
    stop();
}

static void on_raw(struct bufferevent *bev, void *arg)
{
    struct result *r = arg;

    r->len = evbuffer_get_length(bufferevent_get_input(bev));
    if (r->len >= 3)
        (void)event_base_loopbreak(base);
}

static void on_upgraded(void *arg, struct bufferevent *bev, const struct http_headers *headers)
{
    struct result *r = arg;

    assert_string_equal(http_headers_get(headers, "Upgrade"), "test");
    r->bev = bev;
    bufferevent_setcb(bev, on_raw, NULL, NULL, r);
    (void)bufferevent_enable(bev, EV_READ);
    bufferevent_trigger(bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
}

static void test_upgrade(void **state UNUSED)
{
    start(NULL, NULL);
    struct result r = {0};

    (void)http_call_upgrade(client, "GET", "/upgrade", NULL, &callbacks, on_upgraded, &r);
    (void)event_base_dispatch(base);
    assert_int_equal(r.len, 3);
    bufferevent_free(r.bev);
    bufferevent_free(taken);
    stop();
}

static void test_refused(void **state UNUSED)
{
    start(NULL, NULL);
    struct result r = {0};

    http_server_free(server);
    server = NULL;
    (void)http_call(client, "GET", "/echo", NULL, NULL, 0, 5000, &callbacks, &r);
    (void)event_base_dispatch(base);
    assert_int_equal(r.failed, 1);
    assert_non_null(strstr(r.error, "refused"));
    finish(&r);
    stop();
}

static void test_tls(void **state UNUSED)
{
    static const char *const groups[] = {"system:masters", "others", NULL}, *const ips[] = {"127.0.0.1", NULL};
    struct tls_cert_request server_request = {
        .common_name = "s", .ip_addresses = ips, .server = true, .valid_seconds = 3600};
    struct tls_cert_request client_request = {
        .common_name = "admin", .organizations = groups, .client = true, .valid_seconds = 3600};
    _cleanup_(tls_cert_free) struct tls_cert ca = {0}, other = {0}, s = {0}, c = {0};

    assert_int_equal(tls_make_ca("test", 1, &ca, NULL), 0);
    assert_int_equal(tls_make_ca("other", 1, &other, NULL), 0);
    assert_int_equal(tls_issue(&ca, &server_request, &s, NULL), 0);
    assert_int_equal(tls_issue(&ca, &client_request, &c, NULL), 0);
    struct ssl_ctx_st *st = tls_server_context(&s, ca.cert_pem, NULL);
    struct ssl_ctx_st *good = tls_client_context(ca.cert_pem, &c, NULL);
    struct ssl_ctx_st *distrusting = tls_client_context(other.cert_pem, NULL, NULL);
    struct result r = {0};

    start(st, good);
    for (int i = 0; i < 20; i++) {
        (void)http_call(client, "GET", "/stream", NULL, NULL, 0, 5000, &callbacks, &r);
        (void)event_base_dispatch(base);
    }
    assert_int_equal(r.done, 20);
    assert_int_equal(r.len, 10000);
    stop();

    start(st, distrusting);
    (void)http_call(client, "GET", "/stream", NULL, NULL, 0, 5000, &callbacks, &r);
    (void)event_base_dispatch(base);
    assert_int_equal(r.failed, 1);
    assert_non_null(strstr(r.error, "certificate"));
    stop();
    finish(&r);
    tls_context_free(st);
    tls_context_free(good);
    tls_context_free(distrusting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),   cmocka_unit_test(test_parallel),    cmocka_unit_test(test_client_vanishes),
        cmocka_unit_test(test_raw),     cmocka_unit_test(test_slow_reader), cmocka_unit_test(test_refusal_is_heard),
        cmocka_unit_test(test_upgrade), cmocka_unit_test(test_refused),     cmocka_unit_test(test_tls),
    };
    return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
