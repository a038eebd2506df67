/* What a kernel's socket brings: the same bytes in one piece and split must give the same parts,
 * and whatever they are, the reader stays inside its limit. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "execd/code/message.h"
#include "execd/code/zmtp.h"

#define READER_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* A digest of everything the reader tells. */
static uint64_t read_all(const char *p, size_t n, size_t piece)
{
    struct zmtp_reader r;
    struct zmtp_message m;
    struct message_session s = {.id = "s", .key = "k"};
    uint64_t sum = 0;
    enum zmtp_result got = ZMTP_MORE;
    zmtp_reader_init(&r, READER_MAX);
    while (n && got != ZMTP_BAD) {
        size_t room;
        char *at = zmtp_reader_space(&r, &room);
        size_t k = MIN(MIN(piece, room), n);
        memcpy(at, p, k);
        zmtp_reader_fill(&r, k);
        p += k;
        n -= k;
        while ((got = zmtp_reader_next(&r, &m)) != ZMTP_MORE && got != ZMTP_BAD) {
            sum = sum * 31 + got;
            for (size_t i = 0; got == ZMTP_MESSAGE && i < m.n; i++) {
                for (size_t j = 0; j < m.parts[i].n; j++) {
                    sum = sum * 31 + (uint8_t)m.parts[i].p[j];
                }
                sum = sum * 31 + m.parts[i].n + m.truncated;
            }
            if (got == ZMTP_MESSAGE) {
                struct message_trees trees = {0};
                struct kernel_message message;
                (void)message_from_zmtp(&m, &s, &trees, &message);
                message_trees_done(&trees);
            }
        }
    }
    sum = sum * 31 + (got == ZMTP_BAD);
    zmtp_reader_done(&r);
    return sum;
}

/* The same bytes as the content of a message that is signed as it should be. */
static void read_signed(struct str content)
{
    struct message_session s = {.id = "s", .key = "k"};
    struct zmtp_reader r;
    struct zmtp_message m;
    struct message_trees trees = {0};
    struct kernel_message message;
    struct buf wire = BUF_INIT(READER_MAX);
    message_add_zmtp(&wire, &s, "stream", "id", content);
    zmtp_reader_init(&r, READER_MAX);
    r.greeted = r.ready = true;
    size_t room;
    char *at = zmtp_reader_space(&r, &room);
    if (!buf_failed(&wire) && wire.len <= room) {
        memcpy(at, wire.p, wire.len);
        zmtp_reader_fill(&r, wire.len);
        must(zmtp_reader_next(&r, &m) == ZMTP_MESSAGE && !m.truncated);
        if (message_from_zmtp(&m, &s, &trees, &message) == 0) {
            must(strcmp(message.type, "stream") == 0 && json_is_object(message.content));
        }
    }
    message_trees_done(&trees);
    zmtp_reader_done(&r);
    buf_done(&wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    read_signed(str_n((const char *)data, n));
    uint64_t whole = read_all((const char *)data, n, SIZE_MAX);
    must(read_all((const char *)data, n, 1) == whole);
    must(read_all((const char *)data, n, 7) == whole);
    return 0;
}
