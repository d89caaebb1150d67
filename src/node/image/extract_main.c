/*
 * holt-extract: the confined helper that unpacks one archive. Not for people.
 *
 *     holt-extract layer|files|copy MAX-BYTES MAX-ENTRIES     archive on fd 0, target directory on fd 3
 *     holt-extract probe                                 archive on fd 0
 *
 * Answers on fd 1 in records that end with a NUL byte: "o<path>" an opaque directory, "s<path>" left out, "k<kind>"
 * what probe found, "d<bytes> <entries>" done, "e<message>" failed. Exit status 0 after d or k, 1 after e.
 */
#include "base/fdio.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "node/image/extract.h"
#include "node/image/extract_confine.h"

#include <inttypes.h>
#include <locale.h>

#define TARGET_FD 3

#ifdef HOLT_SANITIZED
/* The leak checker reads /proc, which is out of the helper's reach by then. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}
#endif

static int report(char kind, const char *text)
{
    _cleanup_(strbuf_free) struct strbuf b = {0};

    strbuf_addc(&b, kind);
    strbuf_add(&b, text, strlen(text) + 1);
    return fd_write_all(STDOUT_FILENO, b.data, b.len);
}

static void report_opaque(void *arg, const char *path)
{
    int *failed = arg;

    if (report('o', path) < 0)
        *failed = 1;
}

static void report_skipped(void *arg, const char *path)
{
    int *failed = arg;

    if (report('s', path) < 0)
        *failed = 1;
}

static int unpack(const char *mode, const char *bytes, const char *entries, struct error *err)
{
    int report_failed = 0;
    struct extract_options options = {.kind = streq(mode, "layer")  ? EXTRACT_LAYER
                                              : streq(mode, "copy") ? EXTRACT_COPY
                                                                    : EXTRACT_FILES,
                                      .opaque = report_opaque,
                                      .skipped = report_skipped,
                                      .arg = &report_failed};
    struct extract_result result;

    if (!parse_u64(bytes, &options.max_bytes) || !parse_u64(entries, &options.max_entries))
        return error_set(err, EINVAL, "the limits are no numbers");
    int r = extract_confine(TARGET_FD, options.max_bytes, err);
    if (r == 0)
        r = extract_archive(STDIN_FILENO, TARGET_FD, &options, &result, err);
    if (r == 0 && report_failed)
        r = error_set(err, EPIPE, "nobody takes the report");
    if (r < 0)
        return r;
    _cleanup_free_ char *text = xasprintf("%" PRIu64 " %" PRIu64, result.bytes, result.entries);
    return report('d', text);
}

static int probe(struct error *err)
{
    const char *kind;
    int r = extract_confine(-1, 0, err);

    if (r == 0)
        r = extract_probe(STDIN_FILENO, &kind, err);
    return r < 0 ? r : report('k', kind);
}

int main(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    int r;

    (void)setlocale(LC_ALL, "C.UTF-8"); /* names beyond ASCII; without it they are refused */
    if (argc == 4 && (streq(argv[1], "layer") || streq(argv[1], "files") || streq(argv[1], "copy")))
        r = unpack(argv[1], argv[2], argv[3], &err);
    else if (argc == 2 && streq(argv[1], "probe"))
        r = probe(&err);
    else
        r = error_set(&err, EINVAL, "holt-extract is a helper of holt image");
    if (r < 0)
        (void)report('e', error_text(&err)); /* the exit status tells it too */
    return r < 0 ? 1 : 0;
}
