#include "execd/sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "execd/cgroup.h"
#include "execd/limits.h"

struct sampler {
    struct io_loop *loop;
    struct io_timer timer;
    struct arena arena;
    struct cgroup_dir memory, cpu, cpuacct;
    struct cpu_sample older, recent;
    struct buf text; /* the file being looked at */
};

/* Reads `dir`/`name`; STR_NULL when it cannot be read. */
static struct str read_in(struct sampler *s, const char *dir, const char *name)
{
    char path[FS_PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
    buf_clear(&s->text);
    if (n < 0 || (size_t)n >= sizeof(path) || file_read(AT_FDCWD, path, &s->text) < 0) {
        return STR_NULL;
    }
    return buf_str(&s->text);
}

static int read_u64_in(struct sampler *s, const char *dir, const char *name, uint64_t *ret)
{
    struct str text = read_in(s, dir, name);
    return text.p ? cgroup_parse_limit(text, ret) : -ENOENT;
}

/* Calls fn for the sandbox's cgroup and each above it that can be seen: limits add up. */
static void each_level(const struct cgroup_dir *d, void (*fn)(const char *dir, void *arg),
                       void *arg)
{
    char dir[FS_PATH_MAX];
    if (str_to_cstr(str_from(d->dir), dir, sizeof(dir)) < 0) {
        return;
    }
    size_t top = strlen(d->top);
    for (;;) {
        fn(dir, arg);
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < top) {
            return;
        }
        *slash = '\0';
    }
}

/* ---- memory ---- */

int meminfo_parse(struct str text, uint64_t *ret_used, uint64_t *ret_total)
{
    static const struct str keys[] = {
        {"MemTotal:", 9}, {"MemFree:", 8}, {"Buffers:", 8}, {"Cached:", 7}, {"SReclaimable:", 13},
    };
    uint64_t v[ARRAY_LEN(keys)] = {0};
    while (text.p) {
        struct str line = str_cut(&text, '\n');
        struct str key = str_cut(&line, ' ');
        for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
            struct str number = str_trim(line);
            if (str_eq(key, keys[i]) && parse_u64(str_cut(&number, ' '), &v[i]) < 0) {
                return -EINVAL;
            }
        }
    }
    uint64_t free_kb = v[1] + v[2] + v[3] + v[4];
    if (v[0] == 0) {
        return -EINVAL;
    }
    *ret_total = v[0] << 10;
    *ret_used = v[0] > free_kb ? (v[0] - free_kb) << 10 : 0;
    return 0;
}

struct limit_search {
    struct sampler *s;
    bool v2;
    uint64_t bytes;
    double cpus; /* 0: no limit */
};

static void lower_memory(const char *dir, void *arg)
{
    struct limit_search *l = arg;
    uint64_t v;
    const char *name = l->v2 ? "memory.max" : "memory.limit_in_bytes";
    if (read_u64_in(l->s, dir, name, &v) == 0 && v < l->bytes) {
        l->bytes = v;
    }
}

/* What cannot be given back at once: caches of files that nobody uses do not count. */
static int cgroup_memory_used(struct sampler *s, uint64_t *ret)
{
    const struct cgroup_dir *d = &s->memory;
    uint64_t cache = 0;
    if (!d->found ||
        read_u64_in(s, d->dir, d->v2 ? "memory.current" : "memory.usage_in_bytes", ret) < 0) {
        return -ENOENT;
    }
    struct str text = read_in(s, d->dir, "memory.stat");
    (void)cgroup_stat_get(text, d->v2 ? STR("inactive_file") : STR("total_inactive_file"), &cache);
    *ret = *ret > cache ? *ret - cache : 0;
    return 0;
}

int sampler_memory(struct sampler *s, uint64_t *ret_used, uint64_t *ret_total, struct err *e)
{
    struct str text = read_in(s, "/proc", "meminfo");
    if (!text.p || meminfo_parse(text, ret_used, ret_total) < 0) {
        return err_set(e, ERR_IO, "cannot read /proc/meminfo");
    }
    struct limit_search l = {.s = s, .v2 = s->memory.v2, .bytes = *ret_total};
    uint64_t used;
    if (cgroup_memory_used(s, &used) == 0) {
        each_level(&s->memory, lower_memory, &l);
        *ret_total = l.bytes;
        *ret_used = MIN(used, l.bytes);
    }
    return 0;
}

/* ---- CPU ---- */

int proc_stat_parse(struct str text, uint64_t *ret_busy, uint64_t *ret_all)
{
    struct str line = str_cut(&text, '\n');
    if (!str_eq(str_cut(&line, ' '), STR("cpu"))) {
        return -EINVAL;
    }
    uint64_t all = 0, idle = 0;
    int i = 0;
    while (line.p && i < 8) { /* guest time is part of user time already */
        struct str field = str_cut(&line, ' ');
        uint64_t v;
        if (field.n == 0) {
            continue;
        }
        if (parse_u64(field, &v) < 0) {
            return -EINVAL;
        }
        all += v;
        idle = i == 3 ? v : idle;
        i++;
    }
    *ret_busy = all - idle;
    *ret_all = all;
    return i >= 4 ? 0 : -EINVAL; /* all of them may be 0: gVisor does not count */
}

int sampler_cpu(struct sampler *s, struct cpu_sample *ret, struct err *e)
{
    *ret = (struct cpu_sample){.at_us = clock_mono_us()};
    if (s->cpuacct.found && !s->cpuacct.v2 &&
        read_u64_in(s, s->cpuacct.dir, "cpuacct.usage", &ret->busy_us) == 0) {
        ret->busy_us /= 1000;
        return 0;
    }
    struct str text = s->cpu.found && s->cpu.v2 ? read_in(s, s->cpu.dir, "cpu.stat") : STR_NULL;
    if (text.p && cgroup_stat_get(text, STR("usage_usec"), &ret->busy_us) == 0) {
        return 0;
    }
    text = read_in(s, "/proc", "stat");
    if (!text.p || proc_stat_parse(text, &ret->busy_us, &ret->all_us) < 0) {
        return err_set(e, ERR_IO, "cannot read /proc/stat");
    }
    return 0;
}

static void lower_cpus(const char *dir, void *arg)
{
    struct limit_search *l = arg;
    uint64_t quota, period;
    double cpus = 0;
    if (l->v2) {
        struct str text = read_in(l->s, dir, "cpu.max");
        cpus = text.p ? cgroup_parse_cpu_max(text) : 0;
    } else if (read_u64_in(l->s, dir, "cpu.cfs_quota_us", &quota) == 0 && /* -1 is no number */
               read_u64_in(l->s, dir, "cpu.cfs_period_us", &period) == 0 && period > 0) {
        cpus = (double)quota / (double)period;
    }
    if (cpus > 0 && (l->cpus <= 0 || cpus < l->cpus)) {
        l->cpus = cpus;
    }
}

static double cpu_limit(struct sampler *s)
{
    struct limit_search l = {.s = s, .v2 = s->cpu.v2};
    if (s->cpu.found) {
        each_level(&s->cpu, lower_cpus, &l);
    }
    return l.cpus;
}

static double online_cpus(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? n : 1;
}

double cpu_percent(const struct cpu_sample *a, const struct cpu_sample *b, double cpus)
{
    double busy = b->busy_us > a->busy_us ? (double)(b->busy_us - a->busy_us) : 0;
    double all = b->all_us ? (double)(b->all_us - a->all_us) : (double)(b->at_us - a->at_us) * cpus;
    double pct = all > 0 ? 100 * busy / all : 0;
    return pct > 100 ? 100 : pct;
}

/* ---- together ---- */

static void on_timer(struct io_timer *t)
{
    struct sampler *s = container_of(t, struct sampler, timer);
    struct err e = {0};
    struct cpu_sample now;
    if (sampler_cpu(s, &now, &e) == 0) {
        s->older = s->recent;
        s->recent = now;
    }
    io_timer_start(t, METRICS_SAMPLE_MS);
}

struct sampler *sampler_new(struct io_loop *l)
{
    struct sampler *s = NEW(struct sampler);
    struct err e = {0};
    s->loop = l;
    buf_init(&s->text, METRICS_MAX_FILE);
    s->memory = cgroup_find(&s->arena, STR("memory"));
    s->cpu = cgroup_find(&s->arena, STR("cpu"));
    s->cpuacct = cgroup_find(&s->arena, STR("cpuacct"));
    (void)sampler_cpu(s, &s->recent, &e); /* said when somebody asks */
    s->older = s->recent;
    buf_done(&s->text);
    io_timer_init(&s->timer, l, on_timer);
    io_timer_start(&s->timer, METRICS_SAMPLE_MS);
    return s;
}

void sampler_free(struct sampler *s)
{
    if (s) {
        io_timer_stop(&s->timer);
        buf_done(&s->text);
        arena_done(&s->arena);
        free(s);
    }
}

int sampler_read(struct sampler *s, const struct cpu_sample *since, struct metrics *ret,
                 struct err *e)
{
    struct cpu_sample now;
    uint64_t used = 0, total = 0;
    int64_t at_ms = clock_wall_ms();
    if (sampler_cpu(s, &now, e) < 0 || sampler_memory(s, &used, &total, e) < 0) {
        return -1;
    }
    if (!since) { /* too short a span says little */
        bool fresh = now.at_us - s->recent.at_us < METRICS_MIN_SPAN_MS * 1000;
        since = fresh ? &s->older : &s->recent;
    }
    double limit = cpu_limit(s), online = online_cpus();
    buf_done(&s->text);
    *ret = (struct metrics){
        .cpu_count = {true, limit <= 0  ? online
                            : limit < 1 ? 1
                                        : (double)(int64_t)limit},
        .cpu_used_pct = {true,
                         cpu_percent(since, &now, limit > 0 && limit < online ? limit : online)},
        .mem_total_mib = {true, (double)total / (1 << 20)},
        .mem_used_mib = {true, (double)used / (1 << 20)},
        .timestamp = {true, at_ms},
    };
    return 0;
}
