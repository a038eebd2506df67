/* The Jupyter protocol's messages. */

#include "execd/code/message.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/codec.h"
#include "base/must.h"
#include "base/sha256.h"
#include "base/utf8.h"

#define SIGNATURE_LEN (2 * SHA256_LEN)
#define HEADER_MAX 1024
/* A broken byte becomes three: what grows beyond this is no message. */
#define REPAIRED_MAX ((size_t)48 << 20)

void message_trees_done(struct message_trees *t)
{
    for (size_t i = 0; i < ARRAY_LEN(t->v); i++) {
        json_free(t->v[i]);
        t->v[i] = NULL;
    }
}

void message_execute_content(struct buf *out, struct str code, bool silent)
{
    struct json_out o;
    json_out_init(&o, out);
    json_obj_begin(&o);
    json_key(&o, "code");
    json_put_str(&o, code);
    json_key(&o, "silent");
    json_put_bool(&o, silent);
    json_key(&o, "store_history");
    json_put_bool(&o, !silent);
    json_key(&o, "user_expressions");
    json_put_raw(&o, STR("{}"));
    json_key(&o, "allow_stdin"); /* there is nobody to ask: the kernel refuses by itself */
    json_put_bool(&o, false);
    /* There is no queue to stop, and ipykernel would abort the next request if it came soon. */
    json_key(&o, "stop_on_error");
    json_put_bool(&o, false);
    json_obj_end(&o);
}

static void add_header(struct buf *out, const struct message_session *s, const char *type,
                       const char *msg_id)
{
    char date[RFC3339_MAX];
    rfc3339_format(clock_wall_us(), 6, date);
    (void)buf_printf(out,
                     "{\"msg_id\":\"%s\",\"username\":\"execd\",\"session\":\"%s\",\"date\":\"%s\","
                     "\"msg_type\":\"%s\",\"version\":\"5.3\"}",
                     msg_id, s->id, date, type);
}

static void sign(const struct message_session *s, const struct str parts[4],
                 char out[SIGNATURE_LEN + 1])
{
    struct hmac_sha256 m;
    uint8_t sum[SHA256_LEN];
    hmac_sha256_init(&m, str_from(s->key));
    for (size_t i = 0; i < 4; i++) {
        hmac_sha256_add(&m, parts[i]);
    }
    hmac_sha256_done(&m, sum);
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SHA256_LEN; i++) {
        out[2 * i] = digits[sum[i] >> 4];
        out[2 * i + 1] = digits[sum[i] & 15];
    }
    out[SIGNATURE_LEN] = '\0';
}

void message_add_zmtp(struct buf *out, const struct message_session *s, const char *type,
                      const char *msg_id, struct str content)
{
    cleanup_(buf_done) struct buf header = BUF_INIT(HEADER_MAX);
    add_header(&header, s, type, msg_id);
    const struct str parts[4] = {buf_str(&header), STR("{}"), STR("{}"), content};
    char signature[SIGNATURE_LEN + 1];
    sign(s, parts, signature);
    zmtp_add_frame(out, STR(MESSAGE_DELIMITER), true);
    zmtp_add_frame(out, str_from(signature), true);
    for (size_t i = 0; i < 4; i++) {
        zmtp_add_frame(out, parts[i], i < 3);
    }
}

static bool is_hex4(const char *p, unsigned *ret)
{
    uint8_t b[2];
    if (hex_decode(str_n(p, 4), b, sizeof(b)) != 2) {
        return false;
    }
    *ret = (unsigned)b[0] << 8 | b[1];
    return true;
}

/* Length of the escape at the front of s, and in *ret_ok whether it means a character: NUL and half
 * a surrogate pair do not, for our reader. */
static size_t escape_len(struct str s, bool *ret_ok)
{
    unsigned hi, lo;
    *ret_ok = true;
    if (s.n < 6 || s.p[1] != 'u' || !is_hex4(s.p + 2, &hi)) {
        return MIN(s.n, (size_t)2);
    }
    if (hi >= 0xd800 && hi < 0xdc00 && s.n >= 12 && s.p[6] == '\\' && s.p[7] == 'u' &&
        is_hex4(s.p + 8, &lo) && lo >= 0xdc00 && lo < 0xe000) {
        return 12;
    }
    *ret_ok = hi != 0 && (hi < 0xd800 || hi >= 0xe000);
    return 6;
}

/* Programs print anything. What JSON cannot carry to us becomes U+FFFD instead of losing all of the
 * message: bytes that are not UTF-8, NUL, and halves of surrogate pairs. */
static void repair_json(struct buf *out, struct str in)
{
    cleanup_(buf_done) struct buf utf8 = BUF_INIT(MIN(3 * in.n + 1, REPAIRED_MAX));
    (void)utf8_repair(&utf8, in);
    struct str s = buf_str(&utf8);
    while (s.n) {
        ptrdiff_t at = str_find(s, '\\');
        size_t plain = at < 0 ? s.n : (size_t)at;
        (void)buf_add(out, s.p, plain);
        s = str_sub(s, plain, s.n);
        if (s.n) {
            bool ok;
            size_t n = escape_len(s, &ok);
            (void)buf_add_str(out, ok ? str_sub(s, 0, n) : STR("\\ufffd"));
            s = str_sub(s, n, s.n);
        }
    }
}

static struct json *parse(struct str text)
{
    struct err e;
    struct json *j = json_parse(text, &e);
    if (!j && text.n) {
        cleanup_(buf_done) struct buf repaired = BUF_INIT(MIN(3 * text.n + 1, REPAIRED_MAX));
        repair_json(&repaired, text);
        j = buf_failed(&repaired) ? NULL : json_parse(buf_str(&repaired), &e);
    }
    return j;
}

/* Type and parent from their trees; both headers may be anything. */
static int describe(const struct json *header, const struct json *parent, struct kernel_message *m)
{
    const char *id = json_cstr(json_get(parent, "msg_id"));
    m->type = json_cstr(json_get(header, "msg_type"));
    m->parent_id = id ? id : "";
    return m->type ? 0 : -1;
}

int message_from_zmtp(const struct zmtp_message *m, const struct message_session *s,
                      struct message_trees *trees, struct kernel_message *ret)
{
    size_t i = 0;
    while (i < m->n && !str_eq(m->parts[i], STR(MESSAGE_DELIMITER))) {
        i++;
    }
    if (m->n - i < 6) {
        return -1;
    }
    const struct str *parts = m->parts + i + 2;
    char signature[SIGNATURE_LEN + 1];
    if (!m->truncated) {
        sign(s, parts, signature);
        if (!str_eq_consttime(str_from(signature), m->parts[i + 1])) {
            return -1;
        }
    }
    trees->v[0] = parse(parts[0]);
    trees->v[1] = parse(parts[1]);
    trees->v[2] = m->truncated ? json_object_new() : parse(parts[3]);
    *ret = (struct kernel_message){.content = trees->v[2], .truncated = m->truncated};
    return json_is_object(trees->v[2]) ? describe(trees->v[0], trees->v[1], ret) : -1;
}

void message_add_websocket(struct buf *out, const struct message_session *s, const char *channel,
                           const char *type, const char *msg_id, struct str content)
{
    (void)buf_add_str(out, STR("{\"header\":"));
    add_header(out, s, type, msg_id);
    (void)buf_printf(out,
                     ",\"parent_header\":{},\"metadata\":{},\"channel\":\"%s\",\"buffers\":[],"
                     "\"content\":",
                     channel);
    (void)buf_add_str(out, content);
    (void)buf_add_char(out, '}');
}

int message_from_websocket(struct str text, struct message_trees *trees, struct kernel_message *ret)
{
    trees->v[0] = parse(text);
    *ret = (struct kernel_message){.content = json_get(trees->v[0], "content")};
    return json_is_object(ret->content) ? describe(json_get(trees->v[0], "header"),
                                                   json_get(trees->v[0], "parent_header"), ret)
                                        : -1;
}
