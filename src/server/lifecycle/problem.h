#pragma once
/* Why a request cannot be served: HTTP status, stable code, a sentence, and for requests that do
 * not fit their schema the list of what is wrong with them. Filled by lifecycle, written by
 * api/error.c. */

#include <stdarg.h>

#include "base/err.h"
#include "json/field.h"

#define CODE_GENERAL "GENERAL::UNKNOWN_ERROR"
#define CODE_INVALID "SANDBOX::INVALID_PARAMETER"
#define CODE_NOT_FOUND "DOCKER::SANDBOX_NOT_FOUND"

struct problem {
    int status;       /* 0: none */
    const char *code; /* static */
    char message[ERR_MSG_MAX];
    int retry_after_s; /* 0: no Retry-After */
    char *detail;      /* JSON array for 422, or NULL; heap */
};

void problem_done(struct problem *p);
static inline void problem_done_cleanup(struct problem *p)
{
    problem_done(p);
}
/* All return -1. */
int problem_set(struct problem *p, int status, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Status by the kind of error, unless it is one that `status` describes better (500, 503). */
int problem_err(struct problem *p, int status, const char *code, const struct err *e);
/* 422. `root` is the decoded body (for the "input" of each entry), `where` is "body" or "query". */
int problem_issues(struct problem *p, const char *where, const struct json_issues *is,
                   const struct json *root);
/* 422 with one entry that is not about a field: {type, loc, msg} with a loc given as JSON. */
int problem_invalid(struct problem *p, const char *type, const char *loc_json, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
