/*
 * The log of one run of a container: lines in the CRI's format, rotated by size (layout and format: sandbox/paths.h).
 * Everything written is there at once; nothing is kept in memory, so that a killed node loses nothing it has read.
 *
 * Offsets count a stream's bytes from the start of the process. They say where to attach again after the node was
 * away: state (base of the current file) + what the current file holds.
 */
#pragma once

#include "wire/guest_frame.h"

#include "base/error.h"

#include <sys/types.h>

struct log_file;

/*
 * The log DIR/<restart>.log, which need not be there: it and its directory are made by the first write, or by
 * log_file_make(). base: offsets at the start of the current file, NULL = 0
 * (a new log); the file's content is counted on top. gid: group of what is made, (gid_t)-1 = none. Removes the files
 * of runs before the previous one.
 */
struct log_file *log_file_open(const char *dir, int64_t restart, const uint64_t base[GUEST_STREAM_COUNT], gid_t gid,
                               struct error *err);
/* Makes the file, for those who look for it before anything was written. */
void log_file_make(struct log_file *l);
void log_file_close(struct log_file *l);
DEFINE_CLEANUP(log_file_close, struct log_file *);

/*
 * Writes output that begins at offset. What is before the log's own offset was written already and is skipped; a gap
 * becomes a marker. Returns 0, or -errno when the disk refuses: the bytes are counted as dropped and a marker is
 * written as soon as there is room again. *ret_rotated (may be NULL): a new file was begun; save the offsets.
 */
int log_file_write(struct log_file *l, enum guest_stream stream, uint64_t offset, const void *data, size_t len,
                   int64_t now_ns, bool *ret_rotated);
void log_file_dropped(struct log_file *l, enum guest_stream stream, uint64_t bytes, int64_t now_ns);
/* Where each stream stands. */
uint64_t log_file_offset(const struct log_file *l, enum guest_stream stream);
/* Where each stream stood when the current file was begun. */
uint64_t log_file_base(const struct log_file *l, enum guest_stream stream);

/* The end of a log as plain text: at most max_bytes and max_lines; the caller frees. Empty when there is none. */
char *log_tail(const char *dir, int64_t restart, size_t max_bytes, size_t max_lines);

/* One line of a log taken apart; exported for its tests. */
struct log_line {
    enum guest_stream stream;
    bool partial;
    uint64_t dropped; /* of a marker; its text is not content */
    const char *content;
    size_t len;
};
bool log_line_parse(const char *line, size_t len, struct log_line *ret);
