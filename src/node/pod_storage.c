/*
 * How much disk Pods with a limit use: the ephemeral-storage limit of the container (its root, its emptyDirs, its log)
 * and sizeLimit of emptyDirs on disk. Looked at now and again by a job; a Pod that uses more is evicted. Between two
 * looks it can use more: these limits keep honest programs from filling the disk by mistake.
 */
#include "node/pod_internal.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "node/blank.h"
#include "sandbox/paths.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#define DEPTH_MAX 512 /* deeper trees are counted as far as this */
#define BLOCK 512

struct measured {
    char *path;
    uint64_t limit, used; /* limit 0: counts for the container's only */
    char *what;           /* "emptyDir volume \"v\"" */
};

struct measuring {
    struct node *node;
    char *uid;
    struct measured *parts;
    size_t count;
    uint64_t limit; /* of all together; 0 = none */
};

static uint64_t tree_size(int fd, dev_t dev, int depth)
{
    DIR *dir = fdopendir(fd); /* owns fd from here */
    uint64_t sum = 0;

    if (!dir) {
        (void)close(fd);
        return 0;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        struct stat st;
        if (streq(e->d_name, ".") || streq(e->d_name, "..") ||
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != dev)
            continue;
        sum += (uint64_t)st.st_blocks * BLOCK;
        int child = S_ISDIR(st.st_mode) && depth < DEPTH_MAX
                        ? openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                        : -1;
        if (child >= 0)
            sum += tree_size(child, dev, depth + 1);
    }
    (void)closedir(dir);
    return sum;
}

static void measure_work(void *arg)
{
    struct measuring *m = arg;

    for (size_t i = 0; i < m->count; i++) {
        int fd = open(m->parts[i].path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;
        if (fd >= 0 && fstat(fd, &st) == 0)
            m->parts[i].used = tree_size(fd, st.st_dev, 0);
        else if (fd >= 0)
            (void)close(fd);
    }
}

static char *excess(const struct measuring *m)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < m->count; i++) {
        const struct measured *part = &m->parts[i];
        sum += part->used;
        if (part->limit && part->used > part->limit)
            return xasprintf("Usage of %s exceeds the limit of %" PRIu64 " bytes (%" PRIu64 " used)", part->what,
                             part->limit, part->used);
    }
    if (m->limit && sum > m->limit)
        return xasprintf("Container storage usage exceeds the ephemeral-storage limit of %" PRIu64 " bytes (%" PRIu64
                         " used)",
                         m->limit, sum);
    return NULL;
}

static void measure_done(void *arg)
{
    struct measuring *m = arg;
    struct pod *p = pod_find(m->node, m->uid);
    _cleanup_free_ char *message = excess(m);

    if (p) {
        p->measuring = false;
        if (message && pod_has_sandbox(p) && !p->failed_outside)
            pod_evict(p, message);
    }
    for (size_t i = 0; i < m->count; i++) {
        free(m->parts[i].path);
        free(m->parts[i].what);
    }
    free(m->parts);
    free(m->uid);
    free(m);
}

static void add_part(struct measuring *m, char *path, uint64_t limit, char *what)
{
    m->parts = xreallocarray(m->parts, m->count + 1, sizeof(*m->parts));
    m->parts[m->count++] = (struct measured){.path = path, .limit = limit, .what = what};
}

static bool has_limit(const struct pod *p)
{
    bool limited = pod_container(p)->storage_limit != 0;

    for (size_t i = 0; i < p->spec.volume_count; i++)
        limited = limited || (p->spec.volumes[i].size_limit && !p->spec.volumes[i].memory);
    return limited;
}

void pod_check_storage(struct pod *p)
{
    if (p->measuring || p->sandbox != SANDBOX_RUNNING || !has_limit(p))
        return;
    struct measuring *m = xcalloc(1, sizeof(*m));
    _cleanup_free_ char *data = path_pod_data(p->node->data_dir, p->uid);
    *m = (struct measuring){.node = p->node, .uid = xstrdup(p->uid), .limit = pod_container(p)->storage_limit};
    add_part(m, xasprintf("%s/" POD_ROOT, data), 0, NULL);
    add_part(m, path_pod_logs(p->node->data_dir, p->ns, p->name, p->uid), 0, NULL);
    for (size_t i = 0; i < p->spec.volume_count; i++) {
        const struct pod_volume *v = &p->spec.volumes[i];
        if (v->kind == POD_VOLUME_EMPTY_DIR && !v->memory)
            add_part(m, xasprintf("%s/volumes/%s", data, v->name), v->size_limit,
                     xasprintf("EmptyDir volume \"%s\"", v->name));
    }
    p->measuring = true;
    jobs_run(p->node->jobs, measure_work, measure_done, m);
}
