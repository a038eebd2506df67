/* See redis.h. Blocking hiredis, one thread per connection: BRPOP waits in the server, so that an
 * idle consumer costs nothing. No acknowledgement: a lost intent is made up for by the next one. */

#include "server/proxy/redis.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "net/url.h"
#include "server/limits.h"
#include "json/json.h"

struct consumer {
    struct renew_source *src;
    pthread_t thread;
    int fd; /* of its connection, -1: none; under the lock */
};

struct renew_source {
    struct lifecycle *lc;
    char *host, *user, *password, *queue;
    uint16_t port;
    int64_t db;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool stopping;
    size_t n;
    struct consumer *v;
};

int renew_intent_parse(struct str payload, int64_t now_us, char id[SANDBOX_ID_MAX])
{
    struct err e = {0};
    int64_t at;
    if (payload.n > REDIS_PAYLOAD_MAX) {
        return -EINVAL;
    }
    cleanup_(json_free) struct json *j = json_parse(payload, &e);
    if (!json_is_object(j)) {
        return -EINVAL;
    }
    struct str sb = str_trim(json_str(json_get(j, "sandbox_id")));
    if (!sb.n || rfc3339_parse(json_str(json_get(j, "observed_at")), &at) < 0 ||
        str_to_cstr(sb, id, SANDBOX_ID_MAX) < 0) {
        return -EINVAL;
    }
    return now_us - at > INT64_C(1000000) * RENEW_INTENT_MAX_AGE_S ? -ETIME : 0;
}

static void handle(struct renew_source *s, struct str payload)
{
    char id[SANDBOX_ID_MAX];
    int r = renew_intent_parse(payload, clock_wall_us(), id);
    if (r < 0) {
        log_debug("renew intent dropped",
                  LOG_S("renew_skip_reason", r == -ETIME ? "stale" : "malformed"));
        return;
    }
    struct sandbox *sb = registry_get(lifecycle_registry(s->lc), NULL, str_from(id));
    if (sb) {
        lifecycle_touch(s->lc, sb, "redis_queue");
    }
    sandbox_unref(sb);
}

static bool is_stopping(struct renew_source *s)
{
    (void)pthread_mutex_lock(&s->lock);
    bool stopping = s->stopping;
    (void)pthread_mutex_unlock(&s->lock);
    return stopping;
}

static void set_fd(struct consumer *c, int fd)
{
    (void)pthread_mutex_lock(&c->src->lock);
    c->fd = fd;
    if (fd >= 0 && c->src->stopping) {
        (void)shutdown(fd, SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&c->src->lock);
}

static bool reply_ok(redisReply *r)
{
    bool ok = r && r->type != REDIS_REPLY_ERROR;
    freeReplyObject(r);
    return ok;
}

static redisContext *connect_redis(struct renew_source *s)
{
    redisContext *rc = redisConnectWithTimeout(s->host, s->port, (struct timeval){.tv_sec = 2});
    if (!rc || rc->err) {
        log_warn("cannot connect to Redis", LOG_S("host", s->host),
                 LOG_S("error", rc ? rc->errstr : "no memory"));
        redisFree(rc);
        return NULL;
    }
    (void)redisSetTimeout(rc, (struct timeval){.tv_sec = REDIS_WAIT_S + 5});
    (void)redisEnableKeepAlive(rc);
    bool ok = true;
    if (s->password && s->user) {
        ok = reply_ok(redisCommand(rc, "AUTH %s %s", s->user, s->password));
    } else if (s->password) {
        ok = reply_ok(redisCommand(rc, "AUTH %s", s->password));
    }
    if (ok && s->db) {
        ok = reply_ok(redisCommand(rc, "SELECT %d", (int)s->db));
    }
    if (!ok) {
        log_warn("Redis refused the login or the database", LOG_S("host", s->host));
        redisFree(rc);
        return NULL;
    }
    return rc;
}

/* Until the connection breaks or the server stops. */
static void consume(struct consumer *c, redisContext *rc)
{
    struct renew_source *s = c->src;
    while (!is_stopping(s)) {
        redisReply *r = redisCommand(rc, "BRPOP %s %d", s->queue, REDIS_WAIT_S);
        if (!r || r->type == REDIS_REPLY_ERROR) {
            if (!is_stopping(s)) {
                log_warn("cannot read renew intents", LOG_S("error", r ? r->str : rc->errstr));
            }
            freeReplyObject(r);
            return;
        }
        if (r->type == REDIS_REPLY_ARRAY && r->elements == 2 && r->element[1]->str) {
            handle(s, str_n(r->element[1]->str, r->element[1]->len));
        }
        freeReplyObject(r);
    }
}

static void *consumer_run(void *arg)
{
    struct consumer *c = arg;
    struct renew_source *s = c->src;
    while (!is_stopping(s)) {
        redisContext *rc = connect_redis(s);
        if (rc) {
            set_fd(c, rc->fd);
            consume(c, rc);
            set_fd(c, -1);
            redisFree(rc);
        }
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        (void)pthread_mutex_lock(&s->lock);
        if (!s->stopping) {
            (void)pthread_cond_timedwait(&s->cond, &s->lock, &until);
        }
        (void)pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

static int parse_dsn(struct renew_source *s, const char *dsn, struct err *e)
{
    struct url u;
    if (url_parse(str_from(dsn), &u) < 0 || !str_eq(u.scheme, STR("redis")) || !u.host.n) {
        return err_set(e, ERR_INVALID,
                       "renew_intent.redis.dsn is not redis://[user:password@]host[:port][/db]");
    }
    s->host = str_dup(u.host);
    s->port = u.port ? u.port : 6379;
    s->user = u.user.n ? str_dup(u.user) : NULL;
    s->password = u.password.n ? str_dup(u.password) : NULL;
    struct str db = str_sub(u.path, 1, u.path.n);
    if (db.n && (parse_i64(db, &s->db) < 0 || s->db < 0 || s->db > 65535)) {
        return err_set(e, ERR_INVALID, "renew_intent.redis.dsn: '%.*s' is no database number",
                       STR_FMT(db));
    }
    return 0;
}

struct renew_source *renew_source_start(struct lifecycle *lc, const struct config *cfg,
                                        struct err *e)
{
    struct renew_source *s = NEW(struct renew_source);
    s->lc = lc;
    s->queue = xstrdup(cfg->renew.redis_queue_key);
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->cond, NULL);
    if (parse_dsn(s, cfg->renew.redis_dsn, e) < 0) {
        renew_source_stop(s);
        return NULL;
    }
    size_t want = (size_t)cfg->renew.redis_consumer_concurrency;
    s->v = xcalloc(want, sizeof(*s->v));
    for (size_t i = 0; i < want; i++) {
        s->v[i] = (struct consumer){.src = s, .fd = -1};
        if (pthread_create(&s->v[i].thread, NULL, consumer_run, &s->v[i]) != 0) {
            break;
        }
        s->n++;
    }
    log_info("waiting for renew intents", LOG_S("host", s->host), LOG_I("consumers", s->n));
    return s;
}

void renew_source_stop(struct renew_source *s)
{
    if (!s) {
        return;
    }
    (void)pthread_mutex_lock(&s->lock);
    s->stopping = true;
    for (size_t i = 0; i < s->n; i++) {
        if (s->v[i].fd >= 0) {
            (void)shutdown(s->v[i].fd, SHUT_RDWR); /* wakes a BRPOP */
        }
    }
    (void)pthread_cond_broadcast(&s->cond);
    (void)pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < s->n; i++) {
        (void)pthread_join(s->v[i].thread, NULL);
    }
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_cond_destroy(&s->cond);
    if (s->password) {
        explicit_bzero(s->password, strlen(s->password));
    }
    free(s->host);
    free(s->user);
    free(s->password);
    free(s->queue);
    free(s->v);
    free(s);
}
