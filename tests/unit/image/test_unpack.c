/* Layers, friendly and hostile, made with libarchive and unpacked into a directory of their own. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "server/layer/unpack.h"

enum kind { REG, DIR_, SYM, HARD, CHR, FIFO };

struct member {
    enum kind kind;
    const char *path, *data; /* data: content, or link target */
    mode_t mode;
    int uid;
};

struct layer {
    char dir[64];
    int root_fd, tar_fd;
};

static void setup(struct layer *l)
{
    (void)snprintf(l->dir, sizeof(l->dir), "/var/tmp/osb-unpack-XXXXXX");
    assert_non_null(mkdtemp(l->dir));
    assert_int_equal(mkdirat(AT_FDCWD, l->dir, 0755) < 0 && errno == EEXIST, 1);
    char root[80];
    (void)snprintf(root, sizeof(root), "%s/root", l->dir);
    assert_int_equal(mkdir(root, 0755), 0);
    l->root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(l->root_fd >= 0);
    l->tar_fd = memfd_create("layer", MFD_CLOEXEC);
    assert_true(l->tar_fd >= 0);
}

static void teardown(struct layer *l)
{
    (void)close(l->root_fd);
    (void)close(l->tar_fd);
    assert_int_equal(dir_remove(AT_FDCWD, l->dir, false), 0);
}

static mode_t type_of(enum kind k)
{
    switch (k) {
    case DIR_:
        return AE_IFDIR;
    case SYM:
        return AE_IFLNK;
    case CHR:
        return AE_IFCHR;
    case FIFO:
        return AE_IFIFO;
    case REG:
    case HARD:
        break;
    }
    return AE_IFREG;
}

static void write_tar(struct layer *l, const struct member *m, size_t n, bool gzip)
{
    struct archive *a = archive_write_new();
    archive_write_set_format_pax_restricted(a);
    if (gzip) {
        archive_write_add_filter_gzip(a);
    }
    assert_int_equal(archive_write_open_fd(a, l->tar_fd), ARCHIVE_OK);
    for (size_t i = 0; i < n; i++) {
        struct archive_entry *ent = archive_entry_new();
        archive_entry_set_pathname(ent, m[i].path);
        archive_entry_set_filetype(ent, type_of(m[i].kind));
        archive_entry_set_perm(ent, m[i].mode ? m[i].mode : 0644);
        archive_entry_set_uid(ent, m[i].uid);
        archive_entry_set_mtime(ent, 1000000000, 0);
        if (m[i].kind == SYM) {
            archive_entry_set_symlink(ent, m[i].data);
        } else if (m[i].kind == HARD) {
            archive_entry_set_hardlink(ent, m[i].data);
        } else if (m[i].kind == REG) {
            archive_entry_set_size(ent, (la_int64_t)strlen(m[i].data));
            archive_entry_xattr_add_entry(ent, "user.note", "x", 1);
            archive_entry_xattr_add_entry(ent, "trusted.overlay.opaque", "y", 1);
        }
        assert_int_equal(archive_write_header(a, ent), ARCHIVE_OK);
        if (m[i].kind == REG) {
            assert_true(archive_write_data(a, m[i].data, strlen(m[i].data)) >= 0);
        }
        archive_entry_free(ent);
    }
    assert_int_equal(archive_write_close(a), ARCHIVE_OK);
    archive_write_free(a);
    assert_int_equal(lseek(l->tar_fd, 0, SEEK_SET), 0);
}

static int unpack_members(struct layer *l, const struct member *m, size_t n,
                          struct layer_result *st, struct err *e)
{
    write_tar(l, m, n, true);
    return layer_unpack(l->tar_fd, l->root_fd, true, st, e);
}

static void a_layer_comes_out_as_it_went_in(void **state)
{
    (void)state;
    static const struct member m[] = {
        {DIR_, "./", NULL, 0755, 0},
        {DIR_, "bin", NULL, 0755, 0},
        {REG, "./bin/tool", "hello", 04755, 7},
        {HARD, "bin/other", "bin/tool", 0, 0},
        {SYM, "lib", "usr/lib", 0777, 0},
        {REG, "deep/er/file", "x", 0600, 0}, /* parents that the archive does not mention */
        {FIFO, "pipe", NULL, 0644, 0},
        {CHR, "dev/null", NULL, 0666, 0},
    };
    struct layer l;
    struct layer_result st;
    struct err e = {0};
    struct stat s;
    char note[4];
    setup(&l);
    assert_int_equal(unpack_members(&l, m, sizeof(m) / sizeof(m[0]), &st, &e), 0);
    assert_int_equal(fstatat(l.root_fd, "bin/tool", &s, 0), 0);
    assert_int_equal(s.st_mode & 07777, 04755);
    assert_int_equal(s.st_uid, 7);
    assert_int_equal(s.st_nlink, 2);
    assert_int_equal(s.st_mtim.tv_sec, 1000000000);
    assert_int_equal(fstatat(l.root_fd, "bin", &s, 0), 0);
    assert_int_equal(s.st_mtim.tv_sec, 1000000000);
    assert_int_equal(fstatat(l.root_fd, "lib", &s, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISLNK(s.st_mode));
    assert_int_equal(fstatat(l.root_fd, "deep/er/file", &s, 0), 0);
    assert_int_equal(fstatat(l.root_fd, "dev/null", &s, 0), -1);
    assert_int_equal(st.devices_skipped, 1);
    assert_int_equal(st.bytes, 6);
    int fd = openat(l.root_fd, "bin/tool", O_RDONLY | O_CLOEXEC);
    assert_int_equal(fgetxattr(fd, "user.note", note, sizeof(note)), 1);
    assert_int_equal(fgetxattr(fd, "trusted.overlay.opaque", note, sizeof(note)), -1);
    (void)close(fd);
    teardown(&l);
}

static void whiteouts_become_overlay_ones(void **state)
{
    (void)state;
    static const struct member m[] = {
        {DIR_, "etc", NULL, 0755, 0},
        {REG, "etc/.wh.passwd", "", 0, 0},
        {DIR_, "var", NULL, 0755, 0},
        {REG, "var/.wh..wh..opq", "", 0, 0},
    };
    struct layer l;
    struct layer_result st;
    struct err e = {0};
    struct stat s;
    char v[4];
    setup(&l);
    assert_int_equal(unpack_members(&l, m, sizeof(m) / sizeof(m[0]), &st, &e), 0);
    assert_int_equal(fstatat(l.root_fd, "etc/passwd", &s, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISCHR(s.st_mode) && s.st_rdev == makedev(0, 0));
    int fd = openat(l.root_fd, "var", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(fgetxattr(fd, "trusted.overlay.opaque", v, sizeof(v)), 1);
    (void)close(fd);
    teardown(&l);
}

static void later_entries_replace_earlier_ones(void **state)
{
    (void)state;
    static const struct member m[] = {
        {DIR_, "a", NULL, 0755, 0},      {REG, "a/b", "1", 0, 0},    {REG, "a", "file", 0, 0},
        {REG, "c", "1", 0, 0},           {DIR_, "c", NULL, 0755, 0}, {REG, "d", "1", 0, 0},
        {SYM, "d", "/etc/passwd", 0, 0}, {REG, "d", "2", 0, 0},
    };
    struct layer l;
    struct layer_result st;
    struct err e = {0};
    struct stat s;
    setup(&l);
    assert_int_equal(unpack_members(&l, m, sizeof(m) / sizeof(m[0]), &st, &e), 0);
    assert_int_equal(fstatat(l.root_fd, "a", &s, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISREG(s.st_mode));
    assert_int_equal(fstatat(l.root_fd, "c", &s, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISDIR(s.st_mode));
    assert_int_equal(fstatat(l.root_fd, "d", &s, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISREG(s.st_mode) && s.st_size == 1);
    teardown(&l);
}

/* Every one of these is refused with a reason, and nothing appears outside the root. */
static void escapes_are_refused(void **state)
{
    (void)state;
    static const struct member bad[][2] = {
        {{REG, "../escaped", "x", 0, 0}, {DIR_, "ok", NULL, 0755, 0}},
        {{REG, "a/../../escaped", "x", 0, 0}, {DIR_, "ok", NULL, 0755, 0}},
        {{HARD, "h", "../escaped", 0, 0}, {DIR_, "ok", NULL, 0755, 0}},
        {{HARD, "h", "/etc/shadow", 0, 0}, {DIR_, "ok", NULL, 0755, 0}},
        {{REG, "x/.wh.", "", 0, 0}, {DIR_, "ok", NULL, 0755, 0}},
        {{REG, "x/.wh...", "", 0, 0}, {DIR_, "ok", NULL, 0755, 0}},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct layer l;
        struct layer_result st;
        struct err e = {0};
        char outside[96];
        setup(&l);
        assert_int_equal(unpack_members(&l, bad[i], 2, &st, &e), -1);
        assert_true(e.msg[0] != '\0');
        (void)snprintf(outside, sizeof(outside), "%s/escaped", l.dir);
        assert_int_equal(access(outside, F_OK), -1);
        teardown(&l);
    }
}

/* A link inside the layer redirects only inside the layer. */
static void links_do_not_lead_out(void **state)
{
    (void)state;
    char target[96];
    struct layer l;
    struct layer_result st;
    struct err e = {0};
    struct stat s;
    setup(&l);
    (void)snprintf(target, sizeof(target), "%s/outside", l.dir);
    assert_int_equal(mkdir(target, 0755), 0);
    const struct member m[] = {
        {SYM, "abs", target, 0, 0},
        {SYM, "up", "../outside", 0, 0},
        {SYM, "top", "/", 0, 0},
        {REG, "top/inside", "x", 0, 0},
    };
    assert_int_equal(unpack_members(&l, m, 4, &st, &e), 0);
    assert_int_equal(fstatat(l.root_fd, "inside", &s, AT_SYMLINK_NOFOLLOW), 0);
    const struct member evil[] = {{SYM, "abs", target, 0, 0}, {REG, "abs/evil", "x", 0, 0}};
    struct layer l2;
    setup(&l2);
    (void)unpack_members(&l2, evil, 2, &st, &e); /* may succeed inside or fail: never outside */
    assert_int_equal(fstatat(AT_FDCWD, target, &s, 0), 0);
    (void)snprintf(target, sizeof(target), "%s/outside/evil", l.dir);
    assert_int_equal(access(target, F_OK), -1);
    teardown(&l2);
    teardown(&l);
}

static void garbage_and_truncation_are_errors(void **state)
{
    (void)state;
    static const struct member m[] = {
        {REG, "file", "some content that is long enough to be cut", 0, 0}};
    struct layer l;
    struct layer_result st;
    struct err e = {0};
    setup(&l);
    write_tar(&l, m, 1, false);
    assert_int_equal(ftruncate(l.tar_fd, 520), 0);
    assert_int_equal(layer_unpack(l.tar_fd, l.root_fd, true, &st, &e), -1);
    assert_int_equal(ftruncate(l.tar_fd, 0), 0);
    assert_int_equal(pwrite(l.tar_fd, "this is no archive at all, not even nearly one", 46, 0), 46);
    assert_int_equal(lseek(l.tar_fd, 0, SEEK_SET), 0);
    assert_int_equal(layer_unpack(l.tar_fd, l.root_fd, true, &st, &e), -1);
    teardown(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_comes_out_as_it_went_in),
        cmocka_unit_test(whiteouts_become_overlay_ones),
        cmocka_unit_test(later_entries_replace_earlier_ones),
        cmocka_unit_test(escapes_are_refused),
        cmocka_unit_test(links_do_not_lead_out),
        cmocka_unit_test(garbage_and_truncation_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
