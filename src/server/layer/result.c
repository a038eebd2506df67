/* The one line between opensandbox-layer and the server. */

#include "server/layer/result.h"

#include "base/must.h"
#include "base/num.h"

void layer_result_format(struct buf *out, const struct layer_result *r, const struct err *e)
{
    if (e) {
        (void)buf_printf(out, "error %s %d %s\n", err_code_name(e->code), e->sys, e->msg);
    } else {
        (void)buf_printf(out, "ok %llu %llu %llu %s\n", (unsigned long long)r->bytes,
                         (unsigned long long)r->entries, (unsigned long long)r->devices_skipped,
                         r->digest);
    }
}

static enum err_code code_of(struct str name)
{
    for (int i = ERR_NONE + 1; i < ERR__COUNT; i++) {
        if (str_eq(name, str_from(err_code_name((enum err_code)i)))) {
            return (enum err_code)i;
        }
    }
    return ERR_NONE;
}

static int parse_error(struct str rest, struct err *e)
{
    uint64_t sys;
    enum err_code code = code_of(str_cut(&rest, ' '));
    if (code == ERR_NONE || parse_u64(str_cut(&rest, ' '), &sys) < 0 || sys > 4095 || !rest.p) {
        return err_set(e, ERR_INTERNAL, "opensandbox-layer: unreadable error");
    }
    (void)err_set(e, code, "%.*s", STR_FMT(rest));
    e->sys = (int)sys;
    return -1;
}

int layer_result_parse(struct str line, struct layer_result *ret, struct err *e)
{
    struct layer_result r = {0};
    struct str rest = line;
    if (rest.n == 0 || rest.p[rest.n - 1] != '\n' || rest.n > LAYER_RESULT_MAX) {
        return err_set(e, ERR_INTERNAL, "opensandbox-layer: no result");
    }
    rest.n--;
    struct str word = str_cut(&rest, ' ');
    if (str_eq(word, STR("error"))) {
        return parse_error(rest, e);
    }
    if (!str_eq(word, STR("ok")) || parse_u64(str_cut(&rest, ' '), &r.bytes) < 0 ||
        parse_u64(str_cut(&rest, ' '), &r.entries) < 0 ||
        parse_u64(str_cut(&rest, ' '), &r.devices_skipped) < 0 || !image_digest_valid(rest) ||
        str_to_cstr(rest, r.digest, sizeof(r.digest)) < 0) {
        return err_set(e, ERR_INTERNAL, "opensandbox-layer: unreadable result");
    }
    *ret = r;
    return 0;
}
