/* WebSocket frame headers, masking, accept key, close codes. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "base/must.h"
#include "http/ws.h"

#define B(lit) str_n((lit), sizeof(lit) - 1)

static void test_parse_accepts(void **state)
{
    static const struct {
        struct str in;
        int head;
        enum ws_opcode op;
        bool fin, masked;
        uint64_t len;
    } cases[] = {
        {{"\x81\x05", 2}, 2, WS_TEXT, true, false, 5},
        {{"\x02\x00", 2}, 2, WS_BINARY, false, false, 0},
        {{"\x80\x00", 2}, 2, WS_CONT, true, false, 0},
        {{"\x89\x7d", 2}, 2, WS_PING, true, false, 125},
        {{"\x8a\x80\x01\x02\x03\x04", 6}, 6, WS_PONG, true, true, 0},
        {{"\x88\x82\x01\x02\x03\x04xxxx", 10}, 6, WS_CLOSE, true, true, 2},
        {{"\x82\x7e\x00\x7e", 4}, 4, WS_BINARY, true, false, 126},
        {{"\x82\x7e\xff\xff", 4}, 4, WS_BINARY, true, false, 65535},
        {{"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00", 10}, 10, WS_BINARY, true, false, 65536},
        {{"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x09\x08\x07\x06", 14},
         14,
         WS_BINARY,
         true,
         true,
         INT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ws_frame f;
        assert_int_equal(ws_frame_parse(cases[i].in, &f), cases[i].head);
        assert_int_equal(f.opcode, cases[i].op);
        assert_int_equal(f.fin, cases[i].fin);
        assert_int_equal(f.masked, cases[i].masked);
        assert_true(f.len == cases[i].len);
        for (size_t n = 0; n < (size_t)cases[i].head; n++) {
            assert_int_equal(ws_frame_parse(str_n(cases[i].in.p, n), &f), 0);
        }
        char out[WS_FRAME_MAX];
        assert_int_equal(ws_frame_format(&f, out), cases[i].head);
        assert_memory_equal(out, cases[i].in.p, (size_t)cases[i].head);
    }
}

static void test_parse_refuses(void **state)
{
    const struct str cases[] = {
        B("\xc1\x00"),
        B("\xa1\x00"),
        B("\x91\x00"), /* reserved bits */
        B("\x83\x00"),
        B("\x87\x00"),
        B("\x8b\x00"),
        B("\x8f\x00"), /* reserved opcodes */
        B("\x08\x00"),
        B("\x09\x00"),
        B("\x0a\x00"), /* fragmented control frames */
        B("\x88\x7e"),
        B("\x89\x7f"),
        B("\x8a\xfe"), /* long control frames */
        B("\x82\x7e\x00\x7d"),
        B("\x82\x7e\x00\x00"), /* not the shortest length */
        B("\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff"),
        B("\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00"), /* top bit of the length */
        B("\xf0"),
        B("\x83"), /* already the first byte */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ws_frame f;
        assert_int_equal(ws_frame_parse(cases[i], &f), -EPROTO);
    }
}

static void test_mask(void **state)
{
    const uint8_t key[4] = {0x37, 0xfa, 0x21, 0x3d};
    char hello[] = "\x7f\x9f\x4d\x51\x58"; /* RFC 6455 5.7 */
    ws_mask(hello, 5, key, 0);
    assert_memory_equal(hello, "Hello", 5);

    char whole[67], split[67];
    for (size_t cut = 0; cut <= sizeof(whole); cut++) {
        for (size_t i = 0; i < sizeof(whole); i++) {
            whole[i] = split[i] = (char)(i * 7);
        }
        ws_mask(whole, sizeof(whole), key, 3);
        ws_mask(split, cut, key, 3);
        ws_mask(split + cut, sizeof(split) - cut, key, 3 + cut);
        assert_memory_equal(whole, split, sizeof(whole));
        for (size_t i = 0; i < sizeof(whole); i++) {
            assert_int_equal((uint8_t)whole[i], (uint8_t)(i * 7) ^ key[(i + 3) & 3]);
        }
    }
}

static void test_accept_key(void **state)
{
    char out[29];
    ws_accept_key(STR("dGhlIHNhbXBsZSBub25jZQ=="), out); /* RFC 6455 1.3 */
    assert_string_equal(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

static void test_close_codes(void **state)
{
    const unsigned good[] = {1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010,
                             1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999};
    const unsigned bad[] = {0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(ws_close_code_valid(good[i]));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(ws_close_code_valid(bad[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_accepts), cmocka_unit_test(test_parse_refuses),
        cmocka_unit_test(test_mask),          cmocka_unit_test(test_accept_key),
        cmocka_unit_test(test_close_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
