/* Options and messages of commands: one parser for all. The table of commands is command.h. */
#pragma once

#include "base/error.h"
#include "cli/command.h"

#include <stdbool.h>
#include <stdint.h>

/* Exit statuses beyond those of what a command runs. */
#define EXIT_USAGE CLI_USAGE
#define EXIT_HOLT_FAILED 125

enum option_kind {
    OPTION_FLAG,     /* bool *: --name */
    OPTION_STRING,   /* const char **: --name VALUE or --name=VALUE, borrowed from argv */
    OPTION_LIST,     /* char ***: may be repeated, a strv of copies */
    OPTION_INT,      /* int64_t *: a whole number >= 0 */
    OPTION_DURATION, /* int64_t *: "10s", "5m" → nanoseconds */
    OPTION_SIZE,     /* uint64_t *: "512Mi", "1G", bytes */
};

struct option {
    const char *name; /* without the dashes */
    char letter;      /* 0 = none */
    enum option_kind kind;
    void *target;
    const char *value; /* what the help calls the value: "DIR" */
    const char *help;
};

/*
 * Parses options up to "--" or the first argument that is none. *ret_rest: index of the first argument behind them.
 * "--help" prints the help and ends the process with 0. usage: "holt run [OPTIONS] -- CMD...", an empty line, and what
 * the command does.
 */
int options_parse(const char *usage, const struct option *options, size_t count, int argc, char **argv, int *ret_rest,
                  struct error *err);
/* Prints "holt: <message>" and returns status. */
int fail(int status, const struct error *err);
int PRINTF_LIKE(2, 3) failf(int status, const char *fmt, ...);
