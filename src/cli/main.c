#include "base/memory.h"
#include "base/strutil.h"
#include "cli/command.h"
#include "cli/run_image.h"
#include "cli/version.h"

#include <stdio.h>
#include <sys/prctl.h>

static int cmd_version(int argc UNUSED, char **argv UNUSED)
{
    puts("holt " HOLT_VERSION);
    return 0;
}

/* In the order of `holt help`. */
static const struct command commands[] = {
    {"control", "the API server", cmd_control, .internal = true},
    {"doctor", "show what this machine can do, and how to fix what it cannot", cmd_doctor},
    {"egress", "the way out of sandboxes", cmd_egress, .internal = true},
    {"image", "import, list and remove images", cmd_image},
    {"kubeconfig", "make access for somebody else", cmd_kubeconfig},
    {"node", "runs the Pods of this machine", cmd_node, .internal = true},
    {"run", "run one command in a new sandbox, without a server", cmd_run},
    {"up", "start holt on this machine and keep it running", cmd_up},
    {"create", "make a sandbox that stays", cmd_create},
    {"ls", "list sandboxes", cmd_ls},
    {"exec", "run a command in a sandbox", cmd_exec},
    {"attach", "follow a process of a sandbox", cmd_attach},
    {"ps", "list the processes of a sandbox", cmd_ps},
    {"logs", "show what a sandbox has printed", cmd_logs},
    {"cp", "copy files into and out of a sandbox", cmd_cp},
    {"rm", "delete sandboxes", cmd_rm},
    {"wait", "wait until a started holt is ready", cmd_wait},
    {"version", "print the version", cmd_version},
};

void cli_print_error(const char *command, const struct error *err)
{
    fprintf(stderr, "holt %s: %s\n", command, error_text(err));
}

static void print_help(FILE *to)
{
    fputs("holt: sandboxes for AI agents\n\nusage: holt COMMAND [ARGUMENTS]\n\n", to);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (!commands[i].internal)
            fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n`holt COMMAND --help` tells more about one command; `holt --version` prints the version.\n", to);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    run_find_image = run_image_find;
    if (streq(name, "--version"))
        return cmd_version(argc - 1, argv + 1);
    if (streq(name, "--help") || streq(name, "-h") || streq(name, "help")) {
        print_help(stdout);
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (!streq(name, commands[i].name))
            continue;
        if (commands[i].internal) { /* started by /proc/self/exe, whose name would be "exe" in ps */
            _cleanup_free_ char *title = xasprintf("holt-%s", name);
            (void)prctl(PR_SET_NAME, title, 0, 0, 0);
        }
        return commands[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "holt: no command \"%s\"; `holt help` lists them\n", name);
    return CLI_USAGE;
}
