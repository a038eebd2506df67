/* The table of code contexts. */

#include "execd/code/context.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/must.h"
#include "execd/code/kernelspec.h"
#include "execd/code/port.h"
#include "execd/code/rest.h"
#include "execd/limits.h"
#include "execd/reply.h"
#include "model/code.h"

static const char *const languages[] = {"bash",   "go",  "java",      "javascript",
                                        "python", "sql", "typescript"};

bool code_language_known(const char *language)
{
    for (size_t i = 0; i < ARRAY_LEN(languages); i++) {
        if (strcmp(languages[i], language) == 0) {
            return true;
        }
    }
    return false;
}

void code_languages_list(const struct kernelspecs *s, struct buf *out)
{
    for (size_t i = 0; i < ARRAY_LEN(languages); i++) {
        if (!s || kernelspec_choose(s, languages[i])) {
            (void)buf_printf(out, "%s%s", out->len ? ", " : "", languages[i]);
        }
    }
    if (out->len == 0) {
        (void)buf_add_cstr(out, "none");
    }
}

int code_languages(struct execd *x, struct err *e)
{
    cleanup_(buf_done) struct buf list = BUF_INIT(ERR_MSG_MAX);
    if (*x->cfg.jupyter_host) {
        code_languages_list(NULL, &list);
        return err_set(e, ERR_INVALID, "known are: %s", buf_cstr(&list));
    }
    cleanup_(arena_done) struct arena a = {0};
    struct kernelspecs *specs = ARENA_NEW(&a, struct kernelspecs);
    kernelspecs_find(&a, specs);
    code_languages_list(specs, &list);
    return err_set(e, ERR_INVALID, "this sandbox has: %s", buf_cstr(&list));
}

/* ---- the table ---- */

static void fail_runs(struct context *c, const char *ename, const char *why)
{
    if (c->next) { /* first: it would begin when the other one ends */
        code_run_fail(c->next, ename, why);
    }
    if (c->run) {
        code_run_fail(c->run, ename, why);
    }
}

static void on_stop(struct stop_hook *hook)
{
    struct code_table *t = container_of(hook, struct code_table, stop);
    list_each (it, &t->all) {
        fail_runs(list_entry(it, struct context, node), CODE_SHUTTING_DOWN,
                  "execd is shutting down");
    }
}

struct code_table *code_table_new(struct execd *x)
{
    struct code_table *t = NEW(struct code_table);
    t->x = x;
    list_init(&t->all);
    list_init(&t->spare);
    list_init(&t->ending);
    list_init(&t->rests);
    t->stop.fn = on_stop;
    list_push_back(&x->stop_hooks, &t->stop.node);
    return t;
}

void code_table_free(struct code_table *t)
{
    if (!t) {
        return;
    }
    list_del(&t->stop.node);
    code_port_free(t->port);
    struct list *const lists[] = {&t->all, &t->spare};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        while (!list_empty(lists[i])) {
            context_delete(list_entry(list_first(lists[i]), struct context, node));
        }
    }
    kernel_local_ending_free(&t->ending);
    rest_cancel_all(&t->rests);
    free(t);
}

size_t code_signal_all(struct execd *x, int signo)
{
    size_t n = 0;
    struct list *const lists[] = {&x->code->all, &x->code->spare};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        list_each (it, lists[i]) {
            struct context *c = list_entry(it, struct context, node);
            n += c->kernel ? c->kernel->cls->signal(c->kernel, signo) : 0;
        }
    }
    return n;
}

struct context *context_find(struct execd *x, struct str id)
{
    list_each (it, &x->code->all) {
        struct context *c = list_entry(it, struct context, node);
        if (c->id && str_eq(str_from(c->id), id)) {
            return c;
        }
    }
    return NULL;
}

struct context *context_default(struct execd *x, const char *language)
{
    list_each (it, &x->code->all) {
        struct context *c = list_entry(it, struct context, node);
        if (c->is_default && strcmp(c->language, language) == 0) {
            return c;
        }
    }
    return NULL;
}

/* ---- one context ---- */

static void context_free(struct context *c)
{
    list_del(&c->node);
    c->x->code->n -= !c->is_spare;
    kernel_free(c->kernel);
    for (size_t i = 0; c->envs && c->envs[i]; i++) {
        free(c->envs[i]);
    }
    free(c->envs);
    free(c->first_code);
    free(c->id);
    free(c->language);
    free(c->cwd);
    free(c);
}

static void on_creator_gone(struct http_req *req, bool completed, void *arg)
{
    struct context *c = arg;
    c->creation = NULL;
    context_delete(c); /* nobody knows its id */
}

static void on_creation_over(struct http_req *req, bool completed, void *arg)
{
}

/* The request that waits for this context, with nothing of it left behind. */
static struct http_req *take_creation(struct context *c)
{
    struct http_req *req = take_ptr(&c->creation);
    if (req) {
        http_req_on_end(req, on_creation_over, NULL);
    }
    return req;
}

static void answer_creation(struct context *c)
{
    struct http_req *req = take_creation(c);
    if (!req) {
        return;
    }
    const struct code_context answer = {.id = c->id, .language = c->language, .cwd = c->cwd};
    cleanup_(buf_done) struct buf out = BUF_INIT(8 * 4096 + 1024);
    struct json_out o;
    json_out_init(&o, &out);
    json_encode(&o, &code_context_table, &answer);
    reply_json(req, 200, buf_str(&out));
}

static void on_failed(struct context *c, const struct err *e)
{
    struct http_req *req = take_creation(c);
    kernel_free(take_ptr(&c->kernel));
    if (req) {
        reply_error(req, 500, CODE_RUNTIME_ERROR, "error creating code context. %s", e->msg);
    }
    fail_runs(c, CODE_RUNTIME_ERROR, e->msg);
    if (c->is_spare) {
        log_warn("a code kernel could not be started ahead", LOG_S("language", c->language),
                 LOG_ERR(e));
    }
    if (!c->was_ready || c->is_spare) {
        context_free(c);
    }
}

static void on_ready(struct kernel *k, const struct err *e)
{
    struct context *c = k->owner;
    if (e) {
        on_failed(c, e);
        return;
    }
    c->ready = c->was_ready = true;
    if (!c->id) {
        c->id = xstrdup(k->id);
    }
    if (c->is_spare) {
        log_info("a code kernel is ready, ahead of its user", LOG_S("language", c->language));
    }
    if (c->first_code) {
        (void)k->cls->prepare(k, str_from(c->first_code)); /* it is ready: cannot be refused */
        free(take_ptr(&c->first_code));
    }
    answer_creation(c);
    if (c->run) {
        code_run_ready(c->run);
    }
}

static void on_message(struct kernel *k, const struct kernel_message *m)
{
    struct context *c = k->owner;
    if (c->run) {
        code_run_message(c->run, m);
    }
}

static void on_lost(struct kernel *k, const char *why, bool gone)
{
    struct context *c = k->owner;
    if (gone) {
        c->ready = false;
        kernel_free(take_ptr(&c->kernel));
    }
    if (c->run) {
        code_run_fail(c->run, "KernelDied", why);
    }
    if (c->is_spare && gone) {
        context_free(c);
    }
}

static const struct kernel_events events = {
    .on_ready = on_ready, .on_message = on_message, .on_lost = on_lost};

int context_start_kernel(struct context *c, struct err *e)
{
    const struct kernel_opts o = {
        .language = c->language, .cwd = c->cwd, .envs = (const char *const *)c->envs};
    if (c->kernel) {
        return 0;
    }
    c->ready = false;
    if (*c->x->cfg.jupyter_host) {
        c->kernel = kernel_jupyter_new(c->x, &o, &events, c, e);
    } else {
        c->kernel = kernel_local_new(c->x, &o, &events, c, e);
    }
    return c->kernel ? 0 : -1;
}

static char **copy_list(const char *const *list)
{
    size_t n = 0;
    while (list && list[n]) {
        n++;
    }
    char **copy = list ? xcalloc(n + 1, sizeof(*copy)) : NULL;
    for (size_t i = 0; i < n; i++) {
        copy[i] = xstrdup(list[i]);
    }
    return copy;
}

static struct context *start_new(struct execd *x, const struct kernel_opts *o, bool spare,
                                 struct err *e)
{
    struct context *c = NEW(struct context);
    c->x = x;
    c->is_spare = spare;
    c->language = xstrdup(o->language);
    c->cwd = o->cwd ? xstrdup(o->cwd) : NULL;
    c->envs = copy_list(o->envs);
    list_push_back(spare ? &x->code->spare : &x->code->all, &c->node);
    x->code->n += !spare;
    if (!*x->cfg.jupyter_host) {
        char id[UUID_LEN + 1];
        rand_uuid(id);
        c->id = xstrdup(id);
    }
    if (context_start_kernel(c, e) < 0) {
        context_free(c);
        return NULL;
    }
    return c;
}

static struct context *take_spare(struct execd *x, const struct kernel_opts *o)
{
    if (o->cwd || o->envs) {
        return NULL;
    }
    list_each (it, &x->code->spare) {
        struct context *c = list_entry(it, struct context, node);
        if (strcmp(c->language, o->language) == 0) {
            list_del(&c->node);
            list_push_back(&x->code->all, &c->node);
            c->is_spare = false;
            x->code->n++;
            return c;
        }
    }
    return NULL;
}

struct context *context_new(struct execd *x, const struct kernel_opts *o, struct err *e)
{
    if (x->stopping) {
        err_set(e, ERR_UNAVAILABLE, "execd is shutting down");
        return NULL;
    }
    if (x->code->n >= EXECD_MAX_CONTEXTS) {
        err_set(e, ERR_LIMIT, "there are %d code contexts already; delete some",
                EXECD_MAX_CONTEXTS);
        return NULL;
    }
    struct context *c = take_spare(x, o);
    return c ? c : start_new(x, o, false, e);
}

void context_await(struct context *c, struct http_req *req)
{
    c->creation = req;
    http_req_on_end(req, on_creator_gone, c);
    if (c->ready) {
        answer_creation(c);
    }
}

void context_delete(struct context *c)
{
    struct http_req *req = take_creation(c);
    fail_runs(c, CODE_RUNTIME_ERROR, "the code context was deleted");
    if (req) {
        reply_error(req, 500, CODE_RUNTIME_ERROR,
                    "error creating code context. it was deleted before its kernel was there");
    }
    context_free(c);
}

void code_prestart(struct execd *x, const char *list)
{
    struct str rest = str_from(list);
    while (list && rest.p) {
        cleanup_free char *language = str_dup(str_trim(str_cut(&rest, ',')));
        struct err e = {0};
        if (*language && !start_new(x, &(struct kernel_opts){.language = language}, true, &e)) {
            log_warn("a code kernel could not be started ahead", LOG_S("language", language),
                     LOG_ERR(&e));
        }
    }
}

/* These work only from the start of a process. */
static bool works_later(const char *name)
{
    return strncmp(name, "PYTHON", 6) != 0 && strncmp(name, "LD_", 3) != 0 &&
           strncmp(name, "JUPYTER", 7) != 0 && strncmp(name, "EXECD_", 6) != 0 &&
           strcmp(name, "PATH") != 0 && strcmp(name, "HOME") != 0;
}

/* False: this kernel cannot be told. */
static bool tell_variables(struct context *c, const struct str_map *env)
{
    if (!c->kernel->cls->prepare || strcmp(c->language, "python") != 0) {
        return false;
    }
    cleanup_(buf_done) struct buf code = BUF_INIT(EXECD_MAX_BODY);
    struct json_out o;
    (void)buf_add_cstr(&code, "import os\nos.environ.update(");
    json_out_init(&o, &code);
    json_obj_begin(&o); /* an object of strings is a Python dictionary too */
    for (size_t i = 0; i < env->n; i++) {
        if (!works_later(env->v[i].key)) {
            return false;
        }
        json_key(&o, env->v[i].key);
        json_put_cstr(&o, env->v[i].value);
    }
    json_obj_end(&o);
    (void)buf_add_cstr(&code, ")\ndel os");
    if (!c->ready && !buf_failed(&code)) {
        free(c->first_code);
        c->first_code = xstrdup(buf_cstr(&code));
        return true;
    }
    return !buf_failed(&code) && c->kernel->cls->prepare(c->kernel, buf_str(&code));
}

void code_add_environment(struct execd *x, const struct str_map *env)
{
    code_port_update(x);
    bool told = !list_empty(&x->code->spare);
    list_each (it, &x->code->spare) {
        told = told && tell_variables(list_entry(it, struct context, node), env);
    }
    if (told || env->n == 0) {
        return;
    }
    while (!list_empty(&x->code->spare)) {
        context_free(list_entry(list_first(&x->code->spare), struct context, node));
    }
    code_prestart(x, x->cfg.code_prestart);
}
