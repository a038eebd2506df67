/* Domain patterns: input is "pattern\nname". */

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "net/domain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str name = str_n((const char *)data, size);
    struct str pattern = str_cut(&name, '\n');
    char norm[DOMAIN_MAX + 1], again[DOMAIN_MAX + 1];
    must((domain_normalize(name, norm) == 0) == domain_valid(name));
    if (domain_valid(name)) {
        must(domain_normalize(str_from(norm), again) == 0 && strcmp(norm, again) == 0);
        must(domain_match(name, str_from(norm)));
        must(domain_match(STR("*"), name));
        must(domain_pattern_valid(name));
        must(domain_match(pattern, name) == domain_match(pattern, str_from(norm)));
    }
    if (domain_pattern_valid(pattern) && domain_match(pattern, name) && pattern.n > 1) {
        struct str tail = pattern.p[0] == '*' ? str_sub(pattern, 1, pattern.n) : pattern;
        must(name.n + 1 >= tail.n); /* a name is never shorter than what it must end with */
        must(pattern.p[0] != '*' || !domain_match(str_sub(pattern, 2, pattern.n), name));
    }
    return 0;
}
