/* Domain names and the patterns that policies are made of. */

#include "net/domain.h"

#include <errno.h>

static struct str without_dot(struct str s)
{
    if (s.n && s.p[s.n - 1] == '.') {
        s.n--;
    }
    return s;
}

static bool is_label_char(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '-' ||
           c == '_';
}

static bool label_valid(struct str s)
{
    if (s.n == 0 || s.n > 63 || s.p[0] == '-' || s.p[s.n - 1] == '-') {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (!is_label_char(s.p[i])) {
            return false;
        }
    }
    return true;
}

bool domain_valid(struct str s)
{
    struct str rest = without_dot(s);
    if (rest.n == 0 || rest.n > DOMAIN_MAX) {
        return false;
    }
    while (rest.p) {
        if (!label_valid(str_cut(&rest, '.'))) {
            return false;
        }
    }
    return true;
}

bool domain_pattern_valid(struct str s)
{
    if (str_eq(s, STR("*"))) {
        return true;
    }
    /* "*." counts as a label of the name that it stands for. */
    if (str_starts(s, STR("*."))) {
        return without_dot(s).n <= DOMAIN_MAX && domain_valid(str_sub(s, 2, s.n));
    }
    return domain_valid(s);
}

bool domain_match(struct str pattern, struct str name)
{
    if (str_eq(pattern, STR("*"))) {
        return true;
    }
    pattern = without_dot(pattern);
    name = without_dot(name);
    if (!str_starts(pattern, STR("*."))) {
        return pattern.n > 0 && str_eq_nocase(pattern, name);
    }
    struct str suffix = str_sub(pattern, 1, pattern.n); /* with its dot: whole labels only */
    if (suffix.n < 2 || name.n <= suffix.n || name.p[0] == '.') {
        return false;
    }
    return str_eq_nocase(str_sub(name, name.n - suffix.n, name.n), suffix);
}

int domain_normalize(struct str s, char out[DOMAIN_MAX + 1])
{
    if (!domain_valid(s)) {
        return -EINVAL;
    }
    s = without_dot(s);
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        out[i] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    }
    out[s.n] = 0;
    return 0;
}

static bool is_number(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9') {
            return false;
        }
    }
    return true;
}

int domain_target(struct str s, char out[DOMAIN_MAX + 1], bool *ret_below)
{
    *ret_below = str_starts(s, STR("*."));
    int r = domain_normalize(*ret_below ? str_sub(s, 2, s.n) : s, out);
    struct str name = r < 0 ? STR_NULL : str_from(out);
    return r < 0 || is_number(str_sub(name, (size_t)(str_rfind(name, '.') + 1), name.n)) ? -EINVAL
                                                                                         : 0;
}
