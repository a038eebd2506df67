/* Installed kernels. */

#include "execd/code/kernelspec.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"

struct kernel_json {
    struct str_list argv;
    const char *language, *interrupt_mode;
    struct str_map env;
};

static const struct json_field spec_fields[] = {
    JSON_FIELD(struct kernel_json, argv, "argv", JSON_F_STR_LIST, .required = true, .min_len = 1),
    JSON_FIELD(struct kernel_json, language, "language", JSON_F_STR, .required = true),
    JSON_FIELD(struct kernel_json, interrupt_mode, "interrupt_mode", JSON_F_STR),
    JSON_FIELD(struct kernel_json, env, "env", JSON_F_STR_MAP),
    {0},
};
static const struct json_table spec_table = {
    "kernel.json",
    sizeof(struct kernel_json),
    spec_fields,
};

int kernelspec_parse(struct arena *a, struct str text, const char *name, const char *dir,
                     struct kernelspec *ret)
{
    struct err e;
    struct kernel_json kj;
    cleanup_(json_free) struct json *tree = json_parse(text, &e);
    if (!tree || json_decode(a, &spec_table, tree, &kj, NULL, &e) < 0) {
        return -1;
    }
    char *language = arena_strdup(a, kj.language);
    for (char *p = language; *p; p++) {
        *p = (char)tolower((unsigned char)*p);
    }
    *ret = (struct kernelspec){
        .name = name,
        .language = language,
        .dir = dir,
        .argv = kj.argv,
        .env = kj.env,
        .interrupt_by_message = kj.interrupt_mode && strcmp(kj.interrupt_mode, "message") == 0,
    };
    return 0;
}

/* A kernel that names just "python3" means the interpreter it was installed with, which need not be
 * the first one in PATH. */
static void pin_interpreter(struct arena *a, const char *data_dir, struct kernelspec *k)
{
    const char *tail = "/share/jupyter";
    size_t n = strlen(data_dir), t = strlen(tail);
    if (n <= t || strcmp(data_dir + n - t, tail) != 0 || strchr(k->argv.v[0], '/') ||
        strncmp(k->argv.v[0], "python", 6) != 0) {
        return;
    }
    const char *path = arena_printf(a, "%.*s/bin/%s", (int)(n - t), data_dir, k->argv.v[0]);
    if (access(path, X_OK) == 0) {
        k->argv.v[0] = path;
    }
}

static bool known(const struct kernelspecs *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->v[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void look_at(struct arena *a, const char *data_dir, const char *name,
                    struct kernelspecs *ret)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(KERNELSPEC_MAX_FILE);
    const char *dir = arena_printf(a, "%s/kernels/%s", data_dir, name);
    const char *file = arena_printf(a, "%s/kernel.json", dir);
    if (file_read_regular(AT_FDCWD, file, &text) < 0) {
        return;
    }
    struct kernelspec *k = &ret->v[ret->n];
    if (kernelspec_parse(a, buf_str(&text), arena_strdup(a, name), dir, k) == 0) {
        pin_interpreter(a, data_dir, k);
        ret->n++;
    }
}

static void look_in(struct arena *a, const char *data_dir, struct kernelspecs *ret)
{
    cleanup_closedir DIR *d = opendir(arena_printf(a, "%s/kernels", data_dir));
    const struct dirent *entry;
    for (size_t n = 0; d && n < KERNELSPEC_MAX_NAMES && ret->n < KERNELSPEC_MAX; n++) {
        entry = readdir(d);
        if (!entry) {
            break;
        }
        if (entry->d_name[0] != '.' && !known(ret, entry->d_name)) {
            look_at(a, data_dir, entry->d_name, ret);
        }
    }
}

/* Every directory of a list like PATH. `from_bin`: its sibling share/jupyter, as Python
 * environments have it. */
static void look_in_list(struct arena *a, const char *list, bool from_bin, struct kernelspecs *ret)
{
    struct str rest = str_from(list);
    while (list && rest.p) {
        struct str dir = str_cut(&rest, ':');
        if (dir.n == 0 || dir.p[0] != '/') {
            continue;
        }
        if (!from_bin) {
            look_in(a, arena_str(a, dir), ret);
        } else if (str_ends(dir, STR("/bin"))) {
            look_in(a, arena_printf(a, "%.*s/share/jupyter", (int)dir.n - 4, dir.p), ret);
        }
    }
}

void kernelspecs_find(struct arena *a, struct kernelspecs *ret)
{
    ret->n = 0;
    const char *home = getenv("HOME"), *data = getenv("JUPYTER_DATA_DIR");
    look_in_list(a, getenv("JUPYTER_PATH"), false, ret);
    if (data && *data) {
        look_in(a, data, ret);
    } else if (home && *home) {
        look_in(a, arena_printf(a, "%s/.local/share/jupyter", home), ret);
    }
    look_in_list(a, getenv("PATH"), true, ret);
    look_in(a, "/usr/local/share/jupyter", ret);
    look_in(a, "/usr/share/jupyter", ret);
}

int kernelspec_rank(const char *name, const char *language)
{
    return strcmp(name, language) == 0 ? 0 : strcmp(name, "python3") == 0 ? 2 : 1;
}

const struct kernelspec *kernelspec_choose(const struct kernelspecs *s, const char *language)
{
    const struct kernelspec *best = NULL;
    for (size_t i = 0; i < s->n; i++) {
        const struct kernelspec *k = &s->v[i];
        if (strcmp(k->language, language) == 0 &&
            (!best || kernelspec_rank(k->name, language) < kernelspec_rank(best->name, language))) {
            best = k;
        }
    }
    return best;
}
