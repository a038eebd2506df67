/* Errors and cancellation tokens. */

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/must.h"
#include "client/internal.h"

static const char *const names[] = {
    [OSB_OK] = "ok",
    [OSB_EINVALID] = "invalid",
    [OSB_EUNAUTHORIZED] = "unauthorized",
    [OSB_ENOTFOUND] = "not_found",
    [OSB_ECONFLICT] = "conflict",
    [OSB_ELIMIT] = "limit",
    [OSB_ETIMEOUT] = "timeout",
    [OSB_ENOTREADY] = "not_ready",
    [OSB_ECANCELED] = "canceled",
    [OSB_ENETWORK] = "network",
    [OSB_ESERVER] = "server",
    [OSB_EPROTOCOL] = "protocol",
    [OSB_EUNSUPPORTED] = "unsupported",
    [OSB_EIO] = "io",
};

const char *osb_code_name(enum osb_code code)
{
    return (size_t)code < ARRAY_LEN(names) ? names[code] : "unknown";
}

const char *osb_version(void)
{
    return OSB_VERSION;
}

int osb_fail(struct osb_error *e, enum osb_code code, const char *fmt, ...)
{
    if (e) {
        va_list ap;
        e->code = code;
        va_start(ap, fmt);
        (void)vsnprintf(e->message, sizeof(e->message), fmt, ap);
        va_end(ap);
    }
    return -1;
}

enum osb_code osb_code_from_status(int status)
{
    switch (status) {
    case 401:
    case 403:
        return OSB_EUNAUTHORIZED;
    case 404:
        return OSB_ENOTFOUND;
    case 409:
    case 412:
        return OSB_ECONFLICT;
    case 413:
    case 429:
        return OSB_ELIMIT;
    case 501:
        return OSB_EUNSUPPORTED;
    case 504:
        return OSB_ETIMEOUT;
    default:
        return status >= 500 ? OSB_ESERVER : OSB_EINVALID;
    }
}

/* A token is an eventfd: writing to it is safe in a signal handler, and it can be polled. */
struct osb_token {
    int fd;
};

struct osb_token *osb_token_new(void)
{
    struct osb_token *t = NEW(struct osb_token);
    t->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->fd < 0) {
        free(t);
        return NULL;
    }
    return t;
}

void osb_token_free(struct osb_token *t)
{
    if (t) {
        (void)close(t->fd);
        free(t);
    }
}

void osb_cancel(struct osb_token *t)
{
    int saved = errno;
    uint64_t one = 1;
    if (t && write(t->fd, &one, sizeof(one)) < 0) {
        /* full means: already canceled */
    }
    errno = saved;
}

int token_fd(const struct osb_token *t)
{
    return t ? t->fd : -1;
}

bool token_canceled(const struct osb_token *t)
{
    struct pollfd p = {.fd = token_fd(t), .events = POLLIN};
    return t && poll(&p, 1, 0) == 1;
}
