#include "apiserver/cel/internal.h"
#include "base/memory.h"

#include <ctype.h>
#include <stdarg.h>

int cel_error_at(const char *text, size_t position, struct error *err, const char *fmt, ...)
{
    size_t line = 1, start = 0;
    va_list ap;

    for (size_t i = 0; i < position && text[i]; i++)
        if (text[i] == '\n') {
            line++;
            start = i + 1;
        }
    va_start(ap, fmt);
    _cleanup_free_ char *what = xvasprintf(fmt, ap);
    va_end(ap);
    size_t len = strcspn(text + start, "\n"), column = position - start;
    _cleanup_free_ char *dots = xmalloc(column + 1);
    memset(dots, '.', column);
    dots[column] = '\0';
    return error_set(err, EINVAL, "ERROR: <input>:%zu:%zu: %s\n | %.*s\n | %s^", line, column + 1, what, (int)len,
                     text + start, dots);
}

static int bad(const struct cel_lexer *l, size_t position, struct error *err, const char *what)
{
    return cel_error_at(l->text, position, err, "Syntax error: %s", what);
}

static void skip_blank(struct cel_lexer *l)
{
    for (;;) {
        while (l->position < l->len && isspace((unsigned char)l->text[l->position]))
            l->position++;
        if (l->text[l->position] != '/' || l->text[l->position + 1] != '/')
            return;
        l->position += strcspn(l->text + l->position, "\n");
    }
}

static int read_number(struct cel_lexer *l, struct cel_token *t, struct error *err)
{
    const char *start = l->text + l->position, *p = start;
    bool hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X'), fraction = false;

    if (hex) {
        for (p += 2; isxdigit((unsigned char)*p); p++)
            ;
    } else {
        while (isdigit((unsigned char)*p))
            p++;
        if (*p == '.' && isdigit((unsigned char)p[1])) {
            fraction = true;
            for (p++; isdigit((unsigned char)*p); p++)
                ;
        }
        if ((*p == 'e' || *p == 'E') &&
            (isdigit((unsigned char)p[1]) || ((p[1] == '-' || p[1] == '+') && isdigit((unsigned char)p[2])))) {
            fraction = true;
            for (p += 2; isdigit((unsigned char)*p); p++)
                ;
        }
    }
    t->text = (struct cel_string){start, (size_t)(p - start)};
    if (fraction) {
        t->kind = CEL_TOKEN_DOUBLE;
        t->d = strtod(start, NULL);
    } else {
        char *end;
        errno = 0;
        t->u = strtoull(start, &end, hex ? 16 : 10);
        if (errno || end != p)
            return bad(l, t->position, err, "invalid number");
        t->kind = CEL_TOKEN_INT;
        if (*p == 'u' || *p == 'U') {
            t->kind = CEL_TOKEN_UINT;
            p++;
        }
    }
    l->position = (size_t)(p - l->text);
    if (isalnum((unsigned char)*p) || *p == '_')
        return bad(l, t->position, err, "invalid number");
    return 0;
}

static void put_utf8(struct strbuf *b, uint32_t c)
{
    if (c < 0x80) {
        strbuf_addc(b, (char)c);
    } else if (c < 0x800) {
        strbuf_addc(b, (char)(0xc0 | c >> 6));
        strbuf_addc(b, (char)(0x80 | (c & 0x3f)));
    } else if (c < 0x10000) {
        strbuf_addc(b, (char)(0xe0 | c >> 12));
        strbuf_addc(b, (char)(0x80 | (c >> 6 & 0x3f)));
        strbuf_addc(b, (char)(0x80 | (c & 0x3f)));
    } else {
        strbuf_addc(b, (char)(0xf0 | c >> 18));
        strbuf_addc(b, (char)(0x80 | (c >> 12 & 0x3f)));
        strbuf_addc(b, (char)(0x80 | (c >> 6 & 0x3f)));
        strbuf_addc(b, (char)(0x80 | (c & 0x3f)));
    }
}

/* digits of the base behind *p; false unless there are exactly that many. */
static bool read_code(const char **p, int digits, int base, uint32_t *ret)
{
    uint32_t value = 0;

    for (int i = 0; i < digits; i++, (*p)++) {
        unsigned char c = (unsigned char)**p;
        int d = isdigit(c) ? c - '0' : isxdigit(c) ? tolower(c) - 'a' + 10 : 99;
        if (d >= base)
            return false;
        value = value * (uint32_t)base + (uint32_t)d;
    }
    *ret = value;
    return true;
}

/* *p is behind the backslash. */
static bool read_escape(const char **p, bool bytes, struct strbuf *b)
{
    static const char plain[] = "abfnrtv\\?\"'`", meaning[] = "\a\b\f\n\r\t\v\\?\"'`";
    char c = **p;
    const char *found = c ? strchr(plain, c) : NULL;
    uint32_t code;

    if (found) {
        (*p)++;
        strbuf_addc(b, meaning[found - plain]);
        return true;
    }
    bool wide = c == 'u' || c == 'U';
    if (wide || c == 'x' || c == 'X') {
        (*p)++;
        if (!read_code(p, c == 'u' ? 4 : c == 'U' ? 8 : 2, 16, &code))
            return false;
    } else if (c < '0' || c > '3' || !read_code(p, 3, 8, &code)) {
        return false;
    }
    if (bytes && wide)
        return false;
    if (bytes) {
        strbuf_addc(b, (char)code);
        return true;
    }
    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return false; /* NUL too: strings of JSON members could not hold it */
    put_utf8(b, code);
    return true;
}

static int read_string(struct cel_lexer *l, struct cel_token *t, bool raw, bool bytes, struct error *err)
{
    const char *p = l->text + l->position, quote = *p;
    bool triple = p[1] == quote && p[2] == quote;
    _cleanup_(strbuf_free) struct strbuf b = {0};

    p += triple ? 3 : 1;
    for (;;) {
        if (!*p || (!triple && (*p == '\n' || *p == '\r')))
            return bad(l, t->position, err, "unterminated string");
        if (*p == quote && (!triple || (p[1] == quote && p[2] == quote)))
            break;
        if (*p != '\\' || raw) {
            strbuf_addc(&b, *p++);
            continue;
        }
        p++;
        if (!read_escape(&p, bytes, &b))
            return bad(l, (size_t)(p - l->text), err, "invalid escape sequence");
    }
    l->position = (size_t)(p - l->text) + (triple ? 3 : 1);
    t->kind = bytes ? CEL_TOKEN_BYTES : CEL_TOKEN_STRING;
    t->text = (struct cel_string){arena_strndup(l->arena, strbuf_str(&b), b.len), b.len};
    return 0;
}

/* r"", b"", rb"" and br"" in any case: how many letters stand before the quote, or 0. */
static size_t string_prefix(const char *p, bool *raw, bool *bytes)
{
    size_t n;

    *raw = *bytes = false;
    for (n = 0; n < 2; n++) {
        char c = (char)tolower((unsigned char)p[n]);
        if (c == 'r' && !*raw)
            *raw = true;
        else if (c == 'b' && !*bytes)
            *bytes = true;
        else
            break;
    }
    return p[n] == '"' || p[n] == '\'' ? n : 0;
}

static int read_quoted_ident(struct cel_lexer *l, struct cel_token *t, struct error *err)
{
    const char *start = l->text + l->position + 1;
    size_t len = strcspn(start, "`\n");

    if (start[len] != '`' || len == 0)
        return bad(l, t->position, err, "unterminated identifier");
    t->kind = CEL_TOKEN_QUOTED_IDENT;
    t->text = (struct cel_string){start, len};
    l->position += len + 2;
    return 0;
}

int cel_next_token(struct cel_lexer *l, struct cel_token *ret, struct error *err)
{
    static const char *const punctuation[] = {"&&", "||", "==", "!=", "<=", ">=", ".?", "[?", "{?",
                                              "<",  ">",  "+",  "-",  "*",  "/",  "%",  "!",  "?",
                                              ":",  ".",  ",",  "(",  ")",  "[",  "]",  "{",  "}"};
    bool raw, bytes;

    skip_blank(l);
    const char *p = l->text + l->position;
    *ret = (struct cel_token){.kind = CEL_TOKEN_END, .position = l->position};
    if (l->position >= l->len)
        return 0;
    if (isdigit((unsigned char)*p) || (*p == '.' && isdigit((unsigned char)p[1])))
        return read_number(l, ret, err);
    size_t prefix = string_prefix(p, &raw, &bytes);
    if (prefix || *p == '"' || *p == '\'') {
        l->position += prefix;
        return read_string(l, ret, raw, bytes, err);
    }
    if (*p == '`')
        return read_quoted_ident(l, ret, err);
    if (isalpha((unsigned char)*p) || *p == '_') {
        size_t n = 1;
        while (isalnum((unsigned char)p[n]) || p[n] == '_')
            n++;
        ret->kind = CEL_TOKEN_IDENT;
        ret->text = (struct cel_string){p, n};
        l->position += n;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(punctuation); i++) {
        size_t n = strlen(punctuation[i]);
        if (strncmp(p, punctuation[i], n) != 0)
            continue;
        ret->kind = CEL_TOKEN_PUNCT;
        ret->text = (struct cel_string){punctuation[i], n};
        l->position += n;
        return 0;
    }
    return bad(l, l->position, err, "token recognition error");
}
