#include "base/log.h"

#include "base/strbuf.h"
#include "base/strutil.h"
#include "base/timeutil.h"

static const char *const level_names[LOG_LEVEL_COUNT] = {"debug", "info", "warn", "error"};
static const char *log_component = "holt";
static enum log_level log_minimum = LOG_LEVEL_INFO;

void log_setup(const char *component, enum log_level min)
{
    log_component = component;
    log_minimum = min;
}

enum log_level log_min_level(void)
{
    return log_minimum;
}

int log_level_parse(const char *s, enum log_level *ret)
{
    for (int i = 0; i < LOG_LEVEL_COUNT; i++) {
        if (streq(s, level_names[i])) {
            *ret = (enum log_level)i;
            return 1;
        }
    }
    return 0;
}

/* Everything outside printable ASCII is escaped bytewise: a log line must survive any terminal and any parser. */
static void add_quoted(struct strbuf *b, const char *s)
{
    strbuf_addc(b, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\') {
            strbuf_addc(b, '\\');
            strbuf_addc(b, (char)c);
        } else if (c < 0x20 || c >= 0x7f) {
            strbuf_addf(b, "\\u%04x", c);
        } else {
            strbuf_addc(b, (char)c);
        }
    }
    strbuf_addc(b, '"');
}

void log_write(enum log_level level, const char *msg, ...)
{
    if (level < log_minimum)
        return;
    _cleanup_(strbuf_free) struct strbuf b = {0};
    char stamp[TIME_RFC3339_MAX];
    va_list ap;

    time_format_rfc3339(time_now_ns(), 6, stamp);
    strbuf_addf(&b, "{\"time\":\"%s\",\"level\":\"%s\",\"component\":\"%s\",\"msg\":", stamp, level_names[level],
                log_component);
    add_quoted(&b, msg);
    va_start(ap, msg);
    for (const char *key; (key = va_arg(ap, const char *));) {
        const char *value = va_arg(ap, const char *);

        strbuf_addc(&b, ',');
        add_quoted(&b, key);
        strbuf_addc(&b, ':');
        if (value)
            add_quoted(&b, value);
        else
            strbuf_adds(&b, "null");
    }
    va_end(ap);
    strbuf_adds(&b, "}\n");
    /* One write per record keeps records of several processes on one stream apart. A full stderr is not worth dying
     * for. */
    (void)!write(STDERR_FILENO, b.data, b.len);
}
