/* `holt doctor`: what this machine can do, and how to fix what it cannot. */
#include "cli/cli.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "node/native/host_features.h"
#include "wire/json.h"

#include <stdio.h>

static const char *const groups[] = {"isolation", "kernel", "cgroups", "limits", "tools"};

static void print_text(const struct feature_list *list)
{
    for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
        printf("%s%s\n", g ? "\n" : "", groups[g]);
        for (size_t i = 0; i < list->count; i++) {
            const struct feature *f = &list->items[i];
            if (!streq(f->group, groups[g]))
                continue;
            printf("  %-8s %-20s %s\n", feature_state_name(f->state), f->name, f->detail);
            if (f->fix)
                printf("  %-8s %-20s fix: %s\n", "", "", f->fix);
        }
    }
}

static void print_json(const struct feature_list *list)
{
    _cleanup_json_ struct json *all = json_object_make();

    for (size_t i = 0; i < list->count; i++) {
        const struct feature *f = &list->items[i];
        struct json *entry = json_object_make();
        json_set_str(entry, "state", feature_state_name(f->state));
        json_set_str(entry, "detail", f->detail);
        json_set_str(entry, "fix", f->fix);
        json_set(json_ensure_object(all, f->group), f->name, entry);
    }
    _cleanup_free_ char *text = json_text_pretty(all);
    puts(text);
}

int cmd_doctor(int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_(features_done) struct feature_list list = {0};
    bool json = false;
    const struct option options[] = {
        {"json", 0, OPTION_FLAG, &json, NULL, "Print JSON: {group: {name: {state, detail, fix}}}"},
    };
    int rest;

    if (options_parse(
            "holt doctor [--json]\n\nTells what this machine can isolate and limit, and how to fix what it cannot.",
            options, ARRAY_LEN(options), argc, argv, &rest, &err) < 0)
        return fail(EXIT_USAGE, &err);
    if (rest < argc)
        return failf(EXIT_USAGE, "doctor takes no arguments");
    features_probe(&list);
    if (json)
        print_json(&list);
    else
        print_text(&list);
    /* The level that needs nothing installed is the one that decides. */
    return features_require(&list, "native", NULL) < 0;
}
