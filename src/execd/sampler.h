#pragma once
/* What the sandbox uses of CPU and memory: from its own cgroup, or from the machine's counters
 * where there is none. Samples are kept from time to time, so that the share of CPU used can be
 * told at once. On the loop; reading these files does not block. */

#include "base/err.h"
#include "io/loop.h"
#include "io/timer.h"
#include "model/metrics.h"

struct cpu_sample {
    uint64_t at_us;   /* monotonic */
    uint64_t busy_us; /* CPU time used by the sandbox; by the machine: in units of its own */
    uint64_t all_us;  /* machine only: what could have been used, else 0 */
};

struct sampler;

struct sampler *sampler_new(struct io_loop *l);
void sampler_free(struct sampler *s);
/* The present. CPU use is that since `since`, or since a sample of some seconds ago when it is
 * NULL. */
int sampler_read(struct sampler *s, const struct cpu_sample *since, struct metrics *ret,
                 struct err *e);
/* The CPU counters now. -1 with `e` when there are none. */
int sampler_cpu(struct sampler *s, struct cpu_sample *ret, struct err *e);
/* Bytes of memory in use and in all. */
int sampler_memory(struct sampler *s, uint64_t *ret_used, uint64_t *ret_total, struct err *e);
/* From /proc/meminfo (pure). 0 or -EINVAL. */
int meminfo_parse(struct str text, uint64_t *ret_used, uint64_t *ret_total);
/* The first line of /proc/stat: everything but idle is busy (pure). 0 or -EINVAL. */
int proc_stat_parse(struct str text, uint64_t *ret_busy, uint64_t *ret_all);
/* Share of CPU used between two samples on `cpus` CPUs, 0 to 100 (pure). */
double cpu_percent(const struct cpu_sample *a, const struct cpu_sample *b, double cpus);
