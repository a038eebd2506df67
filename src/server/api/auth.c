/* See auth.h. */

#include "server/api/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rand.h"
#include "base/sha1.h"
#include "server/limits.h"

#define GENERATED_LEN 40
#define KEYS_MAX 256u

struct key {
    char *text;
    char name[KEY_NAME_MAX];
};

struct keyring {
    pthread_rwlock_t lock;
    struct key *v;
    size_t n;
};

static bool blank(const char *s)
{
    return !s || str_trim(str_from(s)).n == 0;
}

static bool insecure_wanted(void)
{
    const char *v = getenv("OPENSANDBOX_INSECURE_SERVER");
    return v && !strcmp(v, "YES");
}

/* "key-3f2a91c4": tells keys apart in logs without giving them away. */
static void key_name(const char *text, char out[KEY_NAME_MAX])
{
    uint8_t md[SHA1_LEN];
    struct sha1 s;
    sha1_init(&s);
    sha1_add(&s, str_from(text));
    sha1_done(&s, md);
    (void)snprintf(out, KEY_NAME_MAX, "key-%02x%02x%02x%02x", md[0], md[1], md[2], md[3]);
}

static void add_key(struct key **v, size_t *n, const char *text)
{
    *v = xreallocarray(*v, *n + 1, sizeof(**v));
    struct key *k = &(*v)[(*n)++];
    k->text = xstrdup(text);
    key_name(text, k->name);
}

static void free_keys(struct key *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        explicit_bzero(v[i].text, strlen(v[i].text));
        free(v[i].text);
    }
    free(v);
}

static int make_key_file(const char *path, struct err *e)
{
    char key[GENERATED_LEN + 2];
    rand_token(key, GENERATED_LEN);
    key[GENERATED_LEN] = '\n';
    const char *slash = strrchr(path, '/');
    cleanup_free char *dir = xstrndup(path, (size_t)(slash - path));
    int r = *dir ? dir_make(AT_FDCWD, dir, 0700) : 0;
    if (r >= 0) {
        r = file_write_atomic(AT_FDCWD, path, str_n(key, GENERATED_LEN + 1), 0600);
    }
    return r < 0 ? err_sys(e, r, "cannot write the generated API key to %s", path) : 0;
}

/* Reads the key file, makes it first if need be. Refuses one that others can read. */
static int load_key_file(const char *path, char **ret, bool *ret_made, struct err *e)
{
    *ret_made = access(path, F_OK) < 0 && errno == ENOENT;
    if (*ret_made && make_key_file(path, e) < 0) {
        return -1;
    }
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(e, errno, "cannot read the API key in %s", path);
    }
    if ((st.st_mode & 077) || (st.st_uid != geteuid() && st.st_uid != 0)) {
        return err_set(e, ERR_DENIED,
                       "%s may be read by others: chmod 600 it, or remove it to get a new key",
                       path);
    }
    struct buf b = BUF_INIT(4096);
    int r = buf_read_fd(&b, fd);
    struct str key = buf_str(&b);
    while (key.n && strchr(" \t\r\n", key.p[key.n - 1])) {
        key.n--;
    }
    if (r < 0 || key.n < KEY_MIN) {
        buf_done(&b);
        return err_set(e, ERR_INVALID, "%s holds no API key; remove it to get a new one", path);
    }
    *ret = str_dup(key);
    buf_done(&b);
    return 0;
}

static int collect(const struct config *cfg, struct key **ret, size_t *ret_n, char **ret_note,
                   struct err *e)
{
    struct key *v = NULL;
    size_t n = 0;
    if (cfg->server.api_keys.n > KEYS_MAX) {
        return err_set(e, ERR_LIMIT, "server.api_keys holds more than %u keys", KEYS_MAX);
    }
    if (!blank(cfg->server.api_key)) {
        add_key(&v, &n, cfg->server.api_key);
    }
    for (size_t i = 0; i < cfg->server.api_keys.n; i++) {
        add_key(&v, &n, cfg->server.api_keys.v[i]);
    }
    bool open_wanted = cfg->server.api_key != NULL || insecure_wanted();
    if (!n && !open_wanted) {
        char *text = NULL;
        bool made = false;
        if (load_key_file(cfg->server.key_file, &text, &made, e) < 0) {
            return -1;
        }
        must(text);
        add_key(&v, &n, text);
        explicit_bzero(text, strlen(text));
        free(text);
        if (ret_note) {
            *ret_note =
                xasprintf("%s %s", made ? "generated an API key, kept in" : "using the API key in",
                          cfg->server.key_file);
        }
    }
    *ret = v;
    *ret_n = n;
    return 0;
}

struct keyring *keyring_new(const struct config *cfg, char **ret_note, struct err *e)
{
    struct keyring *k = NEW(struct keyring);
    must(pthread_rwlock_init(&k->lock, NULL) == 0);
    if (collect(cfg, &k->v, &k->n, ret_note, e) < 0) {
        keyring_free(k);
        return NULL;
    }
    return k;
}

void keyring_free(struct keyring *k)
{
    if (k) {
        free_keys(k->v, k->n);
        (void)pthread_rwlock_destroy(&k->lock);
        free(k);
    }
}

bool keyring_is_open(const struct keyring *k)
{
    struct keyring *m = (struct keyring *)(uintptr_t)k;
    (void)pthread_rwlock_rdlock(&m->lock);
    bool open = m->n == 0;
    (void)pthread_rwlock_unlock(&m->lock);
    return open;
}

int keyring_reload(struct keyring *k, const struct config *cfg, struct err *e)
{
    struct key *v = NULL;
    size_t n = 0;
    if (collect(cfg, &v, &n, NULL, e) < 0) {
        return -1;
    }
    if (!n && !keyring_is_open(k)) {
        return err_set(e, ERR_DENIED, "the new configuration has no API key; that needs a restart");
    }
    (void)pthread_rwlock_wrlock(&k->lock);
    struct key *old = k->v;
    size_t old_n = k->n;
    k->v = v;
    k->n = n;
    (void)pthread_rwlock_unlock(&k->lock);
    free_keys(old, old_n);
    return 0;
}

bool keyring_find(struct keyring *k, struct str key, struct principal *ret)
{
    bool found = false;
    (void)pthread_rwlock_rdlock(&k->lock);
    for (size_t i = 0; i < k->n; i++) { /* all of them, whichever matches */
        if (str_eq_consttime(str_from(k->v[i].text), key)) {
            found = true;
            ret->owner = OWNER_DEFAULT;
            memcpy(ret->actor, k->v[i].name, sizeof(ret->actor));
        }
    }
    (void)pthread_rwlock_unlock(&k->lock);
    return found;
}

int auth_confirm_open(struct err *e)
{
    if (insecure_wanted()) {
        log_warn("no API key: everyone who reaches this server controls it");
        return 0;
    }
    if (!isatty(STDIN_FILENO)) {
        return err_set(e, ERR_DENIED,
                       "no API key is configured; set OPENSANDBOX_INSECURE_SERVER=YES to start "
                       "without one");
    }
    (void)fprintf(stderr, "\033[31mNo API key: everyone who reaches this server controls it.\n"
                          "Type YES within 30 seconds to start anyway:\033[0m ");
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    char line[16] = "";
    if (poll(&p, 1, 30000) == 1) {
        ssize_t n = read(STDIN_FILENO, line, sizeof(line) - 1);
        line[n > 0 ? n : 0] = '\0';
        line[strcspn(line, "\r\n")] = '\0';
    }
    if (strcmp(line, "YES") != 0) {
        return err_set(e, ERR_DENIED, "starting without an API key was not confirmed");
    }
    return 0;
}
