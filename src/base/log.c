/* The logger. A line is built on the stack and leaves in one write(2), so lines of threads never
 * mix and logging needs no lock and no heap. Whatever a string contains, it stays on its line and
 * cannot steer a terminal: control characters are escaped in both formats. */

#include "base/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/must.h"
#include "base/utf8.h"

static atomic_int log_min = LOG_INFO;
static atomic_int log_form = LOG_HUMAN;
static atomic_int log_fd = STDERR_FILENO;
static const char *_Atomic log_program;
static _Thread_local char request_id[LOG_REQUEST_ID_MAX];
static _Thread_local size_t request_id_len;

#define HUMAN_MSG_WIDTH 32u

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *const level_human[] = {"DEBUG", "INFO ", "WARN ", "ERROR"};
_Static_assert(ARRAY_LEN(level_names) == LOG__COUNT && ARRAY_LEN(level_human) == LOG__COUNT,
               "every level has a name");

struct line {
    size_t n;
    bool full; /* something did not fit */
    char p[LOG_LINE_MAX];
};

/* Kept free for what ends every line. */
#define LINE_TAIL 32u

void log_init(enum log_level min, enum log_format format, int fd)
{
    atomic_store(&log_min, (int)min);
    atomic_store(&log_form, (int)format);
    atomic_store(&log_fd, fd);
}

void log_set_program(const char *name)
{
    atomic_store(&log_program, name);
}

void log_set_level(enum log_level min)
{
    atomic_store(&log_min, (int)min);
}

bool log_enabled(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&log_min, memory_order_relaxed);
}

int log_level_parse(struct str s, enum log_level *ret)
{
    if (str_eq_nocase(s, STR("warning"))) {
        *ret = LOG_WARN;
        return 0;
    }
    for (int i = 0; i < LOG__COUNT; i++) {
        if (str_eq_nocase(s, str_from(level_names[i]))) {
            *ret = (enum log_level)i;
            return 0;
        }
    }
    return -EINVAL;
}

void log_set_request_id(struct str id)
{
    request_id_len = utf8_floor(id, LOG_REQUEST_ID_MAX);
    if (request_id_len) {
        memcpy(request_id, id.p, request_id_len);
    }
}

static void put(struct line *l, const char *p, size_t n)
{
    if (l->full || n > sizeof(l->p) - LINE_TAIL - l->n) {
        l->full = true;
        return;
    }
    memcpy(l->p + l->n, p, n);
    l->n += n;
}

static void put_c(struct line *l, const char *s)
{
    put(l, s, strlen(s));
}

static bool is_control(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x2028 || cp == 0x2029;
}

static void put_escape(struct line *l, uint32_t cp)
{
    char esc[8];
    switch (cp) {
    case '\n':
        put_c(l, "\\n");
        return;
    case '\r':
        put_c(l, "\\r");
        return;
    case '\t':
        put_c(l, "\\t");
        return;
    default:
        (void)snprintf(esc, sizeof(esc), "\\u%04x", (unsigned)cp & 0xffff);
        put_c(l, esc);
    }
}

/* Both formats quote like JSON; the human one may leave simple words bare. */
static void put_text(struct line *l, struct str s)
{
    bool cut = s.n > LOG_VALUE_MAX;
    if (cut) {
        s.n = utf8_floor(s, LOG_VALUE_MAX);
    }
    while (s.n && !l->full) {
        uint32_t cp = 0;
        int n = utf8_next(s, &cp);
        if (n <= 0) {
            put_c(l, "\xef\xbf\xbd");
            n = 1;
        } else if (cp == '"' || cp == '\\') {
            char esc[2] = {'\\', (char)cp};
            put(l, esc, 2);
        } else if (is_control(cp)) {
            put_escape(l, cp);
        } else {
            put(l, s.p, (size_t)n);
        }
        s = str_sub(s, (size_t)n, s.n);
    }
    if (cut) {
        put_c(l, "...");
    }
}

static bool is_bare(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '=') {
            return false;
        }
    }
    return s.n > 0;
}

static void put_quoted(struct line *l, struct str s)
{
    put_c(l, "\"");
    put_text(l, s);
    put_c(l, "\"");
}

static void put_field(struct line *l, bool json, const struct log_field *f)
{
    size_t before = l->n;
    if (json) {
        put_c(l, ",");
        put_quoted(l, str_from(f->key));
        put_c(l, ":");
    } else {
        put_c(l, "  ");
        put_c(l, f->key);
        put_c(l, "=");
    }
    if (f->kind == LOG_FIELD_INT) {
        char digits[24];
        (void)snprintf(digits, sizeof(digits), "%lld", (long long)f->i);
        put_c(l, digits);
    } else if (!json && is_bare(f->s)) {
        put_text(l, f->s);
    } else {
        put_quoted(l, f->s);
    }
    if (l->full) {
        l->n = before; /* a whole field or none: the line stays parseable */
    }
}

static void put_head(struct line *l, bool json, enum log_level level, const char *msg)
{
    char when[RFC3339_MAX];
    rfc3339_format(clock_wall_us(), json ? 6 : 3, when);
    if (json) {
        put_c(l, "{\"time\":\"");
        put_c(l, when);
        put_c(l, "\",\"level\":\"");
        put_c(l, level_names[level]);
        const char *program = atomic_load(&log_program);
        if (program) {
            put_c(l, "\",\"program\":\"");
            put_c(l, program);
        }
        put_c(l, "\",\"msg\":");
        put_quoted(l, str_from(msg));
        return;
    }
    put_c(l, when);
    put_c(l, "  ");
    put_c(l, level_human[level]);
    put_c(l, "  ");
    size_t at = l->n;
    put_text(l, str_from(msg));
    while (l->n - at < HUMAN_MSG_WIDTH) {
        put_c(l, " ");
    }
}

static void line_end(struct line *l, bool json)
{
    const char *tail =
        json ? (l->full ? ",\"truncated\":true}\n" : "}\n") : (l->full ? "  (truncated)\n" : "\n");
    size_t n = strlen(tail);
    if (!json && !l->full) {
        while (l->n && l->p[l->n - 1] == ' ') { /* the padding of a message without fields */
            l->n--;
        }
    }
    memcpy(l->p + l->n, tail, n);
    l->n += n;
}

void log_event(enum log_level level, const char *msg, const struct log_field *fields)
{
    if ((unsigned)level >= LOG__COUNT || !log_enabled(level)) {
        return;
    }
    int saved_errno = errno;
    bool json = atomic_load(&log_form) == LOG_JSON;
    struct line l;
    l.n = 0;
    l.full = false;
    put_head(&l, json, level, msg);
    if (request_id_len) {
        struct log_field f = LOG_STR("request_id", str_n(request_id, request_id_len));
        put_field(&l, json, &f);
    }
    for (const struct log_field *f = fields; f && f->key && !l.full; f++) {
        put_field(&l, json, f);
    }
    line_end(&l, json);
    size_t done = 0;
    while (done < l.n) {
        ssize_t n = write(atomic_load(&log_fd), l.p + done, l.n - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break; /* a log that cannot be written must not stop the program */
        }
        done += (size_t)n;
    }
    errno = saved_errno;
}
