/* Hierarchies as real machines have them, and where a sandbox's groups are in each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/sysmacros.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/must.h"
#include "server/runtime/oci/cgroup.h"

#define V2 "25 30 0:23 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1                                                                                         \
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"                                   \
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"                  \
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"                            \
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"                            \
    "36 31 0:33 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n"                          \
    "37 31 0:34 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n"                          \
    "39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"                                \
    "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
#define UNIFIED "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
#define OTHER "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"

static void parse(const char *text, struct cgroup_host *h)
{
    *h = (struct cgroup_host){.parent = "osb"};
    cgroup_parse_mounts(str_from(text), h);
}

static void test_modes(void **state)
{
    struct cgroup_host h;
    (void)state;
    parse(OTHER V2, &h);
    assert_int_equal(h.mode, CGROUP_V2);
    parse(OTHER V1, &h);
    assert_int_equal(h.mode, CGROUP_V1);
    parse(OTHER V1 UNIFIED, &h);
    assert_int_equal(h.mode, CGROUP_HYBRID);
    parse(OTHER, &h);
    assert_int_equal(h.mode, CGROUP_NONE);
    parse("", &h);
    assert_int_equal(h.mode, CGROUP_NONE);
}

static void test_hierarchies(void **state)
{
    struct cgroup_host h;
    (void)state;
    parse(V1, &h);
    const struct cgroup_hier *cpu = cgroup_hier_of(&h, CGROUP_CPU);
    assert_non_null(cpu);
    assert_ptr_equal(cpu, cgroup_hier_of(&h, CGROUP_CPUACCT));
    assert_true(cpu->used && cpu->split);
    assert_true(cgroup_hier_of(&h, CGROUP_FREEZER)->used);
    assert_true(cgroup_hier_of(&h, CGROUP_NAMED)->used);
    assert_null(cgroup_hier_of(&h, CGROUP_IO));
    assert_null(cgroup_hier_v2(&h));
    size_t unused = 0;
    for (size_t i = 0; i < h.n_hiers; i++) {
        unused += !h.hier[i].used;
    }
    assert_int_equal(unused, 1); /* cpuset: a new group there takes no process */

    parse(V1 UNIFIED, &h);
    assert_false(cgroup_hier_of(&h, CGROUP_FREEZER)->used); /* v2 has a better one */
    assert_non_null(cgroup_hier_v2(&h));
    assert_true(cgroup_hier_v2(&h)->used);
}

static void test_paths(void **state)
{
    struct cgroup_host h;
    char path[CGROUP_PATH_MAX];
    (void)state;
    parse(V1 UNIFIED, &h);
    cgroup_path(&h, cgroup_hier_of(&h, CGROUP_MEMORY), "id1", "work", path);
    assert_string_equal(path, "/sys/fs/cgroup/memory/osb/id1/work");
    cgroup_path(&h, cgroup_hier_of(&h, CGROUP_DEVICES), "id1", "work", path);
    assert_string_equal(path, "/sys/fs/cgroup/devices/osb/id1"); /* not split */
    cgroup_path(&h, cgroup_hier_v2(&h), "id1", "init", path);
    assert_string_equal(path, "/sys/fs/cgroup/unified/osb/id1/init");
    cgroup_path(&h, cgroup_hier_v2(&h), NULL, NULL, path);
    assert_string_equal(path, "/sys/fs/cgroup/unified/osb");
}

static void test_limits_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct cgroup_limits l;
        const char *word;
    } cases[] = {
        {{.memory_bytes = 1000}, "memory"}, {{.cpu_millis = 1}, "cpu"}, {{.pids = 1}, "pids"},
        {{.cpu_millis = 500}, "no cpu"},    {{.pids = 100}, "no pids"},
    };
    struct cgroup_host h = {.controllers = CGROUP_MEMORY};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = {0};
        assert_int_equal(cgroup_check(&h, &cases[i].l, &e), -1);
        assert_non_null(strstr(e.msg, cases[i].word));
        assert_int_equal(e.code, i < 3 ? ERR_INVALID : ERR_UNSUPPORTED);
    }
    struct cgroup_limits none = {0}, fine = {.memory_bytes = 64 << 20};
    assert_int_equal(cgroup_check(&h, &none, NULL), 0);
    assert_int_equal(cgroup_check(&h, &fine, NULL), 0);
}

static void test_io_lines(void **state)
{
    const uint64_t io[IO_LIMITS] = {[IO_READ_BPS] = 1 << 20, [IO_WRITE_IOPS] = 50};
    const uint64_t none[IO_LIMITS] = {0};
    char line[CGROUP_IO_MAX];
    (void)state;
    cgroup_io_format(true, makedev(254, 16), io, 0, line);
    assert_string_equal(line, "254:16 rbps=1048576 wiops=50");
    cgroup_io_format(false, makedev(8, 0), io, IO_READ_BPS, line);
    assert_string_equal(line, "8:0 1048576");
    cgroup_io_format(false, makedev(8, 0), io, IO_WRITE_BPS, line);
    assert_string_equal(line, "");
    cgroup_io_format(true, makedev(8, 0), none, 0, line);
    assert_string_equal(line, "");

    struct cgroup_limits l = {.io = {1}};
    struct cgroup_host no_disk = {.controllers = CGROUP_IO};
    struct cgroup_host no_controller = {.disk = makedev(8, 0)};
    struct err e = {0};
    assert_int_equal(cgroup_check(&no_disk, &l, &e), -1);
    assert_non_null(strstr(e.msg, "not on a disk"));
    assert_int_equal(cgroup_check(&no_controller, &l, &e), -1);
    assert_non_null(strstr(e.msg, "no io controller"));
}

/* More hierarchies than there is room for, and lines of no shape at all. */
static void test_odd_input(void **state)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(1 << 20);
    struct cgroup_host h;
    (void)state;
    for (int i = 0; i < 100; i++) {
        (void)buf_printf(&text, "%d 1 0:1 / /cg/%d rw - cgroup cgroup rw,memory\n", i, i);
    }
    parse(buf_cstr(&text), &h);
    assert_int_equal(h.n_hiers, CGROUP_HIERS_MAX);
    parse("x\n\n- - -\n1 2 3 4 5 6 - cgroup\n", &h);
    assert_true(h.n_hiers <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),     cmocka_unit_test(test_hierarchies),
        cmocka_unit_test(test_paths),     cmocka_unit_test(test_limits_are_refused),
        cmocka_unit_test(test_odd_input), cmocka_unit_test(test_io_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
