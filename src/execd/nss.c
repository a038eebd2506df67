/* The one name service call in the static link. libuv's core refers to getpwuid_r() for
 * uv_os_homedir(), which is never called here. Defining it keeps libc's own, and with it the
 * loading of name service modules, out of the program; the build stops at the linker's warning
 * otherwise. */

#include <errno.h>
#include <pwd.h>

#include "base/cleanup.h"
#include "execd/passwd.h"

int getpwuid_r(uid_t uid, struct passwd *pw, char *mem, size_t mem_len, struct passwd **ret)
{
    *ret = NULL;
    cleanup_(passwd_done) struct passwd_db db;
    passwd_load(&db);
    const struct passwd_user *u = passwd_user_by_uid(&db, uid);
    if (!u) {
        return 0;
    }
    size_t name_len = strlen(u->name) + 1, home_len = strlen(u->home) + 1;
    size_t shell_len = strlen(u->shell) + 1;
    if (mem_len < name_len + home_len + shell_len) {
        return ERANGE;
    }
    *pw = (struct passwd){.pw_uid = uid, .pw_gid = u->gid};
    pw->pw_name = memcpy(mem, u->name, name_len);
    pw->pw_dir = memcpy(mem + name_len, u->home, home_len);
    pw->pw_shell = memcpy(mem + name_len + home_len, u->shell, shell_len);
    pw->pw_passwd = pw->pw_gecos = pw->pw_name + name_len - 1; /* "" */
    *ret = pw;
    return 0;
}
