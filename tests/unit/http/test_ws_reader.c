/* WebSocket message assembly: the same events however the bytes arrive, and every violation found.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/must.h"
#include "http/ws_reader.h"

/* Everything the reader said, as text: "T:hello P:ping C1000:bye" or "!1002". */
static void run(struct str in, size_t piece, bool is_server, size_t max, struct buf *log)
{
    struct ws_reader r;
    ws_reader_init(&r, is_server, max);
    buf_clear(log);
    char *copy = xmalloc(in.n ? in.n : 1);
    memcpy(copy, in.p, in.n);
    int rc = 0;
    for (size_t at = 0; at < in.n && rc >= 0; at += piece) {
        char *p = copy + at;
        size_t n = MIN(piece, in.n - at);
        struct ws_event ev;
        while ((rc = ws_reader_next(&r, &p, &n, &ev)) > 0) {
            static const char letter[] = "?TB?????CPO";
            (void)buf_add_char(log, letter[ev.opcode]);
            if (ev.opcode == WS_CLOSE) {
                (void)buf_printf(log, "%u", ev.code);
            }
            (void)buf_add_char(log, ':');
            (void)buf_add_str(log, ev.data);
            (void)buf_add_char(log, ' ');
        }
        if (rc == 0) {
            assert_int_equal(n, 0);
        }
    }
    if (rc < 0) {
        (void)buf_printf(log, "!%d", -rc);
    }
    free(copy);
    ws_reader_done(&r);
}

/* Runs at every piece size and expects the same each time. */
static void expect(struct str in, bool is_server, size_t max, const char *want)
{
    struct buf log = BUF_INIT(1 << 20);
    for (size_t piece = 1; piece <= in.n + 1; piece++) {
        run(in, piece, is_server, max, &log);
        assert_string_equal(buf_cstr(&log), want);
    }
    buf_done(&log);
}

#define CLIENT(lit, want) expect(str_n((lit), sizeof(lit) - 1), false, 100, (want))

static void test_messages(void **state)
{
    CLIENT("\x81\x05Hello", "T:Hello ");
    CLIENT("\x82\x03"
           "abc"
           "\x81\x02xy",
           "B:abc T:xy ");
    CLIENT("\x81\x00", "T: ");
    CLIENT("\x01\x03Hel\x80\x02lo", "T:Hello ");
    CLIENT("\x01\x03Hel\x00\x00\x80\x02lo\x82\x01z", "T:Hello B:z ");
    CLIENT("\x01\x00\x80\x00", "T: ");
    CLIENT("\x81\x03\xe2\x82\xac", "T:\xe2\x82\xac ");
    CLIENT("\x01\x01\xe2\x00\x01\x82\x80\x01\xac", "T:\xe2\x82\xac "); /* cut inside a character */
}

static void test_control_between(void **state)
{
    CLIENT("\x89\x00", "P: ");
    CLIENT("\x8a\x02hi", "O:hi ");
    CLIENT("\x01\x03Hel\x89\x04ping\x8a\x00\x80\x02lo", "P:ping O: T:Hello ");
    CLIENT("\x02\x01"
           "a"
           "\x88\x05\x03\xe8"
           "bye",
           "C1000:bye ");
    CLIENT("\x88\x00", "C1005: ");
    CLIENT("\x88\x02\x0f\xa0", "C4000: ");
}

static void test_masking(void **state)
{
    static const char masked[] = "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    struct str m = str_n(masked, sizeof(masked) - 1);
    expect(m, true, 100, "T:Hello ");
    expect(m, false, 100, "!1002"); /* a server never masks */
    expect(STR("\x81\x05Hello"), true, 100, "!1002");
    static const char frag[] =
        "\x01\x83\x37\xfa\x21\x3d\x7f\x9f\x4d\x80\x82\x01\x02\x03\x04\x6d\x6d";
    expect(str_n(frag, sizeof(frag) - 1), true, 100, "T:Hello ");
}

static void test_violations(void **state)
{
    CLIENT("\x80\x01"
           "a",
           "!1002"); /* continuation of nothing */
    CLIENT("\x01\x01"
           "a"
           "\x81\x01"
           "b",
           "!1002"); /* a new message inside one */
    CLIENT("\x81\x01"
           "a"
           "\xc1\x00",
           "T:a !1002");                     /* reserved bit */
    CLIENT("\x83\x00", "!1002");             /* reserved opcode */
    CLIENT("\x88\x01\x03", "!1002");         /* half a close code */
    CLIENT("\x88\x02\x03\xed", "!1002");     /* 1005 on the wire */
    CLIENT("\x88\x03\x03\xe8\xff", "!1007"); /* reason is not UTF-8 */
}

static void test_bad_text_fails_fast(void **state)
{
    CLIENT("\x81\x03"
           "a\xff"
           "b",
           "!1007");
    CLIENT("\x81\x02\xe2\x82", "!1007");         /* ends inside a character */
    CLIENT("\x01\x02\xed\xa0\x80\x00", "!1007"); /* surrogate, before the message ends */
    /* The frame promises 90 bytes; the fault is known at the second. */
    struct buf log = BUF_INIT(1000);
    run(str_n("\x81\x5a"
              "a\xc0",
              4),
        1, false, 100, &log);
    assert_string_equal(buf_cstr(&log), "!1007");
    buf_done(&log);
    CLIENT("\x82\x02\xff\xfe", "B:\xff\xfe "); /* binary is not text */
}

static void test_size_limit(void **state)
{
    struct str five = STR("\x82\x05"
                          "12345");
    expect(five, false, 5, "B:12345 ");
    expect(five, false, 4, "!1009");
    expect(STR("\x02\x03"
               "123"
               "\x80\x02"
               "45"),
           false, 5, "B:12345 ");
    expect(STR("\x02\x03"
               "123"
               "\x80\x03"
               "456"),
           false, 5, "!1009");
    /* the header alone is enough, before any of the payload is there */
    expect(STR("\x02\x03"
               "123"
               "\x80\x03"),
           false, 5, "!1009");
    /* the sum must not overflow either */
    expect(str_n("\x02\x01"
                 "1"
                 "\x80\x7f\x7f\xff\xff\xff\xff\xff\xff\xff",
                 13),
           false, 5, "!1009");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_control_between),
        cmocka_unit_test(test_masking),
        cmocka_unit_test(test_violations),
        cmocka_unit_test(test_bad_text_fails_fast),
        cmocka_unit_test(test_size_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
