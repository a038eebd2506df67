/* Aborting on programming errors, and the allocators that abort when memory runs out. */

#include "base/must.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static atomic_ulong n_bugs;

_Noreturn void must_fail(const char *cond, const char *file, int line)
{
    /* Not through the logger: it may be what is broken. */
    (void)dprintf(STDERR_FILENO, "%s:%d: must hold: %s\n", file, line, cond);
    abort();
}

bool bug_report(const char *cond, const char *file, int line)
{
    atomic_fetch_add_explicit(&n_bugs, 1, memory_order_relaxed);
    log_error("bug", LOG_S("condition", cond), LOG_S("file", file), LOG_I("line", line));
    return true;
}

unsigned long bug_count(void)
{
    return atomic_load_explicit(&n_bugs, memory_order_relaxed);
}

static void *check(void *p, size_t n)
{
    if (!p) {
        (void)dprintf(STDERR_FILENO, "out of memory: %zu bytes\n", n);
        abort();
    }
    return p;
}

void *xmalloc(size_t n)
{
    return check(malloc(n ? n : 1), n);
}

void *xcalloc(size_t n, size_t size)
{
    return check(calloc(n ? n : 1, size ? size : 1), n);
}

void *xrealloc(void *p, size_t n)
{
    return check(realloc(p, n ? n : 1), n);
}

void *xreallocarray(void *p, size_t n, size_t size)
{
    size_t total;
    must(!__builtin_mul_overflow(n, size, &total));
    return xrealloc(p, total);
}

char *xstrdup(const char *s)
{
    return xstrndup(s, strlen(s));
}

char *xstrndup(const char *s, size_t n)
{
    n = strnlen(s, n);
    char *p = xmalloc(n + 1);
    memcpy(p, s, n);
    p[n] = 0;
    return p;
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *p = NULL;
    int n = vasprintf(&p, fmt, ap);
    va_end(ap);
    return check(n < 0 ? NULL : p, 0);
}
