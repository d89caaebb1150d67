#include "guest/spawn.h"

#include "guest/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Of linux/openat2.h and linux/close_range.h, which musl does not bring. */
struct open_how {
    uint64_t flags, mode, resolve;
};
#define RESOLVE_NO_MAGICLINKS 0x02
#define CLOSE_RANGE_CLOEXEC 4

/* Of linux/capability.h. */
#define CAPABILITY_VERSION_3 0x20080522
struct cap_header {
    uint32_t version;
    int pid;
};
struct cap_data {
    uint32_t effective, permitted, inheritable;
};

enum step { STEP_STDIO, STEP_TERMINAL, STEP_GROUPS, STEP_GID, STEP_UID, STEP_CAPS, STEP_CWD, STEP_EXEC };

static struct rlimit child_files;
static uint64_t child_caps = UINT64_MAX;

void failure_set(struct failure *f, int code, ...)
{
    struct guest_buffer b = {0};
    va_list ap;
    va_start(ap, code);
    for (const char *s; (s = va_arg(ap, const char *)) != NULL;)
        guest_buffer_add(&b, s, strlen(s));
    va_end(ap);
    guest_buffer_add(&b, "", 1);
    f->code = code;
    f->text = b.failed ? NULL : (char *)b.data;
    if (b.failed)
        guest_buffer_free(&b);
}

void failure_clear(struct failure *f)
{
    free(f->text);
    *f = (struct failure){0};
}

/* The values of a repeated field as a NULL-terminated array, in one block. NULL without memory. */
static char **read_strings(const struct guest_frame *frame, enum guest_tag tag)
{
    struct guest_value v;
    size_t count = 0, bytes = 0, pos = 0;
    while (guest_field_next(frame, &pos, tag, &v)) {
        count++;
        bytes += (size_t)v.len + 1;
    }
    char **list = malloc((count + 1) * sizeof(*list) + bytes);
    if (list == NULL)
        return NULL;
    char *text = (char *)(list + count + 1);
    pos = 0;
    for (size_t i = 0; i < count && guest_field_next(frame, &pos, tag, &v); i++) {
        list[i] = memcpy(text, v.data, v.len);
        text[v.len] = 0;
        text += v.len + 1;
    }
    list[count] = NULL;
    return list;
}

static bool read_groups(struct spawn *s, const struct guest_frame *frame)
{
    struct guest_value v;
    for (size_t pos = 0; guest_field_next(frame, &pos, GUEST_TAG_GROUP, &v);)
        s->group_count++;
    if (s->group_count == 0)
        return true;
    s->groups = malloc(s->group_count * sizeof(*s->groups));
    if (s->groups == NULL)
        return false;
    size_t i = 0;
    for (size_t pos = 0; i < s->group_count && guest_field_next(frame, &pos, GUEST_TAG_GROUP, &v);)
        s->groups[i++] = (gid_t)v.number;
    return true;
}

bool spawn_read(struct spawn *s, const struct guest_frame *frame, const struct guest_fields *fields,
                struct failure *why)
{
    *s = (struct spawn){
        .set_uid = guest_has(fields, GUEST_TAG_UID),
        .set_gid = guest_has(fields, GUEST_TAG_GID),
        .uid = (uid_t)guest_number(fields, GUEST_TAG_UID, 0),
        .gid = (gid_t)guest_number(fields, GUEST_TAG_GID, 0),
        .tty = guest_number(fields, GUEST_TAG_FLAGS, 0) & GUEST_FLAG_TTY,
        .cwd = guest_text(fields, GUEST_TAG_CWD),
        .argv = read_strings(frame, GUEST_TAG_ARG),
        .env = read_strings(frame, GUEST_TAG_ENV),
    };
    if (s->argv == NULL || s->env == NULL || (s->cwd == NULL && guest_has(fields, GUEST_TAG_CWD)) ||
        !read_groups(s, frame)) {
        failure_set(why, ENOMEM, "no memory in the sandbox to start a process", NULL);
        return false;
    }
    for (size_t i = 0; i < s->group_count; i++) {
        if (s->groups[i] == (gid_t)-1)
            failure_set(why, EINVAL, "group -1 is no group", NULL);
        if (why->code != 0)
            return false;
    }
    if (s->uid == (uid_t)-1 || s->gid == (gid_t)-1)
        failure_set(why, EINVAL, "-1 is no user or group id", NULL);
    else if (s->argv[0][0] == 0)
        failure_set(why, ENOENT, "the name of the executable is empty", NULL);
    else if (s->cwd != NULL && s->cwd[0] == 0)
        failure_set(why, ENOENT, "the working directory is empty", NULL);
    for (char **e = s->env; *e != NULL && why->code == 0; e++) {
        if (strchr(*e, '=') == NULL || **e == '=')
            failure_set(why, EINVAL, "environment variable without name or value: ", *e, NULL);
    }
    return why->code == 0;
}

static bool has_name(char *const *env, const char *entry)
{
    size_t len = strcspn(entry, "=") + 1;
    for (; *env != NULL; env++) {
        if (strncmp(*env, entry, len) == 0)
            return true;
    }
    return false;
}

/* Both lists in one block; names of the first win. */
static char **merge_env(char *const *first, char *const *second)
{
    size_t count = 0, bytes = 0;
    char *const *lists[] = {first, second};
    for (int l = 0; l < 2; l++) {
        for (char *const *e = lists[l]; *e != NULL; e++, count++)
            bytes += strlen(*e) + 1;
    }
    char **list = malloc((count + 1) * sizeof(*list) + bytes);
    if (list == NULL)
        return NULL;
    char *text = (char *)(list + count + 1);
    size_t n = 0;
    for (int l = 0; l < 2; l++) {
        for (char *const *e = lists[l]; *e != NULL; e++) {
            size_t len = strlen(*e) + 1;
            if (l == 1 && has_name(first, *e))
                continue;
            list[n++] = memcpy(text, *e, len);
            text += len;
        }
    }
    list[n] = NULL;
    return list;
}

bool spawn_inherit(struct spawn *s, const struct spawn *from)
{
    char **env = merge_env(s->env, from->env);
    if (env == NULL)
        return false;
    free(s->env);
    s->env = env;
    if (s->cwd == NULL && from->cwd != NULL && (s->cwd = strdup(from->cwd)) == NULL)
        return false;
    if (!s->set_uid && !s->set_gid && s->group_count == 0) {
        if (from->group_count > 0) {
            s->groups = malloc(from->group_count * sizeof(*s->groups));
            if (s->groups == NULL)
                return false;
            memcpy(s->groups, from->groups, from->group_count * sizeof(*s->groups));
            s->group_count = from->group_count;
        }
        s->set_uid = from->set_uid;
        s->set_gid = from->set_gid;
        s->uid = from->uid;
        s->gid = from->gid;
    }
    return true;
}

void spawn_clear(struct spawn *s)
{
    free(s->argv);
    free(s->env);
    free(s->cwd);
    free(s->groups);
    *s = (struct spawn){0};
}

void spawn_raise_files(void)
{
    if (getrlimit(RLIMIT_NOFILE, &child_files) < 0)
        return;
    struct rlimit most = {.rlim_cur = child_files.rlim_max, .rlim_max = child_files.rlim_max};
    (void)setrlimit(RLIMIT_NOFILE, &most); /* then it keeps the lower one, and starts fail earlier */
}

/* 0 or errno. No link of /proc/PID/fd and the like may lead out of the root. */
static int change_directory(const char *cwd)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, cwd, &how, sizeof(how));
    if (fd < 0 && errno == ENOSYS) {
        if (strstr(cwd, "proc/") != NULL) /* cannot be told from a way through such a link */
            return EACCES;
        fd = open(cwd, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    if (fd < 0)
        return errno;
    int r = fchdir(fd);
    int code = errno;
    (void)close(fd);
    if (r < 0)
        return code;
    char path[PATH_MAX];
    if (getcwd(path, sizeof(path)) == NULL && errno == ENOENT)
        return EACCES; /* not below the root */
    return 0;
}

static const char *search_path(char *const *env)
{
    for (; *env != NULL; env++) {
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    }
    return DEFAULT_PATH;
}

/* Returns the errno of the best failure: a file that may not be run is more telling than one that is not there. */
static int execute(const struct spawn *s)
{
    const char *name = s->argv[0];
    if (strchr(name, '/') != NULL) {
        execve(name, s->argv, s->env);
        return errno;
    }
    int code = ENOENT;
    size_t name_len = strlen(name);
    for (const char *p = search_path(s->env), *next; p != NULL; p = next) {
        const char *colon = strchr(p, ':');
        size_t len = colon != NULL ? (size_t)(colon - p) : strlen(p);
        next = colon != NULL ? colon + 1 : NULL;
        char file[PATH_MAX];
        if (len == 0 || len + name_len + 2 > sizeof(file)) /* an empty entry is not the working directory here */
            continue;
        memcpy(file, p, len);
        file[len] = '/';
        memcpy(file + len + 1, name, name_len + 1);
        execve(file, s->argv, s->env);
        if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
            return errno;
        if (errno == EACCES)
            code = EACCES;
    }
    return code;
}

/* Descriptors may be any, also 0 to 2 themselves, so each is moved out of the way first. */
static int set_stdio(const struct spawn *s)
{
    int moved[3];
    for (int i = 0; i < 3; i++) {
        moved[i] = fcntl(s->stdio[i], F_DUPFD_CLOEXEC, 3);
        if (moved[i] < 0)
            return errno;
    }
    for (int i = 0; i < 3; i++) {
        if (dup2(moved[i], i) < 0)
            return errno;
    }
    return 0;
}

void spawn_limit_caps(uint64_t keep)
{
    child_caps = keep;
}

/* no_new_privs, which the sandbox has, keeps exec from giving back what goes here. */
static int drop_caps(void)
{
    struct cap_header header = {.version = CAPABILITY_VERSION_3};
    struct cap_data data[2];
    if (child_caps == UINT64_MAX)
        return 0;
    if (syscall(SYS_capget, &header, data) < 0)
        return errno;
    for (int i = 0; i < 2; i++) {
        data[i].permitted &= (uint32_t)(child_caps >> (32 * i));
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    return syscall(SYS_capset, &header, data) < 0 ? errno : 0;
}

static int change_user(const struct spawn *s, int *step)
{
    *step = STEP_GROUPS;
    if ((s->set_uid || s->set_gid || s->group_count > 0) && setgroups(s->group_count, s->groups) < 0)
        return errno;
    *step = STEP_GID;
    if (s->set_gid && setresgid(s->gid, s->gid, s->gid) < 0)
        return errno;
    *step = STEP_UID;
    if (s->set_uid && setresuid(s->uid, s->uid, s->uid) < 0)
        return errno;
    *step = STEP_CAPS;
    return drop_caps();
}

static int become(const struct spawn *s, int *step)
{
    sigset_t none;
    sigemptyset(&none);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setsid(); /* a child just forked leads no group, so this succeeds */
    (void)umask(022);

    *step = STEP_STDIO;
    int code = set_stdio(s);
    if (code != 0)
        return code;
    *step = STEP_TERMINAL;
    if (s->tty && ioctl(0, TIOCSCTTY, 0) < 0)
        return errno;
    code = change_user(s, step);
    if (code != 0)
        return code;
    *step = STEP_CWD;
    code = change_directory(s->cwd != NULL ? s->cwd : "/");
    if (code != 0)
        return code;
    tree_mark_self(s->mark);
    (void)setrlimit(RLIMIT_NOFILE, &child_files);
    *step = STEP_EXEC;
    /* All are close-on-exec already; this is for what a mistake left open, and keeps the status pipe until then. */
    (void)syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC);
    return execute(s);
}

pid_t spawn_process(const struct spawn *s, int status)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0 ? -errno : pid;
    struct spawn_status report = {0};
    report.code = become(s, &report.step);
    (void)write(status, &report, sizeof(report)); /* fits the pipe; without a reader nobody asks */
    _exit(127);
}

void spawn_explain(const struct spawn *s, const struct spawn_status *status, struct failure *why)
{
    static const char *const steps[] = {
        [STEP_STDIO] = "cannot set up its standard streams",
        [STEP_TERMINAL] = "cannot make its terminal",
        [STEP_GROUPS] = "cannot set its groups",
        [STEP_GID] = "cannot set its group",
        [STEP_UID] = "cannot set its user",
        [STEP_CAPS] = "cannot limit its capabilities",
    };
    int code = status->code;
    const char *name = s->argv[0];
    if (status->step == STEP_CWD) {
        if (code == ENOENT || code == ENOTDIR)
            failure_set(why, ENOTDIR, "no such directory: ", s->cwd, NULL);
        else
            failure_set(why, code, "cannot change to directory ", s->cwd != NULL ? s->cwd : "/", ": ", strerror(code),
                        NULL);
    } else if (status->step == STEP_EXEC) {
        if (code == ENOENT)
            failure_set(why, code, "executable file not found: ", name, NULL);
        else
            failure_set(why, code, "cannot run ", name, ": ", strerror(code), NULL);
    } else {
        failure_set(why, code, "cannot start ", name, ": ", steps[status->step], ": ", strerror(code), NULL);
    }
}
