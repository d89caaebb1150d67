#include "apiserver/permits.h"

#include "apiserver/authz.h"
#include "apiserver/service_token.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"
#include "wire/http_leash.h"

#include <event2/event.h>

/* Those of connections that were taken over are only seen to be over when looked at: once there are so many, and twice
 * as many as were left the last time. */
#define SWEEP_MIN 64

struct permit {
    struct permits *all;
    struct http_leash *leash;
    struct user_info *user;
    struct access access; /* its strings are in text */
    char *text[7];
    char *token;                 /* of a ServiceAccount; NULL = it came with something else */
    struct event *expiry;        /* NULL = never */
    bool ended;                  /* by a review: what it was for is ending */
    struct permit *next, **link; /* what points to it */
};

struct permits {
    struct apiserver *server;
    struct permit *list;
    size_t count, sweep_at;
    size_t tokens; /* permits that have one */
    struct event *turn;
};

static void link_permit(struct permit **list, struct permit *t)
{
    t->next = *list;
    t->link = list;
    if (t->next)
        t->next->link = &t->next;
    *list = t;
}

static void unlink_permit(struct permit *t)
{
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
}

static void release(void *arg)
{
    struct permit *t = arg;

    unlink_permit(t);
    t->all->count--;
    http_leash_free(t->leash);
    user_info_free(t->user);
    if (t->expiry)
        event_free(t->expiry);
    t->all->tokens -= t->token != NULL;
    free(t->token);
    for (size_t i = 0; i < ARRAY_LEN(t->text); i++)
        free(t->text[i]);
    free(t);
}

static void sweep(struct permits *p)
{
    for (struct permit *t = p->list, *next; t; t = next) {
        next = t->next;
        if (http_leash_over(t->leash))
            release(t);
    }
    p->sweep_at = MAX(2 * p->count, (size_t)SWEEP_MIN);
}

static const char *keep(char **at, const char *text)
{
    *at = text ? xstrdup(text) : NULL;
    return *at;
}

static void end(struct permit *t, const char *why)
{
    log_info(why, "user", t->user->name, "verb", t->access.verb, "resource", t->access.plural, "subresource",
             t->access.subresource, "namespace", t->access.ns, "name", t->access.name, NULL);
    http_leash_cut(t->leash);
}

static void on_expiry(evutil_socket_t fd UNUSED, short what UNUSED, void *arg)
{
    end(arg, "stream ended: what its user was known by has expired");
}

/* How the user is known is kept: by a certificate or token of the file for so long, by a ServiceAccount's token for as
 * long as that holds. */
static void keep_credential(struct permit *t, const struct user_info *user, const struct http_request *req)
{
    struct apiserver *s = t->all->server;
    const char *token = bearer_token(req);
    _cleanup_(user_info_free_p) struct user_info *by_token =
        token ? service_token_user(s, token, NULL, NULL, NULL) : NULL;
    int64_t left = user->expires_ns - clock_now(s->clock);

    if (by_token) {
        t->token = xstrdup(token);
        t->all->tokens++;
    }
    if (user->expires_ns == INT64_MAX)
        return;
    t->expiry = evtimer_new(s->base, on_expiry, t);
    const struct timeval tv = {.tv_sec = MAX(left, (int64_t)0) / NSEC_PER_SEC + 1}; /* when it is surely over */
    if (!t->expiry || evtimer_add(t->expiry, &tv) < 0)
        abort(); /* out of memory */
}

void permits_hold(struct permits *p, const struct user_info *user, const struct access *a, struct http_request *req)
{
    struct permit *t = xcalloc(1, sizeof(*t));

    if (p->count >= p->sweep_at)
        sweep(p);
    t->all = p;
    t->user = user_info_exact(user->name, user->uid, user->groups);
    t->access = (struct access){.verb = keep(&t->text[0], a->verb),
                                .group = keep(&t->text[1], a->group),
                                .plural = keep(&t->text[2], a->plural),
                                .subresource = keep(&t->text[3], a->subresource),
                                .ns = keep(&t->text[4], a->ns),
                                .name = keep(&t->text[5], a->name),
                                .path = keep(&t->text[6], a->path)};
    keep_credential(t, user, req);
    link_permit(&p->list, t);
    p->count++;
    t->leash = http_leash_new(req, release, t);
}

/* Who has a uid and a ServiceAccount's name is that account, as long as it is there. */
static bool account_gone(struct apiserver *s, const struct user_info *user)
{
    const char *account = service_account_of(user->name), *colon = account ? strchr(account, ':') : NULL;

    if (!colon || !user->uid)
        return false;
    _cleanup_free_ char *key = xasprintf("%.*s/%s", (int)(colon - account), account, colon + 1);
    const struct stored *o = store_get(s->store, "/serviceaccounts", key);
    return !o || !streq(object_uid(o->value), user->uid);
}

static bool holds(struct apiserver *s, const struct permit *t)
{
    _cleanup_(user_info_free_p) struct user_info *by_token =
        t->token ? service_token_user(s, t->token, NULL, NULL, NULL) : NULL;

    return (!t->token || by_token) && !account_gone(s, t->user) && authorize(s->rbac, t->user, &t->access, NULL);
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct permits *p = arg;
    struct apiserver *s = p->server;
    struct permit *ending = NULL;

    (void)fd;
    (void)what;
    sweep(p);
    for (struct permit *t = p->list, *next; t; t = next) {
        next = t->next;
        if (t->ended || holds(s, t))
            continue;
        unlink_permit(t);
        link_permit(&ending, t);
    }
    /* The end of one may be that of others: they leave whichever list they are in. */
    while (ending) {
        struct permit *t = ending;
        t->ended = true;
        unlink_permit(t);
        link_permit(&p->list, t);
        end(t, "stream ended: its right was taken away");
    }
}

void permits_review(void *arg)
{
    struct permits *p = arg;

    if (p->list && !evtimer_pending(p->turn, NULL))
        (void)evtimer_add(p->turn, &(struct timeval){0}); /* fails only without memory */
}

void permits_object_gone(struct permits *p, const struct resource *r)
{
    static const char *const plurals[] = {"pods", "secrets", "nodes"};

    for (size_t i = 0; p && p->tokens && !*r->group && i < ARRAY_LEN(plurals); i++)
        if (streq(r->plural, plurals[i]))
            permits_review(p);
}

struct permits *permits_new(struct apiserver *s)
{
    struct permits *p = xcalloc(1, sizeof(*p));

    p->server = s;
    p->sweep_at = SWEEP_MIN;
    p->turn = evtimer_new(s->base, on_turn, p);
    if (!p->turn)
        abort(); /* out of memory */
    return p;
}

void permits_free(struct permits *p)
{
    if (!p)
        return;
    while (p->list)
        release(p->list);
    event_free(p->turn);
    free(p);
}
