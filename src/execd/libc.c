/* What the static program has instead of libc's own. libuv and jansson refer to these for functions
 * that execd never calls; defining them here keeps large parts of libc, and everything that would
 * load modules of the image's own libc at run time, out of the link. Not part of the sanitizer
 * builds, which are dynamic. */

#include <errno.h>
#include <pwd.h>
#include <stdarg.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "execd/passwd.h"
#include "json/pattern.h"

/* uv_os_homedir(): the name service. The linker's warning about it would stop the build. */
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

/* No field table of execd has a pattern: 70 kB of regular expressions stay out. */
bool pattern_match(const char *pattern, const char *s)
{
    must(!"execd has no patterns");
    return false;
}

/* assert(): libc's prints through wide characters and message catalogues. */
_Noreturn void libc_assert_fail(const char *cond, const char *file, unsigned line,
                                const char *function) __asm__("__assert_fail");
_Noreturn void libc_assert_fail(const char *cond, const char *file, unsigned line,
                                const char *function)
{
    must_fail(cond, file, (int)line);
}

/* strerror() and others: messages are not translated. */
const char *libc_dcgettext(const char *domain, const char *text,
                           int category) __asm__("__dcgettext");
const char *libc_dcgettext(const char *domain, const char *text, int category)
{
    return text;
}

/* uv_cpu_info() and uv_resident_set_memory(): find nothing. */
int libc_sscanf(const char *text, const char *format, ...) __asm__("sscanf");
int libc_sscanf(const char *text, const char *format, ...)
{
    return EOF;
}
int libc_fscanf(FILE *f, const char *format, ...) __asm__("fscanf");
int libc_fscanf(FILE *f, const char *format, ...)
{
    return EOF;
}

/* uv_fs_*(): looks for newer system call wrappers, and does without them. */
void *libc_dlsym(void *handle, const char *name) __asm__("dlsym");
void *libc_dlsym(void *handle, const char *name)
{
    return NULL;
}

/* uv_fs_readlink(): has a limit of its own for whoever does not know. libc's reads mount tables. */
long libc_pathconf(const char *path, int name) __asm__("pathconf");
long libc_pathconf(const char *path, int name)
{
    errno = EINVAL;
    return -1;
}
