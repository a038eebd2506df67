#include "execd/code/complaint.h"

#include <ctype.h>

#include "execd/limits.h"

void complaint_init(struct complaint *c)
{
    buf_init(&c->tail, EXECD_COMPLAINT_MAX);
}

void complaint_done(struct complaint *c)
{
    buf_done(&c->tail);
}

void complaint_add(struct complaint *c, struct str text)
{
    if (text.n > EXECD_COMPLAINT_MAX) {
        text = str_sub(text, text.n - EXECD_COMPLAINT_MAX, text.n);
    }
    if (c->tail.len + text.n > EXECD_COMPLAINT_MAX) {
        buf_consume(&c->tail, c->tail.len + text.n - EXECD_COMPLAINT_MAX);
    }
    (void)buf_add_str(&c->tail, text);
}

/* "TypeError: it is none" has a name of 9; 0 where there is none. */
static size_t name_len(struct str line)
{
    size_t n = 0;
    while (n < line.n && (isalnum((unsigned char)line.p[n]) || line.p[n] == '_')) {
        n++;
    }
    bool named = n + 1 < line.n && line.p[n] == ':' && line.p[n + 1] == ' ';
    struct str name = str_sub(line, 0, n);
    return named && (str_ends(name, STR("Error")) || str_ends(name, STR("Exception"))) ? n : 0;
}

void complaint_read(const struct complaint *c, struct str *ret_ename, struct str *ret_evalue)
{
    struct str rest = buf_str(&c->tail);
    struct str last = {0};
    size_t name = 0;
    while (rest.n > 0) {
        struct str line = str_cut(&rest, '\n');
        bool inner = line.n == 0 || isspace((unsigned char)line.p[0]); /* of a stack */
        size_t n = name_len(line);
        if (!inner && (n > 0 || name == 0)) {
            last = line;
            name = n;
        }
    }
    *ret_ename = name > 0 ? str_sub(last, 0, name) : STR("Error");
    *ret_evalue = name > 0 ? str_sub(last, name + 2, last.n) : last;
}
