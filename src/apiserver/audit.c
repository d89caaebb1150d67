#include "apiserver/audit.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "wire/http.h"

#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#define POLICY_MAX (1024 * 1024)
#define MAX_BYTES_DEFAULT (100ll * 1024 * 1024)
#define ID_MAX 64
/* Written at once when so much has gathered, without waiting for the end of the turn. */
#define PENDING_MAX (1024 * 1024)

struct audit {
    unsigned refs; /* the owner's and the records' */
    const struct clock *clock;
    struct audit_policy *policy;
    char *path;
    int fd;
    int64_t size, max_bytes, backups;
    struct strbuf pending; /* whole lines */
    uint64_t pending_records, lost;
    struct event *flush; /* NULL: closed, what still ends is written at once */
};

struct audit_record {
    struct audit *audit;
    struct audit_decision decision;
    bool secret;        /* neither bodies nor messages */
    struct strbuf head; /* members that every stage has, each with a comma behind it */
    struct strbuf impersonated, request, response, annotations; /* values; empty = none */
    struct json *status;
};

/* --- the file --- */

static int open_log(struct audit *a, struct error *err)
{
    a->fd = open(a->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    a->size = a->fd < 0 ? 0 : lseek(a->fd, 0, SEEK_END);
    return a->fd < 0 ? error_set_errno(err, errno, "audit log %s", a->path) : 0;
}

/* FILE → FILE.1 → FILE.2 ... */
static void rotate(struct audit *a)
{
    _cleanup_error_ struct error err = ERROR_INIT;

    for (int64_t i = a->backups; i > 0; i--) {
        _cleanup_free_ char *to = xasprintf("%s.%" PRId64, a->path, i);
        _cleanup_free_ char *from = i > 1 ? xasprintf("%s.%" PRId64, a->path, i - 1) : xstrdup(a->path);
        if (rename(from, to) < 0 && errno != ENOENT)
            log_warn("cannot rotate the audit log", "file", from, "error", strerror(errno), NULL);
    }
    if (!a->backups)
        (void)unlink(a->path); /* gone already is fine */
    (void)close(a->fd);
    if (open_log(a, &err) < 0)
        log_error("the audit log cannot be opened", "error", error_text(&err), NULL);
}

static void note_written(struct audit *a)
{
    if (a->lost) {
        _cleanup_free_ char *lost = xasprintf("%" PRIu64, a->lost);
        log_error("the audit log can be written again; records were lost", "count", lost, NULL);
        a->lost = 0;
    }
}

static void write_pending(struct audit *a)
{
    if (!a->pending.len)
        return;
    if (a->fd < 0 || a->size >= a->max_bytes)
        rotate(a);
    int r = a->fd < 0 ? -EBADF : fd_write_all(a->fd, a->pending.data, a->pending.len);
    if (r == 0) {
        a->size += (int64_t)a->pending.len;
        note_written(a);
    } else {
        if (!a->lost)
            log_error("the audit log cannot be written", "file", a->path, "error", strerror(-r), NULL);
        a->lost += a->pending_records;
        if (a->fd >= 0)
            (void)!ftruncate(a->fd, a->size); /* no half lines; when that fails too a reader sees one */
    }
    strbuf_truncate(&a->pending, 0);
    a->pending_records = 0;
}

static void on_flush(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    write_pending(arg);
}

static struct audit_policy *load_policy(const char *path, struct error *err)
{
    _cleanup_free_ char *text = NULL;
    size_t len;

    if (!path)
        return audit_policy_default();
    if (file_read_at(AT_FDCWD, path, POLICY_MAX, &text, &len, err) < 0)
        return NULL;
    struct audit_policy *p = audit_policy_parse(text, len, err);
    if (!p)
        (void)error_wrap(err, "audit policy %s", path);
    return p;
}

struct audit *audit_open(struct event_base *base, const struct clock *clock, const struct audit_options *options,
                         struct error *err)
{
    struct audit *a = xcalloc(1, sizeof(*a));

    a->refs = 1;
    a->clock = clock;
    a->fd = -1;
    a->path = xstrdup(options->path);
    a->max_bytes = options->max_bytes ? options->max_bytes : MAX_BYTES_DEFAULT;
    a->backups = options->backups;
    a->flush = event_new(base, -1, 0, on_flush, a);
    a->policy = load_policy(options->policy_path, err);
    if (a->policy && !a->flush)
        (void)error_set(err, ENOMEM, "audit log: no event");
    if (a->flush)
        (void)event_priority_set(a->flush, LOOP_HIGH); /* before any socket is written to */
    if (!a->policy || !a->flush || open_log(a, err) < 0) {
        audit_free(a);
        return NULL;
    }
    return a;
}

static void audit_unref(struct audit *a)
{
    if (--a->refs > 0)
        return;
    if (a->fd >= 0)
        (void)close(a->fd);
    audit_policy_free(a->policy);
    strbuf_free(&a->pending);
    free(a->path);
    free(a);
}

void audit_free(struct audit *a)
{
    if (!a)
        return;
    write_pending(a);
    if (a->flush)
        event_free(take_ptr(a->flush));
    audit_unref(a);
}

/* --- records --- */

static void add_text(struct strbuf *out, const char *name, const char *value)
{
    strbuf_addf(out, "\"%s\":", name);
    json_write_string(value, strlen(value), out);
    strbuf_addc(out, ',');
}

static void write_user(struct strbuf *out, const struct user_info *user)
{
    strbuf_adds(out, "{\"username\":");
    json_write_string(user ? user->name : "system:anonymous", strlen(user ? user->name : "system:anonymous"), out);
    if (user && user->uid) {
        strbuf_adds(out, ",\"uid\":");
        json_write_string(user->uid, strlen(user->uid), out);
    }
    for (char **g = user ? user->groups : NULL; g && *g; g++) {
        strbuf_adds(out, g == user->groups ? ",\"groups\":[" : ",");
        json_write_string(*g, strlen(*g), out);
    }
    strbuf_adds(out, user && user->groups && *user->groups ? "]" : "");
    if (user && user->extra) {
        strbuf_adds(out, ",\"extra\":");
        json_write(user->extra, out);
    }
    strbuf_addc(out, '}');
}

/* "127.0.0.1:40000" → "127.0.0.1", "[::1]:40000" → "::1". */
static char *peer_address(const char *peer)
{
    const char *colon = strrchr(peer, ':');
    size_t len = colon ? (size_t)(colon - peer) : strlen(peer);

    if (len > 2 && *peer == '[' && peer[len - 1] == ']')
        return xstrndup(peer + 1, len - 2);
    return xstrndup(peer, len);
}

static void write_object_ref(struct strbuf *out, const struct request_info *i)
{
    const struct {
        const char *name, *value;
    } members[] = {{"resource", i->plural}, {"namespace", i->ns},       {"name", i->name},
                   {"apiGroup", i->group},  {"apiVersion", i->version}, {"subresource", i->subresource}};

    strbuf_adds(out, "\"objectRef\":{");
    for (size_t n = 0; n < ARRAY_LEN(members); n++)
        if (members[n].value && *members[n].value)
            add_text(out, members[n].name, members[n].value);
    out->len -= out->data[out->len - 1] == ',';
    strbuf_adds(out, "},");
}

static bool is_secret(const struct request_info *i)
{
    if (!i->is_resource)
        return false;
    if (!*i->group)
        return streq(i->plural, "secrets") || (streq(i->plural, "serviceaccounts") && streq(i->subresource, "token"));
    return streq(i->group, "authentication.k8s.io") && streq(i->plural, "tokenreviews");
}

static void write_head(struct audit_record *r, const struct http_request *req, const struct user_info *user,
                       const struct request_info *info, const char *id, const char *verb)
{
    struct strbuf *out = &r->head;
    _cleanup_free_ char *address = peer_address(http_peer(req));
    const char *agent = http_header(req, "User-Agent");
    char now[TIME_RFC3339_MAX];

    time_format_rfc3339(clock_now(r->audit->clock), 6, now);
    add_text(out, "kind", "Event");
    add_text(out, "apiVersion", "audit.k8s.io/v1");
    add_text(out, "level", audit_level_name(r->decision.level));
    add_text(out, "auditID", id);
    add_text(out, "requestURI", http_target(req));
    add_text(out, "verb", verb);
    strbuf_adds(out, "\"user\":");
    write_user(out, user);
    strbuf_adds(out, ",\"sourceIPs\":[");
    json_write_string(address, strlen(address), out);
    strbuf_adds(out, "],");
    if (agent)
        add_text(out, "userAgent", agent);
    if (info->is_resource)
        write_object_ref(out, info);
    add_text(out, "requestReceivedTimestamp", now);
}

static void write_status(const struct audit_record *r, int code, struct strbuf *out)
{
    static const char *const members[] = {"status", "message", "reason", "details"};

    strbuf_adds(out, "\"responseStatus\":{\"metadata\":{},");
    for (size_t i = 0; r->status && i < ARRAY_LEN(members); i++) {
        const struct json *v = json_get(r->status, members[i]);
        if (!v || (r->secret && !streq(members[i], "status") && !streq(members[i], "reason")))
            continue;
        strbuf_addf(out, "\"%s\":", members[i]);
        json_write(v, out);
        strbuf_addc(out, ',');
    }
    strbuf_addf(out, "\"code\":%d},", code);
}

static void add_value(struct strbuf *out, const char *name, const struct strbuf *value)
{
    if (!value->len)
        return;
    strbuf_addf(out, "\"%s\":", name);
    strbuf_add(out, value->data, value->len);
    strbuf_addc(out, ',');
}

static void emit(struct audit_record *r, enum audit_stage stage, int code)
{
    struct audit *a = r->audit;
    struct strbuf *out = &a->pending;
    char now[TIME_RFC3339_MAX];

    if (r->decision.omitted_stages & 1u << stage)
        return;
    if (!out->len && a->flush)
        event_active(a->flush, EV_TIMEOUT, 0);
    time_format_rfc3339(clock_now(a->clock), 6, now);
    strbuf_addc(out, '{');
    strbuf_add(out, r->head.data, r->head.len);
    add_text(out, "stage", audit_stage_name(stage));
    add_value(out, "impersonatedUser", &r->impersonated);
    if (code)
        write_status(r, code, out);
    add_value(out, "requestObject", &r->request);
    add_value(out, "responseObject", &r->response);
    if (r->annotations.len)
        strbuf_addf(out, "\"annotations\":{%s},", r->annotations.data);
    strbuf_addf(out, "\"stageTimestamp\":\"%s\"}\n", now);
    a->pending_records++;
    if (out->len > PENDING_MAX || !a->flush)
        write_pending(a);
}

static void on_finish(void *arg, const struct http_request *req UNUSED, int status)
{
    struct audit_record *r = arg;

    emit(r, STAGE_RESPONSE_COMPLETE, status);
    strbuf_free(&r->head);
    strbuf_free(&r->impersonated);
    strbuf_free(&r->request);
    strbuf_free(&r->response);
    strbuf_free(&r->annotations);
    json_unref(r->status);
    audit_unref(r->audit);
    free(r);
}

/* A client's id goes into headers and lines: letters, digits and what UUIDs and the like are made of. */
static bool is_sound_id(const char *id)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:";
    size_t len = id ? strspn(id, allowed) : 0;

    return len && !id[len] && len <= ID_MAX;
}

struct audit_record *audit_begin(struct audit *a, struct http_request *req, const struct user_info *user,
                                 const struct request_info *info)
{
    const char *id = http_header(req, "Audit-ID");
    char uuid[UUID_TEXT_SIZE], method[16];

    if (!is_sound_id(id)) {
        random_uuid(uuid);
        id = uuid;
    }
    http_add_header(req, "Audit-Id", id);
    if (!a)
        return NULL;
    (void)snprintf(method, sizeof(method), "%s", http_method(req));
    for (char *p = method; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
    const char *verb = info->is_resource ? verb_name(info->verb) : method;
    struct audit_decision decision = audit_policy_decide(a->policy, user, info, verb);
    if (decision.level == AUDIT_NONE)
        return NULL;
    struct audit_record *r = xcalloc(1, sizeof(*r));
    r->audit = a;
    a->refs++;
    r->decision = decision;
    r->secret = is_secret(info);
    if (r->secret)
        r->decision.level = AUDIT_METADATA;
    write_head(r, req, user, info, id, verb);
    http_on_finish(req, on_finish, r);
    emit(r, STAGE_REQUEST_RECEIVED, 0);
    return r;
}

void audit_impersonated(struct audit_record *r, const struct user_info *user)
{
    if (r)
        write_user(&r->impersonated, user);
}

void audit_decision(struct audit_record *r, bool allowed, const char *reason)
{
    if (!r)
        return;
    strbuf_truncate(&r->annotations, 0);
    strbuf_addf(&r->annotations, "\"authorization.k8s.io/decision\":\"%s\",\"authorization.k8s.io/reason\":",
                allowed ? "allow" : "forbid");
    json_write_string(reason ? reason : "", reason ? strlen(reason) : 0, &r->annotations);
}

static void remove_managed_fields(struct json *object)
{
    struct json *metadata = json_get(object, "metadata");

    if (metadata)
        json_remove(metadata, "managedFields");
}

/* v's text without managedFields, its own and its items'. */
static void write_without_managed_fields(const struct json *v, struct strbuf *out)
{
    _cleanup_json_ struct json *copy = json_copy(v);
    const struct json *items = json_get(copy, "items");

    remove_managed_fields(copy);
    for (size_t i = 0; i < json_size(items); i++)
        remove_managed_fields(json_item(items, i));
    json_write(copy, out);
}

void audit_request(struct audit_record *r, const struct json *body)
{
    if (!r || !body || r->decision.level < AUDIT_REQUEST)
        return;
    strbuf_truncate(&r->request, 0);
    if (r->decision.omit_managed_fields)
        write_without_managed_fields(body, &r->request);
    else
        json_write(body, &r->request);
}

bool audit_wants_response(const struct audit_record *r)
{
    return r && r->decision.level >= AUDIT_REQUEST_RESPONSE;
}

void audit_response(struct audit_record *r, const char *text, size_t len)
{
    if (!audit_wants_response(r))
        return;
    /* Parsed even when it is taken as it is: a line of the log is JSON whatever the answer was. */
    _cleanup_json_ struct json *v = json_parse(text, len, NULL);
    if (!v)
        return;
    strbuf_truncate(&r->response, 0);
    if (r->decision.omit_managed_fields)
        write_without_managed_fields(v, &r->response);
    else
        json_write(v, &r->response);
}

void audit_response_too_long(struct audit_record *r)
{
    if (audit_wants_response(r))
        strbuf_addf(&r->annotations, "%s\"audit.k8s.io/truncated\":\"true\"", r->annotations.len ? "," : "");
}

void audit_status(struct audit_record *r, const struct json *status)
{
    if (!r)
        return;
    json_unref(r->status);
    r->status = json_ref((struct json *)(uintptr_t)status);
}

void audit_started(struct audit_record *r, int code)
{
    if (r)
        emit(r, STAGE_RESPONSE_STARTED, code);
}
