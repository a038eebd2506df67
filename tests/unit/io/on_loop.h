#pragma once
/* A loop of its own around each test, which must leave no stream and no descriptor behind. */

#include "util.h"

static struct io_loop *loop;
static size_t fds_before;

static inline int loop_open(void **state)
{
    fds_before = n_open_fds();
    loop = io_loop_new();
    return 0;
}

static inline int loop_close(void **state)
{
    io_loop_free(loop);
    assert_int_equal(io_stream_count(), 0);
    assert_int_equal(n_open_fds(), fds_before);
    return 0;
}

/* In a group that begins with first_loop. */
#define ON_LOOP(f) cmocka_unit_test_setup_teardown(f, loop_open, loop_close)
