/* osb cp: files and directories in and out. SANDBOX_ID:PATH names the side that is remote. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/limits.h"
#include "cli/spinner.h"

/* One copy, and how far it is. */
struct copy {
    struct cli *x;
    struct osb_sandbox *s;
    struct spinner *spinner;
    uint64_t files, bytes;
};

static void count(struct copy *c, int64_t size)
{
    char text[80];
    c->files++;
    c->bytes += (uint64_t)size;
    (void)snprintf(text, sizeof(text), "Copying: %llu file%s, %.1f MB",
                   (unsigned long long)c->files, c->files == 1 ? "" : "s", (double)c->bytes / 1e6);
    spinner_text(c->spinner, text);
}

/* Before anything else is written to the terminal; errno stays as it is. */
static struct cli *quiet(struct copy *c)
{
    int saved = errno;
    spinner_stop(c->spinner);
    c->spinner = NULL;
    errno = saved;
    return c->x;
}

__attribute__((format(printf, 2, 3))) static void skipped(struct copy *c, const char *fmt, ...)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(64u << 10);
    va_list ap;
    va_start(ap, fmt);
    (void)buf_vprintf(&b, fmt, ap);
    va_end(ap);
    out_warn(&quiet(c)->out, "Skipped %s", buf_cstr(&b));
    c->spinner = spinner_start(&c->x->out, "Copying");
}

/* "id:path" with no slash in the id. */
static const char *remote_part(const char *arg, char **ret_id)
{
    const char *colon = strchr(arg, ':'), *slash = strchr(arg, '/');
    if (!colon || colon == arg || !colon[1] || (slash && slash < colon)) {
        return NULL;
    }
    *ret_id = xstrndup(arg, (size_t)(colon - arg));
    return colon + 1;
}

static char *join(const char *dir, const char *name)
{
    size_t n = strlen(dir);
    return xasprintf("%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
}

static char *last_name(const char *path)
{
    cleanup_free char *copy = xstrdup(path);
    return xstrdup(basename(copy));
}

static int octal_digits(mode_t mode)
{
    mode &= 0777;
    return (int)((mode >> 6) * 100 + ((mode >> 3) & 7) * 10 + (mode & 7));
}

/* ---- in ---- */

static int send_tree(struct copy *c, const char *local, const char *remote, unsigned depth);

static int send_directory(struct copy *c, const char *local, const char *remote, unsigned depth)
{
    struct osb_error e = {0};
    const char *const paths[] = {remote, NULL};
    cleanup_closedir DIR *d = opendir(local);
    const struct dirent *entry;
    int r = 0;
    if (!d) {
        return cli_fail(quiet(c), "%s: %s", local, strerror(errno));
    }
    if (depth > CLI_MAX_TREE_DEPTH) {
        return cli_fail(quiet(c), "%s: more than %d directories deep.", local, CLI_MAX_TREE_DEPTH);
    }
    if (osb_make_dirs(c->s, paths, NULL, &e) < 0) {
        return cli_error(quiet(c), &e, "Create %s", remote);
    }
    while (r == 0 && (entry = readdir(d))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        cleanup_free char *from = join(local, entry->d_name), *to = join(remote, entry->d_name);
        r = send_tree(c, from, to, depth + 1);
    }
    return r;
}

static int send_tree(struct copy *c, const char *local, const char *remote, unsigned depth)
{
    struct osb_error e = {0};
    struct stat st;
    /* A link that was named is followed, those found below are not. */
    if ((depth ? lstat(local, &st) : stat(local, &st)) < 0) {
        return cli_fail(quiet(c), "%s: %s", local, strerror(errno));
    }
    if (S_ISDIR(st.st_mode)) {
        return send_directory(c, local, remote, depth);
    }
    if (!S_ISREG(st.st_mode)) {
        skipped(c, "%s: not a regular file", local);
        return 0;
    }
    const struct osb_write_opts w = {.mode = octal_digits(st.st_mode), .call = cli_call(c->x)};
    if (osb_upload_file(c->s, local, remote, &w, &e) < 0) {
        return cli_error(quiet(c), &e, "Upload %s", local);
    }
    count(c, st.st_size);
    return 0;
}

static bool remote_is_dir(struct osb_sandbox *s, const char *path)
{
    const char *const paths[] = {path, NULL};
    struct osb_file_list l = {0};
    bool dir =
        osb_file_info(s, paths, &l, NULL) == 0 && l.n == 1 && strcmp(l.v[0].type, "directory") == 0;
    osb_file_list_done(&l);
    return dir;
}

static int copy_in(struct copy *c, const char *local, const char *remote)
{
    cleanup_free char *name = last_name(local);
    cleanup_free char *inside = join(remote, name);
    bool into = remote[strlen(remote) - 1] == '/' || remote_is_dir(c->s, remote);
    return send_tree(c, local, into ? inside : remote, 0);
}

/* ---- out ---- */

/* The sandbox names the paths: nothing of them may lead out of the target. */
static bool path_is_safe(const char *relative)
{
    struct str rest = str_from(relative);
    if (relative[0] == '/' || !relative[0]) {
        return false;
    }
    while (rest.p) {
        struct str part = str_cut(&rest, '/');
        if (!part.n || str_eq(part, STR("..")) || str_eq(part, STR("."))) {
            return false;
        }
    }
    return true;
}

static int fetch_entry(struct copy *c, const struct osb_file_info *f, const char *root,
                       const char *local)
{
    struct osb_error e = {0};
    struct str path = str_from(f->path), prefix = str_from(root);
    while (prefix.n > 1 && prefix.p[prefix.n - 1] == '/') {
        prefix.n--;
    }
    size_t skip = prefix.n + (prefix.n > 1);
    if (!str_starts(path, prefix) || path.n <= skip || !path_is_safe(f->path + skip)) {
        skipped(c, "%s: a path that leads elsewhere", f->path);
        return 0;
    }
    cleanup_free char *to = join(local, f->path + skip);
    if (strcmp(f->type, "directory") == 0) {
        int r = dir_make(AT_FDCWD, to, 0755);
        return r < 0 ? cli_fail(quiet(c), "%s: %s", to, strerror(-r)) : 0;
    }
    if (strcmp(f->type, "file") != 0) {
        skipped(c, "%s: not a regular file", f->path);
        return 0;
    }
    const struct osb_read_opts o = {.call = cli_call(c->x)};
    if (osb_download_file(c->s, f->path, to, &o, &e) < 0) {
        return cli_error(quiet(c), &e, "Download %s", f->path);
    }
    count(c, f->size);
    unsigned m = (unsigned)f->mode;
    (void)chmod(to, ((m / 100 % 10) << 6 | (m / 10 % 10) << 3 | m % 10) & 0777);
    return 0;
}

static int fetch_directory(struct copy *c, const char *remote, const char *local)
{
    struct osb_error e = {0};
    struct osb_file_list l = {0};
    int r = dir_make(AT_FDCWD, local, 0755);
    if (r < 0) {
        return cli_fail(quiet(c), "%s: %s", local, strerror(-r));
    }
    if (osb_list_dir(c->s, remote, CLI_MAX_TREE_DEPTH, &l, &e) < 0) {
        return cli_error(quiet(c), &e, "List %s", remote);
    }
    /* Directories first: the order of a listing is nobody's promise. */
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < l.n && r == 0; i++) {
            if ((strcmp(l.v[i].type, "directory") == 0) == (pass == 0)) {
                r = fetch_entry(c, &l.v[i], remote, local);
            }
        }
    }
    osb_file_list_done(&l);
    return r;
}

static int copy_out(struct copy *c, const char *remote, const char *local)
{
    struct osb_error e = {0};
    struct stat st;
    const char *const paths[] = {remote, NULL};
    struct osb_file_list l = {0};
    if (osb_file_info(c->s, paths, &l, &e) < 0 || l.n != 1) {
        osb_file_list_done(&l);
        return cli_error(quiet(c), &e, "Look at %s", remote);
    }
    cleanup_free char *absolute = xstrdup(l.v[0].path);
    bool is_dir = strcmp(l.v[0].type, "directory") == 0;
    osb_file_list_done(&l);
    cleanup_free char *name = last_name(absolute);
    cleanup_free char *inside = join(local, name);
    const char *to = stat(local, &st) == 0 && S_ISDIR(st.st_mode) ? inside : local;
    if (is_dir) {
        return fetch_directory(c, absolute, to);
    }
    const struct osb_read_opts o = {.call = cli_call(c->x)};
    return osb_download_file(c->s, absolute, to, &o, &e) < 0
               ? cli_error(quiet(c), &e, "Download %s", remote)
               : 0;
}

static int run_cp(struct cli *x)
{
    cleanup_free char *from_id = NULL, *to_id = NULL;
    const char *from = x->args.pos[0], *to = x->args.pos[1];
    const char *remote_from = remote_part(from, &from_id), *remote_to = remote_part(to, &to_id);
    if (!remote_from == !remote_to) {
        return cli_usage(x, "One of the two must be SANDBOX_ID:PATH.");
    }
    cleanup_(osb_sandbox_free) struct osb_sandbox *s =
        cli_sandbox(x, remote_from ? from_id : to_id);
    if (!s) {
        return 1;
    }
    cli_catch_interrupt(x); /* so that half a file is taken away again */
    struct copy c = {.x = x, .s = s, .spinner = spinner_start(&x->out, "Copying")};
    int r = remote_from ? copy_out(&c, remote_from, to) : copy_in(&c, from, remote_to);
    (void)quiet(&c);
    if (r == 0) {
        out_ok(&x->out, "Copied: %s → %s", from, to);
    }
    return r;
}

static const struct cli_opt opts[] = {OPT_OUTPUT("table|json|yaml"), {0}};
const struct cli_cmd cmd_cp = {.name = "cp",
                               .help = "Copy files and directories in and out.\n"
                                       "SANDBOX_ID:PATH is the remote side.",
                               .opts = opts,
                               .args = {"SOURCE", "DESTINATION"},
                               .run = run_cp};
