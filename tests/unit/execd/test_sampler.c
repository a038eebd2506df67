/* Cgroups of version 1, version 2 and both, as real systems show them; and the arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "base/must.h"
#include "execd/cgroup.h"
#include "execd/sampler.h"

#define V2_MOUNT "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_DOCKER                                                                                  \
    "700 690 0:29 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"                \
    "701 690 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
#define HYBRID                                                                                     \
    "1 2 0:1 / /proc rw shared:5 - proc proc rw\n"                                                 \
    "29 23 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"                            \
    "30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

static void test_locate(void **state)
{
    static const struct {
        const char *own, *mounts, *controller;
        bool own_ns;
        const char *want; /* NULL: not found */
        bool v2;
    } cases[] = {
        {"0::/\n", V2_MOUNT, "memory", true, "/sys/fs/cgroup", true},
        {"0::/execd\n", V2_MOUNT, "memory", true, "/sys/fs/cgroup", true},
        {"0::/user.slice/x\n", V2_MOUNT, "cpu", false, "/sys/fs/cgroup/user.slice/x", true},
        {"0::/\n", V2_MOUNT, "cpu", false, NULL, true},
        {"0::/../other\n", V2_MOUNT, "cpu", false, "/sys/fs/cgroup", true},
        {"4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n", V1_DOCKER, "memory", false,
         "/sys/fs/cgroup/memory", false},
        {"4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n", V1_DOCKER, "cpuacct", false,
         "/sys/fs/cgroup/cpu,cpuacct", false},
        {"4:memory:/job\n0::/job2\n", HYBRID, "memory", false, "/sys/fs/cgroup/memory/job", false},
        {"4:memory:/job\n0::/job2\n", HYBRID, "cpu", false, "/sys/fs/cgroup/unified/job2", true},
        {"4:memory:/job:with:colons\n", HYBRID, "memory", false,
         "/sys/fs/cgroup/memory/job:with:colons", false},
        {"", HYBRID, "memory", false, NULL, false},
        {"0::/\n", "30 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "memory", true,
         NULL, true},
        {"0::/x\n", "", "memory", false, NULL, false},
        {"0::/x\n", "30 23 0:26 / /my\\040cg rw - cgroup2 cgroup2 rw\n", "memory", true, "/my cg",
         true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena a = {0};
        struct cgroup_dir d = cgroup_locate(&a, str_from(cases[i].own), str_from(cases[i].mounts),
                                            str_from(cases[i].controller), cases[i].own_ns);
        assert_int_equal(d.found, cases[i].want != NULL);
        if (cases[i].want) {
            assert_string_equal(d.dir, cases[i].want);
            assert_int_equal(d.v2, cases[i].v2);
        }
        arena_done(&a);
    }
}

static void test_limits(void **state)
{
    uint64_t v;
    assert_int_equal(cgroup_parse_limit(STR("max\n"), &v), 0);
    assert_true(v == UINT64_MAX);
    assert_int_equal(cgroup_parse_limit(STR("9223372036854771712\n"), &v), 0);
    assert_true(v == UINT64_MAX);
    assert_int_equal(cgroup_parse_limit(STR("536870912\n"), &v), 0);
    assert_true(v == 536870912);
    assert_int_equal(cgroup_parse_limit(STR("-1\n"), &v), -EINVAL);
    assert_int_equal(cgroup_parse_limit(STR(""), &v), -EINVAL);
    assert_true(cgroup_parse_cpu_max(STR("150000 100000\n")) == 1.5);
    assert_true(cgroup_parse_cpu_max(STR("max 100000\n")) == 0);
    assert_true(cgroup_parse_cpu_max(STR("1 0\n")) == 0);
    assert_true(cgroup_parse_cpu_max(STR("")) == 0);
    assert_int_equal(cgroup_stat_get(STR("a 1\ninactive_file 42\n"), STR("inactive_file"), &v), 0);
    assert_int_equal(v, 42);
    assert_int_equal(cgroup_stat_get(STR("a 1\n"), STR("b"), &v), -ENOENT);
}

static void test_proc(void **state)
{
    uint64_t used, total, busy, all;
    assert_int_equal(meminfo_parse(STR("MemTotal:  1000 kB\nMemFree:   100 kB\nBuffers: 50 kB\n"
                                       "Cached: 200 kB\nSwapCached: 9 kB\nSReclaimable: 50 kB\n"),
                                   &used, &total),
                     0);
    assert_int_equal(total, 1000 * 1024);
    assert_int_equal(used, 600 * 1024);
    assert_int_equal(meminfo_parse(STR("nothing\n"), &used, &total), -EINVAL);
    assert_int_equal(proc_stat_parse(STR("cpu  10 20 30 400 5 6 7 8 9 9\ncpu0 1\n"), &busy, &all),
                     0);
    assert_int_equal(all, 486);
    assert_int_equal(busy, 86);
    assert_int_equal(proc_stat_parse(STR("cpu  0 0 0 0 0 0 0 0 0 0\n"), &busy, &all), 0);
    assert_int_equal(busy + all, 0);
    assert_int_equal(proc_stat_parse(STR("cpu  1 2\n"), &busy, &all), -EINVAL);
    assert_int_equal(proc_stat_parse(STR("intr 5\n"), &busy, &all), -EINVAL);
    assert_int_equal(proc_stat_parse(STR(""), &busy, &all), -EINVAL);
}

static void test_percent(void **state)
{
    struct cpu_sample a = {.at_us = 1000, .busy_us = 100}, b = {.at_us = 2000, .busy_us = 600};
    assert_true(cpu_percent(&a, &b, 1) == 50);
    assert_true(cpu_percent(&a, &b, 2) == 25);
    assert_true(cpu_percent(&a, &b, 0.25) == 100); /* a burst above the quota */
    assert_true(cpu_percent(&a, &a, 1) == 0);
    b.busy_us = 50; /* a counter that went back */
    assert_true(cpu_percent(&a, &b, 1) == 0);
    struct cpu_sample c = {1, 10, 100}, d = {2, 40, 200};
    assert_true(cpu_percent(&c, &d, 8) == 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_locate),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_proc),
        cmocka_unit_test(test_percent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
