#include "guest/tree.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * Far above any number of locks, so that it limits nothing even where it is enforced. Below it, the pid of the guest
 * and the number of the process: a guest inside a sandbox of another, which may only lower the limit it got, has a
 * higher pid in the same namespace; and no guest takes the mark of another for its own.
 */
#define MARK_BASE (1ull << 62)
#define MARK_PID_SHIFT 32
/* /proc/PID/limits and stat are below this; longer ones are cut. */
#define PROC_TEXT_MAX 2048

struct entry {
    pid_t pid, parent, group, session;
    uint64_t mark;
    bool dead;
    bool member;
};

struct entries {
    struct entry *list;
    size_t count, size;
};

uint64_t tree_mark(uint32_t serial)
{
    return MARK_BASE - ((uint64_t)getpid() << MARK_PID_SHIFT | serial);
}

void tree_mark_self(uint64_t mark)
{
    struct rlimit l = {.rlim_cur = mark, .rlim_max = mark};
    (void)setrlimit(RLIMIT_LOCKS, &l); /* an emulated kernel may refuse; then parents and session decide */
}

/* Reads /proc/PID/name into out; false when the process is gone. */
static bool read_proc(int dir, const char *name, char out[PROC_TEXT_MAX])
{
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, out, PROC_TEXT_MAX - 1);
    (void)close(fd);
    if (n <= 0)
        return false;
    out[n] = 0;
    return true;
}

/* "PID (NAME) STATE PARENT GROUP SESSION ..."; the name may hold anything, but no ')' follows it. */
static bool read_stat(int dir, struct entry *e)
{
    char text[PROC_TEXT_MAX];
    if (!read_proc(dir, "stat", text))
        return false;
    char *p = strrchr(text, ')');
    if (p == NULL || p[1] != ' ' || p[2] == 0)
        return false;
    e->dead = p[2] == 'Z' || p[2] == 'X';
    p += 3;
    e->parent = (pid_t)strtol(p, &p, 10);
    e->group = (pid_t)strtol(p, &p, 10);
    e->session = (pid_t)strtol(p, &p, 10);
    return true;
}

/* The hard limit in the line "Max file locks   SOFT   HARD   locks"; 0 when it is no mark of this guest. */
static uint64_t read_mark(int dir)
{
    static const char label[] = "Max file locks";
    char text[PROC_TEXT_MAX];
    if (!read_proc(dir, "limits", text))
        return 0;
    char *p = strstr(text, label);
    if (p == NULL)
        return 0;
    p += sizeof(label) - 1;
    (void)strtoull(p, &p, 10);
    uint64_t hard = strtoull(p, NULL, 10);
    bool ours = hard < MARK_BASE && (MARK_BASE - hard) >> MARK_PID_SHIFT == (uint64_t)getpid();
    return ours ? hard : 0;
}

static void add_entry(struct entries *all, int proc, const char *name)
{
    struct entry e = {.pid = (pid_t)strtol(name, NULL, 10)};
    int dir = openat(proc, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return; /* gone */
    bool there = read_stat(dir, &e);
    if (there && !e.dead)
        e.mark = read_mark(dir);
    (void)close(dir);
    if (!there)
        return;
    if (all->count == all->size) {
        size_t size = all->size == 0 ? 64 : all->size * 2;
        struct entry *list = realloc(all->list, size * sizeof(*list));
        if (list == NULL)
            return;
        all->list = list;
        all->size = size;
    }
    all->list[all->count++] = e;
}

static struct entries read_all(void)
{
    struct entries all = {0};
    DIR *d = opendir("/proc");
    if (d == NULL)
        return all;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (isdigit((unsigned char)e->d_name[0]))
            add_entry(&all, dirfd(d), e->d_name);
    }
    (void)closedir(d);
    return all;
}

static bool is_member(const struct entries *all, const struct tree *t, const struct entry *e)
{
    if (t->mark != 0 && e->mark != 0)
        return e->mark == t->mark;
    if (t->mark != 0 && (e->pid == t->root || e->session == t->root))
        return true;
    if (e->parent == t->root)
        return true;
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].pid == e->parent)
            return all->list[i].member;
    }
    return false;
}

static void find_members(struct entries *all, const struct tree *t)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < all->count; i++) {
            struct entry *e = &all->list[i];
            if (!e->member && is_member(all, t, e))
                e->member = changed = true;
        }
    }
}

int tree_signal(const struct tree *t, int sig, bool group_only)
{
    struct entries all = read_all();
    int count = 0;
    find_members(&all, t);
    for (size_t i = 0; i < all.count; i++) {
        const struct entry *e = &all.list[i];
        if (!e->member || e->dead || e->pid == getpid() || (group_only && e->group != t->root))
            continue;
        if (kill(e->pid, sig) == 0)
            count++;
    }
    free(all.list);
    return count;
}
