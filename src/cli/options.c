#include "cli/cli.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "kube/quantity.h"

#include <stdio.h>

static void print_help(const char *usage, const struct option *options, size_t count)
{
    (void)printf("Usage: %s\n", usage);
    if (count)
        (void)printf("\nOptions:\n");
    for (size_t i = 0; i < count; i++) {
        const struct option *o = &options[i];
        _cleanup_free_ char *left =
            xasprintf("%s%c%s--%s%s%s", o->letter ? "-" : " ", o->letter ? o->letter : ' ', o->letter ? ", " : "  ",
                      o->name, o->value ? " " : "", o->value ? o->value : "");
        (void)printf("  %-32s %s\n", left, o->help);
    }
}

static const struct option *find(const struct option *options, size_t count, const char *name, size_t len, char letter)
{
    for (size_t i = 0; i < count; i++) {
        if (letter ? options[i].letter == letter
                   : strncmp(options[i].name, name, len) == 0 && options[i].name[len] == '\0')
            return &options[i];
    }
    return NULL;
}

static int store(const struct option *o, const char *value, struct error *err)
{
    switch (o->kind) {
    case OPTION_FLAG:
        *(bool *)o->target = true;
        return 0;
    case OPTION_STRING:
        *(const char **)o->target = value;
        return 0;
    case OPTION_LIST: {
        char ***list = o->target;
        *list = strv_append(*list, xstrdup(value));
        return 0;
    }
    case OPTION_INT:
        if (!parse_i64(value, o->target) || *(int64_t *)o->target < 0)
            return error_set(err, EINVAL, "--%s: \"%s\" is not a whole number", o->name, value);
        return 0;
    case OPTION_DURATION:
        if (!parse_duration(value, o->target))
            return error_set(err, EINVAL, "--%s: \"%s\" is not a duration such as 30s, 5m or 1h30m", o->name, value);
        return 0;
    case OPTION_SIZE: {
        int64_t bytes;
        if (quantity_parse_bytes(value, &bytes, NULL) < 0 || bytes < 0)
            return error_set(err, EINVAL, "--%s: \"%s\" is not a size such as 512Mi or 1G", o->name, value);
        *(uint64_t *)o->target = (uint64_t)bytes;
        return 0;
    }
    }
    return 0;
}

int options_parse(const char *usage, const struct option *options, size_t count, int argc, char **argv, int *ret_rest,
                  struct error *err)
{
    int i;

    for (i = 1; i < argc; i++) {
        const char *arg = argv[i], *name = str_skip_prefix(arg, "--");

        if (arg[0] != '-' || !arg[1])
            break;
        if (name && !*name) {
            i++;
            break;
        }
        if (streq(arg, "--help") || streq(arg, "-h")) {
            print_help(usage, options, count);
            exit(0);
        }
        size_t len = name ? strcspn(name, "=") : 0;
        const struct option *o = find(options, count, name, len, name ? 0 : arg[1]);
        if (!o)
            return error_set(err, EINVAL, "unknown option %s (holt %s --help lists them)", arg, argv[0]);
        const char *value = name ? (name[len] ? name + len + 1 : NULL) : (arg[2] ? arg + 2 : NULL);
        if (o->kind == OPTION_FLAG && value)
            return error_set(err, EINVAL, "--%s takes no value", o->name);
        if (o->kind != OPTION_FLAG && !value) {
            if (i + 1 >= argc)
                return error_set(err, EINVAL, "--%s needs a value: --%s %s", o->name, o->name, o->value);
            value = argv[++i];
        }
        if (store(o, value, err) < 0)
            return -EINVAL;
    }
    *ret_rest = i;
    return 0;
}

int fail(int status, const struct error *err)
{
    (void)fprintf(stderr, "holt: %s\n", error_text(err));
    return status;
}

int failf(int status, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *text = xvasprintf(fmt, ap);
    va_end(ap);
    (void)fprintf(stderr, "holt: %s\n", text);
    return status;
}
