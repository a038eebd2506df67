/* osb image: what is in the store of the server, and how it gets there. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/fd.h"
#include "base/num.h"
#include "cli/cli.h"
#include "cli/commands.h"

#define BAR_CELLS 30

static void size_text(uint64_t n, char out[24])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t u = 0;
    double v = (double)n;
    for (; v >= 1000 && u < 4; u++) {
        v /= 1000;
    }
    (void)snprintf(out, 24, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

/* ---- progress: a bar on a terminal, a line for each step elsewhere ---- */

struct progress {
    struct cli *x;
    bool on_terminal;
    char last[16];
    struct json *end; /* the last line of the stream */
};

static void draw(struct progress *p, const char *status, uint64_t done, uint64_t total)
{
    char bar[BAR_CELLS + 1], have[24], all[24];
    size_t full = total ? (size_t)((double)done / (double)total * BAR_CELLS) : 0;
    for (size_t i = 0; i < BAR_CELLS; i++) {
        bar[i] = i < full ? '#' : '.';
    }
    bar[BAR_CELLS] = 0;
    size_text(done, have);
    size_text(total, all);
    if (total) {
        (void)fprintf(stderr, "\r\033[K%-11s [%s] %s of %s", status, bar, have, all);
    } else {
        (void)fprintf(stderr, "\r\033[K%s", status);
    }
    (void)fflush(stderr);
}

static bool on_line(const char *line, size_t n, void *arg)
{
    struct progress *p = arg;
    struct json *j = json_parse(str_n(line, n), NULL);
    const char *status = json_cstr(json_get(j, "status"));
    if (!status) {
        json_free(j);
        return true;
    }
    uint64_t done = (uint64_t)json_int(json_get(j, "done"), 0);
    uint64_t total = (uint64_t)json_int(json_get(j, "total"), 0);
    if (strcmp(status, "ready") == 0 || strcmp(status, "failed") == 0) {
        json_free(p->end);
        p->end = j;
        return true;
    }
    if (p->on_terminal) {
        draw(p, status, done, total);
    } else if (strcmp(p->last, status) != 0) {
        char all[24];
        size_text(total, all);
        (void)fprintf(stderr, total ? "%s %s\n" : "%s\n", status, all);
        (void)snprintf(p->last, sizeof(p->last), "%s", status);
    }
    json_free(j);
    return true;
}

/* Sends the request and shows what comes. */
static int follow(struct cli *x, const char *path, struct json *body, const char *operation)
{
    struct osb_error e = {0};
    cleanup_(buf_done) struct buf text = BUF_INIT(64u << 10);
    struct progress p = {.x = x, .on_terminal = isatty(STDERR_FILENO) == 1};
    (void)json_dump(body, &text, 0);
    json_free(body);
    if (!cli_client(x)) {
        return 1;
    }
    cli_catch_interrupt(x);
    struct osb_request r = {
        .method = "POST", .path = path, .body = buf_cstr(&text), .call = cli_call(x)};
    int ok = osb_request_lines(x->client, &r, on_line, &p, &e);
    if (p.on_terminal) {
        (void)fprintf(stderr, "\r\033[K");
    }
    int code = 0;
    const char *status = json_cstr(json_get(p.end, "status"));
    if (ok < 0) {
        code = cli_error(x, &e, "%s", operation);
    } else if (!status) {
        code = cli_fail(x, "%s: the server broke off", operation);
    } else if (strcmp(status, "failed") == 0) {
        const char *why = json_cstr(json_at(p.end, "error.message"));
        code = cli_fail(x, "%s failed: %s", operation, why ? why : "unknown");
    } else if (x->out.format == OUT_TABLE) {
        const char *name = json_cstr(json_at(p.end, "image.name"));
        const char *digest = json_cstr(json_at(p.end, "image.digest"));
        out_ok(&x->out, "%s %s", name ? name : "", digest ? digest : "");
    } else {
        cleanup_(json_free) struct json *m = snake_tree(json_get(p.end, "image"));
        out_tree(&x->out, m);
    }
    json_free(p.end);
    return code;
}

/* --username and the password, from a file or standard input, never from the command line. */
static int add_auth(struct cli *x, struct json *body)
{
    const char *user = arg_get(&x->args, "username");
    const char *file = arg_get(&x->args, "password-file");
    size_t n = 0;
    if (!user) {
        return 0;
    }
    cleanup_free char *secret = file ? cli_read_input(x, file, &n) : NULL;
    const char *password = secret ? secret : getenv("OSB_REGISTRY_PASSWORD");
    if (file && !secret) {
        return -1;
    }
    if (!password) {
        return cli_usage(x, "--username needs --password-file or OSB_REGISTRY_PASSWORD"), -1;
    }
    struct json *auth = json_object_new();
    json_set(auth, "username", json_string_new(str_from(user)));
    json_set(auth, "password", json_string_new(str_n(password, strcspn(password, "\r\n"))));
    json_set(body, "auth", auth);
    return 0;
}

static int run_pull(struct cli *x)
{
    struct json *body = json_object_new();
    json_set(body, "uri", json_string_new(str_from(x->args.pos[0])));
    json_set(body, "always", json_bool_new(arg_has(&x->args, "always")));
    if (add_auth(x, body) < 0) {
        json_free(body);
        return 1;
    }
    return follow(x, "/images", body, "Pull image");
}

static int run_push(struct cli *x)
{
    struct json *body = json_object_new();
    cleanup_free char *path = cli_path("/images/", x->args.pos[0], "/push");
    if (x->args.pos[1]) {
        json_set(body, "target", json_string_new(str_from(x->args.pos[1])));
    }
    if (add_auth(x, body) < 0) {
        json_free(body);
        return 1;
    }
    return follow(x, path, body, "Push image");
}

/* ---- what is there ---- */

static int run_list(struct cli *x)
{
    cleanup_(json_free) struct json *wire = cli_ask(x, "GET", "/images", NULL, "List images");
    if (!wire) {
        return 1;
    }
    cleanup_(json_free) struct json *tree = snake_tree(wire), *rows = json_array_new();
    const struct json *items = json_get(wire, "items");
    for (size_t i = 0; i < json_len(items); i++) {
        struct json *row = snake_tree(json_item(items, i));
        char size[24];
        size_text((uint64_t)json_int(json_get(row, "size"), 0), size);
        json_set(row, "size", json_string_new(str_from(size)));
        json_push(rows, row);
    }
    if (json_len(rows) == 0 && x->out.format == OUT_TABLE) {
        out_info(&x->out, "No images.");
    } else {
        out_rows_tree(&x->out, "Images", "name,arch,size,in_use,last_used_at", rows, tree);
    }
    return 0;
}

static int run_inspect(struct cli *x)
{
    cleanup_free char *path = cli_path("/images/", x->args.pos[0], "");
    cleanup_(json_free) struct json *wire = cli_ask(x, "GET", path, NULL, "Inspect image");
    if (!wire) {
        return 1;
    }
    cleanup_(json_free) struct json *m = snake_tree(wire);
    out_model(&x->out, "Image", m);
    return 0;
}

static int run_remove(struct cli *x)
{
    for (const char **name = x->args.pos; *name; name++) {
        cleanup_free char *path = cli_path("/images/", *name, "");
        cleanup_(json_free) struct json *m = cli_ask(x, "DELETE", path, NULL, "Remove image");
        if (!m) {
            return 1;
        }
        out_ok(&x->out, "Removed image: %s", *name);
    }
    return 0;
}

static int run_prune(struct cli *x)
{
    char body[64], freed[24];
    uint64_t max = 0;
    const char *text = arg_get(&x->args, "keep");
    if (text && parse_quantity_bytes(str_from(text), &max) < 0) {
        return cli_usage(x, "--keep: '%s' is no size such as 20Gi", text);
    }
    (void)snprintf(body, sizeof(body), "{\"maxBytes\":%llu}", (unsigned long long)max);
    cleanup_(json_free) struct json *m = cli_ask(x, "POST", "/images/prune", body, "Prune images");
    if (!m) {
        return 1;
    }
    if (x->out.format != OUT_TABLE) {
        out_tree(&x->out, m);
        return 0;
    }
    size_text((uint64_t)json_int(json_get(m, "bytes"), 0), freed);
    out_ok(&x->out, "Removed %lld images, %s", (long long)json_int(json_get(m, "images"), 0),
           freed);
    return 0;
}

/* ---- files ---- */

struct file {
    int fd;
    bool on_terminal;
    uint64_t done, total, shown;
};

static void show(struct file *f, const char *what)
{
    struct progress p = {0};
    if (f->on_terminal && f->done - f->shown >= (1u << 20)) {
        f->shown = f->done;
        draw(&p, what, f->done, f->total);
    }
}

static ssize_t read_file(void *p, size_t n, void *arg)
{
    struct file *f = arg;
    ssize_t r = read(f->fd, p, n);
    f->done += r > 0 ? (uint64_t)r : 0;
    show(f, "importing");
    return r;
}

static int write_file(const void *p, size_t n, void *arg)
{
    struct file *f = arg;
    int r = fd_write_full(f->fd, p, n);
    f->done += n;
    show(f, "exporting");
    return r;
}

static void end_bar(const struct file *f)
{
    if (f->on_terminal) {
        (void)fprintf(stderr, "\r\033[K");
    }
}

static int run_import(struct cli *x)
{
    struct osb_error e = {0};
    struct stat st;
    const char *path = x->args.pos[0];
    bool is_stdin = strcmp(path, "-") == 0;
    cleanup_close int fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return cli_fail(x, "%s: %s", path, strerror(errno));
    }
    if (S_ISDIR(st.st_mode)) {
        return cli_fail(x,
                        "%s is a directory. Its contents as an image: tar -C %s -c . | osb image "
                        "import - --name NAME",
                        path, path);
    }
    struct file f = {.fd = fd, .on_terminal = isatty(STDERR_FILENO) == 1};
    bool is_file = S_ISREG(st.st_mode) && !is_stdin;
    f.total = is_file ? (uint64_t)st.st_size : 0;
    cleanup_free char *text =
        cli_client(x) ? osb_image_import(x->client, arg_get(&x->args, "name"), read_file, &f,
                                         is_file ? (int64_t)st.st_size : -1, NULL, &e)
                      : NULL;
    end_bar(&f);
    if (!text) {
        return x->client ? cli_error(x, &e, "Import image") : 1;
    }
    cleanup_(json_free) struct json *j = json_parse(str_from(text), NULL);
    if (x->out.format == OUT_TABLE) {
        out_ok(&x->out, "%s", json_cstr(json_get(j, "name")));
    } else {
        cleanup_(json_free) struct json *m = snake_tree(j);
        out_tree(&x->out, m);
    }
    return 0;
}

static int run_export(struct cli *x)
{
    struct osb_error e = {0};
    const char *path = x->args.pos[1];
    bool is_stdout = strcmp(path, "-") == 0;
    if (!cli_client(x)) {
        return 1;
    }
    cleanup_close int fd =
        is_stdout ? dup(STDOUT_FILENO) : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        return cli_fail(x, "%s: %s", path, strerror(errno));
    }
    struct file f = {.fd = fd, .on_terminal = isatty(STDERR_FILENO) == 1};
    cli_catch_interrupt(x);
    struct osb_call call = cli_call(x);
    int r = osb_image_export(x->client, x->args.pos[0], write_file, &f, &call, &e);
    end_bar(&f);
    if (r < 0) {
        if (!is_stdout) {
            (void)unlink(path);
        }
        return cli_error(x, &e, "Export image");
    }
    if (!is_stdout) {
        out_ok(&x->out, "%s: %s", x->args.pos[0], path);
    }
    return 0;
}

/* ---- the commands ---- */

static const struct cli_opt only_output[] = {OPT_OUTPUT("table|json|yaml"), {0}};
#define AUTH_OPTS                                                                                  \
    {.name = "username", .letter = 'u', .type = ARG_TEXT, .help = "User at the registry."},        \
    {                                                                                              \
        .name = "password-file", .type = ARG_FILE,                                                 \
        .help = "File with the password, - is stdin (env OSB_REGISTRY_PASSWORD)."                  \
    }
static const struct cli_opt pull_opts[] = {
    {.name = "always", .type = ARG_FLAG, .help = "Ask the registry even if the image is here."},
    AUTH_OPTS,
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
static const struct cli_opt push_opts[] = {AUTH_OPTS, OPT_OUTPUT("table|json|yaml"), {0}};
static const struct cli_opt import_opts[] = {
    {.name = "name", .letter = 'n', .type = ARG_TEXT, .help = "Name of the image."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
static const struct cli_opt prune_opts[] = {
    {.name = "keep", .type = ARG_TEXT, .help = "Size that may stay, such as 20Gi; default none."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
LEAF(list, "ls", "List images.", only_output, run_list, NULL);
LEAF(pull, "pull", "Pull an image from its registry.", pull_opts, run_pull, "IMAGE");
LEAF(push, "push", "Push an image to a registry.", push_opts, run_push, "IMAGE", "[TARGET]");
LEAF(import_cmd, "import",
     "Put an archive into the store: OCI layout, docker save, root file system.", import_opts,
     run_import, "FILE");
LEAF(export_cmd, "export", "Write an image to a file, as an OCI layout.", only_output, run_export,
     "IMAGE", "FILE");
LEAF(remove_cmd, "rm", "Remove images.", only_output, run_remove, "IMAGES...");
LEAF(prune, "prune", "Remove images that nothing uses.", prune_opts, run_prune, NULL);
LEAF(inspect, "inspect", "Show one image.", only_output, run_inspect, "IMAGE");
static const struct cli_cmd *const image_subs[] = {
    &list, &pull, &push, &import_cmd, &export_cmd, &prune, &inspect, &remove_cmd, NULL};
const struct cli_cmd cmd_image = {
    .name = "image", .help = "Images in the server's store.", .subs = image_subs};
