#pragma once
/* Strict HTTP/1.1 message heads (RFC 9112), for requests and responses, server and client alike.
 *
 * Works on a contiguous buffer and copies nothing: all views point into it. What two parsers could
 * read differently is refused, because this parser sits in front of others: bare CR or LF,
 * obs-fold, space before the colon, any Content-Length that is not one run of digits,
 * Transfer-Encoding with anything but a final single "chunked", both together, control bytes, empty
 * or duplicate Host. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "http/limits.h"

struct h1_header {
    struct str name, value; /* value trimmed */
};

enum h1_result { H1_NEED_MORE, H1_DONE, H1_BAD };

struct h1_head {
    /* request */
    struct str method, target; /* target as sent */
    /* response */
    int status;
    struct str reason;
    /* both */
    int minor; /* HTTP/1.<minor>: 0 or 1 */
    size_t n_headers;
    struct h1_header headers[HTTP_MAX_HEADERS];
    /* -1: not given. In a response that has no body whatever its headers say (1xx, 204, 304,
     * answers to HEAD, 2xx to CONNECT): 0, and chunked is false. Neither length nor chunked in any
     * other response: the body ends with the connection, and keep_alive is false. */
    int64_t content_length;
    bool chunked, keep_alive, expect_continue, has_upgrade;
    struct str host; /* request: Host, or the authority of an absolute-form target */
    /* On H1_BAD: the status to answer with (request: 400, 414, 431, 501, 505; response: 502) and
     * why. */
    int bad_status;
    const char *bad_reason;
};

/* `n` bytes are there so far. On H1_DONE *ret_len is the length of the head including the empty
 * line. Limits come from http/limits.h. An empty line before a request is tolerated (RFC 9112 2.2).
 */
enum h1_result h1_parse_request(const char *p, size_t n, struct h1_head *ret, size_t *ret_len);
/* `request_method` decides whether a body follows (HEAD, CONNECT). */
enum h1_result h1_parse_response(const char *p, size_t n, struct str request_method,
                                 struct h1_head *ret, size_t *ret_len);

/* First header of that name (ASCII case-insensitive), or STR_NULL. */
struct str h1_header_get(const struct h1_header *h, size_t n, struct str name);
/* Is `token` in the comma-separated list of any header of that name? */
bool h1_header_has_token(const struct h1_header *h, size_t n, struct str name, struct str token);
bool h1_is_token(struct str s);       /* RFC 9110 token */
bool h1_is_field_value(struct str s); /* no CR, LF, NUL or other control bytes but HTAB */

/* Chunked bodies, incremental, in place. Zero is the start state. */
struct h1_chunked {
    uint8_t state;
    uint8_t n_digits;
    uint16_t ext_len;     /* bytes of extension in this chunk line */
    uint32_t trailer_len; /* bytes of trailers, dropped */
    uint64_t left;        /* bytes of this chunk still to come */
};
/* Consumes from *in. Returns 1 with a piece of data in *ret_data, 0 when more input is needed, 2 at
 * the end of the body (*in is what follows it), -EPROTO when it is malformed. Call again while 1.
 */
int h1_chunked_next(struct h1_chunked *c, struct str *in, struct str *ret_data);
