/* Amounts in a create request. Nothing is ignored: a limit that cannot be read or kept is a 400
 * that says which and why. */

#include <ctype.h>
#include <errno.h>

#include "base/must.h"
#include "base/num.h"
#include "server/lifecycle/plan.h"

int plan_parse_bytes(struct str s, uint64_t *ret)
{
    static const struct {
        const char *unit;
        uint64_t factor;
    } units[] = {
        {"", 1},
        {"b", 1},
        {"k", 1000},
        {"kb", 1000},
        {"ki", UINT64_C(1) << 10},
        {"m", 1000000},
        {"mb", 1000000},
        {"mi", UINT64_C(1) << 20},
        {"g", 1000000000},
        {"gb", 1000000000},
        {"gi", UINT64_C(1) << 30},
        {"t", UINT64_C(1000000000000)},
        {"tb", UINT64_C(1000000000000)},
        {"ti", UINT64_C(1) << 40},
    };
    s = str_trim(s);
    size_t n = 0;
    while (n < s.n && isdigit((unsigned char)s.p[n])) {
        n++;
    }
    struct str unit = str_sub(s, n, s.n);
    for (size_t i = 0; n && i < ARRAY_LEN(units); i++) {
        if (str_eq_nocase(unit, str_from(units[i].unit))) {
            uint64_t v;
            if (parse_u64(str_sub(s, 0, n), &v) < 0 ||
                __builtin_mul_overflow(v, units[i].factor, ret)) {
                return -ERANGE;
            }
            return *ret ? 0 : -EINVAL;
        }
    }
    int r = parse_quantity_bytes(s, ret); /* 1.5Gi, 1e9 */
    return r < 0 ? r : *ret ? 0 : -EINVAL;
}

static int bad(struct problem *p, const char *key, const char *value, const char *want)
{
    return problem_set(p, 400, CODE_INVALID, "resourceLimits.%.60s: '%.60s' is not %s", key, value,
                       want);
}

/* "io-read-bps" and its like; 1: another key. */
static int io_limit(const char *key, const char *value, struct runtime_limits *l, struct problem *p)
{
    static const char *const names[IO_LIMITS] = {[IO_READ_BPS] = "io-read-bps",
                                                 [IO_WRITE_BPS] = "io-write-bps",
                                                 [IO_READ_IOPS] = "io-read-iops",
                                                 [IO_WRITE_IOPS] = "io-write-iops"};
    struct str v = str_trim(str_from(value));
    for (unsigned i = 0; i < IO_LIMITS; i++) {
        bool bytes = i == IO_READ_BPS || i == IO_WRITE_BPS;
        if (strcmp(key, names[i]) != 0) {
            continue;
        }
        if (bytes && plan_parse_bytes(v, &l->io[i]) < 0) {
            return bad(p, key, value, "an amount of bytes a second such as 50Mi");
        }
        if (!bytes && (parse_u64(v, &l->io[i]) < 0 || !l->io[i] || l->io[i] > UINT32_MAX)) {
            return bad(p, key, value, "a number of operations a second");
        }
        return 0;
    }
    return 1;
}

static int one_limit(const char *key, const char *value, struct runtime_limits *l,
                     struct problem *p)
{
    struct str v = str_trim(str_from(value));
    uint64_t n;
    if (!strcmp(key, "cpu")) {
        if (parse_quantity_millicpu(v, &l->cpu_millis) < 0) {
            return bad(p, key, value, "an amount of CPU such as 500m, 0.5 or 2");
        }
    } else if (!strcmp(key, "memory")) {
        if (plan_parse_bytes(v, &l->memory_bytes) < 0) {
            return bad(p, key, value, "an amount of memory such as 512Mi or 2G");
        }
    } else if (!strcmp(key, "disk") || !strcmp(key, "storage") ||
               !strcmp(key, "ephemeral-storage")) {
        if (plan_parse_bytes(v, &l->disk_bytes) < 0) {
            return bad(p, key, value, "an amount of disk space such as 10Gi");
        }
    } else if (!strcmp(key, "pids")) {
        if (parse_u64(v, &n) < 0 || n == 0 || n > 4194304) {
            return bad(p, key, value, "a number of processes");
        }
        l->pids = n;
    } else if (!strcmp(key, "gpu")) {
        if (str_eq(v, STR("all"))) {
            l->gpus = UINT32_MAX;
        } else if (parse_u64(v, &n) < 0 || n == 0 || n > 1024) {
            return bad(p, key, value, "a number of GPUs, or 'all'");
        } else {
            l->gpus = (unsigned)n;
        }
    } else {
        int r = io_limit(key, value, l, p);
        return r <= 0 ? r
                      : problem_set(p, 400, CODE_INVALID,
                                    "resourceLimits.%.60s: this runtime has no such limit (it has "
                                    "cpu, memory, disk, pids, gpu, io-read-bps, io-write-bps, "
                                    "io-read-iops, io-write-iops)",
                                    key);
    }
    return 0;
}

int plan_limits(const struct str_map *m, struct runtime_limits *ret, struct problem *p)
{
    *ret = (struct runtime_limits){0};
    for (size_t i = 0; i < m->n; i++) {
        if (one_limit(m->v[i].key, m->v[i].value, ret, p) < 0) {
            return -1;
        }
    }
    return 0;
}

struct splitter {
    struct arena *a;
    struct str_list list;
    struct buf word;
    bool in_word;
};

static void end_word(struct splitter *s)
{
    if (s->in_word) {
        s->list.v[s->list.n++] = arena_str(s->a, buf_str(&s->word));
        buf_clear(&s->word);
        s->in_word = false;
    }
}

int plan_shell_split(struct arena *a, struct str text, struct str_list *ret)
{
    struct splitter s = {a, {0}, BUF_INIT(text.n + 1), false};
    s.list.v = arena_array(a, text.n / 2 + 2, sizeof(char *));
    char quote = 0;
    int r = 0;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (quote == '\'' && c != '\'') {
            (void)buf_add_char(&s.word, c);
        } else if (c == '\\') {
            if (++i == text.n) {
                r = -EINVAL;
                break;
            }
            if (quote == '"' && !strchr("\"\\$`\n", text.p[i])) {
                (void)buf_add_char(&s.word, '\\');
            }
            (void)buf_add_char(&s.word, text.p[i]);
            s.in_word = true;
        } else if (quote) {
            if (c == quote) {
                quote = 0;
            } else {
                (void)buf_add_char(&s.word, c);
            }
        } else if (c == '\'' || c == '"') {
            quote = c;
            s.in_word = true;
        } else if (isspace((unsigned char)c)) {
            end_word(&s);
        } else {
            (void)buf_add_char(&s.word, c);
            s.in_word = true;
        }
    }
    end_word(&s);
    buf_done(&s.word);
    if (quote || r < 0) {
        return -EINVAL;
    }
    *ret = s.list;
    return 0;
}
