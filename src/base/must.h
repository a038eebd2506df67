#pragma once
/* Programming errors, and memory.
 *
 * must() is always compiled in and aborts with file and line: the process is in a state nobody
 * thought of. bug_if() reports and returns true, so that the caller can drop one connection or one
 * request instead of the process. assert() is not used. Running out of memory aborts: sizes that a
 * user controls are limited before they are allocated. */

#include <stdbool.h>
#include <stddef.h>

#define must(cond) ((cond) ? (void)0 : must_fail(#cond, __FILE__, __LINE__))
#define bug_if(cond) (__builtin_expect(!!(cond), 0) && bug_report(#cond, __FILE__, __LINE__))

_Noreturn void must_fail(const char *cond, const char *file, int line);
bool bug_report(const char *cond, const char *file, int line);
unsigned long bug_count(void);

void *xmalloc(size_t n) __attribute__((malloc, alloc_size(1), returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, alloc_size(1, 2), returns_nonnull));
void *xrealloc(void *p, size_t n) __attribute__((alloc_size(2), returns_nonnull));
/* n * size with overflow check. */
void *xreallocarray(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), malloc, returns_nonnull));

#define NEW(type) ((type *)xcalloc(1, sizeof(type)))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
