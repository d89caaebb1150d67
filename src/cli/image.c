/* `holt image import|ls|rm`: the images of this machine. Works on the store directly; a running node sees the result.
 */
#include "cli/cli.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "node/image/reference.h"
#include "node/image/store.h"

#include <inttypes.h>
#include <stdio.h>

#define SHORT_ID 12

struct image_command {
    const char *data_dir, *ref;
};

static int parse_name(const char *text, struct image_ref *ret, struct error *err)
{
    int r = image_ref_parse(text, ret, err);

    if (r == 0 && (ret->kind != IMAGE_NAMED || strchr(ret->name, '@'))) {
        r = error_set(err, EINVAL, "\"%s\" is not a name that an imported image can have", text);
        image_ref_clear(ret);
    }
    return r;
}

static int import(struct image_store *s, const struct image_command *c, char **args, struct error *err)
{
    struct image_ref name;
    int r = parse_name(args[0], &name, err);

    if (r < 0)
        return r;
    r = image_store_import(s, name.name, args[1], c->ref, err);
    if (r == 0)
        (void)printf("imported %s\n", name.name);
    image_ref_clear(&name);
    return r;
}

static int list(struct image_store *s, const struct image_command *c UNUSED, char **args UNUSED, struct error *err)
{
    _cleanup_json_ struct json *images = NULL;
    int r = image_store_list(s, &images, err);

    if (r < 0)
        return r;
    (void)printf("%-56s %-14s %10s  %s\n", "NAME", "ID", "SIZE", "IMPORTED");
    for (size_t i = 0; i < json_size(images); i++) {
        const struct json *image = json_item(images, i);
        const char *id = json_str_or(json_get(image, "id"), ""), *hex = str_skip_prefix(id, "sha256:");
        (void)printf("%-56s %-14.*s %8.1fMB  %s\n", json_str_or(json_get(image, "name"), ""), SHORT_ID, hex ? hex : id,
                     (double)json_int_or(json_get(image, "size"), 0) / 1e6,
                     json_str_or(json_get(image, "created"), ""));
    }
    return 0;
}

static int remove_names(struct image_store *s, const struct image_command *c UNUSED, char **args, struct error *err)
{
    for (; *args; args++) {
        struct image_ref name;
        int r = parse_name(*args, &name, err);
        if (r < 0)
            return r;
        r = image_store_remove(s, name.name, err);
        image_ref_clear(&name);
        if (r < 0)
            return r;
    }
    return 0;
}

int cmd_image(int argc, char **argv)
{
    static const struct {
        const char *name, *usage;
        int min_args, max_args;
        int (*run)(struct image_store *s, const struct image_command *c, char **args, struct error *err);
    } commands[] = {
        {"import", "holt image import [OPTIONS] NAME PATH", 2, 2, import},
        {"ls", "holt image ls [OPTIONS]", 0, 0, list},
        {"list", "holt image ls [OPTIONS]", 0, 0, list},
        {"rm", "holt image rm [OPTIONS] NAME...", 1, INT32_MAX, remove_names},
    };
    _cleanup_error_ struct error err = ERROR_INIT;
    struct image_command c = {.data_dir = "/var/lib/holt"};
    const char *extract = NULL;
    const struct option options[] = {
        {"data-dir", 0, OPTION_STRING, &c.data_dir, "DIR", "That of the node (/var/lib/holt)"},
        {"ref", 0, OPTION_STRING, &c.ref, "NAME", "Which image of PATH, when it holds several"},
        {"extract", 0, OPTION_STRING, &extract, "PATH", "The unpacking helper (holt-extract beside holt)"},
    };
    size_t i = 0;
    int rest;

    while (i < ARRAY_LEN(commands) && (argc < 2 || !streq(argv[1], commands[i].name)))
        i++;
    if (i == ARRAY_LEN(commands)) {
        bool asked = argc == 2 && (streq(argv[1], "--help") || streq(argv[1], "-h"));
        (void)fprintf(asked ? stdout : stderr,
                      "Usage: holt image import [OPTIONS] NAME PATH | ls | rm NAME...\n\n"
                      "PATH is a directory or tar of: docker save, an OCI layout, or a root file system.\n"
                      "`holt image import --help` tells the options.\n");
        return asked ? 0 : EXIT_USAGE;
    }
    if (options_parse(commands[i].usage, options, ARRAY_LEN(options), argc - 1, argv + 1, &rest, &err) < 0)
        return fail(EXIT_USAGE, &err);
    rest++; /* the subcommand */
    if (argc - rest < commands[i].min_args || argc - rest > commands[i].max_args)
        return failf(EXIT_USAGE, "usage: %s", commands[i].usage);
    _cleanup_(image_store_close_p) struct image_store *store = image_store_open(c.data_dir, extract, &err);
    if (!store || commands[i].run(store, &c, argv + rest, &err) < 0)
        return fail(1, &err);
    return 0;
}
