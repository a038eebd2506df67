/* TOML: a tree or a line number; the tree survives JSON; lines name keys that exist. */

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "json/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_n((const char *)data, size);
    struct err e = {0};
    struct json *lines = NULL;
    struct json *j = toml_parse_lines(text, &lines, &e);
    struct json *plain = toml_parse(text, NULL);
    must(!j == !plain);
    if (!j) {
        must(!lines && e.code != ERR_NONE && str_starts(str_from(e.msg), STR("line ")));
        return 0;
    }
    must(json_eq(j, plain) && json_is_object(lines));
    struct buf b = BUF_INIT(64u << 20);
    must(json_dump(j, &b, 0) == 0);
    struct json *back = json_parse(buf_str(&b), &e);
    must(back && json_eq(j, back));
    buf_done(&b);
    json_free(back);
    json_free(plain);
    json_free(lines);
    json_free(j);
    return 0;
}
