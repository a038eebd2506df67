/* execd and bootstrap.sh, which every sandbox has in /opt/opensandbox. The server carries both.
 * Where the engine sees our files they are mounted, read-only, which costs nothing; otherwise they
 * are uploaded in one archive. */

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/sha1.h"
#include "server/image/ustar.h"
#include "server/runtime/docker/docker.h"

extern const unsigned char bootstrap_sh[];
extern const size_t bootstrap_sh_len;

/* ---- archives ---- */

static void tar_entry(struct buf *tar, const char *name, char type, mode_t mode, size_t size)
{
    char h[USTAR_BLOCK];
    ustar_header(h, name, type, mode, size);
    must(buf_add(tar, h, sizeof(h)) == 0);
}

static void tar_pad(struct buf *tar, size_t n)
{
    static const char zeros[USTAR_BLOCK];
    must(buf_add(tar, zeros, n) == 0);
}

void tar_add(struct buf *tar, const char *name, mode_t mode, struct str content)
{
    tar_entry(tar, name, '0', mode, content.n);
    must(buf_add_str(tar, content) == 0);
    tar_pad(tar, ustar_padding(content.n));
}

void tar_add_dir(struct buf *tar, const char *name, mode_t mode)
{
    tar_entry(tar, name, '5', mode, 0);
}

void tar_end(struct buf *tar)
{
    tar_pad(tar, USTAR_BLOCK);
    tar_pad(tar, USTAR_BLOCK);
}

int stage_put(struct docker *d, const char *cid, const char *path, struct str tar, struct err *e)
{
    char url[PATH_TEXT_MAX];
    (void)snprintf(url, sizeof(url), "/containers/%s/archive?path=%s", cid, path);
    struct engine_call c = {.method = "PUT", .path = url, .raw = tar};
    cleanup_(engine_answer_done) struct engine_answer a;
    int r = engine_do(&d->engine, &c, &a, e);
    return r < 0 ? r : engine_check(&a, "upload", e);
}

/* ---- our own files ---- */

static void content_name(struct str content, const char *word, char *out, size_t size)
{
    uint8_t md[SHA1_LEN];
    struct sha1 s;
    sha1_init(&s);
    sha1_add(&s, content);
    sha1_done(&s, md);
    cleanup_(buf_done) struct buf hex = BUF_INIT(2 * SHA1_LEN + 1);
    must(hex_encode(&hex, md, 8) == 0);
    (void)snprintf(out, size, "%s-%s", word, buf_cstr(&hex));
}

/* A copy that does not change when the server is replaced: running sandboxes keep theirs. */
static char *keep(struct docker *d, int dir, const char *word, struct str content, struct err *e)
{
    char name[64];
    struct stat st;
    content_name(content, word, name, sizeof(name));
    int r = 0;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || (size_t)st.st_size != content.n) {
        r = file_write_atomic(dir, name, content, 0555);
    }
    if (r < 0 || fchmodat(dir, name, 0555, 0) < 0) {
        (void)err_sys(e, r < 0 ? r : errno, "%s/docker/%s", d->cfg->server.data_dir, name);
        return NULL;
    }
    return xasprintf("%s/docker/%s", d->cfg->server.data_dir, name);
}

/* Who listens on the engine's socket; false: not on this machine, or not to be seen from here. */
static bool engine_peer(const struct docker *d, struct ucred *ret)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(*ret);
    cleanup_close int fd =
        d->engine.unix_socket ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    return fd >= 0 &&
           str_to_cstr(str_from(d->engine.unix_socket), a.sun_path, sizeof(a.sun_path)) >= 0 &&
           connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &len) == 0 && ret->pid > 0;
}

static bool is_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Whoever listens on the socket has this directory under the same name: then so has the engine. In
 * a container with the engine's socket passed in, this fails. */
bool engine_sees(const struct docker *d, const char *dir)
{
    struct ucred peer;
    if (!engine_peer(d, &peer)) {
        return false;
    }
    cleanup_free char *path = xasprintf("/proc/%d/root%s", (int)peer.pid, dir);
    return is_same(dir, path);
}

bool engine_shares_mounts(const struct docker *d)
{
    struct ucred peer;
    if (geteuid() != 0 || !engine_peer(d, &peer)) {
        return false;
    }
    cleanup_free char *path = xasprintf("/proc/%d/ns/mnt", (int)peer.pid);
    return is_same("/proc/self/ns/mnt", path);
}

static bool mounts_are_seen(const struct docker *d, const char *dir)
{
    const char *how = d->dc->stage;
    if (strcmp(how, "auto") != 0) {
        return strcmp(how, "mount") == 0;
    }
    return engine_sees(d, dir);
}

/* An execd for another machine than the engine's would only be noticed by sandboxes that never
 * answer. */
static int check_arch(const struct docker *d, struct str execd, struct err *e)
{
    static const struct {
        uint16_t machine;
        const char *arch;
    } rows[] = {{EM_X86_64, "amd64"}, {EM_AARCH64, "arm64"}};
    Elf64_Ehdr head;
    if (execd.n < sizeof(head) || memcmp(execd.p, ELFMAG, SELFMAG) != 0) {
        return err_set(e, ERR_INVALID, "docker.execd: '%s' is not a program", d->dc->execd);
    }
    memcpy(&head, execd.p, sizeof(head));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].machine == head.e_machine && d->arch[0] && strcmp(d->arch, rows[i].arch) != 0) {
            return err_set(e, ERR_UNSUPPORTED,
                           "docker.execd: '%s' is for %s, and the engine's machine is %s",
                           d->dc->execd, rows[i].arch, d->arch);
        }
    }
    return 0;
}

int stage_open(struct docker *d, struct err *e)
{
    cleanup_(buf_done) struct buf execd = BUF_INIT(DOCKER_EXECD_MAX);
    cleanup_free char *path = xasprintf("%s/docker", d->cfg->server.data_dir);
    struct str script = str_n((const char *)bootstrap_sh, bootstrap_sh_len);
    int r = file_read(AT_FDCWD, d->dc->execd, &execd);
    if (r < 0) {
        return err_sys(e, r, "execd is not at '%s' (set docker.execd)", d->dc->execd);
    }
    if (check_arch(d, buf_str(&execd), e) < 0) {
        return -1;
    }
    buf_init(&d->stage.tar, DOCKER_EXECD_MAX + (1u << 20));
    d->stage.mounts = mounts_are_seen(d, path);
    if (!d->stage.mounts) {
        tar_add_dir(&d->stage.tar, "opt/", 0755);
        tar_add_dir(&d->stage.tar, "opt/opensandbox/", 0755);
        tar_add(&d->stage.tar, "opt/opensandbox/execd", 0755, buf_str(&execd));
        tar_add(&d->stage.tar, "opt/opensandbox/bootstrap.sh", 0755, script);
        tar_end(&d->stage.tar);
        return 0;
    }
    r = dir_make(AT_FDCWD, path, 0755);
    cleanup_close int dir = r < 0 ? r : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return err_sys(e, r < 0 ? r : errno, "%s", path);
    }
    d->stage.execd = keep(d, dir, "execd", buf_str(&execd), e);
    d->stage.bootstrap = d->stage.execd ? keep(d, dir, "bootstrap", script, e) : NULL;
    return d->stage.bootstrap ? 0 : -1;
}

void stage_close(struct docker *d)
{
    free(d->stage.execd);
    free(d->stage.bootstrap);
    buf_done(&d->stage.tar);
}

static void bind_push(struct json *binds, const char *from, const char *to)
{
    cleanup_free char *text = xasprintf("%s:%s:ro", from, to);
    json_push(binds, json_string_new(str_from(text)));
}

void stage_binds(const struct docker *d, struct json *binds)
{
    if (d->stage.mounts) {
        bind_push(binds, d->stage.execd, OPT_DIR "/execd");
        bind_push(binds, d->stage.bootstrap, OPT_DIR "/bootstrap.sh");
    }
}

int stage_upload(struct docker *d, const char *cid, struct err *e)
{
    return d->stage.mounts ? 0 : stage_put(d, cid, "/", buf_str(&d->stage.tar), e);
}
