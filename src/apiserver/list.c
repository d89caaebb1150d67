/* LIST: selectors, pages of one snapshot, and what resourceVersion means. */
#include "apiserver/filter.h"
#include "apiserver/options.h"
#include "base/base64.h"
#include "base/memory.h"
#include "base/strutil.h"

#include <inttypes.h>

#define CONTINUE_VERSION "meta.k8s.io/v1"
/* In a token that goes on in the present, when the snapshot it began with is gone. */
#define REVISION_PRESENT (-1)
/* How long somebody may be about to wait for a deletion. */
#define DELETION_NEWS_S 5

struct page {
    int64_t revision; /* the snapshot; 0 = the present */
    char *start;      /* the first key to show, or NULL */
};

static char *token_from(int64_t revision, const char *start)
{
    _cleanup_json_ struct json *token =
        json_build("{s:s, s:i, s:s}", "v", CONTINUE_VERSION, "rv", revision, "start", start);
    _cleanup_free_ char *text = json_text(token);

    return base64_encode_url(text, strlen(text));
}

static char *continue_token(int64_t revision, const char *last_key)
{
    _cleanup_free_ char *start = xasprintf("%s%c", last_key, 1); /* NUL at the end would be lost on the way */

    return token_from(revision, start);
}

/* With a token by which the client can have the rest, as it is now. */
static struct json *expired_page(const struct page *p)
{
    struct json *status = status_expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a "
        "new list without the continue parameter, or use the continue token in this response to see the "
        "remaining objects as they are now.");
    _cleanup_free_ char *token = token_from(REVISION_PRESENT, p->start);

    json_set(status, "metadata", json_build("{s:s}", "continue", token));
    return status;
}

static int parse_continue(struct api_call *c, const char *token, struct page *ret)
{
    size_t len;
    _cleanup_free_ char *text = base64_decode_url(token, strlen(token), &len);
    _cleanup_json_ struct json *value = text ? json_parse(text, len, NULL) : NULL;
    const char *start = json_str(json_get(value, "start"));
    int64_t revision = json_int_or(json_get(value, "rv"), -1);

    if (!start || (revision <= 0 && revision != REVISION_PRESENT) ||
        !streq(json_str_or(json_get(value, "v"), ""), CONTINUE_VERSION))
        return api_fail(c, status_bad_request("continue key is not valid: %s", "not a token of this server"));
    ret->revision = revision == REVISION_PRESENT ? 0 : revision;
    ret->start = xstrdup(start);
    return 0;
}

static int choose_page(struct api_call *c, struct page *ret)
{
    const struct api_options *o = &c->options;
    int64_t wanted = 0, current = store_revision(c->server->store);

    if (o->continue_token && *o->continue_token)
        return parse_continue(c, o->continue_token, ret);
    if (o->resource_version && *o->resource_version) {
        uint64_t parsed;
        if (!parse_u64(o->resource_version, &parsed) || parsed > INT64_MAX)
            return api_fail(c, status_bad_request("invalid resource version: resourceVersion: Invalid value: \"%s\": "
                                                  "it is not a number",
                                                  o->resource_version));
        wanted = (int64_t)parsed;
    }
    if (wanted > current)
        return api_fail(c, status_timeout(wanted, current));
    if (o->resource_version_match && streq(o->resource_version_match, "Exact"))
        ret->revision = wanted;
    return 0;
}

/*
 * kubectl waits for a deletion by asking for the object, listing it with resourceVersion=0 and watching from there for
 * its end. When a controller puts another in its place meanwhile, which kubectl does not look at for a tenth of a
 * second, the wait is for the end of the new one, and has none. "0" stands for any revision: while a deletion is news
 * the answer is the state before it, and the watch tells the rest.
 */
static int64_t revision_before_deletion(const struct api_call *c, const char *key)
{
    int64_t before;
    const struct stored *old =
        store_deleted_lately(c->server->store, c->resource->store_name, key, DELETION_NEWS_S * NSEC_PER_SEC, &before);

    /* What is gone at once is gone before anybody waits. */
    return old && json_at(old->value, "metadata", "deletionTimestamp", NULL) ? before : 0;
}

static bool is_single(const struct api_call *c, const struct object_filter *f)
{
    return f->name && (f->ns || !c->resource->namespaced);
}

static void choose_before_deletion(const struct api_call *c, const struct object_filter *f, struct page *p)
{
    const char *revision = c->options.resource_version;

    if (p->revision || !revision || !streq(revision, "0") || !is_single(c, f))
        return;
    _cleanup_free_ char *key = key_make(f->ns, f->name);
    p->revision = revision_before_deletion(c, key);
}

static struct stored **snapshot(struct api_call *c, const struct object_filter *f, struct page *p, size_t *ret_count)
{
    struct store *s = c->server->store;
    const char *store_name = c->resource->store_name;
    struct error err = ERROR_INIT;

    choose_before_deletion(c, f, p);
    if (p->revision && p->revision != store_revision(s)) {
        struct stored **items = store_list_at(s, store_name, f->ns, p->revision, ret_count, &err);
        if (!items && p->start)
            (void)api_fail(c, expired_page(p));
        else if (!items)
            (void)api_fail(c, status_expired("The resourceVersion for the provided list is too old."));
        error_clear(&err);
        return items;
    }
    p->revision = store_revision(s);
    if (is_single(c, f)) { /* no need to look at the others */
        _cleanup_free_ char *key = key_make(f->ns, f->name);
        struct stored **one = xcalloc(2, sizeof(struct stored *));
        one[0] = stored_ref(store_get(s, store_name, key));
        *ret_count = one[0] ? 1 : 0;
        return one;
    }
    return store_list(s, store_name, f->ns, ret_count);
}

/* Keeps what matches, up to the limit, in place. */
static void cut(struct api_call *c, const struct object_filter *f, const struct page *p, struct stored **items,
                size_t count)
{
    size_t kept = 0, behind = 0, limit = c->options.limit > 0 ? (size_t)c->options.limit : SIZE_MAX;

    for (size_t i = 0; i < count; i++) {
        bool matches =
            (!p->start || strcmp(items[i]->key, p->start) >= 0) && filter_matches(f, items[i]->key, items[i]->value);
        if (matches && kept < limit) {
            items[kept++] = items[i];
            continue;
        }
        behind += matches;
        stored_unref(items[i]);
    }
    c->result.items = items;
    c->result.item_count = kept;
    c->result.remaining = -1;
    if (behind > 0) {
        c->result.continue_token = continue_token(p->revision, items[kept - 1]->key);
        if (!filter_selects(f))
            c->result.remaining = (int64_t)behind;
    }
}

void api_list(struct api_call *c)
{
    struct page page = {0};
    struct object_filter filter = {0};
    size_t count = 0;
    struct stored **items = NULL;

    if (options_check_list(c, false) == 0 && filter_read(c, &filter) == 0) {
        if (choose_page(c, &page) == 0)
            items = snapshot(c, &filter, &page, &count);
        if (items) {
            cut(c, &filter, &page, items, count);
            c->result.code = 200;
            c->result.list_revision = c->result.revision = page.revision;
        }
    }
    free(page.start);
    filter_clear(&filter);
}
