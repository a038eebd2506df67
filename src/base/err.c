/* Filling struct err. Messages are formatted aside first, so that an argument may point into the
 * message that is being replaced. */

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/must.h"
#include "base/utf8.h"

static const char *const code_names[] = {
    [ERR_NONE] = "none",
    [ERR_INVALID] = "invalid",
    [ERR_UNAUTHORIZED] = "unauthorized",
    [ERR_DENIED] = "denied",
    [ERR_NOT_FOUND] = "not_found",
    [ERR_CONFLICT] = "conflict",
    [ERR_LIMIT] = "limit",
    [ERR_UNSUPPORTED] = "unsupported",
    [ERR_TIMEOUT] = "timeout",
    [ERR_UNAVAILABLE] = "unavailable",
    [ERR_IO] = "io",
    [ERR_INTERNAL] = "internal",
};
_Static_assert(ARRAY_LEN(code_names) == ERR__COUNT, "every code has a name");

/* Cuts at the buffer's end, but never inside a character. */
static size_t format_v(char out[ERR_MSG_MAX], const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
static size_t format_v(char out[ERR_MSG_MAX], const char *fmt, va_list ap)
{
    int n = vsnprintf(out, ERR_MSG_MAX, fmt, ap);
    if (n < 0) {
        out[0] = 0;
        return 0;
    }
    if (n >= ERR_MSG_MAX) {
        size_t cut = utf8_floor(str_n(out, ERR_MSG_MAX - 1), ERR_MSG_MAX - 1);
        out[cut] = 0;
        return cut;
    }
    return (size_t)n;
}

static void append(char out[ERR_MSG_MAX], size_t n, const char *sep, const char *tail)
{
    char joined[ERR_MSG_MAX];
    int len = snprintf(joined, sizeof(joined), "%.*s%s%s", (int)n, out, sep, tail);
    if (len >= ERR_MSG_MAX) {
        joined[utf8_floor(str_n(joined, ERR_MSG_MAX - 1), ERR_MSG_MAX - 1)] = 0;
    }
    memcpy(out, joined, sizeof(joined));
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
    if (!e) {
        return -1;
    }
    char msg[ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)format_v(msg, fmt, ap);
    va_end(ap);
    e->code = code;
    e->sys = 0;
    memcpy(e->msg, msg, sizeof(msg));
    return -1;
}

int err_sys(struct err *e, int errnum, const char *fmt, ...)
{
    if (!e) {
        return -1;
    }
    int sys = errnum < 0 ? -errnum : errnum;
    char msg[ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    size_t n = format_v(msg, fmt, ap);
    va_end(ap);
    /* Unlike strerror(): no locale, no shared buffer. */
    const char *desc = strerrordesc_np(sys);
    char unknown[32];
    if (!desc) {
        (void)snprintf(unknown, sizeof(unknown), "error %d", sys);
        desc = unknown;
    }
    append(msg, n, ": ", desc);
    e->code = err_code_from_errno(sys);
    e->sys = sys;
    memcpy(e->msg, msg, sizeof(msg));
    return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e) {
        return -1;
    }
    char msg[ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    size_t n = format_v(msg, fmt, ap);
    va_end(ap);
    append(msg, n, ": ", e->msg);
    memcpy(e->msg, msg, sizeof(msg));
    return -1;
}

const char *err_code_name(enum err_code code)
{
    return (unsigned)code < ERR__COUNT ? code_names[code] : "unknown";
}

enum err_code err_code_from_errno(int errnum)
{
    switch (errnum < 0 ? -errnum : errnum) {
    case 0:
        return ERR_NONE;
    case ENOENT:
    case ESRCH:
        return ERR_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_DENIED;
    case EEXIST:
    case EBUSY:
    case ENOTEMPTY:
    case ETXTBSY:
        return ERR_CONFLICT;
    case EINVAL:
    case ENAMETOOLONG:
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
    case EXDEV:
    case EILSEQ:
    case EBADMSG:
        return ERR_INVALID;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMSGSIZE:
    case ERANGE:
    case E2BIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return ERR_LIMIT;
    case ENOSYS:
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
        return ERR_UNSUPPORTED;
    case ETIMEDOUT:
        return ERR_TIMEOUT;
    case EAGAIN:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return ERR_UNAVAILABLE;
    default:
        return ERR_IO;
    }
}
