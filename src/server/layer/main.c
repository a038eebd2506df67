/* opensandbox-layer: archives into directories and back, one for each run. A program of the
 * server's own, so that what reads the archives of strangers is confined and dies alone.
 *
 *   opensandbox-layer unpack|unpack-plain|pack PARENT ROOT
 *
 * PARENT is the process id of the server, ROOT an inherited descriptor of a directory; the archive
 * is descriptor 0, also the one that is written. The outcome is one line on standard output
 * (result.h); the exit code says only whether that could be said. */

#include <fcntl.h>
#include <iconv.h>
#include <locale.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/num.h"
#include "server/layer/confine.h"
#include "server/layer/pack.h"
#include "server/layer/unpack.h"

static int number(const char *arg, struct err *e)
{
    uint32_t v;
    if (parse_u32(str_from(arg), &v) < 0 || v > INT32_MAX) {
        return err_set(e, ERR_INVALID, "not a number: %s", arg);
    }
    return (int)v;
}

/* Whatever the C library reads for converting names is read now: later "/" is the layer's. */
static void load_charset(void)
{
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    iconv_t cd = iconv_open("UTF-8", "UTF-8");
    if (cd != (iconv_t)-1) {
        (void)iconv_close(cd);
    }
}

static int run(char **argv, struct layer_result *ret, struct err *e)
{
    const char *verb = argv[1];
    int parent = number(argv[2], e), root = number(argv[3], e);
    if (parent < 0 || root < 0) {
        return -1;
    }
    load_charset();
    if (confine_to_parent(parent, e) < 0 || confine_to_root(root, e) < 0) {
        return -1;
    }
    if (strcmp(verb, "pack") == 0) {
        return layer_pack(root, STDIN_FILENO, ret, e);
    }
    if (strcmp(verb, "unpack") != 0 && strcmp(verb, "unpack-plain") != 0) {
        return err_set(e, ERR_INVALID, "unknown verb %s", verb);
    }
    return layer_unpack(STDIN_FILENO, root, strcmp(verb, "unpack") == 0, ret, e);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct layer_result result = {0};
    if (argc != 4) {
        static const char usage[] = "opensandbox-layer is run by opensandbox-server\n";
        (void)fd_write_full(STDERR_FILENO, usage, sizeof(usage) - 1);
        return 2;
    }
    int r = run(argv, &result, &e);
    struct buf line = BUF_INIT(LAYER_RESULT_MAX);
    layer_result_format(&line, &result, r < 0 ? &e : NULL);
    /* Nothing is left to be done at exit, and what a sanitizer would do there needs a /proc. */
    _exit(fd_write_full(STDOUT_FILENO, line.p, line.len) < 0 ? 1 : 0);
}
