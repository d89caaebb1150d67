#include "apiserver/list_answer.h"

#include "apiserver/proto.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "wire/yaml.h"

#include <inttypes.h>

/* Lists of more items are sent in slices, of a little more than so much time or so many bytes. */
#define LONG_ITEMS 100
#define SLICE_NS (40 * 1000)
#define SLICE_BYTES (16u << 10)

struct long_list {
    struct exchange *x;
    struct table *table;
    size_t at, items_len;
    bool measuring; /* protobuf says beforehand how long the items will be */
    bool waiting;   /* for its turn */
};

static struct json *list_metadata(const struct api_result *r)
{
    char revision[32];

    (void)snprintf(revision, sizeof(revision), "%" PRId64, r->list_revision);
    struct json *metadata = json_build("{s:s, s:s}", "resourceVersion", revision, "continue", r->continue_token);
    if (r->continue_token && r->remaining >= 0)
        json_set_int(metadata, "remainingItemCount", r->remaining);
    return metadata;
}

/* Returns what writes the rows of a Table. items_len: see proto.h. */
static struct table *write_begin(const struct exchange *x, enum answer_encoding encoding, size_t items_len,
                                 struct strbuf *out)
{
    const struct resource *r = x->call.resource;
    bool partial = x->type.form == FORM_METADATA;
    const char *kind = partial ? "PartialObjectMetadataList" : r->list_kind;
    const char *version = partial ? "meta.k8s.io/v1" : r->api_version;
    _cleanup_json_ struct json *metadata = list_metadata(&x->call.result);

    if (encoding == ENCODING_PROTOBUF) {
        proto_list_begin(version, kind, metadata, items_len, out);
        return NULL;
    }
    if (encoding == ENCODING_YAML) {
        _cleanup_json_ struct json *head =
            json_build("{s:s, s:s, s:O}", "apiVersion", version, "kind", kind, "metadata", metadata);
        _cleanup_free_ char *text = yaml_text(head);
        strbuf_adds(out, text);
        strbuf_adds(out, x->call.result.item_count ? "items:\n" : "items: []\n");
        return NULL;
    }
    _cleanup_free_ char *text = json_text(metadata);
    if (x->type.form == FORM_TABLE) {
        struct table *table = table_new(r, x->include, clock_now(x->call.server->clock));
        table_begin(table, text, true, out);
        return table;
    }
    strbuf_addf(out, "{\"kind\":\"%s\",\"apiVersion\":\"%s\",\"metadata\":%s,\"items\":[", kind, version, text);
    return NULL;
}

static int write_item(const struct exchange *x, enum answer_encoding encoding, size_t at, const struct table *table,
                      struct strbuf *out)
{
    struct stored *item = x->call.result.items[at];
    _cleanup_json_ struct json *shown = object_shown(x->call.resource, item->value);

    if (table) {
        table_row(table, shown, at == 0, out);
        return 0;
    }
    if (encoding == ENCODING_JSON && at > 0)
        strbuf_addc(out, ',');
    if (encoding == ENCODING_JSON && x->type.form == FORM_OBJECT && shown == item->value) {
        stored_write(item, out);
        return 0;
    }
    _cleanup_json_ struct json *value = x->type.form == FORM_METADATA ? partial_object(shown) : json_ref(shown);
    if (encoding == ENCODING_PROTOBUF)
        return proto_list_item(value, out, NULL);
    if (encoding == ENCODING_YAML) {
        _cleanup_json_ struct json *one = json_build("[O]", value);
        _cleanup_free_ char *text = yaml_text(one);
        strbuf_adds(out, text);
        return 0;
    }
    json_write(value, out);
    return 0;
}

static void write_end(enum answer_encoding encoding, struct strbuf *out)
{
    if (encoding == ENCODING_JSON)
        strbuf_adds(out, "]}\n");
}

static int write_items(const struct exchange *x, enum answer_encoding encoding, const struct table *table,
                       struct strbuf *out)
{
    for (size_t i = 0; i < x->call.result.item_count; i++)
        if (write_item(x, encoding, i, table, out) < 0)
            return -EINVAL;
    return 0;
}

void list_write(const struct exchange *x, enum answer_encoding *encoding, struct strbuf *out)
{
    _cleanup_(strbuf_free) struct strbuf items = {0};

    if (*encoding == ENCODING_PROTOBUF) {
        if (write_items(x, *encoding, NULL, &items) == 0) {
            (void)write_begin(x, *encoding, items.len, out);
            strbuf_add(out, items.data, items.len);
            return;
        }
        *encoding = ENCODING_JSON;
    }
    _cleanup_(table_free_p) struct table *table = write_begin(x, *encoding, 0, out);
    (void)write_items(x, *encoding, table, out); /* as text all can be written */
    write_end(*encoding, out);
}

bool list_is_long(const struct exchange *x)
{
    return x->call.result.item_count > LONG_ITEMS && !streq(http_method(x->req), "HEAD");
}

static void end(struct long_list *l)
{
    struct http_request *req = l->x->req;

    http_on_drain(req, NULL, NULL);
    http_on_close(req, NULL, NULL);
    http_end(req);
    table_free(l->table);
    exchange_forget(l->x);
    free(l);
}

static void wait_turn(struct long_list *l)
{
    l->waiting = true;
    http_set_low_priority(l->x->req, fair_queue_push(l->x->call.server->queue, l->x->user->name, &l->x->waiting));
}

static void send_slice(struct long_list *l, struct strbuf *text)
{
    const struct api_result *r = &l->x->call.result;
    enum answer_encoding encoding = l->x->type.encoding;
    int64_t until = time_monotonic_ns() + SLICE_NS;

    do                                                             /* one at least, there is no end of an empty slice */
        (void)write_item(l->x, encoding, l->at++, l->table, text); /* it has been measured, or is text */
    while (l->at < r->item_count && text->len < SLICE_BYTES && time_monotonic_ns() < until);
    bool complete = l->at == r->item_count;
    if (complete)
        write_end(encoding, text);
    if (!http_write(l->x->req, text->data, text->len) || complete)
        end(l);
}

static void begin(struct long_list *l);

/* An item that cannot be encoded makes the answer a JSON one. */
static void measure_slice(struct long_list *l)
{
    const struct api_result *r = &l->x->call.result;
    _cleanup_(strbuf_free) struct strbuf text = {0};
    int64_t until = time_monotonic_ns() + SLICE_NS;

    do
        if (write_item(l->x, ENCODING_PROTOBUF, l->at++, NULL, &text) < 0)
            l->x->type.encoding = ENCODING_JSON;
    while (l->at < r->item_count && l->x->type.encoding == ENCODING_PROTOBUF && time_monotonic_ns() < until);
    l->items_len += text.len;
    if (l->x->type.encoding == ENCODING_PROTOBUF && l->at < r->item_count)
        wait_turn(l);
    else
        begin(l);
}

static void on_turn(struct exchange *x)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};
    struct long_list *l = x->list;

    l->waiting = false;
    if (http_is_closed(x->req))
        end(l);
    else if (l->measuring)
        measure_slice(l);
    else
        send_slice(l, &text);
}

/* The client has taken a slice: the next one waits its turn like any request of the same user. */
static void on_drain(void *arg, struct http_request *req UNUSED)
{
    struct long_list *l = arg;

    if (!l->waiting)
        wait_turn(l);
}

static void on_close(void *arg, struct http_request *req UNUSED)
{
    struct long_list *l = arg;

    if (!l->waiting) /* else its turn will find out */
        end(l);
}

static void begin(struct long_list *l)
{
    struct exchange *x = l->x;
    _cleanup_(strbuf_free) struct strbuf text = {0};

    l->measuring = false;
    l->at = 0;
    http_start(x->req, x->call.result.code, answer_media_type(&x->type));
    http_on_drain(x->req, on_drain, l);
    l->table = write_begin(x, x->type.encoding, l->items_len, &text);
    send_slice(l, &text);
}

void list_answer(struct exchange *x)
{
    struct long_list *l = xcalloc(1, sizeof(*l));

    audit_response_too_long(x->audit);
    l->x = x;
    l->measuring = x->type.encoding == ENCODING_PROTOBUF;
    x->list = l;
    x->turn = on_turn;
    http_on_close(x->req, on_close, l);
    if (l->measuring)
        measure_slice(l);
    else
        begin(l);
}
