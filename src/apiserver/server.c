#include "apiserver/server.h"

#include "apiserver/authz.h"
#include "apiserver/event_expiry.h"
#include "apiserver/exchange.h"
#include "apiserver/fair_queue.h"
#include "apiserver/gc.h"
#include "apiserver/impersonate.h"
#include "apiserver/initial_objects.h"
#include "apiserver/jwt.h"
#include "apiserver/metrics.h"
#include "apiserver/object_schemas.h"
#include "apiserver/permits.h"
#include "apiserver/pod_streams.h"
#include "apiserver/proxy.h"
#include "apiserver/quota.h"
#include "apiserver/rbac_defaults.h"
#include "apiserver/redefault.h"
#include "apiserver/seal.h"
#include "apiserver/server_internal.h"
#include "apiserver/service_addresses.h"
#include "apiserver/service_token.h"
#include "apiserver/static_paths.h"
#include "apiserver/statistics.h"
#include "apiserver/termination.h"
#include "apiserver/watch.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

static const char CRDS[] = "apiextensions.k8s.io/customresourcedefinitions";

/* --- requests --- */

static char *lower(const char *s)
{
    char *out = xstrdup(s);

    for (char *p = out; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
    return out;
}

/* Whether the user may; if not, x is answered. */
static bool permit(struct exchange *x, const struct access *a)
{
    _cleanup_free_ char *reason = NULL;
    bool allowed = authorize(x->call.server->rbac, x->user, a, &reason);

    audit_decision(x->audit, allowed, reason);
    if (!allowed)
        exchange_refuse(x, authz_refusal(x->user, a, reason));
    return allowed;
}

static void refuse_method(struct exchange *x)
{
    exchange_refuse(x, status_failure(405, "MethodNotAllowed",
                                      "the server does not allow this method on the requested resource",
                                      json_object_make()));
}

static void handle_static(struct exchange *x)
{
    _cleanup_free_ char *method = lower(http_method(x->req));
    const struct access a = {.path = x->info.path, .verb = method};

    statistics_request(x->call.server->statistics, x, false);
    if (!permit(x, &a))
        return;
    if (streq(x->info.path, "/metrics") && streq(http_method(x->req), "GET"))
        statistics_answer(x->call.server, x->req);
    else
        static_paths_answer(x->call.server->paths, x->req, x->info.path);
    exchange_forget(x);
}

/* The only object that a list or watch can show, when its selector says so: rights may be on names. */
static char *selected_name(const struct exchange *x)
{
    const char *text = http_query(x->req, "fieldSelector"), *value;
    struct error err = ERROR_INIT;
    struct field_selector *selector = text ? field_selector_parse(text, &err) : NULL;
    char *name = NULL;
    bool negated;

    for (size_t i = 0; selector && !name; i++) {
        const char *field = field_selector_term(selector, i, &value, &negated);
        if (!field)
            break;
        if (streq(field, "metadata.name") && !negated)
            name = xstrdup(value);
    }
    field_selector_free(selector);
    error_clear(&err); /* whoever reads the options tells */
    return name;
}

/* Answers that may take as long as their client likes. */
static bool goes_on(const struct request_info *i, const char *subresource)
{
    static const char *const names[] = {"exec", "attach", "log", "portforward", "proxy"};

    for (size_t k = 0; k < ARRAY_LEN(names); k++)
        if (streq(subresource, names[k]))
            return true;
    return i->verb == VERB_WATCH;
}

/* Counts the request, too. */
static bool permit_resource(struct exchange *x)
{
    struct apiserver *s = x->call.server;
    const struct request_info *i = &x->info;
    bool many = !*i->name && (i->verb == VERB_LIST || i->verb == VERB_WATCH);
    _cleanup_free_ char *selected = many ? selected_name(x) : NULL;
    /* What follows the subresource is its own affair: "proxy/index.html". */
    _cleanup_free_ char *subresource = xstrndup(i->subresource, strcspn(i->subresource, "/"));
    const struct access a = {.verb = verb_name(i->verb),
                             .group = i->group,
                             .plural = i->plural,
                             .subresource = subresource,
                             .ns = i->ns,
                             .name = selected ? selected : i->name};

    statistics_request(s->statistics, x, goes_on(i, subresource));
    if (!permit(x, &a))
        return false;
    if (goes_on(i, subresource))
        permits_hold(s->permits, x->user, &a, x->req);
    return true;
}

static void handle_resource(struct exchange *x)
{
    struct apiserver *s = x->call.server;
    const struct request_info *i = &x->info;

    const struct resource *r = resource_by_plural(s->resources, i->group, i->version, i->plural);
    x->call.user = x->user;
    x->call.verb = i->verb;
    x->call.resource = x->resource = r ? resource_ref(r) : NULL;
    x->call.subresource = i->subresource;
    if (!permit_resource(x)) /* first: who may not look is not told what there is */
        return;
    if (!r || (!r->namespaced && i->in_namespace_path) || (r->namespaced && *i->name && !*i->ns)) {
        exchange_refuse(x, status_no_resource());
        return;
    }
    bool many = i->verb == VERB_CREATE || i->verb == VERB_DELETE_COLLECTION;
    bool one = i->verb == VERB_UPDATE || i->verb == VERB_PATCH;
    if ((many && r->namespaced && !*i->ns) || (one && !*i->name)) {
        refuse_method(x);
        return;
    }
    x->call.ns = r->namespaced ? i->ns : "";
    x->call.name = i->name;
    if (r->refused) {
        exchange_refuse(x, api_refused(&x->call));
        return;
    }
    if (pod_streams_wants(&x->call)) {
        pod_streams_handle(x);
        return;
    }
    if (proxy_wants(&x->call)) {
        proxy_handle(x);
        return;
    }
    if (metrics_wants(&x->call)) {
        metrics_handle(x);
        return;
    }
    if (exchange_read_options(x) == 0 && exchange_read_body(x) == 0) {
        audit_request(x->audit, x->body);
        if (i->verb == VERB_WATCH && watch_start(&x->call, x->req, &x->type, x->include) == 0) {
            audit_started(x->audit, 200);
            exchange_forget(x);
            if (s->draining)
                watch_stop_all(s);
            return;
        }
        if (i->verb != VERB_WATCH)
            api_execute(&x->call);
    }
    exchange_answer(x);
}

/* Answers /readyz and the like, and /readyz/ping: that it answers is all there is to check. */
static bool answer_health(struct http_request *req)
{
    static const char *const names[] = {"healthz", "livez", "readyz"};
    const char *path = http_path(req);

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *rest = str_skip_prefix(path + (*path == '/'), names[i]);
        if (!rest || (*rest && !streq(rest, "/") && !streq(rest, "/ping")))
            continue;
        _cleanup_free_ char *text = !streq(rest, "/ping") && http_query(req, "verbose")
                                        ? xasprintf("[+]ping ok\n%s check passed\n", names[i])
                                        : xstrdup("ok");
        http_respond(req, 200, "text/plain; charset=utf-8", text, strlen(text));
        return true;
    }
    return false;
}

static void run_turn(void *arg UNUSED, struct fair_item *item)
{
    struct exchange *x = container_of(item, struct exchange, waiting);

    x->turn(x);
}

static void handle(struct exchange *x)
{
    if (http_is_closed(x->req))
        exchange_drop(x);
    else if (x->info.is_resource)
        handle_resource(x);
    else
        handle_static(x);
}

static void wait_turn(struct exchange *x)
{
    x->turn = handle;
    http_set_low_priority(x->req, fair_queue_push(x->call.server->queue, x->user->name, &x->waiting));
}

void apiserver_handle(void *arg, struct http_request *req)
{
    struct apiserver *s = arg;

    if (answer_health(req))
        return;
    struct exchange *x = exchange_new(s, req);
    bool other;
    int r = request_info_parse(http_method(req), http_path(req), query_bool(http_query(req, "watch")), &x->info);
    x->user = service_token_request_user(s, req);
    x->audit = audit_begin(s->audit, req, x->user, &x->info);
    if (!x->user) {
        statistics_unauthorized(s->statistics);
        exchange_refuse(x, status_unauthorized());
        return;
    }
    struct json *refusal = impersonate(s->rbac, req, &x->user, &other);
    if (refusal) {
        exchange_refuse(x, refusal);
        return;
    }
    if (other)
        audit_impersonated(x->audit, x->user);
    if (r == -EINVAL)
        exchange_refuse(x, status_bad_request("the path of the request cannot be read"));
    else if (r == -EOPNOTSUPP)
        refuse_method(x);
    else
        wait_turn(x);
}

/* --- start --- */

static int load_definitions(struct apiserver *s, struct error *err)
{
    size_t count;
    int r = 0;
    struct stored **crds = store_list(s->store, CRDS, NULL, &count);

    for (size_t i = 0; i < count && r == 0; i++) {
        if (!condition_true(crds[i]->value, "Established"))
            continue;
        r = resource_table_add_crd(s->resources, crds[i]->value, err);
        if (r < 0)
            r = error_wrap(err, "custom resource definition %s", crds[i]->key);
    }
    store_list_free(crds, count);
    return r;
}

static int run(struct api_call *c, const char *what, struct error *err)
{
    int r = 0;

    api_execute(c);
    if (c->result.code >= 400)
        r = error_set(err, EIO, "%s: %s", what, json_str_or(json_get(c->result.object, "message"), "refused"));
    api_result_clear(&c->result);
    return r;
}

/* The program's own definitions: stored like any other, and brought up to date by a newer program. */
static int store_bundled(struct apiserver *s, const struct json *crd, struct error *err)
{
    const struct resource *r =
        resource_by_plural(s->resources, "apiextensions.k8s.io", "v1", "customresourcedefinitions");
    struct stored *current = store_get(s->store, CRDS, object_name(crd));
    struct api_call c =
        api_internal_call(s, current ? VERB_UPDATE : VERB_CREATE, r, "", current ? object_name(crd) : "");
    _cleanup_json_ struct json *object = NULL;

    if (current) {
        object = json_copy_shallow(current->value);
        json_set(object, "spec", json_ref(json_get(crd, "spec")));
    } else {
        object = json_ref((struct json *)crd);
    }
    c.body = object;
    return run(&c, object_name(crd), err);
}

/* The store has taken writes back. */
static void on_rollback(void *arg)
{
    struct apiserver *s = arg;

    service_addresses_recount(s->addresses, s->store);
    quotas_forget(s->quotas);
    rbac_forget(s->rbac);
}

static int fill(struct apiserver *s, const struct apiserver_options *o, struct error *err)
{
    const struct json *bundled = resource_table_bundled_crds(s->resources);

    if (load_definitions(s, err) < 0)
        return -1;
    s->addresses = service_addresses_new(s->store);
    s->event_expiry = event_expiry_new(s);
    s->terminations = terminations_new(s);
    s->gc = gc_new(s);
    s->quotas = quotas_new(s);
    s->rbac = rbac_new(s->store);
    s->permits = permits_new(s);
    rbac_on_change(s->rbac, permits_review, s->permits);
    store_on_rollback(s->store, on_rollback, s);
    for (size_t i = 0; i < json_size(bundled); i++)
        if (store_bundled(s, json_item(bundled, i), err) < 0)
            return -1;
    if (initial_objects_make(s, o->server_address, err) < 0 || rbac_defaults_make(s, err) < 0)
        return -1;
    terminations_scan(s->terminations);
    s->redefaults = redefaults_new(s);
    return 0;
}

struct apiserver *apiserver_new(const struct apiserver_options *o, struct error *err)
{
    struct apiserver *s = xcalloc(1, sizeof(*s));

    s->base = o->base;
    s->clock = o->clock ? o->clock : &clock_system;
    s->node_name = o->node_name ? xstrdup(o->node_name) : NULL;
    s->authenticator = authenticator_new();
    s->queue = fair_queue_new(o->base, run_turn, s);
    s->statistics = statistics_new();
    s->resources = resource_table_new(err);
    if (s->resources) {
        s->schemas = object_schemas_new(s->resources);
        s->token_keys = o->token_key_file ? jwt_keys_open(o->token_key_file, err) : NULL;
        s->paths =
            static_paths_new(s->resources, o->server_address ? o->server_address : "127.0.0.1:6443", s->token_keys);
        s->sealer = o->secrets_key_file ? sealer_open(o->secrets_key_file, err) : NULL;
        if ((s->sealer || !o->secrets_key_file) && (s->token_keys || !o->token_key_file))
            s->store = store_open(o->base, o->store_path, o->durability, s->sealer, err);
    }
    if (o->audit.path)
        s->audit = audit_open(o->base, s->clock, &o->audit, err);
    if (!s->store || (o->audit.path && !s->audit) ||
        (o->token_file && authenticator_load(s->authenticator, o->token_file, err) < 0) || fill(s, o, err) < 0) {
        apiserver_free(s);
        return NULL;
    }
    return s;
}

void apiserver_drain(struct apiserver *s)
{
    s->draining = true;
    watch_stop_all(s);
}

void apiserver_free(struct apiserver *s)
{
    if (!s)
        return;
    fair_queue_free(s->queue);
    watch_stop_all(s);
    permits_free(s->permits);
    if (s->store)
        store_on_rollback(s->store, NULL, NULL);
    gc_free(s->gc);
    quotas_free(s->quotas);
    terminations_free(s->terminations);
    redefaults_free(s->redefaults);
    event_expiry_free(s->event_expiry);
    store_close(s->store);
    rbac_free(s->rbac);
    sealer_free(s->sealer);
    service_addresses_free(s->addresses);
    static_paths_free(s->paths);
    object_schemas_free(s->schemas);
    resource_table_free(s->resources);
    authenticator_free(s->authenticator);
    jwt_keys_free(s->token_keys);
    audit_free(s->audit);
    statistics_free(s->statistics);
    free(s->node_name);
    free(s);
}

void apiserver_set_streams(struct apiserver *s, const struct stream_backend *backend)
{
    s->streams = *backend;
}

struct authenticator *apiserver_authenticator(struct apiserver *s)
{
    return s->authenticator;
}

struct store *apiserver_store(struct apiserver *s)
{
    return s->store;
}
