/* Finding the shell. */

#include "execd/shell.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define JOINED_MAX (16u << 20) /* more than a request may hold, quoted */
#define USUAL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const char *shell_lookup_in(struct arena *a, struct str dirs, const char *name)
{
    while (dirs.p) {
        struct str dir = str_cut(&dirs, ':');
        if (dir.n == 0 || dir.p[0] != '/') {
            continue; /* a relative entry would depend on where we happen to be */
        }
        const char *path = arena_printf(a, "%.*s/%s", STR_FMT(dir), name);
        struct stat st;
        if (access(path, X_OK) == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
            return path;
        }
    }
    return NULL;
}

const char *shell_lookup(struct arena *a, const char *name)
{
    const char *path = shell_lookup_in(a, str_from(getenv("PATH")), name);
    return path ? path : shell_lookup_in(a, STR(USUAL_PATH), name);
}

void shell_find(struct arena *a, struct shell *ret)
{
    const char *bash = shell_lookup(a, "bash");
    const char *sh = bash ? bash : shell_lookup(a, "sh");
    *ret = (struct shell){.path = sh ? sh : "sh", .is_bash = bash != NULL};
}

static bool is_plain(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "@%_+=:,./-";
    return *word && word[strspn(word, plain)] == 0;
}

const char *shell_join(struct arena *a, const char *const *words, size_t n)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(JOINED_MAX);
    for (size_t i = 0; i < n; i++) {
        (void)buf_add_cstr(&out, i ? " " : "");
        if (is_plain(words[i])) {
            (void)buf_add_cstr(&out, words[i]);
            continue;
        }
        (void)buf_add_char(&out, '\'');
        for (const char *p = words[i]; *p; p++) {
            (void)(*p == '\'' ? buf_add_cstr(&out, "'\\''") : buf_add_char(&out, *p));
        }
        (void)buf_add_char(&out, '\'');
    }
    return buf_failed(&out) ? words[0] : arena_str(a, buf_str(&out));
}
