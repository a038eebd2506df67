/* Every option of the server: key, type, default, validator, help. Adding one is a line here and a
 * member in config.h. docs/configuration.md and `init-config` are made from the same lines. */

#include "server/config/option.h"

#include <ctype.h>
#include <stddef.h>

#include "base/must.h"
#include "base/num.h"
#include "net/cidr.h"

static int check_level(const void *v, struct err *e)
{
    enum log_level level;
    const char *s = *(const char *const *)v;
    if (log_level_parse(str_from(s), &level) < 0) {
        return err_set(e, ERR_INVALID, "\"%s\" is no log level (debug, info, warning, error)", s);
    }
    return 0;
}

static int check_name(const void *v, struct err *e)
{
    const char *s = *(const char *const *)v;
    for (const char *p = s; *p; p++) {
        if (!isalnum((unsigned char)*p) && !strchr("_-.", *p)) {
            return err_set(e, ERR_INVALID, "\"%s\" may hold only letters, digits, '-', '_', '.'",
                           s);
        }
    }
    return 0;
}

static int check_cidr4(const void *v, struct err *e)
{
    const char *s = *(const char *const *)v;
    struct cidr c;
    if (cidr_parse(str_from(s), &c) < 0 || strchr(s, ':')) {
        return err_set(e, ERR_INVALID, "\"%s\" is no IPv4 network such as 10.88.0.0/16", s);
    }
    return 0;
}

static int check_cidrs(const void *v, struct err *e)
{
    const struct str_list *l = v;
    for (size_t i = 0; i < l->n; i++) {
        struct cidr c;
        if (cidr_parse(str_from(l->v[i]), &c) < 0) {
            return err_set(e, ERR_INVALID, "\"%s\" is no network such as 10.0.0.0/8", l->v[i]);
        }
    }
    return 0;
}

static int check_absolute_list(const void *v, struct err *e)
{
    const struct str_list *l = v;
    for (size_t i = 0; i < l->n; i++) {
        if (l->v[i][0] != '/') {
            return err_set(e, ERR_INVALID, "\"%s\" is not an absolute path", l->v[i]);
        }
    }
    return 0;
}

static int check_absolute_map(const void *v, struct err *e)
{
    const struct str_map *m = v;
    for (size_t i = 0; i < m->n; i++) {
        if (m->v[i].value[0] != '/') {
            return err_set(e, ERR_INVALID, "%s: \"%s\" is not an absolute path", m->v[i].key,
                           m->v[i].value);
        }
    }
    return 0;
}

static int check_url_map(const void *v, struct err *e)
{
    const struct str_map *m = v;
    for (size_t i = 0; i < m->n; i++) {
        struct str s = str_from(m->v[i].value);
        if (!str_starts(s, STR("http://")) && !str_starts(s, STR("https://"))) {
            return err_set(e, ERR_INVALID, "%s: \"%s\" does not begin with http:// or https://",
                           m->v[i].key, m->v[i].value);
        }
    }
    return 0;
}

static int check_bytes_text(const void *v, struct err *e)
{
    const char *s = *(const char *const *)v;
    uint64_t n;
    if (*s && parse_quantity_bytes(str_from(s), &n) < 0) {
        return err_set(e, ERR_INVALID, "\"%s\" is no size such as 512Mi", s);
    }
    return 0;
}

static int check_cpu_text(const void *v, struct err *e)
{
    const char *s = *(const char *const *)v;
    uint64_t n;
    if (*s && parse_quantity_millicpu(str_from(s), &n) < 0) {
        return err_set(e, ERR_INVALID, "\"%s\" is no amount of CPU such as 500m or 2", s);
    }
    return 0;
}

static int check_keys(const void *v, struct err *e)
{
    const struct str_list *l = v;
    for (size_t i = 0; i < l->n; i++) {
        if (strlen(l->v[i]) < 8) {
            return err_set(e, ERR_INVALID, "key number %zu is shorter than 8 characters", i + 1);
        }
    }
    return 0;
}

static const char *const log_formats[] = {"human", "json", NULL};
static const char *const runtimes[] = {"oci", "docker", NULL};
static const char *const networks[] = {"bridge", "none", NULL};
static const char *const three_ways[] = {"auto", "on", "off", NULL};
static const char *const pull_policies[] = {"missing", "always", "never", NULL};
static const char *const adoptions[] = {"none", "reference", "all", NULL};
static const char *const stages[] = {"auto", "mount", "upload", NULL};
static const char *const egress_modes[] = {"dns", "dns+nft", NULL};
static const char *const secure_types[] = {"", "gvisor", "kata", "firecracker", NULL};

#define AT(member) offsetof(struct config, member)

const struct option config_options[] = {
    /* clang-format off */
    {"server.host", OPT_STR, AT(server.host), "\"127.0.0.1\"", .not_empty = true,
     .help = "Address to listen on. Loopback unless told otherwise; 0.0.0.0 or :: for everyone."},
    {"server.port", OPT_INT, AT(server.port), "8080", .min = 0, .max = 65535,
     .help = "Port to listen on; 0 lets the kernel choose one."},
    {"server.timeout_keep_alive", OPT_INT, AT(server.timeout_keep_alive), "30", .min = 1, .max = 86400,
     .help = "Seconds a connection without a request is kept."},
    {"server.limit_concurrency", OPT_INT, AT(server.limit_concurrency), "20000", .min = 0, .max = 1000000,
     .help = "Connections at once; 503 beyond. 0: no limit."},
    {"server.backlog", OPT_INT, AT(server.backlog), "2048", .min = 1, .max = 65535,
     .help = "Connections the kernel queues before they are accepted."},
    {"server.thread_pool_size", OPT_INT, AT(server.thread_pool_size), "16", .min = 1, .max = 512,
     .help = "Threads for blocking API calls (creates have their own, see [limits])."},
    {"server.loops", OPT_INT, AT(server.loops), "0", .min = 0, .max = 256,
     .help = "Event loops for connections; 0: one per CPU."},
    {"server.api_key", OPT_STR, AT(server.api_key), NULL, .reload = true, .secret = true,
     .help = "The API key. Not set: a key is generated at the first start and kept in key_file.\n"
             "Set to \"\": no key at all, which OPENSANDBOX_INSECURE_SERVER=YES must confirm."},
    {"server.api_keys", OPT_LIST, AT(server.api_keys), "[]", .reload = true, .secret = true, .check = check_keys,
     .help = "More API keys, all equally good: for rotation, or one per caller."},
    {"server.eip", OPT_STR, AT(server.eip), "\"\"", .reload = true,
     .help = "Public host[:port][/path] put into endpoints; \"\": the Host the client used."},
    {"server.max_sandbox_timeout_seconds", OPT_INT, AT(server.max_sandbox_timeout_seconds), "0", .reload = true,
     .min = 0, .max = INT64_C(253402300799), .help = "Longest timeout a create may ask for (60 or more); 0: no cap."},
    {"server.create_wait_seconds", OPT_INT, AT(server.create_wait_seconds), "10", .min = 0, .max = 300, .reload = true,
     .help = "A create that takes longer is answered with state Pending and goes on; 0: every create is."},
    {"server.data_dir", OPT_PATH, AT(server.data_dir), "\"\"",
     .help = "Where the server keeps its files; \"\": /var/lib/opensandbox for root, else ~/.opensandbox."},
    {"server.key_file", OPT_PATH, AT(server.key_file), "\"\"",
     .help = "Where a generated key is kept, readable by its owner only; \"\": <data_dir>/api-key."},
    {"server.cors", OPT_BOOL, AT(server.cors), "true",
     .help = "Answer cross-origin requests of browsers."},

    {"log.level", OPT_STR, AT(log.level), "\"INFO\"", .check = check_level, .reload = true,
     .help = "debug, info, warning or error."},
    {"log.format", OPT_STR, AT(log.format), "\"human\"", .choices = log_formats,
     .help = "human: a line for people; json: a JSON object per line."},
    {"log.access", OPT_BOOL, AT(log.access), "false", .reload = true,
     .help = "One line for every request that was answered."},

    {"store.path", OPT_PATH, AT(store.path), "\"\"",
     .help = "The database (SQLite); \"\": <data_dir>/opensandbox.db."},
    {"store.event_retention_days", OPT_INT, AT(store.event_retention_days), "7", .min = 1, .max = 3650, .reload = true,
     .help = "How long events of sandboxes are kept."},

    {"limits.create_concurrency", OPT_INT, AT(limits.create_concurrency), "0", .min = 0, .max = 512,
     .help = "Creates worked on at once; 0: four per CPU."},
    {"limits.create_queue", OPT_INT, AT(limits.create_queue), "512", .min = 1, .max = 100000,
     .help = "Creates waiting for their turn; 503 with Retry-After beyond."},
    {"limits.create_per_key", OPT_INT, AT(limits.create_per_key), "256", .min = 1, .max = 100000, .reload = true,
     .help = "Creates of one API key waiting or at work; 429 with Retry-After beyond."},
    {"limits.sandboxes", OPT_INT, AT(limits.sandboxes), "0", .min = 0, .max = 1000000, .reload = true,
     .help = "Sandboxes on this server; 503 beyond. 0: no limit."},
    {"limits.sandboxes_per_key", OPT_INT, AT(limits.sandboxes_per_key), "0", .min = 0, .max = 1000000, .reload = true,
     .help = "Sandboxes of one owner; 429 beyond. 0: no limit."},

    {"proxy.require_api_key", OPT_BOOL, AT(proxy.require_api_key), "false", .reload = true,
     .help = "Ask for the API key on /sandboxes/{id}/proxy/ too. The published clients send it only\n"
             "when configured to; without it the sandbox id is the secret."},
    {"proxy.idle_timeout_seconds", OPT_INT, AT(proxy.idle_timeout_seconds), "0", .min = 0, .max = 86400, .reload = true,
     .help = "Ends a proxied connection without traffic; 0: never."},
    {"proxy.head_timeout_seconds", OPT_INT, AT(proxy.head_timeout_seconds), "180", .min = 0, .max = 86400, .reload = true,
     .help = "How long a sandbox may take to begin its answer; 0: for ever. 504 beyond."},

    {"runtime.type", OPT_STR, AT(runtime.type), "\"oci\"", .choices = runtimes,
     .help = "What runs the sandboxes: oci, the embedded runtime, or docker."},
    {"runtime.execd_image", OPT_STR, AT(runtime.execd_image), "\"\"",
     .help = "Image with execd.exe and install.bat, for Windows sandboxes of the docker runtime; every\n"
             "other sandbox gets the execd that is installed with the server."},

    {"oci.root", OPT_PATH, AT(oci.root), "\"\"",
     .help = "Bundles, layers and logs; \"\": <data_dir>/oci."},
    {"oci.run_dir", OPT_PATH, AT(oci.run_dir), "\"/run/opensandbox\"", .not_empty = true,
     .help = "Sockets and engine state; may be emptied at boot."},
    {"oci.engine", OPT_STR, AT(oci.engine), "\"crun\"", .not_empty = true, .check = check_name,
     .help = "crun, runc or runsc, or a name from [oci.engine_paths]."},
    {"oci.allowed_engines", OPT_LIST, AT(oci.allowed_engines), "[]", .reload = true,
     .help = "Engines a create may choose with extensions.\"oci.engine\"."},
    {"oci.engine_paths", OPT_MAP, AT(oci.engine_paths), "{}", .check = check_absolute_map,
     .help = "Engine name = path of its binary, where it is not found in PATH.",
     .example = "name = \"/path\""},
    {"oci.execd", OPT_PATH, AT(oci.execd), "\"\"",
     .help = "The static execd put into every sandbox; \"\": the one installed with the server."},
    {"oci.host_image_paths", OPT_LIST, AT(oci.host_image_paths), "[]", .check = check_absolute_list,
     .help = "Directories of this machine added to the image `host`, read-only, besides /usr."},
    {"oci.rootfs", OPT_MAP, AT(oci.rootfs), "{}", .check = check_absolute_map,
     .help = "Image name = directory with a root file system.",
     .example = "name = \"/path\""},
    {"oci.network", OPT_STR, AT(oci.network), "\"bridge\"", .choices = networks,
     .help = "bridge: outbound access through a bridge; none: loopback only."},
    {"oci.bridge", OPT_STR, AT(oci.bridge), "\"osb0\"", .not_empty = true, .check = check_name,
     .help = "Name of the bridge (at most 15 characters)."},
    {"oci.subnet", OPT_STR, AT(oci.subnet), "\"10.231.0.0/16\"", .check = check_cidr4,
     .help = "IPv4 network of the bridge."},
    {"oci.ipv6", OPT_STR, AT(oci.ipv6), "\"auto\"", .choices = three_ways,
     .help = "IPv6 for sandboxes, masqueraded; auto: where this host has a default route and forwards (docs/runtime-oci.md)."},
    {"oci.nft_table", OPT_STR, AT(oci.nft_table), "\"opensandbox\"", .not_empty = true, .check = check_name,
     .help = "The nftables table that is ours; no other is touched."},
    {"oci.dns", OPT_LIST, AT(oci.dns), "[]",
     .help = "Resolvers of the sandboxes; []: those of this machine."},
    {"oci.blocked_networks", OPT_LIST, AT(oci.blocked_networks), "[]", .check = check_cidrs,
     .help = "Networks no sandbox may reach, besides the built-in ones (this host, metadata services)."},
    {"oci.allowed_networks", OPT_LIST, AT(oci.allowed_networks), "[]", .check = check_cidrs,
     .help = "Networks exempt from the built-in blocks."},
    {"oci.netns_pool", OPT_INT, AT(oci.netns_pool), "8", .min = 0, .max = 1024,
     .help = "Network namespaces kept ready."},
    {"oci.user_namespace", OPT_BOOL, AT(oci.user_namespace), "true",
     .help = "Give each sandbox its own user ids, so that root inside is nobody outside."},
    {"oci.id_base", OPT_INT, AT(oci.id_base), "1879048192", .min = 65536, .max = INT64_C(4294901760),
     .help = "First host user id of the ranges handed out."},
    {"oci.id_count", OPT_INT, AT(oci.id_count), "65536", .min = 1000, .max = 1048576,
     .help = "User ids per sandbox."},
    {"oci.id_ranges", OPT_INT, AT(oci.id_ranges), "4096", .min = 1, .max = 65536,
     .help = "Number of ranges; the most sandboxes alive at once."},
    {"oci.seccomp", OPT_STR, AT(oci.seccomp), "\"default\"", .not_empty = true,
     .help = "default, unconfined, or the path of a profile."},
    {"oci.capabilities", OPT_LIST, AT(oci.capabilities), "[]",
     .help = "Capabilities kept inside; []: the built-in small set."},
    {"oci.no_new_privileges", OPT_BOOL, AT(oci.no_new_privileges), "true",
     .help = "setuid programs give nothing."},
    {"oci.read_only_rootfs", OPT_BOOL, AT(oci.read_only_rootfs), "false",
     .help = "No writable layer; only /tmp and mounts can be written."},
    {"oci.pids_limit", OPT_INT, AT(oci.pids_limit), "4096", .min = 0, .max = 4194304,
     .help = "Processes and threads per sandbox; 0: no limit."},
    {"oci.default_cpu", OPT_STR, AT(oci.default_cpu), "\"\"", .check = check_cpu_text,
     .help = "CPU limit of creates that name none, such as \"500m\"; \"\": none."},
    {"oci.default_memory", OPT_STR, AT(oci.default_memory), "\"\"", .check = check_bytes_text,
     .help = "Memory limit of creates that name none, such as \"512Mi\"; \"\": none."},
    {"oci.default_disk", OPT_STR, AT(oci.default_disk), "\"10Gi\"", .check = check_bytes_text,
     .help = "Limit of the writable layer of creates that name none; \"\": none."},
    {"oci.default_io_read_bps", OPT_STR, AT(oci.default_io_read_bps), "\"\"", .check = check_bytes_text,
     .help = "Bytes a second that creates that name no limit may read from the disk; \"\": any."},
    {"oci.default_io_write_bps", OPT_STR, AT(oci.default_io_write_bps), "\"\"", .check = check_bytes_text,
     .help = "Bytes a second that they may write to it; \"\": any."},
    {"oci.default_io_read_iops", OPT_INT, AT(oci.default_io_read_iops), "0", .min = 0, .max = UINT32_MAX,
     .help = "Reads a second; 0: any."},
    {"oci.default_io_write_iops", OPT_INT, AT(oci.default_io_write_iops), "0", .min = 0, .max = UINT32_MAX,
     .help = "Writes a second; 0: any."},
    {"oci.tmpfs_bytes", OPT_BYTES, AT(oci.tmpfs_bytes), "\"64Mi\"", .min = 65536, .max = INT64_C(1) << 50,
     .help = "Size of /dev/shm and other tmpfs mounts."},
    {"oci.cgroup_parent", OPT_STR, AT(oci.cgroup_parent), "\"opensandbox\"", .not_empty = true, .check = check_name,
     .help = "Control group under which all sandboxes live."},
    {"oci.log_max_bytes", OPT_BYTES, AT(oci.log_max_bytes), "\"10Mi\"", .min = 4096, .max = INT64_C(1) << 40,
     .help = "Size at which the output of an entrypoint is rotated."},
    {"oci.log_files", OPT_INT, AT(oci.log_files), "2", .min = 1, .max = 100,
     .help = "Rotated files kept per sandbox."},
    {"oci.start_timeout_seconds", OPT_INT, AT(oci.start_timeout_seconds), "60", .min = 1, .max = 3600,
     .help = "How long a sandbox may take from start to answering."},
    {"oci.stop_timeout_seconds", OPT_INT, AT(oci.stop_timeout_seconds), "0", .min = 0, .max = 600,
     .help = "Time between SIGTERM and SIGKILL on removal; 0: SIGKILL at once."},

    {"images.root", OPT_PATH, AT(images.root), "\"\"",
     .help = "The image store of the embedded runtime; \"\": <data_dir>/images."},
    {"images.pull_policy", OPT_STR, AT(images.pull_policy), "\"missing\"", .choices = pull_policies,
     .help = "missing: an image is pulled when it is not in the store; always: the registry is asked\n"
             "at every create; never: only what was pulled or imported before."},
    {"images.docker_config", OPT_PATH, AT(images.docker_config), "\"~/.docker/config.json\"",
     .help = "File with credentials of registries, as `docker login` keeps them; \"\": none."},
    {"images.mirrors", OPT_MAP, AT(images.mirrors), "{}", .check = check_url_map,
     .help = "Of a registry: http[s]://host[:port] that is asked first, and the registry itself where that fails.",
     .example = "\"registry.example\" = \"https://mirror.example:5000\""},
    {"images.ca_files", OPT_MAP, AT(images.ca_files), "{}", .check = check_absolute_map,
     .help = "Of a registry: file with the certificates of the authorities it is trusted by.",
     .example = "\"registry.example\" = \"/path.pem\""},
    {"images.plain_http", OPT_LIST, AT(images.plain_http), "[]",
     .help = "Registries spoken to without TLS (those on loopback are anyway, unless ca_files names them)."},
    {"images.skip_verify", OPT_LIST, AT(images.skip_verify), "[]",
     .help = "Registries whose certificate is not verified."},
    {"images.max_bytes", OPT_BYTES, AT(images.max_bytes), "0", .min = 0, .max = INT64_C(1) << 60,
     .help = "Size of the store at which the least recently used images are removed; 0: never.\n"
             "Only what can be pulled again, and never an image in use."},
    {"images.prune_interval_seconds", OPT_INT, AT(images.prune_interval_seconds), "3600", .min = 1, .max = 604800,
     .help = "How often the size is looked at."},

    {"docker.host", OPT_STR, AT(docker.host), "\"\"",
     .help = "The engine: unix:///path, tcp://host:port or https://host:port; \"\": DOCKER_HOST with\n"
             "DOCKER_TLS_VERIFY and DOCKER_CERT_PATH, else unix:///var/run/docker.sock."},
    {"docker.cert_path", OPT_PATH, AT(docker.cert_path), "\"\"",
     .help = "Directory with ca.pem, cert.pem and key.pem for an engine that is reached over TLS; with it tcp://\n"
             "means TLS. \"\": DOCKER_CERT_PATH, which means the same."},
    {"docker.tls_verify", OPT_BOOL, AT(docker.tls_verify), "true",
     .help = "Verify the engine's certificate and name; only with docker.cert_path. Without that DOCKER_TLS_VERIFY decides."},
    {"docker.network_mode", OPT_STR, AT(docker.network_mode), "\"bridge\"", .not_empty = true, .check = check_name,
     .help = "bridge, the name of a network of the engine, or host (one sandbox at a time: all share the\n"
             "machine's ports, and reach everything it reaches)."},
    {"docker.api_timeout", OPT_INT, AT(docker.api_timeout), "180", .min = 1, .max = 86400,
     .help = "Seconds one call to the engine may take; pulls and commits have their own time."},
    {"docker.host_ip", OPT_STR, AT(docker.host_ip), "\"\"",
     .help = "Address in endpoints when the server itself runs in a container."},
    {"docker.drop_capabilities", OPT_LIST, AT(docker.drop_capabilities),
     "[\"AUDIT_WRITE\", \"MKNOD\", \"NET_ADMIN\", \"NET_RAW\", \"SYS_ADMIN\", \"SYS_MODULE\", \"SYS_PTRACE\", "
     "\"SYS_TIME\", \"SYS_TTY_CONFIG\"]",
     .help = "Capabilities taken from every sandbox."},
    {"docker.apparmor_profile", OPT_STR, AT(docker.apparmor_profile), "\"\"",
     .help = "AppArmor profile of the sandboxes; \"\": the engine's own."},
    {"docker.seccomp_profile", OPT_STR, AT(docker.seccomp_profile), "\"\"",
     .help = "Path of a seccomp profile, read at start, or unconfined; \"\": the engine's own."},
    {"docker.no_new_privileges", OPT_BOOL, AT(docker.no_new_privileges), "true",
     .help = "setuid programs give nothing."},
    {"docker.pids_limit", OPT_INT, AT(docker.pids_limit), "4096", .min = 0, .max = 4194304,
     .help = "Processes and threads per sandbox; 0: no limit."},
    {"docker.publish_ports", OPT_BOOL, AT(docker.publish_ports), "true",
     .help = "Publish execd and port 8080 of each sandbox on the machine; false: endpoints go through\n"
             "this server's proxy."},
    {"docker.publish_address", OPT_STR, AT(docker.publish_address), "\"\"",
     .help = "Address they are published on; \"\": the one this server listens on (server.host)."},
    {"docker.adopt", OPT_STR, AT(docker.adopt), "\"reference\"", .choices = adoptions,
     .help = "Sandboxes on the engine that this server did not make and takes charge of: reference, those\n"
             "without the name of a server; all; or none."},
    {"docker.stage", OPT_STR, AT(docker.stage), "\"auto\"", .choices = stages,
     .help = "How execd comes into a sandbox: mount, read-only from <data_dir>; upload, where the engine does\n"
             "not see our files; auto chooses."},
    {"docker.execd", OPT_PATH, AT(docker.execd), "\"\"",
     .help = "The static execd put into every sandbox; \"\": the one installed with the server."},
    {"docker.start_timeout_seconds", OPT_INT, AT(docker.start_timeout_seconds), "60", .min = 1, .max = 3600,
     .help = "How long a sandbox may take from start to answering."},

    {"egress.image", OPT_STR, AT(egress.image), "\"\"",
     .help = "Image of the egress sidecar; only the docker runtime needs one."},
    {"egress.mode", OPT_STR, AT(egress.mode), "\"dns+nft\"", .choices = egress_modes,
     .help = "dns+nft filters names and addresses; dns only names."},
    {"egress.disable_ipv6", OPT_BOOL, AT(egress.disable_ipv6), "true",
     .help = "No IPv6 in sandboxes with an egress policy."},

    {"storage.allowed_host_paths", OPT_LIST, AT(storage.allowed_host_paths), "[]", .check = check_absolute_list, .reload = true,
     .help = "Directories of this machine that volumes may name; []: none."},
    {"storage.ossfs_mount_root", OPT_STR, AT(storage.ossfs_mount_root), "\"/mnt/ossfs\"",
     .help = "Where buckets are mounted; absolute."},

    {"secure_runtime.type", OPT_STR, AT(secure_runtime.type), "\"\"", .choices = secure_types,
     .help = "gvisor runs every sandbox in runsc; \"\": the engine of the runtime."},
    {"secure_runtime.docker_runtime", OPT_STR, AT(secure_runtime.docker_runtime), "\"\"",
     .help = "Name the Docker engine has for it."},

    {"renew_intent.enabled", OPT_BOOL, AT(renew.enabled), "false",
     .help = "Extend sandboxes that asked for it whenever they are accessed."},
    {"renew_intent.min_interval_seconds", OPT_INT, AT(renew.min_interval_seconds), "60", .min = 1, .max = 86400, .reload = true,
     .help = "Shortest time between two extensions of one sandbox."},
    {"renew_intent.redis.enabled", OPT_BOOL, AT(renew.redis_enabled), "false",
     .help = "Also take intents from a Redis list (the ingress puts them there)."},
    {"renew_intent.redis.dsn", OPT_STR, AT(renew.redis_dsn), "\"\"", .secret = true,
     .help = "redis://[user:password@]host[:port][/db]"},
    {"renew_intent.redis.queue_key", OPT_STR, AT(renew.redis_queue_key), "\"opensandbox:renew:intent\"", .not_empty = true,
     .help = "The list."},
    {"renew_intent.redis.consumer_concurrency", OPT_INT, AT(renew.redis_consumer_concurrency), "8", .min = 1, .max = 64,
     .help = "Connections that read from it."},

    {"pool", OPT_TABLES, AT(pools), "{}",
     .help = "Warm pools that are there from the start: one table [pool.NAME] each. Numbers are its capacity, everything\n"
             "else is its template, a create request: image, entrypoint, env, resource_limits, volumes, network_policy,\n"
             "credential_proxy, platform, extensions. A pool that is not declared any more is removed at the next start.",
     .example = "# [pool.name]\n"
                "# Sandboxes started and idle, at least.\n"
                "# buffer_min = 1\n"
                "# The same, at most; as many as buffer_min unless said otherwise.\n"
                "# buffer_max = 1\n"
                "# Idle and taken ones together, at least.\n"
                "# pool_min = 0\n"
                "# The same, at most: creates beyond are refused with 503.\n"
                "# pool_max = 100\n"
                "# What they run; the rest of the template likewise.\n"
                "# image = \"host\"\n"},
    {NULL},
    /* clang-format on */
};

const struct option *option_find(const char *key)
{
    for (const struct option *o = config_options; o->key; o++) {
        if (!strcmp(o->key, key)) {
            return o;
        }
    }
    return NULL;
}

const struct option *option_nearest(const char *key)
{
    const struct option *best = NULL;
    const char *name = strrchr(key, '.');
    size_t least = 3; /* more letters apart is not a slip any more */
    for (const struct option *o = config_options; o->key; o++) {
        size_t d = str_distance(key, o->key);
        if (d < least) {
            least = d;
            best = o;
        }
    }
    for (const struct option *o = config_options; !best && name && o->key; o++) {
        const char *other = strrchr(o->key, '.');
        best = other && !strcmp(name, other) ? o : NULL;
    }
    return best;
}

const char *option_foreign_section(const char *key)
{
    static const struct {
        const char *prefix, *why;
    } foreign[] = {
        {"kubernetes.", "belongs to the Kubernetes runtime"},
        {"agent_sandbox.", "belongs to the Kubernetes runtime"},
        {"ingress.", "belongs to the Kubernetes runtime"},
        {"server.loop", "chooses a Python event loop"},
        {"server.http", "chooses a Python HTTP parser"},
        {"log.file", "files are left to the service manager; the server logs to standard error"},
        {"log.access_file_path", "use log.access; the server logs to standard error"},
        {"storage.volume_default_size", "belongs to the Kubernetes runtime"},
        {"store.type", "there is only one store"},
        {"secure_runtime.k8s_runtime_class", "belongs to the Kubernetes runtime"},
    };
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
        if (str_starts(str_from(key), str_from(foreign[i].prefix))) {
            return foreign[i].why;
        }
    }
    return NULL;
}
