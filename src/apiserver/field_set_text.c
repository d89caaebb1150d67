/* Sets of fields as text: FieldsV1 in and out, paths in messages. */
#include "apiserver/field_set_internal.h"

#include "base/memory.h"
#include "base/strutil.h"

/*
 * Whether the text behind "v:" or "k:" is already as we write it: no space, no escape, whole numbers only, keys in
 * order. Only then comparing texts compares values. Says no rather too often: the text is then parsed and rewritten.
 */
static const char *skip_plain_scalar(const char *p)
{
    if (*p == '"') {
        p += 1 + strcspn(p + 1, "\"\\");
        return *p == '"' ? p + 1 : NULL;
    }
    if (*p >= '1' && *p <= '9') {
        size_t digits = strspn(p, "0123456789");
        return digits <= 18 ? p + digits : NULL;
    }
    return NULL;
}

static bool is_plain_scalar(const char *text)
{
    const char *end = skip_plain_scalar(text);

    return end && *end == '\0';
}

static bool is_plain_key(const char *p)
{
    const char *last = "";
    size_t last_len = 0;

    if (*p++ != '{')
        return false;
    for (;; p++) {
        const char *name = p + 1, *end = *p == '"' ? skip_plain_scalar(p) : NULL;
        if (!end || *end != ':')
            return false;
        size_t len = (size_t)(end - 1 - name);
        int order = memcmp(last, name, MIN(last_len, len));
        if (order > 0 || (order == 0 && last_len >= len))
            return false;
        last = name;
        last_len = len;
        p = skip_plain_scalar(end + 1);
        if (!p)
            return false;
        if (*p != ',')
            return p[0] == '}' && p[1] == '\0';
    }
}

static bool has_control_character(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20)
            return true;
    return false;
}

void field_scalar_write(const struct json *v, struct strbuf *out)
{
    static const int64_t none = INT64_MIN;
    int64_t whole = json_is(v, JSON_DOUBLE) ? json_int_or(v, none) : none;

    if (whole != none)
        strbuf_addf(out, "%lld", (long long)whole);
    else
        json_write(v, out);
}

/* Numbers nested deeper than the key fields are left as they are: keys are scalars. */
static void write_key_fields(const struct json *v, struct strbuf *out)
{
    _cleanup_json_ struct json *plain = json_object_make();

    for (struct json_iter it = {0}; json_each(v, &it);) {
        bool whole = json_is(it.value, JSON_DOUBLE) && json_int_or(it.value, INT64_MIN) != INT64_MIN;
        json_set(plain, it.key, whole ? json_int(json_int_or(it.value, 0)) : json_ref(it.value));
    }
    json_write_sorted(plain, out);
}

/* The key as it goes into the set, in the set's arena. */
static const char *read_key(struct field_set *set, const char *key, struct error *err)
{
    const char *text = key + 2;
    bool as_is = key[0] == 'f';

    if (!key[0] || key[1] != ':' || !strchr("fkvi", key[0])) {
        (void)error_set(err, EINVAL, "unknown path element \"%s\"", key);
        return NULL;
    }
    if (key[0] == 'k')
        as_is = is_plain_key(text) && !has_control_character(text);
    else if (key[0] == 'v')
        as_is = is_plain_scalar(text) && !has_control_character(text);
    else if (key[0] == 'i')
        as_is = *text && text[strspn(text, "0123456789")] == '\0';
    if (as_is)
        return arena_strndup(&set->arena, key, strlen(key));

    struct error parse_err = ERROR_INIT;
    _cleanup_json_ struct json *v = json_parse(text, strlen(text), &parse_err);
    bool right_type = key[0] == 'k' ? json_is(v, JSON_OBJECT) && json_size(v) > 0 : key[0] == 'v';
    if (parse_err.code || !right_type) {
        error_clear(&parse_err);
        (void)error_set(err, EINVAL, "path element \"%s\" does not hold JSON of the right type", key);
        return NULL;
    }
    _cleanup_(strbuf_free) struct strbuf b = {0};
    if (key[0] == 'k')
        write_key_fields(v, &b);
    else
        field_scalar_write(v, &b);
    return arena_concat(&set->arena, key[0] == 'k' ? "k:" : "v:", strbuf_str(&b));
}

/* ret_marked: there is a "." among the members. */
static int parse_node(struct field_set *set, struct field_node *node, const struct json *v, bool *ret_marked,
                      struct error *err)
{
    *ret_marked = false;
    for (struct json_iter it = {0}; json_each(v, &it);) {
        struct field_node below = {0};
        bool marked;

        if (streq(it.key, ".")) {
            *ret_marked = true;
            continue;
        }
        if (!json_is(it.value, JSON_OBJECT))
            return error_set(err, EINVAL, "\"%s\" does not hold an object", it.key);
        const char *key = read_key(set, it.key, err);
        if (!key)
            return -err->code;
        int r = parse_node(set, &below, it.value, &marked, err);
        if (r < 0)
            return r;
        struct field_entry *entry = field_node_add(set, node, key);
        entry->marked = marked || below.count == 0;
        entry->below = below;
    }
    field_node_seal(set, node);
    return 0;
}

struct field_set *field_set_parse(const struct json *fields_v1, struct error *err)
{
    _cleanup_error_ struct error local = ERROR_INIT;
    _cleanup_field_set_ struct field_set *set = field_set_new();
    bool marked; /* "." of the whole object says nothing */

    if (!json_is(fields_v1, JSON_OBJECT))
        (void)error_set(&local, EINVAL, "not an object");
    else
        (void)parse_node(set, &set->root, fields_v1, &marked, &local);
    if (!local.code)
        return take_ptr(set);
    (void)error_move(err, &local);
    return NULL;
}

/* leaf: an empty object that all leaves share. */
static struct json *node_to_json(const struct field_node *node, bool marked, struct json *leaf)
{
    if (node->count == 0)
        return json_ref(leaf);
    struct json *v = json_object_make();

    if (marked)
        json_set(v, ".", json_ref(leaf));
    for (size_t i = 0; i < node->count; i++) {
        const struct field_entry *entry = &node->entries[i];
        json_set(v, entry->key, node_to_json(&entry->below, entry->marked, leaf));
    }
    return v;
}

struct json *field_set_to_json(const struct field_set *set)
{
    _cleanup_json_ struct json *leaf = json_object_make();

    return node_to_json(&set->root, false, leaf);
}

void field_key_print(const char *key, struct strbuf *out)
{
    const char *text = key + 2;

    if (key[0] == 'f') {
        strbuf_addc(out, '.');
        strbuf_adds(out, text);
    } else if (key[0] == 'k') {
        _cleanup_json_ struct json *v = json_parse(text, strlen(text), NULL);
        char separator = '[';
        for (struct json_iter it = {0}; json_each(v, &it); separator = ',') {
            strbuf_addc(out, separator);
            strbuf_adds(out, it.key);
            strbuf_addc(out, '=');
            json_write(it.value, out);
        }
        strbuf_addc(out, ']');
    } else {
        strbuf_adds(out, key[0] == 'v' ? "[=" : "[");
        strbuf_adds(out, text);
        strbuf_addc(out, ']');
    }
}

static void visit_node(const struct field_node *node, struct strbuf *path, void (*visit)(void *arg, const char *path),
                       void *arg)
{
    size_t base = path->len;

    for (size_t i = 0; i < node->count; i++) {
        if (!node->entries[i].marked)
            continue;
        field_key_print(node->entries[i].key, path);
        visit(arg, strbuf_str(path));
        strbuf_truncate(path, base);
    }
    for (size_t i = 0; i < node->count; i++) {
        if (node->entries[i].below.count == 0)
            continue;
        field_key_print(node->entries[i].key, path);
        visit_node(&node->entries[i].below, path, visit, arg);
        strbuf_truncate(path, base);
    }
}

void field_set_each(const struct field_set *set, void (*visit)(void *arg, const char *path), void *arg)
{
    _cleanup_(strbuf_free) struct strbuf path = {0};

    visit_node(&set->root, &path, visit, arg);
}
