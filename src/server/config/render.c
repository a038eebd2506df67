/* init-config: writes a configuration file out of the option table. */

#include "base/must.h"
#include "server/config/option.h"

static const char example_oci[] =
    "# A server for this machine: embedded runtime, loopback only, generated API key.\n"
    "# Everything not named here has its default; `opensandbox-server init-config` without\n"
    "# --example writes all keys.\n\n"
    "[server]\n"
    "host = \"127.0.0.1\"\n"
    "port = 8080\n"
    "max_sandbox_timeout_seconds = 86400\n\n"
    "[runtime]\n"
    "type = \"oci\"\n\n"
    "[oci]\n"
    "engine = \"crun\"\n"
    "network = \"bridge\"\n\n"
    "# Plain root file systems by name: create with {\"image\": {\"uri\": \"busybox\"}}.\n"
    "# [oci.rootfs]\n"
    "# busybox = \"/srv/rootfs/busybox\"\n\n"
    "[storage]\n"
    "# Directories of this machine that volumes may name. Empty: none.\n"
    "allowed_host_paths = []\n";

static const char example_docker[] = "# The Docker engine runs the sandboxes.\n\n"
                                     "[server]\n"
                                     "host = \"127.0.0.1\"\n"
                                     "port = 8080\n"
                                     "max_sandbox_timeout_seconds = 86400\n\n"
                                     "[runtime]\n"
                                     "type = \"docker\"\n"
                                     "\n"
                                     "[docker]\n"
                                     "network_mode = \"bridge\"\n\n"
                                     "[egress]\n"
                                     "image = \"opensandbox/egress:latest\"\n"
                                     "mode = \"dns+nft\"\n";

static size_t section_len(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? (size_t)(dot - key) : 0;
}

static void render_help(struct buf *out, const char *help)
{
    struct str rest = str_from(help);
    while (rest.p) {
        struct str line = str_cut(&rest, '\n');
        (void)buf_printf(out, "# %.*s\n", STR_FMT(line));
    }
}

static void render_option(struct buf *out, const struct option *o)
{
    render_help(out, o->help);
    if (o->kind == OPT_TABLES) {
        (void)buf_add_cstr(out, o->example);
        return;
    }
    const char *name = o->key + section_len(o->key) + 1;
    if (o->kind == OPT_MAP) {
        (void)buf_printf(out, "# [%s]\n# %s\n", o->key, o->example);
    } else {
        (void)buf_printf(out, "# %s = %s\n", name, o->def ? o->def : "\"\"");
    }
}

/* Tables of a section come after its keys: a key below their header would be one of theirs. */
static void render_maps(struct buf *out, const char *section, size_t len)
{
    for (const struct option *o = config_options; o->key; o++) {
        if (o->kind == OPT_MAP && section_len(o->key) == len && !strncmp(section, o->key, len)) {
            render_option(out, o);
        }
    }
}

int config_render(struct buf *out, const char *example, struct err *e)
{
    if (example) {
        if (!strcmp(example, "oci")) {
            return buf_add_cstr(out, example_oci);
        }
        if (!strcmp(example, "docker")) {
            return buf_add_cstr(out, example_docker);
        }
        return err_set(e, ERR_INVALID, "there is no example \"%s\" (oci, docker)", example);
    }
    (void)buf_add_cstr(out, "# Configuration of opensandbox-server: every key with its default.\n"
                            "# Take away the # in front of what you want to change.\n");
    const char *section = "";
    size_t len = 0;
    for (const struct option *o = config_options; o->key; o++) {
        bool other = section_len(o->key) != len || strncmp(section, o->key, len) != 0;
        if (other || o->kind == OPT_TABLES) {
            render_maps(out, section, len);
        }
        if (o->kind == OPT_TABLES) { /* sections of their own */
            section = "";
            len = 0;
            (void)buf_add_cstr(out, "\n");
        } else if (other) {
            section = o->key;
            len = section_len(o->key);
            (void)buf_printf(out, "\n[%.*s]\n", (int)len, section);
        }
        if (o->kind != OPT_MAP) {
            render_option(out, o);
        }
    }
    render_maps(out, section, len);
    return buf_failed(out) ? err_set(e, ERR_LIMIT, "the file is too long") : 0;
}
