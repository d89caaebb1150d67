#include "apiserver/regex.h"

#include "base/memory.h"
#include "base/strutil.h"

#include <ctype.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/*
 * Steps of backtracking, about 10 ns each: in proportion to the text, up to a total. PCRE2 counts them anew for every
 * place a match may start at. A pattern that begins with ^ has one; for others the total is divided, with a minimum
 * that ordinary patterns need at one place.
 */
#define MATCH_STEPS_TOTAL 500000
#define MATCH_STEPS_BASE 20000
#define MATCH_STEPS_A_BYTE 100
#define MATCH_STEPS_MIN 500
#define MATCH_HEAP_KIB 4096

struct regex {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    bool anchored; /* can match at the start only */
};

static int refuse(struct error *err, const char *pattern, const char *what)
{
    return error_set(err, EINVAL, "error parsing regexp: %s: `%s`", what, pattern);
}

/* Behind "(?": what RE2 knows are (?:, (?P<name>, (?<name> and flags. */
static bool known_group(const char *p)
{
    if (*p == 'P')
        return p[1] == '<';
    if (*p == '<')
        return p[1] == '_' || isalpha((unsigned char)p[1]);
    p += strspn(p, "imsU-");
    return *p == ':' || *p == ')';
}

/* Behind a class's "[": the place of its "]". */
static const char *skip_class(const char *p)
{
    if (*p == '^')
        p++;
    if (*p == ']')
        p++;
    for (; *p && *p != ']'; p++) {
        if (*p == '\\' && p[1]) {
            p++;
        } else if (*p == '[' && p[1] == ':') {
            const char *end = strstr(p + 2, ":]");
            if (end)
                p = end + 1;
        }
    }
    return p;
}

/* Finds what PCRE2 would take and RE2 would not. */
static int check_syntax(const char *pattern, struct error *err)
{
    static const char escapes[] = "aftnrvxsSdDwWbBAzQEpP01234567"; /* letters and digits RE2 knows behind a backslash */
    bool quantified = false;

    for (const char *p = pattern; *p; p++) {
        bool quantifier =
            *p == '*' || *p == '+' || *p == '?' || (*p == '{' && isdigit((unsigned char)p[1]) && strchr(p, '}'));
        switch (*p) {
        case '\\':
            p++;
            if (!*p)
                return refuse(err, pattern, "trailing backslash at end of expression");
            if (isalnum((unsigned char)*p) && (!strchr(escapes, *p) || (*p >= '1' && *p <= '7')))
                return refuse(err, pattern, "invalid escape sequence");
            if (*p == 'Q') {
                const char *end = strstr(p, "\\E");
                p = end ? end + 1 : p + strlen(p) - 1;
            }
            break;
        case '[':
            p = skip_class(p + 1);
            if (!*p)
                return refuse(err, pattern, "missing closing ]");
            break;
        case '(':
            if (p[1] == '*' || (p[1] == '?' && !known_group(p + 2)))
                return refuse(err, pattern, "invalid or unsupported Perl syntax");
            if (p[1] == '?') /* not a quantifier */
                p++;
            break;
        case '+':
            if (quantified)
                return refuse(err, pattern, "invalid nested repetition operator");
            break;
        case '*':
        case '{':
            if (quantified && quantifier)
                return refuse(err, pattern, "invalid nested repetition operator");
            break;
        default:
            break;
        }
        if (*p == '{' && quantifier)
            p = strchr(p, '}');
        /* `a*?` is lazy; nothing may repeat after that either, and PCRE2 refuses it. */
        quantified = quantifier;
    }
    return 0;
}

struct regex *regex_compile(const char *pattern, struct error *err)
{
    _cleanup_(regex_free_p) struct regex *re = xcalloc(1, sizeof(*re));
    int code;
    PCRE2_SIZE offset;

    if (strlen(pattern) > REGEX_PATTERN_MAX) {
        error_set(err, EINVAL, "the pattern is longer than %d bytes", REGEX_PATTERN_MAX);
        return NULL;
    }
    if (check_syntax(pattern, err) < 0)
        return NULL;
    re->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                             PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &code, &offset, NULL);
    if (!re->code) {
        PCRE2_UCHAR text[120];
        (void)pcre2_get_error_message(code, text, sizeof(text)); /* a text cut short is one, too */
        (void)refuse(err, pattern, (const char *)text);          /* NULL is what tells */
        return NULL;
    }
    uint32_t options = 0;
    (void)pcre2_pattern_info(re->code, PCRE2_INFO_ALLOPTIONS, &options); /* cannot fail */
    re->anchored = options & PCRE2_ANCHORED;
    re->match = pcre2_match_data_create(1, NULL);
    re->limits = pcre2_match_context_create(NULL);
    if (!re->match || !re->limits)
        abort();
    (void)pcre2_set_heap_limit(re->limits, MATCH_HEAP_KIB); /* cannot fail */
    return take_ptr(re);
}

void regex_free(struct regex *re)
{
    if (!re)
        return;
    pcre2_match_context_free(re->limits);
    pcre2_match_data_free(re->match);
    pcre2_code_free(re->code);
    free(re);
}

int regex_find(struct regex *re, const char *s, size_t len, size_t from, size_t *ret_start, size_t *ret_end)
{
    size_t total = MIN(MATCH_STEPS_BASE + len * MATCH_STEPS_A_BYTE, (size_t)MATCH_STEPS_TOTAL);
    size_t steps = re->anchored ? total : total / (len + 1);

    (void)pcre2_set_match_limit(re->limits, (uint32_t)MAX(steps, (size_t)MATCH_STEPS_MIN)); /* cannot fail */
    /* Whoever goes on behind a match has had the text checked. */
    uint32_t options = from ? PCRE2_NO_UTF_CHECK : 0;
    int r = pcre2_match(re->code, (PCRE2_SPTR)s, len, from, options, re->match, re->limits);
    if (r == PCRE2_ERROR_NOMATCH)
        return 0;
    if (r < 0)
        return -E2BIG;
    PCRE2_SIZE *where = pcre2_get_ovector_pointer(re->match);
    if (ret_start)
        *ret_start = where[0];
    if (ret_end)
        *ret_end = where[1];
    return 1;
}
