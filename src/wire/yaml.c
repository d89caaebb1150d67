#include "wire/yaml.h"

#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "wire/yaml_scalar.h"

#include <yaml.h>

#define TEXT_MAX_BYTES (10u << 20)
#define DEPTH_MAX 100
#define NODES_MAX 1000000
#define STRINGS_MAX_BYTES (64u << 20)
#define TAG_PREFIX "tag:yaml.org,2002:"

/* What a value amounts to with all its aliases expanded. */
struct extent {
    size_t nodes, bytes;
    int height; /* levels below it */
};

struct anchor {
    struct json *value;
    struct extent extent;
};

struct parser {
    yaml_parser_t yaml;
    yaml_event_t event;
    bool have_event;
    const struct json_parse_options *options;
    struct hashmap anchors; /* of this document: name → struct anchor */
    bool shared;            /* aliases were used: parts of the document are in it several times */
    struct extent total;
    struct strbuf path;
    struct error *err;
};

static int read_node(struct parser *p, int depth, struct json **ret, struct extent *ret_extent);

static int bad_at(struct parser *p, const yaml_mark_t *mark, const char *what)
{
    return error_set(p->err, EINVAL, "invalid YAML at line %zu, column %zu: %s", mark->line + 1, mark->column + 1,
                     what);
}

static int bad(struct parser *p, const char *what)
{
    return bad_at(p, &p->event.start_mark, what);
}

static int next(struct parser *p)
{
    if (p->have_event)
        yaml_event_delete(&p->event);
    p->have_event = false;
    if (!yaml_parser_parse(&p->yaml, &p->event))
        return bad_at(p, &p->yaml.problem_mark, p->yaml.problem ? p->yaml.problem : "syntax error");
    p->have_event = true;
    return 0;
}

static int charge(struct parser *p, size_t nodes, size_t bytes)
{
    p->total.nodes += nodes;
    p->total.bytes += bytes;
    if (p->total.nodes > NODES_MAX)
        return bad(p, "too many nodes after expanding aliases");
    if (p->total.bytes > STRINGS_MAX_BYTES)
        return bad(p, "too much text after expanding aliases");
    return 0;
}

static void grow(struct extent *whole, const struct extent *part)
{
    whole->nodes += part->nodes;
    whole->bytes += part->bytes;
    whole->height = MAX(whole->height, part->height + 1);
}

/* Scalars. */

/* A scalar with one of YAML's own tags. */
static int read_tagged(struct parser *p, const char *tag, const char *text, struct json **ret)
{
    static const struct {
        const char *tag;
        enum json_kind kind;
    } kinds[] = {{"int", JSON_INT}, {"float", JSON_DOUBLE}, {"bool", JSON_BOOL}, {"null", JSON_NULL}};

    if (streq(tag, "binary"))
        return bad(p, "!!binary is not supported");
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (!streq(tag, kinds[i].tag))
            continue;
        if (yaml_resolve(text, ret) < 0)
            return bad(p, "a number that JSON does not have");
        enum json_kind kind = json_kind(*ret);
        if (kind == kinds[i].kind || (kinds[i].kind == JSON_DOUBLE && kind == JSON_INT))
            return 0;
        json_unref(take_ptr(*ret));
        return bad(p, "the value is not what its tag says");
    }
    *ret = json_string(text);
    return 0;
}

static int read_scalar(struct parser *p, struct json **ret)
{
    const char *text = (const char *)p->event.data.scalar.value;
    const char *tag = (const char *)p->event.data.scalar.tag;
    const char *own = tag ? str_skip_prefix(tag, TAG_PREFIX) : NULL;

    *ret = NULL;
    if (strlen(text) != p->event.data.scalar.length)
        return bad(p, "NUL in a scalar");
    if (charge(p, 0, p->event.data.scalar.length) < 0)
        return -EINVAL;
    if (own)
        return read_tagged(p, own, text, ret);
    if (tag || p->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE) {
        *ret = json_string(text);
        return 0;
    }
    return yaml_resolve(text, ret) < 0 ? bad(p, "a number that JSON does not have") : 0;
}

/* A key as text: "on" is true is "true". */
static int read_key(struct parser *p, char **ret, bool *ret_merge)
{
    if (p->event.type != YAML_SCALAR_EVENT)
        return bad(p, "a key must be a scalar");
    if (p->event.data.scalar.anchor)
        return bad(p, "an anchor on a key is not supported");
    *ret_merge = p->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !p->event.data.scalar.tag &&
                 streq((const char *)p->event.data.scalar.value, "<<");
    _cleanup_json_ struct json *key = NULL;
    if (read_scalar(p, &key) < 0)
        return -EINVAL;
    if (!key)
        return bad(p, "null is no key");
    *ret = json_is(key, JSON_STRING) ? xstrdup(json_str(key)) : json_text(key);
    return 0;
}

/* Mappings and sequences. */

static bool is_mergeable(const struct json *source)
{
    for (size_t i = 0; json_is(source, JSON_ARRAY) && i < json_size(source); i++)
        if (!json_is(json_item(source, i), JSON_OBJECT))
            return false;
    return json_is(source, JSON_OBJECT) || json_is(source, JSON_ARRAY);
}

/* The members of source that map does not have itself; of several sources the first one counts. */
static void merge(struct json *map, const struct json *source)
{
    for (size_t i = 0; json_is(source, JSON_ARRAY) && i < json_size(source); i++)
        merge(map, json_item(source, i));
    for (struct json_iter it = {0}; json_is(source, JSON_OBJECT) && json_each(source, &it);)
        if (!json_has(map, it.key))
            json_set(map, it.key, json_ref(it.value));
}

static int check_duplicate(struct parser *p, const struct json *map, const char *key)
{
    if (!json_has(map, key))
        return 0;
    if (p->options && p->options->duplicate) {
        p->options->duplicate(p->options->arg, strbuf_str(&p->path));
        return 0;
    }
    _cleanup_free_ char *text = xasprintf("duplicate field \"%s\"", strbuf_str(&p->path));
    return bad(p, text);
}

/* The member whose key is the current event. */
static int read_member(struct parser *p, int depth, struct json *map, struct json *merges, struct extent *extent)
{
    _cleanup_free_ char *key = NULL;
    _cleanup_json_ struct json *value = NULL;
    struct extent part = {0};
    bool is_merge = false;

    if (read_key(p, &key, &is_merge) < 0)
        return -EINVAL;
    extent->bytes += strlen(key);
    strbuf_addf(&p->path, "%s%s", p->path.len ? "." : "", key);
    if ((!is_merge && check_duplicate(p, map, key) < 0) || next(p) < 0)
        return -EINVAL;
    yaml_mark_t mark = p->event.start_mark;
    if (read_node(p, depth + 1, &value, &part) < 0)
        return -EINVAL;
    grow(extent, &part);
    if (!is_merge)
        json_set(map, key, take_ptr(value));
    else if (is_mergeable(value))
        json_push(merges, take_ptr(value));
    else
        return bad_at(p, &mark, "<< needs a mapping or a list of mappings");
    return 0;
}

static int read_mapping(struct parser *p, int depth, struct json *map, struct extent *extent)
{
    _cleanup_json_ struct json *merges = json_array_make();
    size_t base = p->path.len;

    for (;;) {
        if (next(p) < 0)
            return -EINVAL;
        if (p->event.type == YAML_MAPPING_END_EVENT)
            break;
        if (read_member(p, depth, map, merges, extent) < 0)
            return -EINVAL;
        strbuf_truncate(&p->path, base);
    }
    p->shared |= json_size(merges) > 0;
    merge(map, merges);
    return 0;
}

static int read_sequence(struct parser *p, int depth, struct json *list, struct extent *extent)
{
    size_t base = p->path.len;

    for (size_t i = 0;; i++) {
        struct json *value;
        struct extent part = {0};

        if (next(p) < 0)
            return -EINVAL;
        if (p->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        strbuf_addf(&p->path, "[%zu]", i);
        if (read_node(p, depth + 1, &value, &part) < 0)
            return -EINVAL;
        grow(extent, &part);
        json_push(list, value);
        strbuf_truncate(&p->path, base);
    }
}

/* Anchors and aliases. */

static void anchor_free(void *arg)
{
    struct anchor *a = arg;

    json_unref(a->value);
    free(a);
}

static void clear_anchors(struct parser *p)
{
    hashmap_free(&p->anchors, anchor_free);
    p->anchors = (struct hashmap){0};
}

static void remember(struct parser *p, const char *name, struct json *value, const struct extent *extent)
{
    struct anchor *a = xcalloc(1, sizeof(*a));

    a->value = json_ref(value);
    a->extent = *extent;
    struct anchor *old = hashmap_put(&p->anchors, name, a);
    if (old)
        anchor_free(old);
}

/* Counts what the alias stands for, but only refers to it: a bomb is found out before it goes off. */
static int read_alias(struct parser *p, int depth, struct json **ret, struct extent *extent)
{
    const struct anchor *a = hashmap_get(&p->anchors, (const char *)p->event.data.alias.anchor);

    if (!a)
        return bad(p, "unknown alias");
    if (depth + a->extent.height > DEPTH_MAX)
        return bad(p, "nested too deeply");
    if (charge(p, a->extent.nodes, a->extent.bytes) < 0)
        return -EINVAL;
    p->shared = true;
    *ret = json_ref(a->value);
    *extent = a->extent;
    return 0;
}

static char *event_anchor(const yaml_event_t *e)
{
    const yaml_char_t *anchor = e->type == YAML_SCALAR_EVENT           ? e->data.scalar.anchor
                                : e->type == YAML_MAPPING_START_EVENT  ? e->data.mapping_start.anchor
                                : e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.anchor
                                                                       : NULL;

    return anchor ? xstrdup((const char *)anchor) : NULL;
}

/* The node whose first event is the current one. */
static int read_node(struct parser *p, int depth, struct json **ret, struct extent *ret_extent)
{
    _cleanup_free_ char *anchor = event_anchor(&p->event);
    _cleanup_json_ struct json *value = NULL;
    struct extent extent = {.nodes = 1};
    int r;

    if (depth > DEPTH_MAX)
        return bad(p, "nested too deeply");
    if (charge(p, 1, 0) < 0)
        return -EINVAL;
    switch (p->event.type) {
    case YAML_SCALAR_EVENT:
        extent.bytes = p->event.data.scalar.length;
        r = read_scalar(p, &value);
        break;
    case YAML_MAPPING_START_EVENT:
        value = json_object_make();
        r = read_mapping(p, depth, value, &extent);
        break;
    case YAML_SEQUENCE_START_EVENT:
        value = json_array_make();
        r = read_sequence(p, depth, value, &extent);
        break;
    case YAML_ALIAS_EVENT:
        r = read_alias(p, depth, &value, &extent);
        break;
    default:
        r = bad(p, "unexpected content");
    }
    if (r < 0)
        return r;
    if (anchor)
        remember(p, anchor, value, &extent);
    *ret = take_ptr(value);
    *ret_extent = extent;
    return 0;
}

/* Documents. */

static int read_document(struct parser *p, struct json *documents)
{
    _cleanup_json_ struct json *value = NULL;
    struct extent extent;

    p->shared = false;
    int r = next(p) < 0 ? -EINVAL : read_node(p, 0, &value, &extent);
    clear_anchors(p);
    if (r < 0)
        return r;
    if (value)
        json_push(documents, p->shared ? json_copy(value) : json_ref(value));
    return 0;
}

static int read_stream(struct parser *p, struct json *documents)
{
    for (;;) {
        if (next(p) < 0)
            return -EINVAL;
        if (p->event.type == YAML_STREAM_END_EVENT)
            return 0;
        if (p->event.type == YAML_DOCUMENT_START_EVENT && read_document(p, documents) < 0)
            return -EINVAL;
    }
}

int yaml_parse_all(const char *text, size_t len, const struct json_parse_options *options, struct json **ret,
                   struct error *err)
{
    _cleanup_error_ struct error local = ERROR_INIT;
    struct parser p = {.options = options, .err = &local};
    _cleanup_json_ struct json *documents = json_array_make();

    if (len > TEXT_MAX_BYTES)
        return error_set(err, EFBIG, "YAML text is larger than %u bytes", TEXT_MAX_BYTES);
    if (!yaml_parser_initialize(&p.yaml))
        abort();
    yaml_parser_set_input_string(&p.yaml, (const unsigned char *)text, len);
    int r = read_stream(&p, documents);

    if (p.have_event)
        yaml_event_delete(&p.event);
    yaml_parser_delete(&p.yaml);
    strbuf_free(&p.path);
    if (r < 0)
        return error_move(err, &local);
    *ret = take_ptr(documents);
    return 0;
}

struct json *yaml_parse(const char *text, size_t len, const struct json_parse_options *options, struct error *err)
{
    _cleanup_json_ struct json *documents = NULL;

    if (yaml_parse_all(text, len, options, &documents, err) < 0)
        return NULL;
    if (json_size(documents) != 1) {
        (void)error_set(err, EINVAL, "expected one YAML document, found %zu", json_size(documents));
        return NULL;
    }
    return json_ref(json_item(documents, 0));
}
