#include "net/http_head.h"

struct str http_head_get(struct str head, struct str name)
{
    while (head.p) {
        struct str line = str_cut(&head, '\n');
        if (line.n > name.n && line.p[name.n] == ':' &&
            str_eq_nocase(str_sub(line, 0, name.n), name)) {
            struct str value = str_sub(line, name.n + 1, line.n);
            value.n -= value.n > 0 && value.p[value.n - 1] == '\r';
            return str_trim(value);
        }
    }
    return STR_NULL;
}
