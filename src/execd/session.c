/* The table of sessions. */

#include "execd/session.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/must.h"
#include "execd/limits.h"
#include "execd/session_run.h"

extern char **environ;

struct session_table *session_table_new(struct execd *x)
{
    struct session_table *t = NEW(struct session_table);
    t->x = x;
    list_init(&t->all);
    return t;
}

static void free_env(char **env)
{
    for (size_t i = 0; env && env[i]; i++) {
        free(env[i]);
    }
    free(env);
}

static void session_free(struct session *s)
{
    (void)map_del(&s->x->sessions->by_id, str_from(s->id));
    list_del(&s->node);
    session_runs_orphan(s);
    if (s->state_fd >= 0) {
        (void)close(s->state_fd);
    }
    free(s->cwd);
    free_env(s->env);
    free(s);
}

void session_table_free(struct session_table *t)
{
    if (!t) {
        return;
    }
    while (!list_empty(&t->all)) {
        struct session *s = list_entry(list_first(&t->all), struct session, node);
        session_free(s);
    }
    map_done(&t->by_id);
    free(t);
}

struct session *session_find(struct execd *x, struct str id)
{
    return id.n ? map_get(&x->sessions->by_id, id) : NULL;
}

/* The first run starts with what we have now, whatever happens to our environment later. */
static char **copy_environment(void)
{
    size_t n = 0;
    while (environ && environ[n]) {
        n++;
    }
    char **copy = xcalloc(n + 1, sizeof(*copy));
    for (size_t i = 0; i < n; i++) {
        copy[i] = xstrdup(environ[i]);
    }
    return copy;
}

struct session *session_new(struct execd *x, const char *cwd, struct err *e)
{
    if (map_len(&x->sessions->by_id) >= EXECD_MAX_SESSIONS) {
        err_set(e, ERR_LIMIT, "there are %d sessions already; delete some", EXECD_MAX_SESSIONS);
        return NULL;
    }
    struct session *s = NEW(struct session);
    s->x = x;
    s->state_fd = -1;
    s->cwd = cwd ? xstrdup(cwd) : NULL;
    s->env = copy_environment();
    rand_uuid(s->id);
    list_init(&s->runs);
    list_push_back(&x->sessions->all, &s->node);
    (void)map_put(&x->sessions->by_id, str_from(s->id), s);
    return s;
}

bool session_delete(struct execd *x, struct str id)
{
    struct session *s = session_find(x, id);
    if (!s) {
        return false;
    }
    session_free(s);
    return true;
}

size_t session_signal_all(struct execd *x, int signo)
{
    size_t n = 0;
    list_each (it, &x->sessions->all) {
        n += session_runs_signal(list_entry(it, struct session, node), signo);
    }
    return n;
}
