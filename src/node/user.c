#include "node/user.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define FILE_MAX (1u << 20)
#define ID_MAX 65535
#define GROUPS_MAX 256

void image_user_clear(struct image_user *u)
{
    free(u->home);
    free(u->groups);
    *u = (struct image_user){0};
}

/* The topmost layer that has the file decides; a whiteout or anything else that is no regular file hides it. */
static char *read_from_layers(char *const *lowers, const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    struct open_how look = how;

    look.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
    for (; lowers && *lowers; lowers++) {
        _cleanup_close_ int root = open(*lowers, O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int there = (int)syscall(SYS_openat2, root, path, &look, sizeof(look));
        if (there < 0)
            continue;
        _cleanup_close_ int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
        struct stat st;
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
            return NULL;
        char *text = xmalloc((size_t)st.st_size + 1);
        if (fd_read_all(fd, text, (size_t)st.st_size) < 0) {
            free(text);
            return NULL;
        }
        text[st.st_size] = '\0';
        return text;
    }
    return NULL;
}

/* Splits a line at colons in place; returns how many fields. */
static size_t split(char *line, char **fields, size_t max)
{
    size_t n = 0;

    while (n < max) {
        fields[n++] = line;
        line = strchr(line, ':');
        if (!line)
            break;
        *line++ = '\0';
    }
    return n;
}

static bool parse_id(const char *text, uint32_t *ret)
{
    uint64_t value;

    if (!parse_u64(text, &value) || value > ID_MAX)
        return false;
    *ret = (uint32_t)value;
    return true;
}

static char *next_line(char **text)
{
    char *line = *text;

    if (!line || !*line)
        return NULL;
    char *end = strchr(line, '\n');
    if (end)
        *end++ = '\0';
    *text = end;
    return line;
}

/* Finds the entry by name, or by number when name is NULL. */
static bool find_passwd(char *text, const char *name, uint32_t uid, struct image_user *u, char **ret_name)
{
    char *fields[7], *line;

    while ((line = next_line(&text))) {
        uint32_t entry_uid, entry_gid;
        if (split(line, fields, ARRAY_LEN(fields)) < 6 || !parse_id(fields[2], &entry_uid) ||
            !parse_id(fields[3], &entry_gid) || (name ? !streq(fields[0], name) : entry_uid != uid))
            continue;
        u->uid = entry_uid;
        u->gid = entry_gid;
        free(u->home);
        u->home = xstrdup(*fields[5] == '/' ? fields[5] : "/");
        *ret_name = xstrdup(fields[0]);
        return true;
    }
    return false;
}

static bool has_member(char *members, const char *name)
{
    char *save = NULL;

    for (char *m = strtok_r(members, ",", &save); m; m = strtok_r(NULL, ",", &save))
        if (streq(m, name))
            return true;
    return false;
}

/* The id of group_name into *ret_gid; the groups that list user_name are collected. */
static bool read_groups(char *text, const char *user_name, const char *group_name, struct image_user *u,
                        uint32_t *ret_gid)
{
    char *fields[4], *line;
    size_t capacity = 0;
    bool found = false;

    while ((line = next_line(&text))) {
        uint32_t gid;
        size_t n = split(line, fields, ARRAY_LEN(fields));
        if (n < 3 || !parse_id(fields[2], &gid))
            continue;
        if (group_name && !found && streq(fields[0], group_name)) {
            *ret_gid = gid;
            found = true;
        }
        if (n == 4 && user_name && u->group_count < GROUPS_MAX && has_member(fields[3], user_name)) {
            GROW(u->groups, capacity, u->group_count + 1);
            u->groups[u->group_count++] = gid;
        }
    }
    return found;
}

int image_user_resolve(char *const *lowers, const char *text, int64_t uid, int64_t gid, struct image_user *ret,
                       struct error *err)
{
    _cleanup_(image_user_clear) struct image_user u = {.home = xstrdup("/")};
    _cleanup_free_ char *user = xstrdup(text && *text ? text : "0"), *name = NULL;
    char *group = strchr(user, ':');
    uint32_t number;

    if (group)
        *group++ = '\0';
    if (uid >= 0) { /* the Pod's word: the image's user and group do not matter */
        free(user);
        user = xasprintf("%u", (unsigned)uid);
        group = NULL;
    }
    if (!*user)
        return error_set(err, EINVAL, "the image's user \"%.100s\" has no name", text);
    bool numeric = parse_id(user, &number);
    _cleanup_free_ char *passwd = read_from_layers(lowers, "etc/passwd");
    bool known = passwd && find_passwd(passwd, numeric ? NULL : user, numeric ? number : 0, &u, &name);
    if (!known && !numeric)
        return error_set(err, ENOENT, "the image's user \"%.100s\" is not in its /etc/passwd", user);
    if (!known) {
        u.uid = number;
        u.gid = 0;
        if (!number) {
            free(u.home);
            u.home = xstrdup("/root");
        }
    }
    bool group_numeric = group && parse_id(group, &u.gid);
    if (name || (group && !group_numeric)) {
        _cleanup_free_ char *groups = read_from_layers(lowers, "etc/group");
        bool found = groups && read_groups(groups, group ? NULL : name, group_numeric ? NULL : group, &u, &u.gid);
        if (group && !group_numeric && !found)
            return error_set(err, ENOENT, "the image's group \"%.100s\" is not in its /etc/group", group);
    }
    if (gid >= 0)
        u.gid = (uint32_t)gid;
    *ret = u;
    u = (struct image_user){0};
    return 0;
}
