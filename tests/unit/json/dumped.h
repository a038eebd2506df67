#pragma once
/* What a parser made of a text, compared with the same as compact JSON. */

#include "../test.h"
#include "json/json.h"

static inline void assert_dumped(struct str text, struct json *take_j, const struct err *e,
                                 const char *want)
{
    if (!take_j) {
        print_error("%.*s: %s\n", STR_FMT(text), e->msg);
    }
    assert_non_null(take_j);
    struct buf b = BUF_INIT(100000);
    assert_int_equal(json_dump(take_j, &b, 0), 0);
    assert_string_equal(buf_cstr(&b), want);
    buf_done(&b);
    json_free(take_j);
}
