#include "apiserver/exchange.h"

#include "apiserver/encode.h"
#include "apiserver/list_answer.h"
#include "apiserver/options.h"
#include "apiserver/proto.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "wire/yaml.h"

#include <inttypes.h>

#define MANAGER_MAX 128

struct exchange *exchange_new(struct apiserver *s, struct http_request *req)
{
    struct exchange *x = xcalloc(1, sizeof(*x));

    x->req = req;
    x->call.server = s;
    return x;
}

static void exchange_free(struct exchange *x)
{
    api_result_clear(&x->call.result);
    request_info_free(&x->info);
    user_info_free(x->user);
    json_unref(x->body);
    strv_free(x->duplicates);
    free(x->field_manager);
    resource_unref(x->resource);
    free(x);
}

void exchange_forget(struct exchange *x)
{
    exchange_free(x);
}

void exchange_drop(struct exchange *x)
{
    http_end(x->req);
    exchange_free(x);
}

/* --- reading --- */

static void note_duplicate(void *arg, const char *path)
{
    struct exchange *x = arg;

    x->duplicates = strv_append(x->duplicates, xstrdup(path));
}

static int parse_body(struct exchange *x, const char *text, size_t len, enum body_form form)
{
    const struct json_parse_options options = {.duplicate = note_duplicate, .arg = x};
    struct error err = ERROR_INIT;

    if (form == BODY_PROTOBUF)
        x->body = proto_decode(text, len, &err);
    else if (form == BODY_YAML)
        x->body = yaml_parse(text, len, &options, &err);
    else
        x->body = json_parse_with(text, len, &options, &err);
    if (err.code) {
        (void)api_fail(&x->call, status_bad_request("the body of the request cannot be read: %s", error_text(&err)));
        error_clear(&err);
        return -1;
    }
    x->call.body = x->body;
    x->call.duplicates = x->duplicates;
    return 0;
}

static int read_patch(struct exchange *x, enum body_form form, const char *text, size_t len)
{
    switch (form) {
    case BODY_JSON_PATCH:
        x->call.patch = PATCH_JSON;
        break;
    case BODY_MERGE_PATCH:
        x->call.patch = PATCH_MERGE;
        break;
    case BODY_STRATEGIC_PATCH:
        x->call.patch = PATCH_STRATEGIC;
        break;
    case BODY_APPLY:
        x->call.patch = PATCH_APPLY;
        break;
    default:
        return api_fail(&x->call, status_unsupported_patch(!x->call.resource->is_custom));
    }
    if (form == BODY_STRATEGIC_PATCH && x->call.resource->is_custom)
        return api_fail(&x->call, status_unsupported_patch(false));
    return parse_body(x, text, len, form == BODY_APPLY ? BODY_YAML : BODY_JSON);
}

int exchange_read_body(struct exchange *x)
{
    enum body_form form = negotiate_body(http_header(x->req, "Content-Type"));
    enum api_verb verb = x->call.verb;
    size_t len;
    const char *text = http_body(x->req, &len);

    if (verb == VERB_GET || verb == VERB_LIST || verb == VERB_WATCH)
        return 0;
    if (len == 0 && (verb == VERB_DELETE || verb == VERB_DELETE_COLLECTION))
        return 0;
    if (verb == VERB_PATCH)
        return read_patch(x, form, text, len);
    if (form == BODY_JSON || form == BODY_YAML || form == BODY_PROTOBUF)
        return parse_body(x, text, len, form);
    return api_fail(&x->call, status_unsupported_media());
}

static const char *lookup(const void *arg, const char *name)
{
    return http_query(arg, name);
}

/* A manager that does not name itself is known by its program: "kubectl" of "kubectl/v1.32.0 (linux/amd64)". */
static char *manager_from_agent(const struct http_request *req)
{
    const char *agent = http_header(req, "User-Agent");
    size_t len = agent ? strcspn(agent, "/") : 0;

    return len > 0 ? xstrndup(agent, MIN(len, (size_t)MANAGER_MAX)) : xstrdup("unknown");
}

int exchange_read_options(struct exchange *x)
{
    const char *include = http_query(x->req, "includeObject");
    unsigned offer =
        (x->call.verb == VERB_WATCH ? OFFER_WATCH : 0) | (x->call.resource->has_protobuf ? OFFER_PROTOBUF : 0);

    if (!negotiate_answer(http_header(x->req, "Accept"), offer, &x->type))
        return api_fail(&x->call, status_not_acceptable());
    x->include = TABLE_METADATA;
    if (include && streq(include, "Object"))
        x->include = TABLE_OBJECT;
    else if (include && streq(include, "None"))
        x->include = TABLE_NONE;
    x->call.options = (struct api_options)API_OPTIONS_INIT;
    if (options_read(&x->call, lookup, x->req) < 0)
        return -1;
    /* Apply must say who it is. */
    if (!x->call.options.field_manager &&
        !(x->call.verb == VERB_PATCH && negotiate_body(http_header(x->req, "Content-Type")) == BODY_APPLY))
        x->call.options.field_manager = x->field_manager = manager_from_agent(x->req);
    return 0;
}

/* --- answering --- */

static bool wants_pretty(const struct http_request *req)
{
    const char *pretty = http_query(req, "pretty"), *agent = http_header(req, "User-Agent");

    if (pretty)
        return query_bool(pretty);
    return agent &&
           (str_skip_prefix(agent, "curl") || str_skip_prefix(agent, "Wget") || str_skip_prefix(agent, "Mozilla/5.0"));
}

/* In front of quotes and backslashes a backslash; what cannot be in a header becomes a blank. */
static char *warning_value(const char *text)
{
    struct strbuf out = {0};

    strbuf_adds(&out, "299 - \"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            strbuf_addc(&out, '\\');
        strbuf_addc(&out, (unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text);
    }
    strbuf_addc(&out, '"');
    return strbuf_detach(&out);
}

static void send(struct http_request *req, int code, const struct answer_type *type, const struct strbuf *text)
{
    if (type->encoding == ENCODING_JSON && wants_pretty(req)) {
        _cleanup_json_ struct json *value = json_parse(text->data, text->len, NULL);
        _cleanup_free_ char *pretty = json_text_pretty(value);
        http_respond(req, code, "application/json", pretty, strlen(pretty));
        return;
    }
    http_respond(req, code, answer_media_type(type), text->data, text->len);
}

/* Takes status. */
static void send_status(struct http_request *req, struct json *status, enum answer_encoding encoding)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};
    struct answer_type type = {.encoding = encoding};
    int code = status_code(status);
    int64_t retry = json_int_or(json_at(status, "details", "retryAfterSeconds", NULL), 0);

    http_add_header(req, "Cache-Control", "no-cache, private");
    if (code == 403)
        http_add_header(req, "X-Content-Type-Options", "nosniff");
    if (retry > 0 && (code == 429 || code >= 500))
        http_add_header(req, "Retry-After", "1");
    encode_object(status, &type.encoding, &text);
    json_unref(status);
    send(req, code, &type, &text);
}

void answer_status(struct http_request *req, struct json *status)
{
    send_status(req, status, ENCODING_JSON);
}

static void write_object(const struct exchange *x, enum answer_encoding *encoding, struct strbuf *out)
{
    const struct api_result *r = &x->call.result;
    /* A Status, a Scale: what is not the resource's own kind has no table. */
    bool own = streq(json_str_or(json_get(r->object, "kind"), ""), x->call.resource->kind);

    if (x->type.form == FORM_TABLE && own) {
        char metadata[64];
        (void)snprintf(metadata, sizeof(metadata), "{\"resourceVersion\":\"%s\"}",
                       json_str_or(json_at(r->object, "metadata", "resourceVersion", NULL), ""));
        _cleanup_(table_free_p) struct table *table =
            table_new(x->call.resource, x->include, clock_now(x->call.server->clock));
        table_begin(table, metadata, true, out);
        table_row(table, r->object, true, out);
        table_end(out);
        strbuf_addc(out, '\n');
    } else if (x->type.form == FORM_METADATA && own) {
        _cleanup_json_ struct json *partial = partial_object(r->object);
        encode_object(partial, encoding, out);
    } else if (r->stored && *encoding == ENCODING_JSON) {
        size_t len;
        const char *text = stored_text(r->stored, &len);
        strbuf_add(out, text, len);
        strbuf_addc(out, '\n');
    } else {
        encode_object(r->object, encoding, out);
    }
}

static void write_answer(const struct exchange *x, enum answer_encoding *encoding, struct strbuf *out)
{
    if (x->call.result.list_revision > 0)
        list_write(x, encoding, out);
    else
        write_object(x, encoding, out);
}

/* The record is JSON, whatever the client reads. */
static void record_answer(const struct exchange *x, enum answer_encoding encoding, const struct strbuf *text)
{
    _cleanup_(strbuf_free) struct strbuf other = {0};

    if (!audit_wants_response(x->audit))
        return;
    if (encoding != ENCODING_JSON) {
        encoding = ENCODING_JSON;
        write_answer(x, &encoding, &other);
        text = &other;
    }
    audit_response(x->audit, text->data, text->len);
}

static void answer_now(struct exchange *x)
{
    const struct api_result *r = &x->call.result;
    _cleanup_(strbuf_free) struct strbuf text = {0};

    for (size_t i = 0; r->warnings && r->warnings[i]; i++) {
        _cleanup_free_ char *value = warning_value(r->warnings[i]);
        http_add_header(x->req, "Warning", value);
    }
    if (r->code >= 400) {
        audit_status(x->audit, r->object);
        send_status(x->req, take_ptr(x->call.result.object), x->type.encoding);
    } else {
        http_add_header(x->req, "Cache-Control", "no-cache, private");
        if (r->list_revision > 0 && list_is_long(x)) {
            list_answer(x);
            return;
        }
        struct answer_type type = x->type;
        write_answer(x, &type.encoding, &text);
        record_answer(x, type.encoding, &text);
        send(x->req, r->code, &type, &text);
    }
    exchange_free(x);
}

static void on_durable(void *arg, const struct error *err)
{
    struct exchange *x = arg;

    if (err) {
        api_result_clear(&x->call.result);
        (void)api_fail(&x->call, status_store_failed(err));
    }
    answer_now(x);
}

void exchange_answer(struct exchange *x)
{
    struct store *s = x->call.server->store;

    if (store_is_durable(s, x->call.result.revision))
        answer_now(x);
    else
        store_when_durable(s, x->call.result.revision, on_durable, x);
}

void exchange_refuse(struct exchange *x, struct json *status)
{
    audit_status(x->audit, status);
    send_status(x->req, status, x->type.encoding);
    exchange_free(x);
}
