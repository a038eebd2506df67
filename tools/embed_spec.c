/* Build tool: turns an OpenAPI document in YAML into a C array that holds it as JSON.
 * usage: embed_spec NAME IN.yml OUT.c */

#include <fcntl.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "json/yaml.h"

static int fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "embed_spec: %s: %s\n", what, why);
    return 1;
}

static void write_array(FILE *f, const char *name, struct str text)
{
    (void)fprintf(f, "#include \"server/api/spec.h\"\nconst char %s[] = {", name);
    for (size_t i = 0; i < text.n; i++) {
        (void)fprintf(f, "%s%d,", i % 20 ? "" : "\n", text.p[i]);
    }
    (void)fprintf(f, "0};\nconst size_t %s_len = %zu;\n", name, text.n);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        return fail("usage", "NAME IN.yml OUT.c");
    }
    struct buf in = BUF_INIT(4u << 20), out = BUF_INIT(4u << 20);
    struct err e = {0};
    int r = file_read(AT_FDCWD, argv[2], &in);
    if (r < 0) {
        return fail(argv[2], strerror(-r));
    }
    cleanup_(json_free) struct json *j = yaml_parse(buf_str(&in), &e);
    if (!j || json_dump(j, &out, 0) < 0) {
        return fail(argv[2], e.code ? e.msg : "too large");
    }
    FILE *f = fopen(argv[3], "we");
    if (!f) {
        return fail(argv[3], "cannot be written");
    }
    write_array(f, argv[1], buf_str(&out));
    r = fclose(f);
    buf_done(&in);
    buf_done(&out);
    return r == 0 ? 0 : fail(argv[3], "cannot be written");
}
