/* The codec of the guest protocol: what is accepted, what is refused, and that both directions agree. */
#include "test.h"

#include "wire/guest_request.h"

#include <string.h>

#define H(len, type) (uint8_t)(len), 0, 0, 0, (uint8_t)(type), 0, 0, 0

struct header_case {
    const char *name;
    uint8_t bytes[16];
    size_t len;
    int result;
    size_t size;
};

static void test_headers(void **state)
{
    (void)state;
    static const struct header_case cases[] = {
        {"nothing", {0}, 0, 0, 8},
        {"seven bytes", {H(0, GUEST_PING)}, 7, 0, 8},
        {"empty payload", {H(0, GUEST_PING)}, 8, 1, 8},
        {"payload missing", {H(4, GUEST_STDIN)}, 10, 0, 12},
        {"payload there", {H(4, GUEST_STDIN), 1, 2, 3, 4, 99}, 13, 1, 12},
        {"type 0", {H(0, 0)}, 8, -EPROTO, 8},
        {"type beyond the last", {H(0, GUEST_FRAME_TYPE_END)}, 8, -EPROTO, 8},
        {"type 255", {H(0, 255)}, 8, -EPROTO, 8},
        {"first reserved byte", {0, 0, 0, 0, GUEST_PING, 1, 0, 0}, 8, -EPROTO, 8},
        {"last reserved byte", {0, 0, 0, 0, GUEST_PING, 0, 0, 128}, 8, -EPROTO, 8},
        {"1 MiB", {0, 0, 16, 0, GUEST_STDIN, 0, 0, 0}, 8, 0, 8 + 1048576},
        {"1 MiB + 1", {1, 0, 16, 0, GUEST_STDIN, 0, 0, 0}, 8, -EPROTO, 8},
        {"4 GiB - 1", {255, 255, 255, 255, GUEST_STDIN, 0, 0, 0}, 8, -EPROTO, 8},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct guest_frame frame;
        size_t size = 0;
        int r = guest_frame_parse(cases[i].bytes, cases[i].len, GUEST_PAYLOAD_MAX, &frame, &size);
        if (r != cases[i].result || size != cases[i].size)
            fail_msg("%s: result %d, size %zu", cases[i].name, r, size);
    }
}

struct fields_case {
    const char *name;
    enum guest_frame_type type;
    const char *payload;
    size_t len;
    bool ok;
};

#define P(s) (s), sizeof(s) - 1
#define ARG_A "\x02\0\x01\0\0\0a"
#define FLAGS_1 "\x0a\0\x04\0\0\0\x01\0\0\0"

static void test_fields(void **state)
{
    (void)state;
    static const struct fields_case cases[] = {
        {"ping has none", GUEST_PING, P(""), true},
        {"ping with one", GUEST_PING, P(FLAGS_1), false},
        {"start", GUEST_START, P(ARG_A), true},
        {"start without arguments", GUEST_START, P(FLAGS_1), false},
        {"start, three arguments", GUEST_START, P(ARG_A FLAGS_1 ARG_A ARG_A), true},
        {"flags twice", GUEST_START, P(ARG_A FLAGS_1 FLAGS_1), false},
        {"empty argument", GUEST_START, P("\x02\0\0\0\0\0"), true},
        {"NUL in an argument", GUEST_START, P("\x02\0\x02\0\0\0a\0"), false},
        {"tag 0", GUEST_START, P(ARG_A "\0\0\0\0\0\0"), false},
        {"unknown tag", GUEST_START, P(ARG_A "\x19\x01\0\0\0\0"), false},
        {"tag of another frame", GUEST_START, P(ARG_A "\x12\0\x04\0\0\0\x01\0\0\0"), false},
        {"half a field header", GUEST_START, P(ARG_A "\x02\0\x01"), false},
        {"value beyond the end", GUEST_START, P("\x02\0\x02\0\0\0a"), false},
        {"length 4 GiB - 1", GUEST_START,
         P("\x02\0\xff\xff\xff\xff"
           "a"),
         false},
        {"u32 of 3 bytes", GUEST_START, P(ARG_A "\x0a\0\x03\0\0\0\x01\0\0"), false},
        {"u32 of 8 bytes", GUEST_START, P(ARG_A "\x0a\0\x08\0\0\0\x01\0\0\0\0\0\0\0"), false},
        {"u64 of 4 bytes", GUEST_SHUTDOWN, P("\x11\0\x04\0\0\0\x01\0\0\0"), false},
        {"u64", GUEST_SHUTDOWN, P("\x11\0\x08\0\0\0\x01\0\0\0\0\0\0\0"), true},
        {"resize with rows only", GUEST_RESIZE, P("\x08\0\x04\0\0\0\x01\0\0\0"), false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct guest_frame frame = {cases[i].type, (const uint8_t *)cases[i].payload, (uint32_t)cases[i].len};
        struct guest_fields fields;
        if ((guest_fields_parse(&frame, &fields) == 0) != cases[i].ok)
            fail_msg("%s", cases[i].name);
    }
}

static struct guest_frame only_frame(const struct guest_buffer *b)
{
    struct guest_frame frame;
    size_t size;
    assert_false(b->failed);
    assert_int_equal(guest_frame_parse(b->data + b->start, guest_buffer_len(b), GUEST_PAYLOAD_MAX, &frame, &size), 1);
    assert_int_equal(size, guest_buffer_len(b));
    return frame;
}

static void test_start_round_trip(void **state)
{
    (void)state;
    static const char *const argv[] = {"sh", "-c", "", NULL};
    static const char *const env[] = {"A=1", "B=", NULL};
    static const uint32_t groups[] = {7, 4294967294u};
    const struct guest_start_request request = {.id = "main",
                                                .argv = argv,
                                                .env = env,
                                                .cwd = "/tmp",
                                                .set_uid = true,
                                                .uid = 1000,
                                                .groups = groups,
                                                .group_count = 2,
                                                .flags = GUEST_FLAG_TTY | GUEST_FLAG_STDIN,
                                                .rows = 30,
                                                .cols = 100,
                                                .timeout_ms = 5000000000ull};
    struct guest_buffer b = {0};
    assert_int_equal(guest_request_start(&b, &request, NULL), 0);
    struct guest_frame frame = only_frame(&b);
    struct guest_fields f;
    struct guest_value v;
    size_t pos = 0;
    assert_int_equal(frame.type, GUEST_START);
    assert_int_equal(guest_fields_parse(&frame, &f), 0);
    char *id = guest_text(&f, GUEST_TAG_ID), *cwd = guest_text(&f, GUEST_TAG_CWD);
    assert_string_equal(id, "main");
    assert_string_equal(cwd, "/tmp");
    free(id);
    free(cwd);
    assert_int_equal(guest_number(&f, GUEST_TAG_UID, 0), 1000);
    assert_false(guest_has(&f, GUEST_TAG_GID));
    assert_int_equal(guest_number(&f, GUEST_TAG_ROWS, 0), 30);
    assert_int_equal(guest_number(&f, GUEST_TAG_COLS, 0), 100);
    assert_true(guest_number(&f, GUEST_TAG_TIMEOUT_MS, 0) == 5000000000ull);
    for (size_t i = 0; argv[i] != NULL; i++) {
        assert_true(guest_field_next(&frame, &pos, GUEST_TAG_ARG, &v));
        assert_int_equal(v.len, strlen(argv[i]));
        assert_memory_equal(v.data, argv[i], v.len);
    }
    assert_false(guest_field_next(&frame, &pos, GUEST_TAG_ARG, &v));
    pos = 0;
    assert_true(guest_field_next(&frame, &pos, GUEST_TAG_GROUP, &v));
    assert_true(guest_field_next(&frame, &pos, GUEST_TAG_GROUP, &v));
    assert_true(v.number == groups[1]);
    guest_buffer_free(&b);
}

static void test_limits(void **state)
{
    (void)state;
    char *big = malloc(GUEST_PAYLOAD_MAX + 2);
    struct error err = ERROR_INIT;
    struct guest_buffer b = {0};
    memset(big, 'x', GUEST_PAYLOAD_MAX + 1);
    big[GUEST_PAYLOAD_MAX + 1] = 0;
    const char *const argv[] = {big, NULL};
    const char *const none[] = {NULL};
    struct guest_start_request request = {.argv = argv};
    assert_int_equal(guest_request_start(&b, &request, &err), -E2BIG);
    assert_int_equal(guest_buffer_len(&b), 0);
    big[GUEST_PAYLOAD_MAX - 6] = 0; /* with its field header exactly the limit */
    assert_int_equal(guest_request_start(&b, &request, &err), 0);
    (void)only_frame(&b);
    request.argv = none;
    assert_int_equal(guest_request_start(&b, &request, &err), -EINVAL);
    error_clear(&err);
    guest_buffer_free(&b);
    free(big);
}

static void test_buffer(void **state)
{
    (void)state;
    /* A byte sequence goes through in pieces of changing size, with frames built while others wait. */
    struct guest_buffer b = {0};
    uint8_t next_in = 0, next_out = 0;
    for (int round = 0; round < 3000; round++) {
        for (int i = 0; i < round % 97; i++, next_in++)
            guest_buffer_add(&b, &next_in, 1);
        size_t n = MIN(guest_buffer_len(&b), (size_t)(round % 89));
        for (size_t i = 0; i < n; i++, next_out++)
            assert_int_equal(b.data[b.start + i], next_out);
        guest_buffer_consume(&b, n);
    }
    while (guest_buffer_len(&b) > 0)
        guest_buffer_consume(&b, 1);
    assert_null(b.data);

    guest_buffer_add(&b, "xyz", 3);
    guest_buffer_consume(&b, 2);
    char text[600];
    memset(text, 't', sizeof(text));
    guest_frame_begin(&b, GUEST_ERROR);
    guest_put_number(&b, GUEST_TAG_CODE, ENOENT);
    guest_put_text_n(&b, GUEST_TAG_TEXT, text, sizeof(text));
    guest_frame_end(&b);
    guest_buffer_consume(&b, 1);
    struct guest_frame frame = only_frame(&b);
    struct guest_reply reply;
    assert_int_equal(guest_reply_parse(&frame, &reply, NULL), 0);
    assert_int_equal(reply.error.code, ENOENT);
    assert_int_equal(strlen(reply.error.text), sizeof(text));
    guest_reply_free(&reply);
    guest_buffer_free(&b);
}

static void test_hostile_replies(void **state)
{
    (void)state;
    static const struct fields_case cases[] = {
        {"exit 256", GUEST_EXIT,
         P("\x13\0\x04\0\0\0\0\x01\0\0"
           "\x0f\0\x04\0\0\0\0\0\0\0" FLAGS_1),
         false},
        {"exit 255", GUEST_EXIT,
         P("\x13\0\x04\0\0\0\xff\0\0\0"
           "\x0f\0\x04\0\0\0\0\0\0\0" FLAGS_1),
         true},
        {"signal 65", GUEST_EXIT,
         P("\x13\0\x04\0\0\0\0\0\0\0"
           "\x0f\0\x04\0\0\0\x41\0\0\0" FLAGS_1),
         false},
        {"error 0", GUEST_ERROR, P("\x13\0\x04\0\0\0\0\0\0\0\x14\0\0\0\0\0"), false},
        {"negative error", GUEST_ERROR, P("\x13\0\x04\0\0\0\xff\xff\xff\xff\x14\0\0\0\0\0"), false},
        {"error 2", GUEST_ERROR, P("\x13\0\x04\0\0\0\x02\0\0\0\x14\0\0\0\0\0"), true},
        {"stream 2", GUEST_DROPPED, P("\x15\0\x04\0\0\0\x02\0\0\0\x16\0\x08\0\0\0\0\0\0\0\0\0\0\0"), false},
        {"stream 1", GUEST_DROPPED, P("\x15\0\x04\0\0\0\x01\0\0\0\x16\0\x08\0\0\0\0\0\0\0\0\0\0\0"), true},
        {"id with a slash", GUEST_STARTED, P("\x01\0\x03\0\0\0a/b\x12\0\x04\0\0\0\x01\0\0\0"), false},
        {"id", GUEST_STARTED, P("\x01\0\x03\0\0\0a-b\x12\0\x04\0\0\0\x01\0\0\0"), true},
        {"output without a byte", GUEST_STDOUT, P("\0\0\0\0\0\0\0\0"), false},
        {"output", GUEST_STDERR, P("\0\0\0\0\0\0\0\0x"), true},
        {"a request", GUEST_LIST, P(""), false},
        {"done", GUEST_DONE, P(""), true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct guest_frame frame = {cases[i].type, (const uint8_t *)cases[i].payload, (uint32_t)cases[i].len};
        struct guest_reply reply;
        bool ok = guest_reply_parse(&frame, &reply, NULL) == 0;
        if (ok)
            guest_reply_free(&reply);
        if (ok != cases[i].ok)
            fail_msg("%s", cases[i].name);
    }
}

static void test_ids(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        bool ok;
    } cases[] = {{"main", true},
                 {"A-z_0.9", true},
                 {"", false},
                 {".", false},
                 {"..", false},
                 {"a/b", false},
                 {"a b", false},
                 {"*", false},
                 {"\xc3\xa9", false},
                 {"0123456789", true},
                 {"a123456789a123456789a123456789a123456789a123456789a123456789abc", true},
                 {"a123456789a123456789a123456789a123456789a123456789a123456789abcd", false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (guest_id_valid(cases[i].id, strlen(cases[i].id)) != cases[i].ok)
            fail_msg("%s", cases[i].id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers), cmocka_unit_test(test_fields), cmocka_unit_test(test_start_round_trip),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_buffer), cmocka_unit_test(test_hostile_replies),
        cmocka_unit_test(test_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
