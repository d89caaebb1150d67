#include "apiserver/rbac.h"

#include "apiserver/store.h"
#include "base/hashmap.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "kube/object.h"

static const char ROLES[] = RBAC_GROUP "/roles", CLUSTER_ROLES[] = RBAC_GROUP "/clusterroles",
                  BINDINGS[] = RBAC_GROUP "/rolebindings", CLUSTER_BINDINGS[] = RBAC_GROUP "/clusterrolebindings";

/* At most so many missing roles are told in a refusal. */
#define MISSING_ROLES_MAX 8

/* A binding, where one of its subjects is found. */
struct grant {
    struct json *binding;
    size_t subject; /* which of them */
};

/* Those of one subject in one namespace. */
struct grants {
    struct grant *items;
    size_t count, capacity;
};

struct rbac {
    struct store *store;
    struct hashmap grants; /* key_of() → struct grants */
    bool stale;
    void (*told)(void *arg); /* NULL = nobody */
    void *told_arg;
};

/* --- the index --- */

static void grants_free(void *value)
{
    struct grants *g = value;

    for (size_t i = 0; i < g->count; i++)
        json_unref(g->items[i].binding);
    free(g->items);
    free(g);
}

static char *key_of(const char *ns, char type, const char *name)
{
    return xasprintf("%s\n%c%s", ns, type, name);
}

/* NULL for a subject that is nobody. */
static char *subject_key(const struct json *subject, const char *binding_ns)
{
    const char *kind = json_str_or(json_get(subject, "kind"), ""), *name = json_str_or(json_get(subject, "name"), ""),
               *ns = json_str_or(json_get(subject, "namespace"), "");

    if (streq(kind, "User"))
        return key_of(binding_ns, 'u', name);
    if (streq(kind, "Group"))
        return key_of(binding_ns, 'g', name);
    ns = *ns ? ns : binding_ns;
    if (!streq(kind, "ServiceAccount") || !*ns)
        return NULL;
    _cleanup_free_ char *user = xasprintf("system:serviceaccount:%s:%s", ns, name);
    return key_of(binding_ns, 'u', user);
}

static void add_grant(struct rbac *r, const char *key, const struct json *binding, size_t subject)
{
    struct grants *g = hashmap_get(&r->grants, key);

    if (!g) {
        g = xcalloc(1, sizeof(*g));
        (void)hashmap_put(&r->grants, key, g); /* it was not there */
    }
    GROW(g->items, g->capacity, g->count + 1);
    g->items[g->count++] = (struct grant){.binding = json_ref((struct json *)binding), .subject = subject};
}

static void remove_grants(struct rbac *r, const char *key, const char *binding_name)
{
    struct grants *g = hashmap_get(&r->grants, key);
    size_t kept = 0;

    for (size_t i = 0; g && i < g->count; i++) {
        if (streq(object_name(g->items[i].binding), binding_name))
            json_unref(g->items[i].binding);
        else
            g->items[kept++] = g->items[i];
    }
    if (!g)
        return;
    g->count = kept;
    if (kept == 0)
        grants_free(hashmap_remove(&r->grants, key));
}

static void index_binding(struct rbac *r, const struct json *binding, bool add)
{
    const struct json *subjects = json_get(binding, "subjects");

    for (size_t i = 0; i < json_size(subjects); i++) {
        _cleanup_free_ char *key = subject_key(json_item(subjects, i), object_namespace(binding));
        if (!key)
            continue;
        if (add)
            add_grant(r, key, binding, i);
        else
            remove_grants(r, key, object_name(binding));
    }
}

static void changed(struct rbac *r)
{
    if (r->told)
        r->told(r->told_arg);
}

void rbac_binding_changed(struct rbac *r, const struct json *old, const struct json *new)
{
    changed(r);
    if (r->stale)
        return;
    index_binding(r, old, false);
    index_binding(r, new, true);
}

void rbac_forget(struct rbac *r)
{
    r->stale = true;
    changed(r);
}

void rbac_roles_changed(struct rbac *r)
{
    changed(r);
}

void rbac_on_change(struct rbac *r, void (*told)(void *arg), void *arg)
{
    r->told = told;
    r->told_arg = arg;
}

static void index_all(struct rbac *r, const char *store_name)
{
    size_t count;
    struct stored **list = store_list(r->store, store_name, NULL, &count);

    for (size_t i = 0; i < count; i++)
        index_binding(r, list[i]->value, true);
    store_list_free(list, count);
}

static void renew(struct rbac *r)
{
    if (!r->stale)
        return;
    hashmap_free(&r->grants, grants_free);
    r->grants = (struct hashmap){0};
    index_all(r, BINDINGS);
    index_all(r, CLUSTER_BINDINGS);
    r->stale = false;
}

struct rbac *rbac_new(struct store *store)
{
    struct rbac *r = xcalloc(1, sizeof(*r));

    r->store = store;
    r->stale = true;
    return r;
}

void rbac_free(struct rbac *r)
{
    if (!r)
        return;
    hashmap_free(&r->grants, grants_free);
    free(r);
}

/* --- questions --- */

bool rbac_role_rules(struct rbac *r, const struct json *role_ref, const char *ns, const struct json **ret_rules)
{
    const char *kind = json_str_or(json_get(role_ref, "kind"), ""), *name = json_str_or(json_get(role_ref, "name"), "");
    bool cluster = streq(kind, "ClusterRole");

    *ret_rules = NULL;
    if (!cluster && (!streq(kind, "Role") || !*ns))
        return false;
    _cleanup_free_ char *key = key_make(cluster ? "" : ns, name);
    const struct stored *role = store_get(r->store, cluster ? CLUSTER_ROLES : ROLES, key);
    *ret_rules = role ? json_get(role->value, "rules") : NULL;
    return role != NULL;
}

/* A walk over what a user is given; ends when visit returns true. */
struct walk {
    struct rbac *rbac;
    bool (*visit)(struct walk *w, const struct grant *grant, const struct json *rules);
    const struct access *access;
    char *reason;
    char **missing;
    struct json *rules;
};

static bool walk_grants(struct walk *w, const char *ns, char type, const char *name)
{
    _cleanup_free_ char *key = key_of(ns, type, name);
    const struct grants *g = hashmap_get(&w->rbac->grants, key);
    const struct json *rules;

    for (size_t i = 0; g && i < g->count; i++) {
        const struct json *ref = json_get(g->items[i].binding, "roleRef");
        if (rbac_role_rules(w->rbac, ref, ns, &rules)) {
            if (w->visit(w, &g->items[i], rules))
                return true;
        } else if (strv_len(w->missing) < MISSING_ROLES_MAX) {
            w->missing = strv_append(
                w->missing,
                xasprintf("%s.%s \"%s\" not found",
                          streq(json_str_or(json_get(ref, "kind"), ""), "ClusterRole") ? "clusterrole" : "role",
                          RBAC_GROUP, json_str_or(json_get(ref, "name"), "")));
        }
    }
    return false;
}

static bool walk_namespace(struct walk *w, const struct user_info *user, const char *ns)
{
    if (walk_grants(w, ns, 'u', user->name))
        return true;
    for (size_t i = 0; user->groups && user->groups[i]; i++)
        if (walk_grants(w, ns, 'g', user->groups[i]))
            return true;
    return false;
}

static bool walk_all(struct walk *w, const struct user_info *user, const char *ns)
{
    renew(w->rbac);
    return walk_namespace(w, user, "") || (*ns && walk_namespace(w, user, ns));
}

static char *allowed_by(const struct grant *grant)
{
    const struct json *b = grant->binding, *s = json_item(json_get(b, "subjects"), grant->subject);
    const char *ns = object_namespace(b), *subject_ns = json_str_or(json_get(s, "namespace"), "");

    return xasprintf("RBAC: allowed by %s \"%s%s%s\" of %s \"%s\" to %s \"%s%s%s\"",
                     *ns ? "RoleBinding" : "ClusterRoleBinding", object_name(b), *ns ? "/" : "", ns,
                     json_str_or(json_at(b, "roleRef", "kind", NULL), ""),
                     json_str_or(json_at(b, "roleRef", "name", NULL), ""), json_str_or(json_get(s, "kind"), ""),
                     json_str_or(json_get(s, "name"), ""), *subject_ns ? "/" : "", subject_ns);
}

static bool visit_access(struct walk *w, const struct grant *grant, const struct json *rules)
{
    for (size_t i = 0; i < json_size(rules); i++)
        if (rule_allows(json_item(rules, i), w->access)) {
            w->reason = allowed_by(grant);
            return true;
        }
    return false;
}

static char *missing_text(char *const *missing)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};
    size_t n = strv_len(missing);

    for (size_t i = 0; i < n; i++)
        strbuf_addf(&b, "%s%s", i ? ", " : "", missing[i]);
    return xasprintf(n > 1 ? "RBAC: [%s]" : "RBAC: %s", strbuf_str(&b));
}

bool rbac_allows(struct rbac *r, const struct user_info *user, const struct access *a, char **ret_reason)
{
    struct walk w = {.rbac = r, .visit = visit_access, .access = a};
    bool allowed = walk_all(&w, user, a->path ? "" : a->ns);

    if (!allowed && w.missing && ret_reason)
        w.reason = missing_text(w.missing);
    strv_free(w.missing);
    if (ret_reason)
        *ret_reason = w.reason;
    else
        free(w.reason);
    return allowed;
}

static bool visit_rules(struct walk *w, const struct grant *grant, const struct json *rules)
{
    (void)grant;
    for (size_t i = 0; i < json_size(rules); i++)
        json_push(w->rules, json_ref(json_item(rules, i)));
    return false;
}

struct json *rbac_rules(struct rbac *r, const struct user_info *user, const char *ns)
{
    struct walk w = {.rbac = r, .visit = visit_rules, .rules = json_array_make()};

    (void)walk_all(&w, user, ns);
    strv_free(w.missing);
    return w.rules;
}
