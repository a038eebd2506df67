/* Tar headers of ours, read back by libarchive. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <archive.h>
#include <archive_entry.h>
#include <string.h>

#include "server/image/ustar.h"

static void read_back(const char *name, char type, mode_t mode, uint64_t size)
{
    char block[USTAR_BLOCK];
    struct archive_entry *ent;
    struct archive *a = archive_read_new();
    ustar_header(block, name, type, mode, size);
    archive_read_support_format_tar(a);
    assert_int_equal(archive_read_open_memory(a, block, sizeof(block)), ARCHIVE_OK);
    assert_int_equal(archive_read_next_header(a, &ent), ARCHIVE_OK);
    assert_string_equal(archive_entry_pathname(ent), name);
    assert_int_equal(archive_entry_filetype(ent), type == '5' ? AE_IFDIR : AE_IFREG);
    assert_int_equal(archive_entry_perm(ent), mode);
    assert_true((uint64_t)archive_entry_size(ent) == size);
    assert_int_equal(archive_entry_uid(ent), 0);
    archive_read_free(a);
}

static void test_headers(void **state)
{
    (void)state;
    char longest[USTAR_NAME_MAX + 1] = "";
    memset(longest, 'n', USTAR_NAME_MAX);
    read_back("oci-layout", '0', 0644, 0);
    read_back("dir/", '5', 0755, 0);
    read_back(longest, '0', 0400, 513);
    read_back("largest-in-octal", '0', 0644, (8ull << 30) - 1);
    read_back("first-beyond", '0', 0644, 8ull << 30);
    read_back("very-large", '0', 0644, 3ull << 40);
}

static void test_padding(void **state)
{
    (void)state;
    assert_int_equal(ustar_padding(0), 0);
    assert_int_equal(ustar_padding(1), 511);
    assert_int_equal(ustar_padding(512), 0);
    assert_int_equal(ustar_padding((8ull << 30) + 1), 511);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
