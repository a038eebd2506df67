/* Search patterns: first line the pattern, the rest the name. Checked patterns must match or not
 * within the step limit, and a name without metacharacters must match itself. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "execd/fs_glob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = str_n((const char *)data, size);
    struct str pattern = str_cut(&rest, '\n');
    if (!rest.p) {
        rest = STR("");
    }
    int r = glob_check(pattern);
    if (r < 0) {
        return 0;
    }
    r = glob_match(pattern, rest);
    if (r != 0 && r != 1 && r != -E2BIG) {
        abort();
    }
    bool plain = true;
    for (size_t i = 0; i < pattern.n; i++) {
        plain = plain && !strchr("*?[]{}!()\\/", pattern.p[i]);
    }
    if (plain && pattern.n > 0 && glob_match(pattern, pattern) != 1) {
        abort();
    }
    return 0;
}
