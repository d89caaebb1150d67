#include "apiserver/names.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>

/* The texts clients know, put together from their parts. */
#define LABEL_RE "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#define QUALIFIED_RE "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
#define SUBDOMAIN_TEXT                                                                                                 \
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "   \
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '" LABEL_RE              \
    "(\\." LABEL_RE ")*')"
#define LABEL_TEXT                                                                                                     \
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "    \
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '" LABEL_RE "')"
#define DNS1035_TEXT                                                                                                   \
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "            \
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "  \
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
#define QUALIFIED_TEXT                                                                                                 \
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character " \
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '" QUALIFIED_RE "')"
#define LABEL_VALUE_TEXT                                                                                               \
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "    \
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "  \
    "is '(" QUALIFIED_RE ")?')"
#define DATA_KEY_TEXT                                                                                                  \
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "  \
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
#define TOO_LONG_253 "must be no more than 253 bytes"
#define TOO_LONG_63 "must be no more than 63 bytes"

static bool lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool alphanumeric(char c)
{
    return lower_or_digit(c) || (c >= 'A' && c <= 'Z');
}

/* LABEL_RE over exactly these bytes. */
static bool is_label(const char *s, size_t len)
{
    if (len == 0 || !lower_or_digit(s[0]) || !lower_or_digit(s[len - 1]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!lower_or_digit(s[i]) && s[i] != '-')
            return false;
    return true;
}

static bool is_subdomain(const char *s, size_t len)
{
    const char *end = s + len;

    for (;;) {
        const char *dot = memchr(s, '.', (size_t)(end - s));
        if (!is_label(s, (size_t)((dot ? dot : end) - s)))
            return false;
        if (!dot)
            return true;
        s = dot + 1;
    }
}

static bool is_qualified_part(const char *s)
{
    size_t len = strlen(s);

    if (len == 0 || !alphanumeric(s[0]) || !alphanumeric(s[len - 1]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!alphanumeric(s[i]) && !strchr("-_.", s[i]))
            return false;
    return true;
}

const char *name_check_subdomain(const char *name)
{
    size_t len = strlen(name);

    if (len > NAME_SUBDOMAIN_MAX)
        return TOO_LONG_253;
    return is_subdomain(name, len) ? NULL : SUBDOMAIN_TEXT;
}

const char *name_check_label(const char *name)
{
    size_t len = strlen(name);

    if (len > NAME_LABEL_MAX)
        return TOO_LONG_63;
    return is_label(name, len) ? NULL : LABEL_TEXT;
}

const char *name_check_dns1035_label(const char *name)
{
    size_t len = strlen(name);

    if (len > NAME_LABEL_MAX)
        return TOO_LONG_63;
    return is_label(name, len) && name[0] >= 'a' ? NULL : DNS1035_TEXT;
}

const char *name_check_path_segment(const char *name)
{
    if (streq(name, "."))
        return "may not be '.'";
    if (streq(name, ".."))
        return "may not be '..'";
    if (strchr(name, '/'))
        return "may not contain '/'";
    return strchr(name, '%') ? "may not contain '%'" : NULL;
}

const char *name_check_data_key(const char *name)
{
    if (strlen(name) > NAME_SUBDOMAIN_MAX)
        return TOO_LONG_253;
    if (!*name)
        return DATA_KEY_TEXT;
    for (const char *p = name; *p; p++)
        if (!alphanumeric(*p) && !strchr("-._", *p))
            return DATA_KEY_TEXT;
    if (streq(name, "."))
        return "must not be '.'";
    if (streq(name, ".."))
        return "must not be '..'";
    return str_skip_prefix(name, "..") ? "must not start with '..'" : NULL;
}

const char *name_check_qualified(const char *name)
{
    const char *slash = strchr(name, '/'), *part = slash ? slash + 1 : name;

    if (slash && strchr(part, '/'))
        return "a qualified name " QUALIFIED_TEXT
               " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
    if (slash) {
        size_t len = (size_t)(slash - name);
        if (len == 0)
            return "prefix part must be non-empty";
        if (len > NAME_SUBDOMAIN_MAX)
            return "prefix part " TOO_LONG_253;
        if (!is_subdomain(name, len))
            return "prefix part " SUBDOMAIN_TEXT;
    }
    if (!*part)
        return "name part must be non-empty";
    if (strlen(part) > NAME_LABEL_MAX)
        return "name part " TOO_LONG_63;
    return is_qualified_part(part) ? NULL : "name part " QUALIFIED_TEXT;
}

const char *name_check_annotation_key(const char *name)
{
    _cleanup_free_ char *lower = xstrdup(name);

    for (char *p = lower; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return name_check_qualified(lower);
}

const char *name_check_label_value(const char *name)
{
    if (strlen(name) > NAME_LABEL_MAX)
        return TOO_LONG_63;
    return !*name || is_qualified_part(name) ? NULL : LABEL_VALUE_TEXT;
}

const char *name_check_env_var(const char *name)
{
    static const char text[] = "a valid environment variable name must consist only of printable ASCII characters "
                               "other than '='";

    if (!*name)
        return text;
    for (const char *p = name; *p; p++)
        if (*p < ' ' || *p > '~' || *p == '=')
            return text;
    return NULL;
}

const char *name_check_port(const char *name)
{
    size_t len = strlen(name);
    bool letter = false;

    if (len > NAME_PORT_MAX)
        return "must be no more than 15 bytes";
    for (size_t i = 0; i < len; i++) {
        if (!lower_or_digit(name[i]) && name[i] != '-')
            return "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
        letter |= name[i] >= 'a';
    }
    if (!letter)
        return "must contain at least one letter (a-z)";
    if (strstr(name, "--"))
        return "must not contain consecutive hyphens";
    return name[0] == '-' || name[len - 1] == '-' ? "must not begin or end with a hyphen" : NULL;
}

const char *name_check_prefix(name_rule *rule, const char *prefix)
{
    size_t len = strlen(prefix);
    _cleanup_free_ char *filled = xstrdup(prefix);

    if (len > 1 && filled[len - 1] == '-')
        filled[len - 1] = 'a';
    return rule(filled);
}
