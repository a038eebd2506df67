/* YAML: a tree or a message; what yaml_dump() writes reads back as the same tree. */

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "json/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_n((const char *)data, size);
    struct err e = {0};
    struct json *j = yaml_parse_all(text, &e);
    if (!j) {
        must(e.code != ERR_NONE && e.msg[0]);
        return 0;
    }
    for (size_t i = 0; i < json_len(j); i++) {
        struct buf b = BUF_INIT(64u << 20);
        must(yaml_dump(json_item(j, i), &b) == 0);
        struct json *back = yaml_parse(buf_str(&b), &e);
        must(back && json_eq(json_item(j, i), back));
        json_free(back);
        buf_done(&b);
    }
    json_free(j);
    json_free(yaml_parse(text, NULL));
    return 0;
}
