/* osb cp: files and directories in and out. SANDBOX_ID:PATH names the side that is remote. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/limits.h"

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

static int send_tree(struct cli *x, struct osb_sandbox *s, const char *local, const char *remote,
                     unsigned depth);

static int send_directory(struct cli *x, struct osb_sandbox *s, const char *local,
                          const char *remote, unsigned depth)
{
    struct osb_error e = {0};
    const char *const paths[] = {remote, NULL};
    cleanup_closedir DIR *d = opendir(local);
    const struct dirent *entry;
    int r = 0;
    if (!d) {
        return cli_fail(x, "%s: %s", local, strerror(errno));
    }
    if (depth > CLI_MAX_TREE_DEPTH) {
        return cli_fail(x, "%s: more than %d directories deep.", local, CLI_MAX_TREE_DEPTH);
    }
    if (osb_make_dirs(s, paths, NULL, &e) < 0) {
        return cli_error(x, &e, "Create %s", remote);
    }
    while (r == 0 && (entry = readdir(d))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        cleanup_free char *from = join(local, entry->d_name), *to = join(remote, entry->d_name);
        r = send_tree(x, s, from, to, depth + 1);
    }
    return r;
}

static int send_tree(struct cli *x, struct osb_sandbox *s, const char *local, const char *remote,
                     unsigned depth)
{
    struct osb_error e = {0};
    struct stat st;
    /* A link that was named is followed, those found below are not. */
    if ((depth ? lstat(local, &st) : stat(local, &st)) < 0) {
        return cli_fail(x, "%s: %s", local, strerror(errno));
    }
    if (S_ISDIR(st.st_mode)) {
        return send_directory(x, s, local, remote, depth);
    }
    if (!S_ISREG(st.st_mode)) {
        out_warn(&x->out, "Skipped %s: not a regular file", local);
        return 0;
    }
    const struct osb_write_opts w = {.mode = octal_digits(st.st_mode)};
    if (osb_upload_file(s, local, remote, &w, &e) < 0) {
        return cli_error(x, &e, "Upload %s", local);
    }
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

static int copy_in(struct cli *x, struct osb_sandbox *s, const char *local, const char *remote)
{
    cleanup_free char *name = last_name(local);
    cleanup_free char *inside = join(remote, name);
    bool into = remote[strlen(remote) - 1] == '/' || remote_is_dir(s, remote);
    return send_tree(x, s, local, into ? inside : remote, 0);
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

static int fetch_entry(struct cli *x, struct osb_sandbox *s, const struct osb_file_info *f,
                       const char *root, const char *local)
{
    struct osb_error e = {0};
    struct str path = str_from(f->path), prefix = str_from(root);
    while (prefix.n > 1 && prefix.p[prefix.n - 1] == '/') {
        prefix.n--;
    }
    size_t skip = prefix.n + (prefix.n > 1);
    if (!str_starts(path, prefix) || path.n <= skip || !path_is_safe(f->path + skip)) {
        out_warn(&x->out, "Skipped %s: a path that leads elsewhere", f->path);
        return 0;
    }
    cleanup_free char *to = join(local, f->path + skip);
    if (strcmp(f->type, "directory") == 0) {
        int r = dir_make(AT_FDCWD, to, 0755);
        return r < 0 ? cli_fail(x, "%s: %s", to, strerror(-r)) : 0;
    }
    if (strcmp(f->type, "file") != 0) {
        out_warn(&x->out, "Skipped %s: not a regular file", f->path);
        return 0;
    }
    if (osb_download_file(s, f->path, to, &e) < 0) {
        return cli_error(x, &e, "Download %s", f->path);
    }
    unsigned m = (unsigned)f->mode;
    (void)chmod(to, ((m / 100 % 10) << 6 | (m / 10 % 10) << 3 | m % 10) & 0777);
    return 0;
}

static int fetch_directory(struct cli *x, struct osb_sandbox *s, const char *remote,
                           const char *local)
{
    struct osb_error e = {0};
    struct osb_file_list l = {0};
    int r = dir_make(AT_FDCWD, local, 0755);
    if (r < 0) {
        return cli_fail(x, "%s: %s", local, strerror(-r));
    }
    if (osb_list_dir(s, remote, CLI_MAX_TREE_DEPTH, &l, &e) < 0) {
        return cli_error(x, &e, "List %s", remote);
    }
    /* Directories first: the order of a listing is nobody's promise. */
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < l.n && r == 0; i++) {
            if ((strcmp(l.v[i].type, "directory") == 0) == (pass == 0)) {
                r = fetch_entry(x, s, &l.v[i], remote, local);
            }
        }
    }
    osb_file_list_done(&l);
    return r;
}

static int copy_out(struct cli *x, struct osb_sandbox *s, const char *remote, const char *local)
{
    struct osb_error e = {0};
    struct stat st;
    const char *const paths[] = {remote, NULL};
    struct osb_file_list l = {0};
    if (osb_file_info(s, paths, &l, &e) < 0 || l.n != 1) {
        osb_file_list_done(&l);
        return cli_error(x, &e, "Look at %s", remote);
    }
    cleanup_free char *absolute = xstrdup(l.v[0].path);
    bool is_dir = strcmp(l.v[0].type, "directory") == 0;
    osb_file_list_done(&l);
    cleanup_free char *name = last_name(absolute);
    cleanup_free char *inside = join(local, name);
    const char *to = stat(local, &st) == 0 && S_ISDIR(st.st_mode) ? inside : local;
    if (is_dir) {
        return fetch_directory(x, s, absolute, to);
    }
    return osb_download_file(s, absolute, to, &e) < 0 ? cli_error(x, &e, "Download %s", remote) : 0;
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
    int r = remote_from ? copy_out(x, s, remote_from, to) : copy_in(x, s, from, remote_to);
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
