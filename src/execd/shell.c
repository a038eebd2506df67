/* Finding the shell. */

#include "execd/shell.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

#define USUAL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static const char *lookup_in(struct arena *a, struct str dirs, const char *name)
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
    const char *path = lookup_in(a, str_from(getenv("PATH")), name);
    return path ? path : lookup_in(a, STR(USUAL_PATH), name);
}

void shell_find(struct arena *a, struct shell *ret)
{
    const char *bash = shell_lookup(a, "bash");
    const char *sh = bash ? bash : shell_lookup(a, "sh");
    *ret = (struct shell){.path = sh ? sh : "sh", .is_bash = bash != NULL};
}
