/*
 * Logging: one JSON object a line on stderr, escaped so that no input can forge a record.
 * Only process mains and event handlers without a caller to return to log; everything else returns a struct error.
 *
 *     log_info("sandbox started", "namespace", ns, "name", name, NULL);   // key, value pairs of strings; NULL value →
 * null
 */
#pragma once

#include "base/macros.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR, LOG_LEVEL_COUNT };

/* component names the process ("control", "node"); borrowed, must outlive all logging. */
void log_setup(const char *component, enum log_level min);
enum log_level log_min_level(void);
/* Parses "debug", "info", "warn", "error". Returns false on anything else. */
int log_level_parse(const char *s, enum log_level *ret);

void log_write(enum log_level level, const char *msg, ...) __attribute__((sentinel));

#define log_debug(...)                                                                                                 \
    do {                                                                                                               \
        if (log_min_level() <= LOG_LEVEL_DEBUG)                                                                        \
            log_write(LOG_LEVEL_DEBUG, __VA_ARGS__);                                                                   \
    } while (0)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warn(...) log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
