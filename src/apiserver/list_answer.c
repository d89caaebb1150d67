#include "apiserver/list_answer.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <inttypes.h>

/* Lists of more items are sent in slices, of so many items or a little more than so many bytes. */
#define LONG_ITEMS 100
#define SLICE_ITEMS 32
#define SLICE_BYTES (32u << 10)

struct long_list {
    struct exchange *x;
    struct table *table;
    size_t at;
    bool waiting; /* for its turn */
};

static void write_list_metadata(const struct api_result *r, struct strbuf *out)
{
    strbuf_addf(out, "{\"resourceVersion\":\"%" PRId64 "\"", r->list_revision);
    if (r->continue_token)
        strbuf_addf(out, ",\"continue\":\"%s\"", r->continue_token);
    if (r->continue_token && r->remaining >= 0)
        strbuf_addf(out, ",\"remainingItemCount\":%" PRId64, r->remaining);
    strbuf_addc(out, '}');
}

static void write_item(const struct exchange *x, struct stored *item, const struct table *table, bool first,
                       struct strbuf *out)
{
    const struct resource *r = x->call.resource;
    _cleanup_json_ struct json *shown = object_shown(r, item->value);

    if (table) {
        table_row(table, shown, first, out);
        return;
    }
    if (!first)
        strbuf_addc(out, ',');
    if (x->form == FORM_METADATA)
        partial_write(shown, out);
    else if (shown == item->value)
        stored_write(item, out);
    else
        json_write(shown, out);
}

static struct table *write_begin(const struct exchange *x, struct strbuf *out)
{
    const struct resource *r = x->call.resource;
    _cleanup_(strbuf_free) struct strbuf metadata = {0};
    struct table *table = NULL;

    write_list_metadata(&x->call.result, &metadata);
    if (x->form == FORM_TABLE) {
        table = table_new(r, x->include, clock_now(x->call.server->clock));
        table_begin(table, metadata.data, true, out);
    } else if (x->form == FORM_METADATA) {
        strbuf_addf(out,
                    "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":%s,"
                    "\"items\":[",
                    metadata.data);
    } else {
        strbuf_addf(out, "{\"kind\":\"%s\",\"apiVersion\":\"%s\",\"metadata\":%s,\"items\":[", r->list_kind,
                    r->api_version, metadata.data);
    }
    return table;
}

static void write_end(struct strbuf *out)
{
    strbuf_adds(out, "]}\n");
}

void list_write(const struct exchange *x, struct strbuf *out)
{
    const struct api_result *r = &x->call.result;
    _cleanup_(table_free_p) struct table *table = write_begin(x, out);

    for (size_t i = 0; i < r->item_count; i++)
        write_item(x, r->items[i], table, i == 0, out);
    write_end(out);
}

bool list_is_long(const struct exchange *x)
{
    return x->call.result.item_count > LONG_ITEMS && !audit_wants_response(x->audit) &&
           !streq(http_method(x->req), "HEAD");
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

static void send_slice(struct long_list *l, struct strbuf *text)
{
    const struct api_result *r = &l->x->call.result;
    size_t last = l->at + MIN(r->item_count - l->at, (size_t)SLICE_ITEMS);

    for (; l->at < last && text->len < SLICE_BYTES; l->at++)
        write_item(l->x, r->items[l->at], l->table, l->at == 0, text);
    bool complete = l->at == r->item_count;
    if (complete)
        write_end(text);
    if (!http_write(l->x->req, text->data, text->len) || complete)
        end(l);
}

static void on_turn(struct exchange *x)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};
    struct long_list *l = x->list;

    l->waiting = false;
    if (http_is_closed(x->req))
        end(l);
    else
        send_slice(l, &text);
}

/* The client has taken a slice: the next one waits its turn like any request of the same user. */
static void on_drain(void *arg, struct http_request *req UNUSED)
{
    struct long_list *l = arg;

    if (l->waiting)
        return;
    l->waiting = true;
    fair_queue_push(l->x->call.server->queue, l->x->user->name, &l->x->waiting);
}

static void on_close(void *arg, struct http_request *req UNUSED)
{
    struct long_list *l = arg;

    if (!l->waiting) /* else its turn will find out */
        end(l);
}

void list_answer(struct exchange *x)
{
    struct long_list *l = xcalloc(1, sizeof(*l));
    _cleanup_(strbuf_free) struct strbuf text = {0};

    l->x = x;
    x->list = l;
    x->turn = on_turn;
    http_start(x->req, x->call.result.code, "application/json");
    http_on_drain(x->req, on_drain, l);
    http_on_close(x->req, on_close, l);
    l->table = write_begin(x, &text);
    send_slice(l, &text);
}
