#include "apiserver/metrics.h"

#include "apiserver/filter.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

#include <inttypes.h>

#define GROUP "metrics.k8s.io"
#define API_VERSION GROUP "/v1beta1"

bool metrics_wants(const struct api_call *c)
{
    return streq(c->resource->group, GROUP);
}

static struct json *usage(const struct json *reading)
{
    _cleanup_free_ char *cpu = xasprintf("%" PRId64 "n", json_int_or(json_get(reading, "cpuNano"), 0));
    _cleanup_free_ char *memory = xasprintf("%" PRId64 "Ki", json_int_or(json_get(reading, "memory"), 0) / 1024);

    return json_build("{s:s, s:s}", "cpu", cpu, "memory", memory);
}

static struct json *head(const char *kind, const struct json *of, const struct json *reading,
                         const struct json *readings)
{
    const struct json *timestamp = json_get(readings, "timestamp"), *meta = json_get(of, "metadata");
    const char *ns = object_namespace(of);
    struct json *metadata = json_build("{s:s, s:s, s:O, s:O}", "name", object_name(of), "namespace", *ns ? ns : NULL,
                                       "creationTimestamp", timestamp, "labels", json_get(meta, "labels"));

    if (!json_get(metadata, "labels"))
        json_remove(metadata, "labels");
    return json_build("{s:s, s:s, s:o, s:O, s:O}", "kind", kind, "apiVersion", API_VERSION, "metadata", metadata,
                      "timestamp", timestamp, "window", json_get(reading, "window"));
}

struct json *metrics_of_pod(const struct json *pod, const struct json *readings)
{
    const struct json *reading = json_get(json_get(readings, "pods"), object_uid(pod));

    if (!reading)
        return NULL;
    struct json *m = head("PodMetrics", pod, reading, readings);
    json_set(
        m, "containers",
        json_build("[{s:s, s:o}]", "name", json_str_or(json_get(reading, "container"), ""), "usage", usage(reading)));
    return m;
}

struct json *metrics_of_node(const struct json *node, const struct json *readings)
{
    const struct json *reading = json_get(readings, "node");

    if (!reading)
        return NULL;
    struct json *m = head("NodeMetrics", node, reading, readings);
    json_set(m, "usage", usage(reading));
    return m;
}

/* --- answering --- */

static bool about_pods(const struct api_call *c)
{
    return streq(c->resource->plural, "pods");
}

static struct json *metrics_of(const struct api_call *c, const struct json *object, const struct json *readings)
{
    /* The readings are of the one node that the server knows. */
    if (!about_pods(c))
        return c->server->node_name && streq(object_name(object), c->server->node_name)
                   ? metrics_of_node(object, readings)
                   : NULL;
    return metrics_of_pod(object, readings);
}

static void answer_one(struct api_call *c, const struct json *readings)
{
    _cleanup_free_ char *key = key_make(about_pods(c) ? c->ns : "", c->name);
    struct stored *of = store_get(c->server->store, about_pods(c) ? "/pods" : "/nodes", key);
    struct json *m = of ? metrics_of(c, of->value, readings) : NULL;
    struct api_subject s = api_subject(c);

    if (m)
        (void)api_answer(c, 200, m);
    else
        (void)api_fail(c, status_not_found(&s));
}

static void answer_list(struct api_call *c, const struct json *readings)
{
    const struct resource *of = resource_by_plural(c->server->resources, "", "v1", c->resource->plural);
    struct api_call list = *c;
    struct object_filter filter = {0};
    size_t count;

    list.resource = of;
    list.result = (struct api_result){0};
    if (filter_read(&list, &filter) < 0) {
        c->result = list.result;
        return;
    }
    struct json *items = json_array_make();
    struct stored **all = store_list(c->server->store, of->store_name, filter.ns, &count);
    for (size_t i = 0; i < count; i++) {
        struct json *m =
            filter_matches(&filter, all[i]->key, all[i]->value) ? metrics_of(c, all[i]->value, readings) : NULL;
        if (m)
            json_push(items, m);
    }
    store_list_free(all, count);
    filter_clear(&filter);
    (void)api_answer(c, 200,
                     json_build("{s:s, s:s, s:{}, s:o}", "kind", c->resource->list_kind, "apiVersion", API_VERSION,
                                "metadata", "items", items));
}

static void on_read(void *arg, const struct json *readings, const struct error *err)
{
    struct exchange *x = arg;

    if (err)
        (void)api_fail(&x->call, status_failuref(503, "ServiceUnavailable", "the node cannot be asked what is used: %s",
                                                 error_text(err)));
    else if (x->call.verb == VERB_LIST)
        answer_list(&x->call, readings);
    else
        answer_one(&x->call, readings);
    exchange_answer(x);
}

void metrics_handle(struct exchange *x)
{
    const struct stream_backend *b = &x->call.server->streams;
    struct api_subject s = api_subject(&x->call);

    if (*x->call.subresource || !resource_has_verb(x->call.resource, verb_name(x->call.verb))) {
        exchange_refuse(x, *x->call.subresource ? status_no_resource() : status_no_method(&s, verb_name(x->call.verb)));
        return;
    }
    if (exchange_read_options(x) < 0) {
        exchange_answer(x);
        return;
    }
    x->type.form = FORM_OBJECT; /* there is no table of them */
    if (b->usage)
        b->usage(b->arg, on_read, x);
    else
        exchange_refuse(x, status_failure(503, "ServiceUnavailable", "no node can be asked what is used", NULL));
}
