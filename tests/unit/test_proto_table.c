/* The table of messages: it has all that the schemas of the served kinds have, and what it encodes it reads back. */
#include "quoted.h"
#include "test.h"

#include "apiserver/proto.h"
#include "apiserver/proto_internal.h"
#include "apiserver/resource.h"
#include "kube/object.h"

#include <stdlib.h>

#define REF "#/components/schemas/"

static const struct json *resolve(const struct resource_table *t, const struct json *schema)
{
    const char *ref = json_str(json_get(schema, "$ref"));

    return ref ? resource_schema_definition(t, str_skip_prefix(ref, REF)) : schema;
}

static const struct proto_field *field_named(const struct proto_message *m, const char *name)
{
    const struct proto_fields *all = proto_fields(m);

    for (size_t i = 0; i < all->count; i++) {
        const struct proto_field *f = &all->items[i];
        const struct proto_field *inner = f->inlined ? field_named(f->message, name) : NULL;
        if (inner || (!f->inlined && streq(f->name, name)))
            return inner ? inner : f;
    }
    return NULL;
}

struct seen {
    const struct proto_message *messages[1000];
    size_t count, missing;
};

static bool first_time(struct seen *s, const struct proto_message *m)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->messages[i] == m)
            return false;
    assert_true(s->count < ARRAY_LEN(s->messages));
    s->messages[s->count++] = m;
    return true;
}

static void compare(const struct resource_table *t, const struct json *schema, const struct proto_message *m,
                    struct seen *s)
{
    if (!first_time(s, m))
        return;
    for (struct json_iter it = {0}; json_each(json_get(resolve(t, schema), "properties"), &it);) {
        const struct proto_field *f = field_named(m, it.key);
        const struct json *of = resolve(t, it.value);
        if (!f && (streq(it.key, "apiVersion") || streq(it.key, "kind")))
            continue;
        if (!f && !streq(it.key, "x-holt-ref")) {
            print_error("%s has no %s\n", m->name, it.key);
            s->missing++;
            continue;
        }
        if (!f)
            continue;
        if (f->repeated)
            of = json_get(of, "items");
        else if (f->map)
            of = json_get(of, "additionalProperties");
        if (f->type == PROTO_MESSAGE)
            compare(t, of, f->message, s);
    }
}

static void test_schemas(void **state)
{
    struct error err = ERROR_INIT;
    _cleanup_(resource_table_free_p) struct resource_table *t = resource_table_new(&err);
    struct seen seen = {0};
    size_t count, kinds = 0;

    (void)state;
    assert_non_null(t);
    const struct resource *const *all = resource_table_list(t, &count);
    for (size_t i = 0; i < count; i++) {
        const struct resource *r = all[i];
        if (r->is_custom || r->refused || streq(r->group, "metrics.k8s.io"))
            continue; /* metrics are JSON only */
        const struct proto_message *m = proto_find_kind(r->api_version, r->kind);
        if (!m)
            fail_msg("no message of %s %s", r->api_version, r->kind);
        compare(t, r->schema, m, &seen);
        kinds++;
    }
    assert_true(kinds > 30);
    assert_int_equal(seen.missing, 0);
}

/* --- there and back --- */

#define DEPTH 4 /* of schemas within schemas, and the like */

static struct json *sample_object(const struct proto_message *m, int depth);

static struct json *sample(const struct proto_field *f, int depth)
{
    switch (f->type) {
    case PROTO_STRING:
        return json_string("täxt");
    case PROTO_BOOL:
        return json_boolean(true);
    case PROTO_INT32:
        return json_int(-7);
    case PROTO_INT64:
        return json_int(INT64_MIN);
    case PROTO_DOUBLE:
        return json_double(1.5);
    case PROTO_BYTES:
        return json_string("AP8B");
    case PROTO_TIME:
        return json_string("1969-12-31T23:59:58Z");
    case PROTO_MICRO_TIME:
        return json_string("2026-02-03T04:05:06.000007Z");
    case PROTO_QUANTITY:
        return json_string("1500m");
    case PROTO_INT_OR_STRING:
        return f->number % 2 ? json_int(80) : json_string("50%");
    case PROTO_JSON_TEXT:
    case PROTO_RAW:
        return parse("{'a':[1,null,{'b':'c'}]}");
    case PROTO_STRINGS:
        return parse("['a','']");
    case PROTO_SCHEMA_OR_BOOL:
        return depth ? sample_object(f->message, 0) : json_boolean(false);
    case PROTO_SCHEMA_OR_ARRAY:
        return depth ? parse("[{'type':'a'},{}]") : sample_object(f->message, 0);
    case PROTO_SCHEMA_OR_STRINGS:
        return depth ? parse("['a','b']") : parse("{'type':'object'}");
    case PROTO_MESSAGE:
        return sample_object(f->message, depth);
    default:
        return NULL;
    }
}

static void fill(struct json *object, const struct proto_message *m, int depth)
{
    const struct proto_fields *all = proto_fields(m);

    for (size_t i = 0; i < all->count; i++) {
        const struct proto_field *f = &all->items[i];
        if (f->inlined) {
            fill(object, f->message, depth);
            continue;
        }
        if (depth == 0 && f->message)
            continue; /* deep enough */
        struct json *v = sample(f, depth - 1);
        if (!v)
            continue;
        if (f->map) {
            struct json *map = json_build("{s:o, s:O}", "", v, "k/x", v);
            json_set(object, f->name, map);
        } else if (f->repeated) {
            json_set(object, f->name, json_build("[o, O]", v, v));
        } else {
            json_set(object, f->name, v);
        }
    }
}

static struct json *sample_object(const struct proto_message *m, int depth)
{
    struct json *object = json_object_make();

    fill(object, m, depth);
    if (json_size(object) == 0)
        json_unref(take_ptr(object));
    return object;
}

/* "core/v1.Pod" is v1 Pod; the packages of the other groups are their first labels. */
static bool kind_of(const struct proto_message *m, char **ret_version, char **ret_kind)
{
    const char *dot = strrchr(m->name, '.');
    char *version = xstrndup(m->name, (size_t)(dot - m->name));

    if (str_skip_prefix(version, "core/") || str_skip_prefix(version, "meta/"))
        memmove(version, version + 5, strlen(version + 5) + 1);
    *ret_version = version;
    *ret_kind = xstrdup(dot + 1);
    return proto_find_kind(version, dot + 1) == m;
}

static void test_round_trip(void **state)
{
    size_t tried = 0;

    (void)state;
    for (size_t i = 0; i < proto_message_count; i++) {
        _cleanup_free_ char *version = NULL, *kind = NULL;
        _cleanup_(strbuf_free) struct strbuf out = {0};
        _cleanup_error_ struct error err = ERROR_INIT;
        if (!kind_of(&proto_messages[i], &version, &kind) || field_named(&proto_messages[i], "kind") ||
            field_named(&proto_messages[i], "apiVersion"))
            continue;
        _cleanup_json_ struct json *object = json_build("{s:s, s:s}", "apiVersion", version, "kind", kind);
        fill(object, &proto_messages[i], DEPTH);
        if (proto_encode(object, &out, &err) < 0)
            fail_msg("%s", error_text(&err));
        _cleanup_json_ struct json *back = proto_decode(out.data, out.len, &err);
        if (!back)
            fail_msg("%s: %s", kind, error_text(&err));
        if (!json_equal(object, back)) {
            _cleanup_free_ char *a = json_text(object), *b = json_text(back);
            fail_msg("%s\n%s\n%s", kind, a, b);
        }
        tried++;
    }
    assert_true(tried > 200);
}

static void test_long_values_and_misfits(void **state)
{
    _cleanup_(strbuf_free) struct strbuf out = {0};
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_json_ struct json *map = parse("{'apiVersion':'v1','kind':'ConfigMap','data':{'a':'1'}}");

    (void)state;
    for (size_t len = 1; len < 3u << 20; len = len * 5 + 2) { /* lengths of one to four bytes */
        _cleanup_free_ char *text = xcalloc(1, len + 1);
        memset(text, 'x', len);
        json_set_str(json_get(map, "data"), "a", text);
        strbuf_truncate(&out, 0);
        assert_int_equal(proto_encode(map, &out, &err), 0);
        _cleanup_json_ struct json *back = proto_decode(out.data, out.len, &err);
        assert_true(json_equal(map, back));
    }
    strbuf_truncate(&out, 0);
    strbuf_adds(&out, "before");
    json_set_int(json_get(map, "data"), "a", 3);
    assert_int_equal(proto_encode(map, &out, &err), -EINVAL);
    assert_string_equal(error_text(&err), "protobuf: ConfigMap: data is not of the type that the kind has");
    assert_int_equal(out.len, 6);
    json_set_str(map, "kind", "Nothing");
    assert_int_equal(proto_encode(map, &out, &err), -EINVAL);
    assert_false(proto_has_kind("example.com/v1", "Pod"));
    /* Of a type that is not in the table: refused, not dropped. */
    _cleanup_json_ struct json *volume =
        parse("{'apiVersion':'v1','kind':'PersistentVolume','spec':{'iscsi':{'lun':1}}}");
    assert_int_equal(proto_encode(volume, &out, &err), -EINVAL);
}

/* The length in front and the two wrappers around the object are where clients look for them. */
static void test_watch_frame(void **state)
{
    _cleanup_(strbuf_free) struct strbuf out = {0};
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_json_ struct json *map = parse("{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'n'}}");

    (void)state;
    assert_int_equal(proto_watch_frame("ADDED", map, &out, &err), 0);
    assert_int_equal((unsigned char)out.data[3], out.len - 4);
    assert_memory_equal(out.data + 4,
                        "\x0a\x05"
                        "ADDED\x12",
                        8);
    assert_memory_equal(out.data + 15, "k8s\0", 4);
    _cleanup_json_ struct json *back = proto_decode(out.data + 15, out.len - 15, &err);
    assert_true(json_equal(map, back));
}

static void test_list(void **state)
{
    _cleanup_(strbuf_free) struct strbuf items = {0}, out = {0};
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_json_ struct json *map = parse("{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'n'}}");
    _cleanup_json_ struct json *metadata = parse("{'resourceVersion':'12','continue':'abc','remainingItemCount':3}");

    (void)state;
    for (int i = 0; i < 200; i++)
        assert_int_equal(proto_list_item(map, &items, &err), 0);
    proto_list_begin("v1", "ConfigMapList", metadata, items.len, &out);
    size_t head = out.len;
    strbuf_add(&out, items.data, items.len);
    /* What stands in front of the items: envelope, type, and the length of metadata and items together. */
    static const char begin[] = "k8s\0\x0a\x13\x0a\x02v1\x12\x0d"
                                "ConfigMapList\x12";
    assert_memory_equal(out.data, begin, sizeof(begin) - 1);
    size_t at = sizeof(begin) - 1, len = (unsigned char)out.data[at] & 0x7f;
    len |= (size_t)(unsigned char)out.data[at + 1] << 7;
    assert_int_equal(len, out.len - at - 2);
    assert_memory_equal(out.data + at + 2,
                        "\x0a\x0b\x12\x02"
                        "12\x1a\x03"
                        "abc\x20\x03",
                        head - at - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schemas),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_long_values_and_misfits),
        cmocka_unit_test(test_watch_frame),
        cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
