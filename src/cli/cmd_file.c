/* osb file: everything about files inside a sandbox. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/spinner.h"

static const struct cli_opt only_output[] = {OPT_OUTPUT("table|json|yaml"), {0}};

#define OWNER_OPTIONS                                                                              \
    {.name = "owner", .type = ARG_TEXT, .help = "Owner."},                                         \
    {                                                                                              \
        .name = "group", .type = ARG_TEXT, .help = "Group."                                        \
    }

/* Digits are octal on the wire too: 0755 is the number 755. */
static struct osb_write_opts attributes(const struct cli *x)
{
    return (struct osb_write_opts){.mode = (int)arg_int(&x->args, "mode", 0),
                                   .owner = arg_get(&x->args, "owner"),
                                   .group = arg_get(&x->args, "group")};
}

static bool utf8_only(struct cli *x)
{
    const char *enc = arg_get(&x->args, "encoding");
    return !enc || str_eq_nocase(str_from(enc), STR("utf-8")) ||
           str_eq_nocase(str_from(enc), STR("utf8")) ||
           (cli_fail(x, "Encoding '%s' is not supported: content passes through as it is.", enc),
            false);
}

/* ---- cat, write ---- */

static int write_out(const void *p, size_t n, void *arg)
{
    return out_write(arg, str_n(p, n)) ? 0 : -EPIPE;
}

static int run_cat(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s =
        utf8_only(x) ? cli_sandbox(x, x->args.pos[0]) : NULL;
    if (!s) {
        return 1;
    }
    if (osb_download(s, x->args.pos[1], write_out, &x->out, NULL, &e) < 0 && !x->out.broken) {
        return cli_error(x, &e, "Read file %s", x->args.pos[1]);
    }
    return 0;
}

static const struct cli_opt cat_opts[] = {
    {.name = "encoding", .type = ARG_TEXT, .fallback = "utf-8", .help = "Encoding."},
    OPT_OUTPUT("raw"),
    {0},
};
static const struct cli_cmd cat = {.name = "cat",
                                   .help = "Print a file.",
                                   .opts = cat_opts,
                                   .args = {"SANDBOX_ID", "PATH"},
                                   .run = run_cat};

static ssize_t read_stdin(void *p, size_t n, void *arg)
{
    ssize_t r = read(STDIN_FILENO, p, n);
    return r < 0 ? -errno : r;
}

static int run_write(struct cli *x)
{
    struct osb_error e = {0};
    const char *path = x->args.pos[1], *content = arg_get(&x->args, "content");
    struct osb_write_opts w = attributes(x);
    cleanup_(osb_sandbox_free) struct osb_sandbox *s =
        utf8_only(x) ? cli_sandbox(x, x->args.pos[0]) : NULL;
    if (!s) {
        return 1;
    }
    if (!content && isatty(STDIN_FILENO)) {
        (void)fputs("Reading from the terminal; end with Ctrl-D.\n", stderr);
    }
    int r = content ? osb_write_file(s, path, content, strlen(content), &w, &e)
                    : osb_upload(s, path, read_stdin, NULL, &w, &e);
    if (r < 0) {
        return cli_error(x, &e, "Write file %s", path);
    }
    out_ok(&x->out, "Written: %s", path);
    return 0;
}

static const struct cli_opt write_opts[] = {
    {.name = "content", .letter = 'c', .type = ARG_TEXT, .help = "Content; else stdin."},
    {.name = "encoding", .type = ARG_TEXT, .fallback = "utf-8", .help = "Encoding."},
    {.name = "mode", .type = ARG_MODE, .fallback = "755", .help = "Permissions."},
    OWNER_OPTIONS,
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
static const struct cli_cmd write_cmd = {.name = "write",
                                         .help = "Write a file from text or stdin.",
                                         .opts = write_opts,
                                         .args = {"SANDBOX_ID", "PATH"},
                                         .run = run_write};

/* ---- upload, download ---- */

static int run_upload(struct cli *x)
{
    struct osb_error e = {0};
    const char *local = x->args.pos[1], *remote = x->args.pos[2];
    if (access(local, R_OK) < 0) {
        return cli_usage(x, "Invalid value for 'LOCAL_PATH': Path '%s' does not exist.", local);
    }
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    struct spinner *spinner = spinner_start(&x->out, "Uploading");
    int r = osb_upload_file(s, local, remote, NULL, &e);
    spinner_stop(spinner);
    if (r < 0) {
        return cli_error(x, &e, "Upload %s", local);
    }
    out_ok(&x->out, "Uploaded: %s → %s", local, remote);
    return 0;
}

static const struct cli_cmd upload = {.name = "upload",
                                      .help = "Copy a local file into a sandbox.",
                                      .opts = only_output,
                                      .args = {"SANDBOX_ID", "LOCAL_PATH", "REMOTE_PATH"},
                                      .run = run_upload};

static int run_download(struct cli *x)
{
    struct osb_error e = {0};
    const char *remote = x->args.pos[1], *local = x->args.pos[2];
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    struct str l = str_from(local);
    ptrdiff_t slash = str_rfind(l, '/');
    if (slash > 0) {
        cleanup_free char *dir = str_dup(str_sub(l, 0, (size_t)slash));
        int r = dir_make(AT_FDCWD, dir, 0755);
        if (r < 0) {
            return cli_fail(x, "%s: %s", dir, strerror(-r));
        }
    }
    cli_catch_interrupt(x); /* so that half a file is taken away again */
    const struct osb_read_opts o = {.call = cli_call(x)};
    struct spinner *spinner = spinner_start(&x->out, "Downloading");
    int r = osb_download_file(s, remote, local, &o, &e);
    spinner_stop(spinner);
    if (r < 0) {
        return cli_error(x, &e, "Download %s", remote);
    }
    out_ok(&x->out, "Downloaded: %s → %s", remote, local);
    return 0;
}

static const struct cli_cmd download = {.name = "download",
                                        .help = "Copy a file out of a sandbox.",
                                        .opts = only_output,
                                        .args = {"SANDBOX_ID", "REMOTE_PATH", "LOCAL_PATH"},
                                        .run = run_download};

/* ---- rm, mkdir, rmdir: many paths, one row each ---- */

static void print_paths(struct cli *x, const char *title, const char *word)
{
    cleanup_(json_free) struct json *rows = json_array_new();
    for (const char **p = x->args.pos + 1; *p; p++) {
        json_push(rows, jobject("path", *p, "status", word, NULL));
    }
    out_rows(&x->out, title, "path,status", rows);
}

static int run_rm(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (osb_delete_files(s, x->args.pos + 1, &e) < 0) {
        return cli_error(x, &e, "Delete files");
    }
    print_paths(x, "Deleted Files", "deleted");
    return 0;
}

static int run_mkdir(struct cli *x)
{
    struct osb_error e = {0};
    struct osb_write_opts w = attributes(x);
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (osb_make_dirs(s, x->args.pos + 1, &w, &e) < 0) {
        return cli_error(x, &e, "Create directories");
    }
    print_paths(x, "Created Directories", "created");
    return 0;
}

static int run_rmdir(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (osb_delete_dirs(s, x->args.pos + 1, &e) < 0) {
        return cli_error(x, &e, "Delete directories");
    }
    print_paths(x, "Removed Directories", "removed");
    return 0;
}

static const struct cli_cmd rm = {.name = "rm",
                                  .help = "Delete files.",
                                  .opts = only_output,
                                  .args = {"SANDBOX_ID", "PATHS..."},
                                  .run = run_rm};
static const struct cli_opt mkdir_opts[] = {
    {.name = "mode", .type = ARG_MODE, .fallback = "755", .help = "Permissions."},
    OWNER_OPTIONS,
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
static const struct cli_cmd mkdir_cmd = {.name = "mkdir",
                                         .help = "Create directories, with their parents.",
                                         .opts = mkdir_opts,
                                         .args = {"SANDBOX_ID", "PATHS..."},
                                         .run = run_mkdir};
static const struct cli_cmd rmdir_cmd = {.name = "rmdir",
                                         .help = "Remove directories and all that is in them.",
                                         .opts = only_output,
                                         .args = {"SANDBOX_ID", "PATHS..."},
                                         .run = run_rmdir};

/* ---- mv, chmod, replace ---- */

static int run_mv(struct cli *x)
{
    struct osb_error e = {0};
    const struct osb_pair moves[] = {{x->args.pos[1], x->args.pos[2]}, {0}};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (osb_move(s, moves, &e) < 0) {
        return cli_error(x, &e, "Move %s", moves[0].key);
    }
    out_ok(&x->out, "Moved: %s → %s", moves[0].key, moves[0].value);
    return 0;
}

static const struct cli_cmd mv = {.name = "mv",
                                  .help = "Move or rename.",
                                  .opts = only_output,
                                  .args = {"SANDBOX_ID", "SOURCE", "DESTINATION"},
                                  .run = run_mv};

static int run_chmod(struct cli *x)
{
    struct osb_error e = {0};
    struct osb_write_opts w = attributes(x);
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (osb_set_permissions(s, x->args.pos[1], &w, &e) < 0) {
        return cli_error(x, &e, "Set permissions of %s", x->args.pos[1]);
    }
    out_ok(&x->out, "Permissions set: %s", x->args.pos[1]);
    return 0;
}

static const struct cli_opt chmod_opts[] = {
    {.name = "mode", .type = ARG_MODE, .required = true, .help = "Permissions, such as 644."},
    OWNER_OPTIONS,
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
static const struct cli_cmd chmod_cmd = {.name = "chmod",
                                         .help = "Set permissions and owner.",
                                         .opts = chmod_opts,
                                         .args = {"SANDBOX_ID", "PATH"},
                                         .run = run_chmod};

static int run_replace(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (osb_replace(s, x->args.pos[1], arg_get(&x->args, "old"), arg_get(&x->args, "new"), NULL,
                    &e) < 0) {
        return cli_error(x, &e, "Replace in %s", x->args.pos[1]);
    }
    out_ok(&x->out, "Replaced in: %s", x->args.pos[1]);
    return 0;
}

static const struct cli_opt replace_opts[] = {
    {.name = "old", .type = ARG_TEXT, .required = true, .help = "Text to look for."},
    {.name = "new", .type = ARG_TEXT, .required = true, .help = "Text to put there."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
static const struct cli_cmd replace = {.name = "replace",
                                       .help = "Replace text in a file.",
                                       .opts = replace_opts,
                                       .args = {"SANDBOX_ID", "PATH"},
                                       .run = run_replace};

/* ---- search, info ---- */

static struct json *entries(const struct osb_file_list *l)
{
    struct json *rows = json_array_new();
    for (size_t i = 0; i < l->n; i++) {
        const struct osb_file_info *f = &l->v[i];
        struct json *j = jobject("path", f->path, "entry_type", f->type, NULL);
        json_set(j, "mode", json_int_new(f->mode));
        json_set(j, "owner", jtext(f->owner));
        json_set(j, "group", jtext(f->group));
        json_set(j, "size", json_int_new(f->size));
        json_set(j, "modified_at", jtext(f->modified_at));
        json_set(j, "created_at", jtext(f->created_at));
        json_push(rows, j);
    }
    return rows;
}

static int run_search(struct cli *x)
{
    struct osb_error e = {0};
    struct osb_file_list l = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (osb_search(s, x->args.pos[1], arg_get(&x->args, "pattern"), &l, &e) < 0) {
        return cli_error(x, &e, "Search %s", x->args.pos[1]);
    }
    cleanup_(json_free) struct json *rows = entries(&l);
    osb_file_list_done(&l);
    if (json_len(rows) == 0 && x->out.format == OUT_TABLE) {
        out_info(&x->out, "No files found.");
    } else {
        out_rows(&x->out, "Search Results", "path,size,owner", rows);
    }
    return 0;
}

static const struct cli_opt search_opts[] = {
    {.name = "pattern",
     .letter = 'p',
     .type = ARG_TEXT,
     .required = true,
     .help = "Glob, such as *.py."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
static const struct cli_cmd search = {.name = "search",
                                      .help = "Find files below a directory.",
                                      .opts = search_opts,
                                      .args = {"SANDBOX_ID", "PATH"},
                                      .run = run_search};

static int run_info(struct cli *x)
{
    struct osb_error e = {0};
    struct osb_file_list l = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (osb_file_info(s, x->args.pos + 1, &l, &e) < 0) {
        return cli_error(x, &e, "Get file info");
    }
    cleanup_(json_free) struct json *rows = entries(&l);
    osb_file_list_done(&l);
    out_rows(&x->out, "Path Info", "path,size,mode,owner,group,created_at,modified_at", rows);
    return 0;
}

static const struct cli_cmd info = {.name = "info",
                                    .help = "Size, owner, permissions and times.",
                                    .opts = only_output,
                                    .args = {"SANDBOX_ID", "PATHS..."},
                                    .run = run_info};

static const struct cli_cmd *const subs[] = {&cat,       &write_cmd, &upload,    &download, &rm,
                                             &mv,        &mkdir_cmd, &rmdir_cmd, &search,   &info,
                                             &chmod_cmd, &replace,   NULL};
const struct cli_cmd cmd_file = {.name = "file", .help = "Files in a sandbox.", .subs = subs};
