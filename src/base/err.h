#pragma once
/* Errors a user could see: a code, the errno behind it (if any) and one sentence.
 *
 * Two tiers, and only two. Codecs and I/O return 0 / a count, or a negative errno; they neither
 * log nor allocate. Everything above takes a last `struct err *e`, returns 0 or -1 (or NULL), and
 * has filled `e` when it failed. An err lives on the caller's stack, zeroed: `struct err e = {0};`.
 * Set it once where the cause is known, wrap it at each noun boundary, log it once at the top. */

#include <stdarg.h>

enum err_code {
    ERR_NONE,
    ERR_INVALID,      /* the caller's input is wrong: 400 */
    ERR_UNAUTHORIZED, /* who are you: 401 */
    ERR_DENIED,       /* known, but not allowed: 403 */
    ERR_NOT_FOUND,    /* 404 */
    ERR_CONFLICT,     /* state does not allow it now: 409 */
    ERR_LIMIT,        /* a named limit was reached: 413, 429 or 507 by context */
    ERR_UNSUPPORTED,  /* this build, host or runtime cannot: 501 */
    ERR_TIMEOUT,      /* 504 */
    ERR_UNAVAILABLE,  /* try again later: 503 */
    ERR_IO,           /* the system refused: 500 */
    ERR_INTERNAL,     /* our fault: 500 */
    ERR__COUNT
};

#define ERR_MSG_MAX 512 /* limit: bytes of an error message; longer ones are cut */

struct err {
    enum err_code code;
    int sys; /* errno behind it, or 0 */
    char msg[ERR_MSG_MAX];
};

/* All three return -1, so that callers write `return err_set(e, ...)`. `e` may be NULL. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Code derived from `errnum` (positive or negative errno); appends ": <strerror>". */
int err_sys(struct err *e, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Prefixes "context: " and keeps code and errno. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "invalid", "not_found", ...: stable, for logs and tests. */
const char *err_code_name(enum err_code code);
enum err_code err_code_from_errno(int errnum);
