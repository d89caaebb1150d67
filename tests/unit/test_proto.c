/* Protobuf bodies: what becomes of each kind of field, and what is refused. */
#include "test.h"

#include "apiserver/proto.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/timeutil.h"

#include <stdlib.h>

#define BYTES(text) (text), sizeof(text) - 1
#define TOO_DEEP 200

struct message {
    unsigned char data[1 << 12];
    size_t len;
};

static void put(struct message *m, const void *data, size_t len)
{
    assert_true(m->len + len <= sizeof(m->data));
    memcpy(m->data + m->len, data, len);
    m->len += len;
}

static void put_bytes(struct message *m, unsigned field, const void *data, size_t len)
{
    const unsigned char head[] = {(unsigned char)(field << 3 | 2), (unsigned char)(len | 0x80),
                                  (unsigned char)(len >> 7)};

    assert_true(len < 1 << 14);
    put(m, head, sizeof(head));
    put(m, data, len);
}

static struct json *decode(const char *version, const char *kind, const void *raw, size_t len, struct error *err)
{
    struct message type = {0}, all = {0};

    put_bytes(&type, 1, version, strlen(version));
    put_bytes(&type, 2, kind, strlen(kind));
    put(&all, "k8s", 4);
    put_bytes(&all, 1, type.data, type.len);
    put_bytes(&all, 2, raw, len);
    return proto_decode(all.data, all.len, err);
}

static void test_accepted(void **state)
{
    static const struct {
        const char *version, *kind, *raw;
        size_t len;
        const char *expected; /* behind apiVersion and kind */
    } cases[] = {
        {"v1", "ConfigMap", BYTES("\x0a\x03\x0a\x01n\x12\x06\x0a\x01k\x12\x01v"),
         "\"metadata\":{\"name\":\"n\"},\"data\":{\"k\":\"v\"}"},
        {"v1", "ConfigMap", BYTES("\x1a\x06\x0a\x01k\x12\x01\xff"), "\"binaryData\":{\"k\":\"/w==\"}"},
        {"v1", "ConfigMap", BYTES("\x0a\x03\x0a\x01n\xfa\x3e\x01\xff\xf8\x3e\x01"), "\"metadata\":{\"name\":\"n\"}"},
        {"v1", "DeleteOptions", BYTES("\x08\x00"), "\"gracePeriodSeconds\":0"},
        {"policy/v1", "DeleteOptions", BYTES("\x08\x05"), "\"gracePeriodSeconds\":5"},
        {"coordination.k8s.io/v1", "Lease", BYTES("\x12\x08\x1a\x06\x08\x01\x10\xc0\x84\x3d"),
         "\"spec\":{\"acquireTime\":\"1970-01-01T00:00:01.001000Z\"}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = ERROR_INIT;
        struct json *v = decode(cases[i].version, cases[i].kind, cases[i].raw, cases[i].len, &err);
        if (!v)
            fail_msg("case %zu: %s", i, error_text(&err));
        _cleanup_free_ char *text = json_text(v);
        if (!strstr(text, cases[i].expected))
            fail_msg("case %zu: %s", i, text);
        json_unref(v);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *version, *kind, *raw;
        size_t len;
        const char *expected;
    } cases[] = {
        {"v1", "ConfigMap", BYTES("\x0a\x03\x0a\x01\xff"), "a string is not UTF-8"},
        {"v1", "ConfigMap", BYTES("\x12\x06\x0a\x01\xff\x12\x01v"), "a key is not UTF-8"},
        {"v1", "ConfigMap", BYTES("\x12\x07\x0a\x02k\0\x12\x01v"), "a key holds a zero byte"},
        {"v1", "ConfigMap", BYTES("\x0a\x7f\x0a"), "broken length"},
        {"v1", "ConfigMap", BYTES("\x0b"), "unknown wire type"},
        {"v1", "ConfigMap", BYTES("\xff\xff"), "broken tag"},
        {"v1", "ConfigMap", BYTES("\x08\x01"), "a number where bytes belong"},
        {"v1", "DeleteOptions", BYTES("\x09\0\0\0\0\0\0\0\0"), "another wire type where a number belongs"},
        {"v1", "DeleteOptions", BYTES("\x0a\x01\x05"), "another wire type where a number belongs"},
        {"coordination.k8s.io/v1", "Lease", BYTES("\x12\x0e\x1a\x0c\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x10\x00"),
         "a time is out of range"},
        {"coordination.k8s.io/v1", "Lease", BYTES("\x12\x0a\x1a\x08\x08\x01\x10\x80\x94\xeb\xdc\x03"),
         "a time is out of range"},
        {"coordination.example.com/v1", "Lease", BYTES(""), "no kind \"Lease\""},
        {"v1", "Nothing", BYTES(""), "no kind \"Nothing\" in version \"v1\""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = ERROR_INIT;
        struct json *v = decode(cases[i].version, cases[i].kind, cases[i].raw, cases[i].len, &err);
        if (v || !strstr(error_text(&err), cases[i].expected))
            fail_msg("case %zu: %s", i, v ? "accepted" : error_text(&err));
        error_clear(&err);
    }
}

/* Schemas within schemas (field 28 of JSONSchemaProps: not), as a definition may hold them. */
static void test_depth(void **state)
{
    static const struct {
        unsigned depth;
        bool accepted;
    } cases[] = {{20, true}, {TOO_DEEP, false}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct message m = {0};
        struct error err = ERROR_INIT;
        for (unsigned n = 0; n < cases[i].depth; n++) {
            struct message outer = {.data = {0xe2, 0x01, (unsigned char)(m.len | 0x80), (unsigned char)(m.len >> 7)},
                                    .len = 4};
            put(&outer, m.data, m.len);
            m = outer;
        }
        struct message validation = {0}, version = {0}, spec = {0}, crd = {0};
        put_bytes(&validation, 1, m.data, m.len);
        put_bytes(&version, 4, validation.data, validation.len);
        put_bytes(&spec, 7, version.data, version.len);
        put_bytes(&crd, 2, spec.data, spec.len);
        struct json *v = decode("apiextensions.k8s.io/v1", "CustomResourceDefinition", crd.data, crd.len, &err);
        assert_int_equal(v != NULL, cases[i].accepted);
        assert_true(v || strstr(error_text(&err), "nested too deeply"));
        json_unref(v);
        error_clear(&err);
    }
}

/* A body of the greatest size in its smallest fields does not hold up the server. */
static void test_many_fields(void **state)
{
    const size_t count = 1500000, len = count * 2;
    unsigned char *raw = xmalloc(len + 32);
    static const unsigned char head[] = "k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\xc0\x8d\xb7\x01";
    const size_t head_len = sizeof(head) - 1;
    struct error err = ERROR_INIT;

    (void)state;
    memcpy(raw, head, head_len);
    for (size_t i = 0; i < count; i++)
        memcpy(raw + head_len + 2 * i, "\x78\x01", 2); /* of a number that a Pod does not have */
    int64_t begin = time_monotonic_ns();
    struct json *v = proto_decode(raw, head_len + len, &err);
    if (!v)
        fail_msg("%s", error_text(&err));
    assert_true(time_monotonic_ns() - begin < NSEC_PER_SEC);
    json_unref(v);
    free(raw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_many_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
