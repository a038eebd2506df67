#include "cli/settings.h"
#include "cli/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "json/toml.h"

#define DEFAULT_TIMEOUT_S 30

const char settings_template[] =
    "# Configuration of osb. Flags win over the environment, the environment over this file.\n"
    "\n"
    "[connection]\n"
    "# api_key = \"your-key\"\n"
    "# domain = \"localhost:8080\"\n"
    "# protocol = \"http\"\n"
    "# request_timeout = 30\n"
    "# use_server_proxy = false\n"
    "# ca_file = \"/path/to/ca.pem\"\n"
    "\n"
    "[output]\n"
    "# color = true\n"
    "\n"
    "[defaults]\n"
    "# image = \"host\"\n"
    "# timeout = \"10m\"\n";

static const char *filled(const char *v)
{
    return v && v[0] ? v : NULL;
}

static char *default_path(void)
{
    const char *home = filled(getenv("HOME"));
    return xasprintf("%s/.opensandbox/config.toml", home ? home : ".");
}

/* Text of a value: `config set defaults.timeout 600` stores a number. */
static char *text_at(const struct json *j, const char *path)
{
    const struct json *v = json_at(j, path);
    if (json_is_int(v)) {
        return xasprintf("%lld", (long long)json_int(v, 0));
    }
    const char *s = filled(json_cstr(v));
    return s ? xstrdup(s) : NULL;
}

static char *pick(const char *flag, const char *env, char *take_file, const char *fallback)
{
    const char *v = filled(flag);
    v = v ? v : env ? filled(getenv(env)) : NULL;
    if (!v && take_file) {
        return take_file;
    }
    free(take_file);
    return v ? xstrdup(v) : fallback ? xstrdup(fallback) : NULL;
}

static int64_t pick_timeout(const char *flag, const struct json *file)
{
    int64_t v = 0;
    const char *env = getenv("OPEN_SANDBOX_REQUEST_TIMEOUT");
    if (flag && parse_i64(str_from(flag), &v) == 0 && v > 0) {
        return v;
    }
    if (env && parse_i64(str_from(env), &v) == 0 && v > 0) {
        return v;
    }
    v = json_int(json_at(file, "connection.request_timeout"), 0);
    return v > 0 ? v : DEFAULT_TIMEOUT_S;
}

static bool pick_proxy(const char *flag, const struct json *file)
{
    bool v;
    if (flag) {
        return flag[0] == '1';
    }
    const char *env = getenv("OPEN_SANDBOX_USE_SERVER_PROXY");
    if (env && parse_bool(str_from(env), &v) == 0) {
        return v;
    }
    return json_bool(json_at(file, "connection.use_server_proxy"), false);
}

static int read_file(const char *path, struct json **ret, bool *ret_exists, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(CLI_MAX_CONFIG);
    int r = file_read(AT_FDCWD, path, &text);
    *ret = NULL;
    *ret_exists = r >= 0;
    if (r == -ENOENT || r == -ENOTDIR) {
        return 0;
    }
    if (r < 0) {
        return err_sys(e, r, "%s", path);
    }
    *ret = toml_parse(buf_str(&text), e);
    return *ret ? 0 : err_wrap(e, "%s", path);
}

int settings_load(struct settings *s, const struct args *root, bool skip_file, struct err *e)
{
    const char *path = filled(arg_get(root, "config"));
    *s = (struct settings){.path = path ? xstrdup(path) : default_path()};
    cleanup_(json_free) struct json *file = NULL;
    if (skip_file) {
        s->file_exists = access(s->path, F_OK) == 0;
    } else if (read_file(s->path, &file, &s->file_exists, e) < 0) {
        return -1;
    }
    s->api_key = pick(arg_get(root, "api-key"), "OPEN_SANDBOX_API_KEY",
                      text_at(file, "connection.api_key"), NULL);
    s->domain = pick(arg_get(root, "domain"), "OPEN_SANDBOX_DOMAIN",
                     text_at(file, "connection.domain"), NULL);
    s->protocol = pick(arg_get(root, "protocol"), "OPEN_SANDBOX_PROTOCOL",
                       text_at(file, "connection.protocol"), "http");
    s->ca_file = pick(arg_get(root, "ca-file"), "OPEN_SANDBOX_CA_FILE",
                      text_at(file, "connection.ca_file"), NULL);
    s->insecure =
        arg_has(root, "insecure") || json_bool(json_at(file, "connection.insecure"), false);
    s->request_timeout = pick_timeout(arg_get(root, "request-timeout"), file);
    s->use_server_proxy = pick_proxy(arg_get(root, "use-server-proxy"), file);
    s->color = !arg_has(root, "no-color") && json_bool(json_at(file, "output.color"), true);
    s->default_image = text_at(file, "defaults.image");
    s->default_timeout = text_at(file, "defaults.timeout");
    return 0;
}

void settings_done(struct settings *s)
{
    if (s->api_key) {
        explicit_bzero(s->api_key, strlen(s->api_key));
    }
    free(s->api_key);
    free(s->domain);
    free(s->protocol);
    free(s->ca_file);
    free(s->default_image);
    free(s->default_timeout);
    free(s->path);
    *s = (struct settings){0};
}

/* ---- editing ---- */

static void put_value(struct buf *out, const char *v)
{
    int64_t i;
    double d;
    struct str s = str_from(v);
    bool bare = strcmp(v, "true") == 0 || strcmp(v, "false") == 0 || parse_i64(s, &i) == 0 ||
                (parse_double(s, &d) == 0 && str_find(s, '.') >= 0);
    if (bare) {
        (void)buf_add_cstr(out, v);
        return;
    }
    (void)buf_add_char(out, '"');
    for (; *v; v++) {
        if (*v == '"' || *v == '\\') {
            (void)buf_add_char(out, '\\');
        }
        if ((unsigned char)*v < 0x20) {
            (void)buf_printf(out, "\\u%04x", (unsigned)*v);
        } else {
            (void)buf_add_char(out, *v);
        }
    }
    (void)buf_add_char(out, '"');
}

static void put_line(struct buf *out, struct str field, const char *value)
{
    (void)buf_printf(out, "%.*s = ", STR_FMT(field));
    put_value(out, value);
    (void)buf_add_char(out, '\n');
}

/* "field = ...", or the same behind a '#' when `commented`. */
static bool sets_field(struct str line, struct str field, bool commented)
{
    line = str_trim(line);
    if (commented) {
        if (!line.n || line.p[0] != '#') {
            return false;
        }
        line = str_trim(str_sub(line, 1, line.n));
    }
    ptrdiff_t eq = str_find(line, '=');
    return eq > 0 && str_eq(str_trim(str_sub(line, 0, (size_t)eq)), field);
}

static bool is_header(struct str line, struct str *ret_name)
{
    line = str_trim(line);
    ptrdiff_t end = str_find(line, ']');
    if (line.n < 3 || line.p[0] != '[' || end < 2) {
        return false;
    }
    *ret_name = str_trim(str_sub(line, 1, (size_t)end));
    return true;
}

/* Is there a line of that kind in the section? */
static bool section_has(struct str text, struct str section, struct str field, bool commented)
{
    bool inside = false;
    struct str name;
    while (text.p) {
        struct str line = str_cut(&text, '\n');
        if (is_header(line, &name)) {
            inside = str_eq(name, section);
        } else if (inside && sets_field(line, field, commented)) {
            return true;
        }
    }
    return false;
}

int settings_edit(struct str text, struct str section, struct str field, const char *value,
                  struct buf *out)
{
    bool plain = section_has(text, section, field, false);
    bool commented = !plain && section_has(text, section, field, true);
    bool inside = false, done = false, seen = false;
    struct str name;
    size_t tail = 0; /* where the section's last line that says something ends */
    while (text.p && text.n) {
        struct str line = str_cut(&text, '\n');
        if (is_header(line, &name)) {
            inside = str_eq(name, section);
            seen = seen || inside;
        }
        if (inside && !done && (plain || commented) && sets_field(line, field, commented)) {
            put_line(out, field, value);
            done = true;
        } else {
            (void)buf_printf(out, "%.*s\n", STR_FMT(line));
        }
        if (inside && str_trim(line).n) {
            tail = out->len;
        }
    }
    if (!done && seen) {
        cleanup_free char *rest = str_dup(str_sub(buf_str(out), tail, out->len));
        out->len = tail;
        put_line(out, field, value);
        (void)buf_add_cstr(out, rest);
    } else if (!done) {
        (void)buf_printf(out, "%s[%.*s]\n", out->len ? "\n" : "", STR_FMT(section));
        put_line(out, field, value);
    }
    return buf_failed(out) ? -ENOSPC : 0;
}
