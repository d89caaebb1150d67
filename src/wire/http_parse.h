/*
 * The HTTP/1.1 codec: heads and bodies, both sides. Pure: bytes in, structures out. Strict (RFC 9112 where it says
 * MUST, and stricter where two readings are possible): what is ambiguous is an error, never a guess.
 */
#pragma once

#include "wire/http.h"

struct http_head {
    char *method, *target; /* requests */
    int status;            /* responses */
    int minor;             /* HTTP/1.minor */
    struct http_headers headers;
};
void http_head_free(struct http_head *h);

/*
 * Parses a whole head from buf. Returns its length, 0 when more bytes are needed, -EBADMSG when malformed,
 * -ENAMETOOLONG when its first line alone is longer than max and -EMSGSIZE when the whole is. *scanned (start with 0)
 * remembers how far the end was looked for.
 */
ssize_t http_parse_request_head(const char *buf, size_t len, size_t max, size_t *scanned, struct http_head *ret,
                                struct error *err);
ssize_t http_parse_response_head(const char *buf, size_t len, size_t max, size_t *scanned, struct http_head *ret,
                                 struct error *err);

/* Whether a request's method, target and Host may stand together: part of parsing, and what HTTP/2 requests need too.
 */
int http_check_request(const struct http_head *h, struct error *err);

enum http_body_kind { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED, HTTP_BODY_UNTIL_CLOSE };

struct http_body_reader {
    enum http_body_kind kind;
    uint64_t left; /* of the length, or of the chunk */
    int state;
    bool done;
    size_t line_len;  /* of a chunk-size or trailer line so far */
    size_t discarded; /* bytes of extensions and trailers */
};

/* What body a message has, from its head. Conflicting or repeated lengths are -EBADMSG. */
int http_body_of_request(const struct http_head *h, struct http_body_reader *ret, struct error *err);
int http_body_of_response(const struct http_head *h, bool to_head_request, struct http_body_reader *ret,
                          struct error *err);
/*
 * Feeds bytes; data pieces go to sink. Returns how many bytes were consumed (all of them unless the body ended
 * within), or -EBADMSG.
 */
ssize_t http_body_feed(struct http_body_reader *b, const char *data, size_t len,
                       void (*sink)(void *arg, const char *data, size_t len), void *arg);

/* Whether the connection may be used again after this message. */
bool http_keep_alive(const struct http_head *h);
