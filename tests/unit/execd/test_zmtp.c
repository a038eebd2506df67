/* ZMTP frames, the handshake, and messages split at every byte. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/must.h"
#include "execd/code/message.h"
#include "execd/code/zmtp.h"

#define GREETING                                                                                   \
    "\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"                             \
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define READY "\4\x1c\5READY\13Socket-Type\0\0\0\6ROUTER"

/* Feeds `n` bytes as if they had been read. */
static void feed(struct zmtp_reader *r, const char *p, size_t n)
{
    while (n) {
        size_t room;
        char *at = zmtp_reader_space(r, &room);
        size_t k = MIN(n, room);
        memcpy(at, p, k);
        zmtp_reader_fill(r, k);
        p += k;
        n -= k;
    }
}

static void test_frame_lengths(void **state)
{
    struct zmtp_frame f;
    assert_int_equal(zmtp_frame_parse(STR("\1"), &f), 0);
    assert_int_equal(zmtp_frame_parse(STR("\1\5"), &f), 2);
    assert_true(f.more && !f.command && f.len == 5);
    assert_int_equal(zmtp_frame_parse(STR("\2\0\0\0\0\0\0\1\0"), &f), 9);
    assert_true(!f.more && f.len == 256);
    assert_int_equal(zmtp_frame_parse(STR("\2\0\0\0\0\0\0\1"), &f), 0);
    assert_true(zmtp_frame_parse(STR("\x08\1"), &f) < 0);
    assert_true(zmtp_frame_parse(STR("\5\1"), &f) < 0);
    assert_true(zmtp_frame_parse(STR("\2\xff\0\0\0\0\0\0\0"), &f) < 0);
}

static void test_handshake_and_message_byte_by_byte(void **state)
{
    static const char wire[] = GREETING READY "\1\3abc\0\2de"
                                              "\4\7\4PING\0\1";
    struct zmtp_reader r;
    struct zmtp_message m;
    enum zmtp_result seen[8];
    size_t n = 0;
    zmtp_reader_init(&r, 1000);
    for (size_t i = 0; i < sizeof(wire) - 1; i++) {
        feed(&r, wire + i, 1);
        enum zmtp_result got;
        while ((got = zmtp_reader_next(&r, &m)) != ZMTP_MORE) {
            assert_int_not_equal(got, ZMTP_BAD);
            seen[n++] = got;
            if (got == ZMTP_MESSAGE) {
                assert_int_equal(m.n, 2);
                assert_true(str_eq(m.parts[0], STR("abc")) && str_eq(m.parts[1], STR("de")));
                assert_false(m.truncated);
            }
        }
    }
    assert_int_equal(n, 3);
    assert_int_equal(seen[0], ZMTP_READY);
    assert_int_equal(seen[1], ZMTP_MESSAGE);
    assert_int_equal(seen[2], ZMTP_PING);
    zmtp_reader_done(&r);
}

static void test_a_huge_part_costs_only_itself(void **state)
{
    struct zmtp_reader r;
    struct zmtp_message m;
    struct buf wire = BUF_INIT(4u << 20);
    char *big = calloc(1, 1u << 20);
    (void)buf_add(&wire, GREETING READY, sizeof(GREETING READY) - 1);
    zmtp_add_frame(&wire, STR("head"), true);
    zmtp_add_frame(&wire, str_n(big, 1u << 20), true);
    zmtp_add_frame(&wire, STR("tail"), false);
    zmtp_add_frame(&wire, STR("next"), false);
    zmtp_reader_init(&r, 64u << 10);
    unsigned n = 0;
    for (size_t i = 0; i < wire.len; i += 1000) {
        feed(&r, wire.p + i, MIN((size_t)1000, wire.len - i));
        enum zmtp_result got;
        while ((got = zmtp_reader_next(&r, &m)) != ZMTP_MORE) {
            assert_int_not_equal(got, ZMTP_BAD);
            if (got == ZMTP_MESSAGE && n++ == 0) {
                assert_true(m.truncated && m.n == 3);
                assert_true(str_eq(m.parts[0], STR("head")) && m.parts[1].n == 0);
                assert_true(str_eq(m.parts[2], STR("tail")));
            } else if (got == ZMTP_MESSAGE) {
                assert_true(!m.truncated && str_eq(m.parts[0], STR("next")));
            }
        }
    }
    assert_int_equal(n, 2);
    zmtp_reader_done(&r);
    buf_done(&wire);
    free(big);
}

static void test_strangers_are_refused(void **state)
{
    static const struct str bad[] = {
        {"HTTP/1.1 400 Bad Request\r\n", 26},
        {"\xff\0\0\0\0\0\0\0\1\x7f\1", 11},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct zmtp_reader r;
        struct zmtp_message m;
        zmtp_reader_init(&r, 1000);
        feed(&r, bad[i].p, bad[i].n);
        assert_int_equal(zmtp_reader_next(&r, &m), ZMTP_BAD);
        zmtp_reader_done(&r);
    }
}

/* A message that we wrote is read back; a changed byte is not. */
static void test_signatures(void **state)
{
    struct message_session s = {.id = "session", .key = "key"};
    struct buf wire = BUF_INIT(1u << 16);
    struct zmtp_reader r;
    struct zmtp_message m;
    struct kernel_message k;
    (void)buf_add(&wire, GREETING READY, sizeof(GREETING READY) - 1);
    message_add_zmtp(&wire, &s, "execute_request", "id", STR("{\"code\":\"1\"}"));
    zmtp_reader_init(&r, 1u << 16);
    feed(&r, wire.p, wire.len);
    assert_int_equal(zmtp_reader_next(&r, &m), ZMTP_READY);
    assert_int_equal(zmtp_reader_next(&r, &m), ZMTP_MESSAGE);
    struct message_trees trees = {0};
    assert_int_equal(message_from_zmtp(&m, &s, &trees, &k), 0);
    assert_string_equal(k.type, "execute_request");
    assert_string_equal(k.parent_id, "");
    assert_string_equal(json_cstr(json_get(k.content, "code")), "1");
    message_trees_done(&trees);
    s.key[0] = 'K';
    assert_int_equal(message_from_zmtp(&m, &s, &trees, &k), -1);
    message_trees_done(&trees);
    zmtp_reader_done(&r);
    buf_done(&wire);
}

static void test_what_json_cannot_carry(void **state)
{
    static const char text[] =
        "{\"header\":{\"msg_type\":\"stream\"},\"parent_header\":{},\"content\":"
        "{\"text\":\"a\\u0000b\\ud800c\\ud83d\\ude00\\\\u0000\xff\"}}";
    struct message_trees trees = {0};
    struct kernel_message k;
    assert_int_equal(message_from_websocket(str_n(text, sizeof(text) - 1), &trees, &k), 0);
    assert_string_equal(json_cstr(json_get(k.content, "text")),
                        "a\xef\xbf\xbd"
                        "b\xef\xbf\xbd"
                        "c\xf0\x9f\x98\x80\\u0000\xef\xbf\xbd");
    message_trees_done(&trees);
    assert_int_equal(message_from_websocket(STR("[]"), &trees, &k), -1);
    message_trees_done(&trees);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame_lengths),
        cmocka_unit_test(test_handshake_and_message_byte_by_byte),
        cmocka_unit_test(test_a_huge_part_costs_only_itself),
        cmocka_unit_test(test_strangers_are_refused),
        cmocka_unit_test(test_signatures),
        cmocka_unit_test(test_what_json_cannot_carry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
