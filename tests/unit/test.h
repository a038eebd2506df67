#pragma once
/* cmocka, and the little that unit tests of several rooms share. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"

#define assert_str(s, expected) assert_str_(s, expected, __FILE__, __LINE__)
static inline __attribute__((unused)) void assert_str_(struct str s, const char *expected,
                                                       const char *file, int line)
{
    if (!str_eq(s, str_from(expected))) {
        print_error("\"%.*s\" is not \"%s\"\n", STR_FMT(s), expected);
        _fail(file, line);
    }
}

/* A small generator with a fixed start: a failing case comes back on the next run. */
static inline __attribute__((unused)) uint32_t test_rand(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Runs fn in a child and expects it to abort. */
static inline __attribute__((unused)) void assert_aborts(void (*fn)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)close(STDERR_FILENO);
        fn();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
