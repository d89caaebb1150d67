/* The client against a server that follows a script, honest or not. */
#include "loopback.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "wire/http.h"
#include "wire/tls.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <signal.h>
#include <stdio.h>

static struct event_base *base;
static struct http_client *client;
static struct event *accepting;
static int listener, accepted;
static uint16_t port;
static const char *script; /* the answer to every request; "\1" in it: close; NULL: silence */
static struct bufferevent *peers[16];

struct result {
    int headers, done, failed, status, code, chunks;
    char *body, *error;
    struct http_call *call;
    enum {
        NOTHING,
        FREE_IN_HEADERS,
        FREE_IN_DATA,
        FREE_IN_DONE,
        FREE_IN_FAILED,
        CANCEL_IN_HEADERS,
        CANCEL_IN_DATA
    } act;
};

static void free_peer(struct bufferevent *bev)
{
    for (size_t i = 0; i < ARRAY_LEN(peers); i++)
        if (peers[i] == bev)
            peers[i] = NULL;
    bufferevent_free(bev);
}

static void on_peer_written(struct bufferevent *bev, void *arg UNUSED)
{
    if (script && strchr(script, '\1'))
        free_peer(bev);
}

static void on_peer_event(struct bufferevent *bev, short what, void *arg UNUSED)
{
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        free_peer(bev);
}

static void on_peer_read(struct bufferevent *bev, void *arg UNUSED)
{
    struct evbuffer *in = bufferevent_get_input(bev);

    if (evbuffer_search(in, "\r\n\r\n", 4, NULL).pos < 0 || !script)
        return;
    (void)evbuffer_drain(in, evbuffer_get_length(in));
    size_t n = strcspn(script, "\1");
    (void)bufferevent_write(bev, script, n);
    bufferevent_setcb(bev, on_peer_read, on_peer_written, on_peer_event, NULL); /* only now: it also runs on connect */
}

static void on_accept(evutil_socket_t fd, short what UNUSED, void *arg UNUSED)
{
    int conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct bufferevent *bev = bufferevent_socket_new(base, conn, BEV_OPT_CLOSE_ON_FREE);

    peers[accepted++ % (int)ARRAY_LEN(peers)] = bev;
    bufferevent_setcb(bev, on_peer_read, NULL, on_peer_event, NULL);
    (void)bufferevent_enable(bev, EV_READ | EV_WRITE);
}

static struct http_client *new_client(const char *host, struct ssl_ctx_st *tls, size_t max)
{
    struct http_client_options o = {
        .host = host, .port = port, .tls = tls, .connect_timeout_ms = 200, .max_connections = max};

    return http_client_new(base, &o);
}

static int setup(void **state UNUSED)
{
    base = event_base_new();
    listener = loopback_listen(&port);
    accepting = event_new(base, listener, EV_READ | EV_PERSIST, on_accept, NULL);
    (void)event_add(accepting, NULL);
    client = new_client("127.0.0.1", NULL, 0);
    accepted = 0;
    script = NULL;
    return 0;
}

static int teardown(void **state UNUSED)
{
    http_client_free(client);
    for (size_t i = 0; i < ARRAY_LEN(peers); i++)
        if (peers[i])
            free_peer(peers[i]);
    event_free(accepting);
    (void)close(listener);
    event_base_free(base);
    return 0;
}

static void act(struct result *r, int free_now, int cancel_now)
{
    if ((int)r->act == free_now) {
        http_client_free(client);
        client = NULL;
    } else if ((int)r->act == cancel_now) {
        http_call_cancel(r->call);
    }
}

static void on_headers(void *arg, int status, const struct http_headers *headers UNUSED)
{
    struct result *r = arg;

    r->headers++;
    r->status = status;
    act(r, FREE_IN_HEADERS, CANCEL_IN_HEADERS);
}

static void on_data(void *arg, const char *data UNUSED, size_t len UNUSED)
{
    struct result *r = arg;

    r->chunks++;
    act(r, FREE_IN_DATA, CANCEL_IN_DATA);
}

static void on_done(void *arg, int status, const struct http_headers *headers UNUSED, const char *body, size_t len)
{
    struct result *r = arg;

    r->done++;
    r->status = status;
    free(r->body);
    r->body = xstrndup(body, len);
    act(r, FREE_IN_DONE, -1);
}

static void on_failed(void *arg, const struct error *err)
{
    struct result *r = arg;

    r->failed++;
    r->code = err->code;
    free(r->error);
    r->error = xstrdup(error_text(err));
    act(r, FREE_IN_FAILED, -1);
}

static const struct http_call_callbacks whole = {.done = on_done, .failed = on_failed};
static const struct http_call_callbacks streaming = {
    .headers = on_headers, .data = on_data, .done = on_done, .failed = on_failed};

static void run(struct result *r)
{
    while (!r->done && !r->failed)
        (void)event_base_loop(base, EVLOOP_ONCE);
}

static void clear(struct result *r)
{
    free(r->body);
    free(r->error);
    *r = (struct result){0};
}

static void test_answers(void **state UNUSED)
{
    static const struct {
        const char *method, *script;
        int status; /* 0: the call fails */
        const char *text;
    } cases[] = {
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi"},
        {"GET", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi", 200, "hi"},
        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 200, "hi"},
        {"GET", "HTTP/1.1 200 OK\r\n\r\nto the end\1", 200, "to the end"},
        {"GET", "HTTP/1.0 200 OK\r\n\r\nold\1", 200, "old"},
        {"GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
        {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, ""},
        {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 200, ""},
        {"GET",
         "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n"
         "Content-Length: 1\r\n\r\nx",
         200, "x"},
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort\1", 0, "closed before"},
        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n\1", 0, "closed before"},
        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhixx", 0, "malformed"},
        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nhi", 0, "ambiguous"},
        {"GET", "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", 0, "LF without CR"},
        {"GET", "HTTP/2 200\r\n\r\n", 0, "status line"},
        {"GET", "SSH-2.0-OpenSSH\r\n\r\n", 0, "status line"},
        {"GET", "HTTP/1.1 101 Switching Protocols\r\n\r\nraw\1", 0, "closed before"}, /* nobody asked */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct result r = {0};

        script = cases[i].script;
        (void)http_call(client, cases[i].method, "/", NULL, NULL, 0, 2000, &whole, &r);
        run(&r);
        if (r.status != cases[i].status)
            print_error("%s\n%d %s\n", cases[i].script, r.status, r.error ? r.error : "");
        assert_int_equal(r.status, cases[i].status);
        assert_non_null(strstr(cases[i].status ? r.body : r.error, cases[i].text));
        assert_int_equal(r.done + r.failed, 1);
        clear(&r);
    }
}

/* A kept connection that the server has closed meanwhile is no failure for a request that may be sent twice. */
static void test_stale_connection(void **state UNUSED)
{
    struct result r = {0};

    script = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    (void)http_call(client, "GET", "/", NULL, NULL, 0, 2000, &whole, &r);
    run(&r);
    (void)http_call(client, "GET", "/", NULL, NULL, 0, 2000, &whole, &r);
    free_peer(peers[0]);
    while (r.done < 2 && !r.failed)
        (void)event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(r.done, 2);
    assert_int_equal(accepted, 2);
    clear(&r);
}

/* Whatever the owner does from within a callback, nothing runs afterwards and nothing is used after it is freed. */
static void test_reentrancy(void **state UNUSED)
{
    static const char *const answer =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n2\r\nho\r\n0\r\n\r\n";

    for (int a = FREE_IN_HEADERS; a <= CANCEL_IN_DATA; a++) {
        struct result r = {.act = a}, other = {0};

        http_client_free(client);
        client = new_client("127.0.0.1", NULL, 1);
        script = a == FREE_IN_FAILED ? "nonsense\r\n\r\n" : answer;
        r.call = http_call(client, "GET", "/", NULL, NULL, 0, 2000, &streaming, &r);
        (void)http_call(client, "GET", "/", NULL, NULL, 0, 2000, &whole, &other); /* waits behind it */
        if (a == CANCEL_IN_HEADERS || a == CANCEL_IN_DATA)
            run(&other);
        else
            loopback_run(base, 50);
        assert_int_equal(r.done, a == FREE_IN_DONE);
        assert_int_equal(r.failed, a == FREE_IN_FAILED);
        assert_int_equal(r.chunks, a == FREE_IN_DONE ? 2 : a == FREE_IN_DATA || a == CANCEL_IN_DATA);
        assert_int_equal(other.done, a == CANCEL_IN_HEADERS || a == CANCEL_IN_DATA);
        clear(&r);
        clear(&other);
    }
}

static void test_dirty_requests(void **state UNUSED)
{
    static const struct {
        const char *method, *target, *name, *value;
    } cases[] = {{"GET", "/a b", "X", "y"},      {"GET", "/a\r\nX: y", "X", "y"},
                 {"GET", "", "X", "y"},          {"GET / HTTP/1.1\r\n", "/", "X", "y"},
                 {"GET", "/", "X: a\r\nY", "y"}, {"GET", "/", "X:", "y"},
                 {"GET", "/", "X", "y\r\nZ: z"}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_headers h = {0};
        struct result r = {0};

        http_headers_add(&h, cases[i].name, cases[i].value);
        (void)http_call(client, cases[i].method, cases[i].target, &h, NULL, 0, 0, &whole, &r);
        assert_int_equal(r.failed, 0); /* not from within the call */
        run(&r);
        assert_int_equal(r.code, EINVAL);
        http_headers_free(&h);
        clear(&r);
    }
    assert_int_equal(accepted, 0);
}

static void test_deadlines(void **state UNUSED)
{
    struct result r = {0};

    (void)http_call(client, "GET", "/", NULL, NULL, 0, 50, &whole, &r); /* the server is silent */
    run(&r);
    assert_int_equal(r.code, ETIMEDOUT);
    clear(&r);

    /* A server that accepts and then does not speak TLS; the call itself has no deadline. */
    struct ssl_ctx_st *tls = tls_client_context(NULL, NULL, NULL);
    http_client_free(client);
    client = new_client("127.0.0.1", tls, 0);
    (void)http_call(client, "GET", "/", NULL, NULL, 0, 0, &whole, &r);
    run(&r);
    assert_int_equal(r.code, ETIMEDOUT);
    assert_non_null(strstr(r.error, "connecting"));
    clear(&r);
    http_client_free(client);
    client = NULL;
    tls_context_free(tls);
}

static void test_names(void **state UNUSED)
{
    struct result r = {0};

    script = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    http_client_free(client);
    client = new_client("localhost", NULL, 0);
    for (int i = 1; i <= 3; i++) {
        (void)http_call(client, "GET", "/", NULL, NULL, 0, 2000, &whole, &r);
        while (r.done < i && !r.failed)
            (void)event_base_loop(base, EVLOOP_ONCE);
    }
    if (r.failed)
        print_error("%s\n", r.error);
    assert_int_equal(r.done, 3);
    assert_int_equal(accepted, 1);
    /* Freed while a look-up is under way. */
    http_client_free(client);
    client = new_client("holt.invalid", NULL, 0);
    (void)http_call(client, "GET", "/", NULL, NULL, 0, 2000, &whole, &r);
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    http_client_free(client);
    client = NULL;
    loopback_run(base, 20);
    assert_int_equal(r.done, 3);
    clear(&r);
}

static void test_one_connection(void **state UNUSED)
{
    struct result r = {0};

    script = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    http_client_free(client);
    client = new_client("127.0.0.1", NULL, 1);
    for (int i = 0; i < 50; i++)
        (void)http_call(client, "GET", "/", NULL, NULL, 0, 2000, &whole, &r);
    while (r.done + r.failed < 50)
        (void)event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(r.done, 50);
    assert_int_equal(accepted, 1);
    clear(&r);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_answers),        CASE(test_stale_connection), CASE(test_reentrancy),
        CASE(test_dirty_requests), CASE(test_deadlines),        CASE(test_names),
        CASE(test_one_connection),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("http_client", tests, NULL, NULL);
}
