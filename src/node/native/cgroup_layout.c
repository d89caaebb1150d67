#include "node/native/cgroup_layout.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <string.h>

static const char *const controller_names[CGROUP_CONTROLLER_COUNT] = {
    [CGROUP_MEMORY] = "memory",   [CGROUP_PIDS] = "pids",       [CGROUP_CPU] = "cpu", [CGROUP_CPUACCT] = "cpuacct",
    [CGROUP_FREEZER] = "freezer", [CGROUP_DEVICES] = "devices", [CGROUP_IO] = "io",
};

const char *cgroup_controller_name(enum cgroup_controller c)
{
    return controller_names[c];
}

struct mount_line {
    char *mount_point; /* unescaped in place */
    const char *type;
    const char *super_options;
};

/* "\040" and the like stand for blanks, tabs, newlines and backslashes. */
static void unescape(char *s)
{
    char *out = s;

    while (*s) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
            *out++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 4;
        } else {
            *out++ = *s++;
        }
    }
    *out = '\0';
}

/* "id parent major:minor root point options [tags...] - type source super-options". Cuts line up. */
static bool parse_line(char *line, struct mount_line *ret)
{
    char *save = NULL;
    char *field = strtok_r(line, " ", &save);

    for (int i = 0; field && i < 4; i++)
        field = strtok_r(NULL, " ", &save);
    if (!field)
        return false;
    ret->mount_point = field;
    while (field && !streq(field, "-"))
        field = strtok_r(NULL, " ", &save);
    if (!field)
        return false;
    ret->type = strtok_r(NULL, " ", &save);
    if (!ret->type || !strtok_r(NULL, " ", &save))
        return false;
    ret->super_options = strtok_r(NULL, " ", &save);
    if (!ret->super_options)
        return false;
    unescape(ret->mount_point);
    return true;
}

static bool list_has(const char *list, const char *separators, const char *word)
{
    size_t len = strlen(word);

    while (*list) {
        size_t n = strcspn(list, separators);
        if (n == len && memcmp(list, word, len) == 0)
            return true;
        list += n + strspn(list + n, separators);
    }
    return false;
}

static void for_each_line(const char *mountinfo, void (*fn)(void *arg, const struct mount_line *line), void *arg)
{
    _cleanup_free_ char *copy = xstrdup(mountinfo);
    char *save = NULL;

    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        struct mount_line m;
        if (parse_line(line, &m))
            fn(arg, &m);
    }
}

static void find_unified(void *arg, const struct mount_line *m)
{
    char **ret = arg;

    if (!*ret && streq(m->type, "cgroup2"))
        *ret = xstrdup(m->mount_point);
}

char *cgroup_layout_find_unified(const char *mountinfo)
{
    char *found = NULL;

    for_each_line(mountinfo, find_unified, &found);
    return found;
}

static void find_v1(void *arg, const struct mount_line *m)
{
    struct cgroup_layout *l = arg;

    if (!streq(m->type, "cgroup"))
        return;
    for (int c = 0; c < CGROUP_IO; c++)
        if (!l->mounts[c] && list_has(m->super_options, ",", controller_names[c]))
            l->mounts[c] = xstrdup(m->mount_point);
}

void cgroup_layout_parse(const char *mountinfo, const char *v2_controllers, struct cgroup_layout *ret)
{
    *ret = (struct cgroup_layout){.unified = cgroup_layout_find_unified(mountinfo)};
    for_each_line(mountinfo, find_v1, ret);
    if (ret->mounts[CGROUP_MEMORY] || ret->mounts[CGROUP_PIDS]) {
        ret->version = 1;
        return;
    }
    if (!ret->unified || !v2_controllers)
        return;
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++)
        if (list_has(v2_controllers, " \n", controller_names[c]))
            ret->mounts[c] = xstrdup(ret->unified);
    ret->version = 2;
}

void cgroup_layout_done(struct cgroup_layout *l)
{
    for (int c = 0; c < CGROUP_CONTROLLER_COUNT; c++)
        free(l->mounts[c]);
    free(l->unified);
    *l = (struct cgroup_layout){0};
}
