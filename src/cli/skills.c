#include "cli/skills.h"
#include "cli/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"

const struct skill skills[] = {
    {"sandbox-troubleshooting", "OpenSandbox Troubleshooting",
     "Find out why a sandbox does not start, does not answer, or ended.",
     "A sandbox fails, hangs or cannot be reached.", "Troubleshooting"},
    {"sandbox-lifecycle", "OpenSandbox Lifecycle",
     "Create, list, pause, resume, renew and end sandboxes.",
     "A sandbox is needed, or has to be ended.", "Lifecycle"},
    {"command-execution", "OpenSandbox Command Execution",
     "Run commands in the foreground, in the background, or in a session.",
     "A command has to run in a sandbox.", "Execution"},
    {"file-operations", "OpenSandbox File Operations",
     "Read, write, copy, search and change files in a sandbox.",
     "Files have to get in or out of a sandbox.", "Files"},
    {"network-egress", "OpenSandbox Network Egress",
     "See and change what a sandbox may reach on the network.",
     "Network access of a sandbox matters.", "Network"},
    {"credential-vault", "OpenSandbox Credential Vault",
     "Let code in a sandbox use a secret that it never sees.", "Code in a sandbox needs a secret.",
     "General"},
    {0},
};

const struct skill_target skill_targets[] = {
    {"claude", "Claude Code", ".claude/skills/%s.md", .keeps_front_matter = true},
    {"cursor", "Cursor", ".cursor/rules/%s.mdc"},
    {"codex", "Codex", ".codex/skills/%s/SKILL.md", .keeps_front_matter = true, .own_dir = true},
    {"copilot", "GitHub Copilot", ".github/copilot-instructions.md", .append = true},
    {"windsurf", "Windsurf", ".windsurfrules", .append = true},
    {"cline", "Cline", ".clinerules", .append = true},
    {"opencode", "OpenCode", ".agents/skills/%s/SKILL.md", .keeps_front_matter = true,
     .own_dir = true},
    {0},
};

const struct skill *skill_find(const char *slug)
{
    for (const struct skill *s = skills; s->slug; s++) {
        if (strcmp(s->slug, slug) == 0) {
            return s;
        }
    }
    return NULL;
}

const char *skill_text(const struct skill *s)
{
    size_t n = strlen(s->slug);
    for (const struct embedded_text *t = skill_texts; t->name; t++) {
        if (strncmp(t->name, s->slug, n) == 0 && strcmp(t->name + n, ".md") == 0) {
            return t->text;
        }
    }
    must(!"every skill has a text");
    return "";
}

struct str skill_body(const struct skill *s)
{
    struct str text = str_from(skill_text(s));
    ptrdiff_t end = str_find_str(str_sub(text, 4, text.n), STR("\n---\n"));
    return end < 0 ? text : str_sub(text, 4 + (size_t)end + 6, text.n);
}

char *skill_path(const struct skill *s, const struct skill_target *t, bool global)
{
    const char *home = getenv("HOME");
    const char *mark = strstr(t->file, "%s");
    cleanup_free char *relative =
        mark ? xasprintf("%.*s%s%s", (int)(mark - t->file), t->file, s->slug, mark + 2)
             : xstrdup(t->file);
    return global ? xasprintf("%s/%s", home && home[0] ? home : ".", relative)
                  : take_ptr(&relative);
}

/* ---- what is to be there ---- */

static void content_of(const struct skill *s, const struct skill_target *t, struct buf *out)
{
    if (t->keeps_front_matter) {
        (void)buf_add_cstr(out, skill_text(s));
        return;
    }
    if (t->append) {
        (void)buf_printf(out, "<!-- BEGIN opensandbox-%s -->\n", s->slug);
    }
    (void)buf_printf(out, "# %s\n\n%s\n\n", s->title, s->summary);
    struct str body = skill_body(s), heading = STR("## ");
    ptrdiff_t at = str_find_str(body, heading); /* the title is there already */
    (void)buf_add_str(out, at < 0 ? body : str_sub(body, (size_t)at, body.n));
    if (t->append) {
        (void)buf_printf(out, "<!-- END opensandbox-%s -->\n", s->slug);
    }
}

/* Where the block of a skill is in a shared file; false: nowhere. */
static bool find_block(struct str text, const struct skill *s, size_t *ret_from, size_t *ret_to)
{
    cleanup_free char *begin = xasprintf("<!-- BEGIN opensandbox-%s -->", s->slug);
    cleanup_free char *end = xasprintf("<!-- END opensandbox-%s -->", s->slug);
    ptrdiff_t a = str_find_str(text, str_from(begin));
    ptrdiff_t b = a < 0 ? -1 : str_find_str(str_sub(text, (size_t)a, text.n), str_from(end));
    if (b < 0) {
        return false;
    }
    *ret_from = (size_t)a;
    *ret_to = (size_t)a + (size_t)b + strlen(end);
    *ret_to += *ret_to < text.n && text.p[*ret_to] == '\n';
    return true;
}

static int read_if_there(const char *path, struct buf *out)
{
    int r = file_read(AT_FDCWD, path, out);
    return r == -ENOENT || r == -ENOTDIR ? 0 : r;
}

enum skill_status skill_look(const struct skill *s, const struct skill_target *t, const char *path)
{
    cleanup_(buf_done) struct buf now = BUF_INIT(CLI_MAX_SKILL_FILE),
                                  want = BUF_INIT(CLI_MAX_SKILL_FILE);
    size_t from = 0, to;
    if (file_read(AT_FDCWD, path, &now) < 0) {
        return SKILL_ABSENT;
    }
    content_of(s, t, &want);
    to = now.len;
    if (t->append && !find_block(buf_str(&now), s, &from, &to)) {
        return SKILL_ABSENT;
    }
    return str_eq(str_sub(buf_str(&now), from, to), buf_str(&want)) ? SKILL_PRESENT
                                                                    : SKILL_DIFFERENT;
}

static int make_parent(const char *path)
{
    struct str p = str_from(path);
    ptrdiff_t slash = str_rfind(p, '/');
    cleanup_free char *dir = slash > 0 ? str_dup(str_sub(p, 0, (size_t)slash)) : NULL;
    return dir ? dir_make(AT_FDCWD, dir, 0755) : 0;
}

int skill_install(const struct skill *s, const struct skill_target *t, const char *path)
{
    cleanup_(buf_done) struct buf now = BUF_INIT(CLI_MAX_SKILL_FILE),
                                  out = BUF_INIT(CLI_MAX_SKILL_FILE);
    size_t from, to;
    int r = t->append ? read_if_there(path, &now) : 0;
    r = r < 0 ? r : make_parent(path);
    if (r < 0) {
        return r;
    }
    struct str text = buf_str(&now);
    if (t->append && find_block(text, s, &from, &to)) {
        (void)buf_add_str(&out, str_sub(text, 0, from));
        content_of(s, t, &out);
        (void)buf_add_str(&out, str_sub(text, to, text.n));
    } else {
        (void)buf_add_str(&out, text);
        if (text.n) {
            (void)buf_add_cstr(&out, text.p[text.n - 1] == '\n' ? "\n" : "\n\n");
        }
        content_of(s, t, &out);
    }
    return file_write_atomic(AT_FDCWD, path, buf_str(&out), 0644);
}

static void remove_empty_parent(const char *path)
{
    struct str p = str_from(path);
    ptrdiff_t slash = str_rfind(p, '/');
    if (slash > 0) {
        cleanup_free char *dir = str_dup(str_sub(p, 0, (size_t)slash));
        (void)rmdir(dir); /* only if it is empty */
    }
}

int skill_uninstall(const struct skill *s, const struct skill_target *t, const char *path)
{
    cleanup_(buf_done) struct buf now = BUF_INIT(CLI_MAX_SKILL_FILE),
                                  out = BUF_INIT(CLI_MAX_SKILL_FILE);
    size_t from, to;
    if (!t->append) {
        if (unlink(path) < 0) {
            return -errno;
        }
        remove_empty_parent(path);
        return 0;
    }
    int r = file_read(AT_FDCWD, path, &now);
    if (r < 0 || !find_block(buf_str(&now), s, &from, &to)) {
        return r;
    }
    struct str text = buf_str(&now);
    bool blank_before = from >= 2 && text.p[from - 1] == '\n' && text.p[from - 2] == '\n';
    (void)buf_add_str(&out, str_sub(text, 0, from - blank_before));
    (void)buf_add_str(&out, str_sub(text, to, text.n));
    if (strspn(buf_cstr(&out), " \t\r\n") == out.len) {
        return unlink(path) < 0 ? -errno : 0;
    }
    return file_write_atomic(AT_FDCWD, path, buf_str(&out), 0644);
}
