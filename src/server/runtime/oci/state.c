/* Reading and writing state.json. */

#include "server/runtime/oci/state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/num.h"
#include "server/runtime/oci/limits.h"

#define F(member, key, kind, ...)                                                                  \
    JSON_FIELD(struct sandbox_state, member, key, kind, .omit_empty = true, ##__VA_ARGS__)

static const struct json_field fields[] = {
    JSON_FIELD(struct sandbox_state, id, "id", JSON_F_STR, .required = true),
    JSON_FIELD(struct sandbox_state, phase, "phase", JSON_F_STR, .required = true),
    JSON_FIELD(struct sandbox_state, boot_id, "bootId", JSON_F_STR, .required = true),
    F(engine, "engine", JSON_F_STR),
    F(image, "image", JSON_F_STR),
    F(hostname, "hostname", JSON_F_STR),
    F(entrypoint, "entrypoint", JSON_F_STR_LIST),
    F(layers, "layers", JSON_F_STR_LIST),
    F(volumes, "volumes", JSON_F_STR_LIST),
    F(labels, "labels", JSON_F_STR_MAP),
    JSON_FIELD(struct sandbox_state, standby, "standby", JSON_F_BOOL),
    JSON_FIELD(struct sandbox_state, egress, "egress", JSON_F_BOOL),
    JSON_FIELD(struct sandbox_state, pid, "pid", JSON_F_INT),
    JSON_FIELD(struct sandbox_state, pid_start, "pidStart", JSON_F_INT),
    JSON_FIELD(struct sandbox_state, id_range, "idRange", JSON_F_INT),
    JSON_FIELD(struct sandbox_state, ip, "ip", JSON_F_INT),
    F(link, "link", JSON_F_STR),
    F(cpu_millis, "cpuMillis", JSON_F_INT),
    F(memory_bytes, "memoryBytes", JSON_F_INT),
    F(pids, "pids", JSON_F_INT),
    F(disk_bytes, "diskBytes", JSON_F_INT),
    JSON_FIELD(struct sandbox_state, created_us, "createdUs", JSON_F_INT),
    JSON_FIELD(struct sandbox_state, started_us, "startedUs", JSON_F_INT),
    JSON_FIELD(struct sandbox_state, finished_us, "finishedUs", JSON_F_INT),
    F(exit_kind, "exit", JSON_F_STR),
    JSON_FIELD(struct sandbox_state, exit_code, "exitCode", JSON_F_INT),
    F(detail, "detail", JSON_F_STR),
    {0},
};
static const struct json_table table = {"SandboxState", sizeof(struct sandbox_state), fields,
                                        JSON_UNKNOWN_IGNORE, false};

/* Old content or new content, never half; but no waiting for the disk. */
static int replace_file(int dir_fd, const char *name, struct str text)
{
    char tmp[64];
    (void)snprintf(tmp, sizeof(tmp), ".%s.%d", name, (int)gettid());
    cleanup_close int fd = openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    int r = fd_write_full(fd, text.p, text.n);
    if (r == 0 && renameat(dir_fd, tmp, dir_fd, name) < 0) {
        r = -errno;
    }
    if (r < 0) {
        (void)unlinkat(dir_fd, tmp, 0);
    }
    return r;
}

int state_write(int dir_fd, const struct sandbox_state *s, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(OCI_STATE_MAX);
    struct json_out o;
    json_out_init(&o, &text);
    json_encode(&o, &table, s);
    if (buf_failed(&text)) {
        return err_set(e, ERR_LIMIT, "labels and entrypoint of %s are too large", s->id);
    }
    int r = replace_file(dir_fd, STATE_FILE, buf_str(&text));
    return r < 0 ? err_sys(e, r, "record the state of %s", s->id) : 0;
}

int state_read(int dir_fd, struct arena *a, struct sandbox_state *ret, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(OCI_STATE_MAX);
    int r = file_read(dir_fd, STATE_FILE, &text);
    if (r < 0) {
        return err_sys(e, r, "read " STATE_FILE);
    }
    cleanup_(json_free) struct json *j = json_parse(buf_str(&text), e);
    return !j || json_decode(a, &table, j, ret, NULL, e) < 0 ? err_wrap(e, STATE_FILE) : 0;
}

static char boot_id[64];

static void boot_id_read(void)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(sizeof(boot_id));
    if (file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", &text) == 0) {
        struct str rest = buf_str(&text);
        (void)str_to_cstr(str_cut(&rest, '\n'), boot_id, sizeof(boot_id));
    }
}

const char *state_boot_id(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, boot_id_read);
    return boot_id;
}

uint64_t state_pid_start(int pid)
{
    char path[64];
    cleanup_(buf_done) struct buf text = BUF_INIT(4096);
    uint64_t v = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    if (pid <= 0 || file_read(AT_FDCWD, path, &text) < 0) {
        return 0;
    }
    /* The name in parentheses may contain anything; field 22 counts from behind it. */
    struct str rest = buf_str(&text);
    ptrdiff_t paren = str_rfind(rest, ')');
    rest = paren < 0 ? STR_NULL : str_sub(rest, (size_t)paren + 2, rest.n);
    for (int field = 3; rest.p; field++) {
        struct str word = str_cut(&rest, ' ');
        if (field == 22) {
            return parse_u64(word, &v) < 0 ? 0 : v;
        }
    }
    return 0;
}

static const char *const exit_names[] = {"", "code", "signal", "oom", "unknown"};

const char *exit_kind_name(enum runtime_exit x)
{
    return exit_names[x];
}

enum runtime_exit exit_kind_parse(const char *name)
{
    for (size_t i = 1; name && i < sizeof(exit_names) / sizeof(exit_names[0]); i++) {
        if (strcmp(exit_names[i], name) == 0) {
            return (enum runtime_exit)i;
        }
    }
    return EXIT_NONE;
}
