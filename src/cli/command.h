/*
 * The commands of `holt`. One file per command, one row in the table of main.c.
 *
 * run() gets argv with the command's own name as argv[0], prints to stdout and stderr itself and returns the exit
 * status: 0 = done, 1 = the operation failed, CLI_USAGE = the command line is wrong. A command whose status is that
 * of another program (`holt run`, `holt exec`) says so in its help.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>

#define CLI_USAGE 64

struct command {
    const char *name;
    const char *summary; /* one line, for `holt help` */
    int (*run)(int argc, char **argv);
    bool internal; /* started by holt itself; not in the help */
};

/* int cmd_NAME(int argc, char **argv), in alphabetical order. */
int cmd_control(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_egress(int argc, char **argv);
int cmd_image(int argc, char **argv);
int cmd_node(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_up(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_cp(int argc, char **argv);
int cmd_create(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_kubeconfig(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_wait(int argc, char **argv);

/* Prints "holt COMMAND: message" on stderr. */
void cli_print_error(const char *command, const struct error *err);
