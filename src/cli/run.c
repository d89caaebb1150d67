/*
 * `holt run`: one command in a new sandbox, without a server. This file turns the command line into a sandbox;
 * run_session.c connects it with the terminal. Nothing is left behind, however it ends: see run_reaper.h.
 *
 * On this path nothing of libevent, TLS or the API is used: the time to the command's first instruction counts.
 */
#include "cli/cli.h"
#include "cli/run_image.h"
#include "cli/run_session.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "node/native/ahead.h"
#include "node/native/caps.h"
#include "node/native/host_image.h"
#include "node/native/native.h"
#include "node/native/uid_range.h"
#include "node/user.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define CGROUP_PARENT "holt-run" /* apart from the node's, which removes what it does not know */
#define DEFAULT_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define CPU_MILLIS_MAX (1024 * 1000)
#define MEMORY_MIN (4u << 20) /* below this not even the first process starts */

struct run_options {
    const char *image, *data_dir, *cpus, *workdir, *user, *hostname;
    uint64_t memory;
    int64_t pids, timeout_ns;
    char **volumes, **env, **cap_drop;
    bool read_only, interactive, tty, no_tty, no_stdin;
};

static void run_options_done(struct run_options *o)
{
    strv_free(o->volumes);
    strv_free(o->env);
    strv_free(o->cap_drop);
}

int (*run_find_image)(const char *data_dir, const char *name, struct run_image *ret, struct error *err);

struct root {
    struct host_image host;
    struct run_image image; /* of "host" and "dir:" its lowers alone */
};

static void root_done(struct root *r)
{
    host_image_done(&r->host);
    strv_free(r->image.lowers);
    strv_free(r->image.env);
    strv_free(r->image.words);
    free(r->image.workdir);
    free(r->image.user);
    if (r->image.lock >= 0)
        (void)close(r->image.lock);
}

static bool is_named(const char *image)
{
    return !streq(image, "host") && !str_skip_prefix(image, "dir:");
}

static int find_root(const struct run_options *o, struct root *ret, struct error *err)
{
    const char *image = o->image;
    const char *dir = str_skip_prefix(image, "dir:");

    if (streq(image, "host")) {
        int r = host_image_prepare(HOST_IMAGE_RUN_DIR, &ret->host, err);
        if (r < 0)
            return r;
        ret->image.lowers = strv_append(NULL, xstrdup(ret->host.skeleton));
        return 0;
    }
    if (!dir)
        return run_find_image(o->data_dir, image, &ret->image, err);
    char *resolved = realpath(dir, NULL);
    struct stat st;
    if (!resolved)
        return error_set_errno(err, errno, "image %s", image);
    ret->image.lowers = strv_append(NULL, resolved);
    if (stat(resolved, &st) < 0)
        return error_set_errno(err, errno, "image %s", image);
    return S_ISDIR(st.st_mode) ? 0 : error_set(err, ENOTDIR, "image %s is not a directory", image);
}

/* "1", "0.5", "2.25" → thousandths. */
static int parse_cpus(const char *text, uint64_t *ret, struct error *err)
{
    const char *dot = strchr(text, '.');
    _cleanup_free_ char *whole = xstrndup(text, dot ? (size_t)(dot - text) : strlen(text));
    uint64_t millis, unit = 100;

    if (!parse_u64(whole, &millis))
        return error_set(err, EINVAL, "--cpus: \"%s\" is not a number of cores such as 1 or 0.5", text);
    if (millis > CPU_MILLIS_MAX / 1000)
        return error_set(err, ERANGE, "--cpus: \"%s\" is more than %d, the most there can be", text,
                         CPU_MILLIS_MAX / 1000);
    millis *= 1000;
    for (const char *p = dot ? dot + 1 : ""; *p; p++, unit /= 10) {
        if (*p < '0' || *p > '9' || unit == 0)
            return error_set(err, EINVAL, "--cpus: \"%s\" is not a number of cores such as 1 or 0.5", text);
        millis += (uint64_t)(*p - '0') * unit;
    }
    if (millis == 0)
        return error_set(err, EINVAL, "--cpus: a command needs more than no time");
    *ret = millis;
    return 0;
}

/* "SRC:DST[:ro]". The strings of *ret are owned by it. */
static int parse_volume(const char *text, struct native_mount *ret, struct error *err)
{
    const char *colon = strchr(text, ':');
    const char *mode = colon ? strchr(colon + 1, ':') : NULL;

    if (!colon || colon == text || colon[1] != '/' || (mode && !streq(mode, ":ro") && !streq(mode, ":rw")))
        return error_set(err, EINVAL, "--volume: \"%s\" is not SOURCE:/TARGET or SOURCE:/TARGET:ro", text);
    _cleanup_free_ char *named = xstrndup(text, (size_t)(colon - text));
    char *source = realpath(named, NULL);
    struct stat st;
    if (!source || stat(source, &st) < 0) {
        free(source);
        return error_set_errno(err, errno, "--volume: %s", named);
    }
    *ret = (struct native_mount){
        .kind = NATIVE_MOUNT_BIND,
        .source = source,
        .target = mode ? xstrndup(colon + 1, (size_t)(mode - colon - 1)) : xstrdup(colon + 1),
        .read_only = mode && streq(mode, ":ro"),
        .idmap = true,
        .owner = st.st_uid < NATIVE_UID_RANGE ? st.st_uid : 0,
    };
    return 0;
}

struct mount_list {
    struct native_mount *items;
    size_t count, borrowed; /* the first ones belong to the image */
};

static void mount_list_done(struct mount_list *l)
{
    for (size_t i = l->borrowed; i < l->count; i++) {
        free((char *)l->items[i].source);
        free((char *)l->items[i].target);
    }
    free(l->items);
}

static int collect_mounts(const struct run_options *o, const struct host_image *host, struct mount_list *ret,
                          struct error *err)
{
    ret->items = xcalloc(host->mount_count + strv_len(o->volumes) + 1, sizeof(*ret->items));
    for (; ret->count < host->mount_count; ret->count++)
        ret->items[ret->count] = host->mounts[ret->count];
    ret->borrowed = ret->count;
    for (char **v = o->volumes; v && *v; v++) {
        int r = parse_volume(*v, &ret->items[ret->count], err);
        if (r < 0)
            return r;
        ret->count++;
    }
    return 0;
}

/* Later ones win, as the guest takes them in order; so the defaults come first. */
static char **set_env(char **env, char *const *more)
{
    for (; more && *more; more++) {
        size_t name = strcspn(*more, "=") + 1, i = 0;
        while (env[i] && strncmp(env[i], *more, name) != 0)
            i++;
        if (!env[i]) {
            env = strv_append(env, xstrdup(*more));
        } else {
            free(env[i]);
            env[i] = xstrdup(*more);
        }
    }
    return env;
}

static char **make_env(const struct run_options *o, const struct run_image *image, const char *home, bool tty)
{
    const char *term = tty ? getenv("TERM") : NULL;
    char **env = NULL;

    env = strv_append(env, xstrdup(DEFAULT_PATH));
    env = strv_append(env, xasprintf("HOME=%s", home));
    if (term)
        env = strv_append(env, xasprintf("TERM=%s", term));
    return set_env(set_env(env, image->env), o->env);
}

/* --env NAME takes the value from the environment of holt; --env NAME=VALUE says it. */
static int complete_env(struct run_options *o, struct error *err)
{
    for (char **e = o->env; e && *e; e++) {
        if (**e == '=' || !**e)
            return error_set(err, EINVAL, "--env: \"%s\" has no name", *e);
        if (strchr(*e, '='))
            continue;
        const char *value = getenv(*e);
        char *whole = xasprintf("%s=%s", *e, value ? value : "");
        free(*e);
        *e = whole;
    }
    return 0;
}

static int drop_caps(char *const *names, uint64_t *caps, struct error *err)
{
    for (; names && *names; names++) {
        uint64_t bit = caps_from_name(*names);
        if (streq(*names, "ALL"))
            bit = UINT64_MAX;
        if (!bit)
            return error_set(err, EINVAL, "--cap-drop: no capability \"%s\"", *names);
        *caps &= ~bit;
    }
    return 0;
}

/* What is taken from the machine for the time of a run. */
struct place {
    uint32_t uid_base;
    int range; /* holds the ids */
    char id[32];
    struct ahead ahead;
};

static void place_done(struct place *p)
{
    ahead_end(&p->ahead);
    if (p->range >= 0)
        (void)close(p->range);
}

static int find_place(struct place *p, struct error *err)
{
    uint32_t slot;

    p->range = uid_range_hold(UID_RANGE_DIR, &p->uid_base, &slot, err);
    if (p->range < 0)
        return p->range;
    (void)snprintf(p->id, sizeof(p->id), "run-%u", slot);
    ahead_start(&p->ahead);
    return 0;
}

static int start_and_serve(const struct run_options *o, char **argv, const struct root *root,
                           const struct mount_list *mounts, const struct image_user *user, struct place *place,
                           struct error *err)
{
    bool tty = o->tty || (!o->no_tty && !o->no_stdin && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
    _cleanup_strv_ char **env = make_env(o, &root->image, user->home, tty);
    struct native_spec spec = {
        .id = place->id,
        .uid_base = place->uid_base,
        .hostname = o->hostname ? o->hostname : "holt",
        .lowers = (const char *const *)root->image.lowers,
        .lower_count = strv_len(root->image.lowers),
        .read_only_root = o->read_only,
        .mounts = mounts->items,
        .mount_count = mounts->count,
        .limits = {.memory_bytes = o->memory, .pids = (uint64_t)o->pids},
        .ahead = &place->ahead,
        .only_limits = true,
        .capabilities = native_default_caps(),
        .strict = true,
    };
    int r = o->cpus ? parse_cpus(o->cpus, &spec.limits.cpu_millis, err) : 0;
    if (r == 0)
        r = drop_caps(o->cap_drop, &spec.capabilities, err);
    if (r < 0)
        return r;
    struct run_session session = {
        .argv = *argv ? argv : root->image.words,
        .env = env,
        .workdir = o->workdir ? o->workdir : root->image.workdir,
        .user = user,
        .tty = tty,
        .use_stdin = !o->no_stdin,
        .timeout_ms = (uint64_t)o->timeout_ns / 1000000,
        .memory_limit = o->memory,
        .range = place->range,
    };
    return run_session(&session, &spec, err);
}

static int check_limits(const struct run_options *o, struct error *err)
{
    struct sysinfo info;

    if (o->memory && o->memory < MEMORY_MIN)
        return error_set(err, EINVAL, "--memory: less than the 4Mi a sandbox needs to start");
    if (o->memory && sysinfo(&info) == 0 && o->memory > (uint64_t)info.totalram * info.mem_unit)
        return error_set(err, EINVAL, "--memory: more than the %llu Mi of this machine",
                         (unsigned long long)info.totalram * info.mem_unit >> 20);
    if (!o->pids)
        return error_set(err, EINVAL, "--pids: a command needs at least one process");
    return 0;
}

static int run(struct run_options *o, char **argv, struct error *err)
{
    _cleanup_(root_done) struct root root = {.image = {.lock = -1}};
    _cleanup_(mount_list_done) struct mount_list mounts = {0};
    _cleanup_(image_user_clear) struct image_user user = {0};
    _cleanup_(place_done) struct place place = {.range = -1, .ahead = AHEAD_NONE};

    if (geteuid() != 0)
        return error_set(err, EPERM, "holt run needs root");
    int r = check_limits(o, err);
    if (r < 0)
        return r;
    native_set_cgroup_parent(CGROUP_PARENT);
    r = find_place(&place, err);
    if (r == 0)
        r = complete_env(o, err);
    if (r == 0)
        r = find_root(o, &root, err);
    if (r == 0 && !*argv && !root.image.words)
        r = error_set(err, EINVAL, "no command; see `holt run --help`");
    if (r == 0)
        r = collect_mounts(o, &root.host, &mounts, err);
    if (r == 0)
        r = image_user_resolve(root.image.lowers, o->user ? o->user : root.image.user, -1, -1, &user, err);
    return r < 0 ? r : start_and_serve(o, argv, &root, &mounts, &user, &place, err);
}

int cmd_run(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_(run_options_done) struct run_options o = {
        .image = "host", .data_dir = "/var/lib/holt", .pids = NATIVE_DEFAULT_PIDS};
    const struct option options[] = {
        {"image", 0, OPTION_STRING, &o.image, "IMAGE",
         "\"host\" (this machine's programs, the default), dir:PATH, or an imported one"},
        {"data-dir", 0, OPTION_STRING, &o.data_dir, "DIR", "Where imported images are (/var/lib/holt)"},
        {"memory", 'm', OPTION_SIZE, &o.memory, "SIZE", "Memory limit, 512Mi"},
        {"cpus", 0, OPTION_STRING, &o.cpus, "N", "CPU limit in cores, 0.5"},
        {"pids", 0, OPTION_INT, &o.pids, "N", "Limit of processes and threads (default 4096)"},
        {"timeout", 0, OPTION_DURATION, &o.timeout_ns, "TIME", "Kill everything after this time; the status is 124"},
        {"volume", 'v', OPTION_LIST, &o.volumes, "SRC:DST[:ro]", "A directory or file of the host; may be repeated"},
        {"env", 'e', OPTION_LIST, &o.env, "NAME[=VALUE]", "Environment; may be repeated"},
        {"workdir", 'w', OPTION_STRING, &o.workdir, "DIR", "Working directory (default /)"},
        {"user", 'u', OPTION_STRING, &o.user, "USER[:GROUP]", "Who runs it, by name or number (default root)"},
        {"hostname", 0, OPTION_STRING, &o.hostname, "NAME", "Host name inside (default \"holt\")"},
        {"cap-drop", 0, OPTION_LIST, &o.cap_drop, "NAME", "Take a capability away, or ALL; may be repeated"},
        {"read-only", 0, OPTION_FLAG, &o.read_only, NULL, "Read-only root; /tmp can be written"},
        {"tty", 't', OPTION_FLAG, &o.tty, NULL, "A terminal, even when input or output is none"},
        {"no-tty", 'T', OPTION_FLAG, &o.no_tty, NULL, "No terminal, even when input and output are one"},
        {"interactive", 'i', OPTION_FLAG, &o.interactive, NULL, "Pass standard input on (the default)"},
        {"no-stdin", 'n', OPTION_FLAG, &o.no_stdin, NULL, "Leave standard input alone; the command reads /dev/null"},
    };
    int rest;

    if (options_parse("holt run [OPTIONS] -- COMMAND [ARGUMENTS]\n\n"
                      "Runs one command in a sandbox of its own, which ends with it; no server is needed. The exit "
                      "status is the\n"
                      "command's, 128 + N when signal N ended it, 124 after --timeout, 125 when holt itself failed, "
                      "126 and 127 when the\n"
                      "command cannot be run or is not there.",
                      options, ARRAY_LEN(options), argc, argv, &rest, &err) < 0)
        return fail(EXIT_HOLT_FAILED, &err);
    if (is_named(o.image) && !run_find_image)
        return RUN_NEEDS_CORE;
    if (rest >= argc && !is_named(o.image))
        return failf(EXIT_HOLT_FAILED, "run: no command; see `holt run --help`");
    int status = run(&o, argv + rest, &err);
    return status < 0 ? fail(EXIT_HOLT_FAILED, &err) : status;
}
