#include "node/log_file.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "base/timeutil.h"
#include "sandbox/paths.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#define DIR_MODE 0750
#define FILE_MODE 0640
#define READ_BLOCK (256 * 1024)

/* No descriptor is held between writes: there are thousands of these. */
struct log_file {
    char *dir, *path; /* path: of the current file */
    int64_t restart;
    gid_t gid;
    uint64_t size;
    uint64_t base[GUEST_STREAM_COUNT];
    uint64_t offset[GUEST_STREAM_COUNT];
    uint64_t unmarked[GUEST_STREAM_COUNT]; /* dropped, and not yet told in the log */
};

static const char *const stream_names[] = {[GUEST_STREAM_STDOUT] = "stdout", [GUEST_STREAM_STDERR] = "stderr"};

bool log_line_parse(const char *line, size_t len, struct log_line *ret)
{
    const char *end = line + len, *stream = memchr(line, ' ', len);
    const char *tags = stream ? memchr(stream + 1, ' ', (size_t)(end - stream - 1)) : NULL;
    const char *content = tags ? memchr(tags + 1, ' ', (size_t)(end - tags - 1)) : NULL;
    static const char drop[] = ":dropped=";

    if (!content)
        return false;
    size_t stream_len = (size_t)(tags - stream - 1), tags_len = (size_t)(content - tags - 1);
    *ret = (struct log_line){.content = content + 1, .len = (size_t)(end - content - 1)};
    if (stream_len != 6 || tags_len < 1 || (tags[1] != 'F' && tags[1] != 'P'))
        return false;
    if (memcmp(stream + 1, "stderr", 6) == 0)
        ret->stream = GUEST_STREAM_STDERR;
    else if (memcmp(stream + 1, "stdout", 6) != 0)
        return false;
    ret->partial = tags[1] == 'P';
    if (tags_len > sizeof(drop) && memcmp(tags + 2, drop, sizeof(drop) - 1) == 0)
        ret->dropped = strtoull(tags + 1 + sizeof(drop), NULL, 10);
    return true;
}

/* Counts what the current file holds; cuts off a line that a crash left without its end. */
static int count_content(struct log_file *l, int fd, struct error *err)
{
    _cleanup_free_ char *buffer = NULL;
    uint64_t done = 0;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return error_set_errno(err, errno, "stat %s", l->path);
    if (!st.st_size)
        return 0;
    buffer = xmalloc(READ_BLOCK);
    while (done < (uint64_t)st.st_size) {
        ssize_t n = pread(fd, buffer, READ_BLOCK, (off_t)done);
        if (n < 0)
            return error_set_errno(err, errno, "read %s", l->path);
        size_t used = 0;
        for (const char *end; (end = memchr(buffer + used, '\n', (size_t)n - used));) {
            struct log_line line;
            size_t len = (size_t)(end - buffer) - used;
            if (log_line_parse(buffer + used, len, &line))
                l->offset[line.stream] += line.dropped ? line.dropped : line.len + !line.partial;
            used += len + 1;
        }
        if (!used)
            break;
        done += used;
    }
    if (done < (uint64_t)st.st_size && ftruncate(fd, (off_t)done) < 0)
        return error_set_errno(err, errno, "truncate %s", l->path);
    l->size = done;
    return 0;
}

/* Makes what is missing of it; the group is a convenience: without it the log is written all the same. */
static int create_current(const struct log_file *l)
{
    _cleanup_close_ int dir = mkdirs_at(AT_FDCWD, l->dir, DIR_MODE, NULL);
    int fd = open(l->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);

    if (dir >= 0 && fd >= 0 && l->gid != (gid_t)-1) {
        /* The Pod's directory too: who reads the log has to get through it. */
        _cleanup_free_ char *pod_dir = xasprintf("%s/..", l->dir);
        (void)!chown(pod_dir, (uid_t)-1, l->gid);
        (void)!fchownat(dir, "", (uid_t)-1, l->gid, AT_EMPTY_PATH);
        (void)!fchown(fd, (uid_t)-1, l->gid);
    }
    return fd >= 0 ? fd : -errno;
}

static int open_current(const struct log_file *l)
{
    int fd = open(l->path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 ? fd : errno == ENOENT ? create_current(l) : -errno;
}

void log_file_make(struct log_file *l)
{
    _cleanup_close_ int fd = l ? open_current(l) : -1; /* the first write tries again */
    (void)fd;
}

/* Logs of this run and the one before stay. */
static void remove_old(const struct log_file *l)
{
    DIR *dir = opendir(l->dir);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        char *end;
        int64_t restart = strtoll(e->d_name, &end, 10);
        if (end != e->d_name && str_skip_prefix(end, ".log") && restart < l->restart - 1)
            (void)unlinkat(dirfd(dir), e->d_name, 0); /* goes with the Pod at the latest */
    }
    if (dir)
        (void)closedir(dir);
}

struct log_file *log_file_open(const char *dir, int64_t restart, const uint64_t base[GUEST_STREAM_COUNT], gid_t gid,
                               struct error *err)
{
    _cleanup_(log_file_close_p) struct log_file *l = xcalloc(1, sizeof(*l));

    l->dir = xstrdup(dir);
    l->path = xasprintf("%s/%" PRId64 ".log", dir, restart);
    l->restart = restart;
    l->gid = gid;
    for (size_t i = 0; i < GUEST_STREAM_COUNT; i++)
        l->base[i] = l->offset[i] = base ? base[i] : 0;
    _cleanup_close_ int fd = open(l->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno != ENOENT) {
        (void)error_set_errno(err, errno, "open %s", l->path);
        return NULL;
    }
    if (restart > 1)
        remove_old(l);
    if (fd >= 0 && count_content(l, fd, err) < 0)
        return NULL;
    return take_ptr(l);
}

void log_file_close(struct log_file *l)
{
    if (!l)
        return;
    free(l->dir);
    free(l->path);
    free(l);
}

static int rotate(struct log_file *l)
{
    for (int i = LOG_FILES - 1; i > 0; i--) {
        _cleanup_free_ char *to = xasprintf("%s.%d", l->path, i);
        _cleanup_free_ char *from = i > 1 ? xasprintf("%s.%d", l->path, i - 1) : xstrdup(l->path);
        if (rename(from, to) < 0 && errno != ENOENT)
            return -errno;
    }
    l->size = 0;
    memcpy(l->base, l->offset, sizeof(l->base));
    return 0;
}

/* All of the text or nothing of it. */
static int append(struct log_file *l, const struct strbuf *text)
{
    _cleanup_close_ int fd = open_current(l);
    int r = fd < 0 ? fd : fd_write_all(fd, text->data, text->len);

    if (r == 0)
        l->size += text->len;
    else if (fd >= 0)
        (void)!ftruncate(fd, (off_t)l->size); /* half a line; if this fails too, the reader sees it cut */
    return r;
}

static void begin_line(struct strbuf *out, enum guest_stream stream, const char *time, const char *tags)
{
    strbuf_addf(out, "%s %s %s ", time, stream_names[stream], tags);
}

static int mark_dropped(struct log_file *l, enum guest_stream stream, const char *time)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};
    uint64_t bytes = l->unmarked[stream];

    if (!bytes)
        return 0;
    _cleanup_free_ char *tags = xasprintf("F:dropped=%" PRIu64, bytes);
    begin_line(&text, stream, time, tags);
    strbuf_addf(&text, "[%" PRIu64 " bytes of output were dropped]\n", bytes);
    int r = append(l, &text);
    if (r == 0)
        l->unmarked[stream] = 0;
    return r;
}

void log_file_dropped(struct log_file *l, enum guest_stream stream, uint64_t bytes, int64_t now_ns)
{
    char time[TIME_RFC3339_MAX];

    time_format_rfc3339(now_ns, 9, time);
    l->offset[stream] += bytes;
    l->unmarked[stream] += bytes;
    (void)mark_dropped(l, stream, time); /* told with the next output otherwise */
}

static void format_lines(struct strbuf *out, enum guest_stream stream, const char *time, const char *p, size_t len)
{
    for (const char *end = p + len; p < end;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t piece = (size_t)((newline ? newline : end) - p);
        begin_line(out, stream, time, newline ? "F" : "P");
        strbuf_add(out, p, piece);
        strbuf_addc(out, '\n');
        p += piece + (newline != NULL);
    }
}

int log_file_write(struct log_file *l, enum guest_stream stream, uint64_t offset, const void *data, size_t len,
                   int64_t now_ns, bool *ret_rotated)
{
    _cleanup_(strbuf_free) struct strbuf text = {0};
    char time[TIME_RFC3339_MAX];
    const char *p = data;

    if (ret_rotated)
        *ret_rotated = false;
    if (offset < l->offset[stream]) {
        uint64_t known = l->offset[stream] - offset;
        if (known >= len)
            return 0;
        p += known;
        len -= known;
        offset += known;
    }
    if (offset > l->offset[stream])
        log_file_dropped(l, stream, offset - l->offset[stream], now_ns);
    if (l->size >= LOG_FILE_MAX && rotate(l) == 0 && ret_rotated)
        *ret_rotated = true;
    time_format_rfc3339(now_ns, 9, time);
    int r = mark_dropped(l, stream, time);
    l->offset[stream] += len;
    if (r == 0) {
        format_lines(&text, stream, time, p, len);
        r = append(l, &text);
    }
    if (r < 0)
        l->unmarked[stream] += len;
    return r;
}

uint64_t log_file_offset(const struct log_file *l, enum guest_stream stream)
{
    return l->offset[stream];
}

uint64_t log_file_base(const struct log_file *l, enum guest_stream stream)
{
    return l->base[stream];
}

char *log_tail(const char *dir, int64_t restart, size_t max_bytes, size_t max_lines)
{
    _cleanup_free_ char *path = xasprintf("%s/%" PRId64 ".log", dir, restart), *buffer = xmalloc(READ_BLOCK);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    _cleanup_(strbuf_free) struct strbuf text = {0};
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return xstrdup("");
    off_t from = st.st_size > READ_BLOCK ? st.st_size - READ_BLOCK : 0;
    ssize_t n = pread(fd, buffer, READ_BLOCK, from);
    size_t used = 0;
    for (const char *end; n > 0 && (end = memchr(buffer + used, '\n', (size_t)n - used));) {
        struct log_line line;
        size_t len = (size_t)(end - buffer) - used;
        if (log_line_parse(buffer + used, len, &line) && !line.dropped) {
            strbuf_add(&text, line.content, line.len);
            if (!line.partial)
                strbuf_addc(&text, '\n');
        }
        used += len + 1;
    }
    const char *start = strbuf_str(&text), *from_here = start + text.len;
    for (size_t lines = 0; from_here > start && (size_t)(start + text.len - from_here) < max_bytes; from_here--)
        if (from_here[-1] == '\n' && from_here != start + text.len && ++lines >= max_lines)
            break;
    return xstrdup(from_here);
}
