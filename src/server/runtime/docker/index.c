/* What is known of each sandbox's container: filled by creates, lists and inspections, corrected by
 * the engine's events. Requests that only need an address never ask the engine. */

#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "base/num.h"
#include "server/runtime/docker/docker.h"

#define LIST_PATH                                                                                  \
    "/containers/json?all=1&filters=%7B%22label%22%3A%5B%22opensandbox.io%2Fid%22%5D%7D"

/* ---- reading what the engine says ---- */

const char *label_get(const struct json *labels, const char *name)
{
    const char *v = json_cstr(json_get(labels, name));
    return v && *v ? v : NULL;
}

bool label_is(const struct json *labels, const char *name, const char *value)
{
    const char *v = label_get(labels, name);
    return v && strcmp(v, value) == 0;
}

static void copy(const char *s, char *out, size_t size)
{
    (void)snprintf(out, size, "%s", s ? s : "");
}

static uint16_t port_of(const struct json *labels, const char *name)
{
    uint16_t port = 0;
    const char *v = label_get(labels, name);
    return v && parse_port(str_from(v), &port) == 0 ? port : 0;
}

/* It goes into paths and names, and anybody may have written the label. */
static bool id_is_plain(const char *id)
{
    size_t n = strspn(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_");
    return n > 0 && n < SANDBOX_ID_MAX && !id[n];
}

static void labels_into(const struct json *labels, struct container *c)
{
    const char *id = label_get(labels, LABEL_ID);
    copy(id && id_is_plain(id) ? id : "", c->id, sizeof(c->id));
    c->execd_port = port_of(labels, LABEL_EXECD_PORT);
    c->http_port = port_of(labels, LABEL_HTTP_PORT);
    c->has_sidecar = label_get(labels, LABEL_TOKEN) != NULL;
    c->has_snapshot = label_get(labels, LABEL_SNAPSHOT) != NULL;
    c->has_volumes = label_get(labels, LABEL_VOLUMES) || label_get(labels, LABEL_OSSFS);
}

/* The address of the first network that has one. */
static void address_into(const struct json *networks, struct container *c)
{
    void *it = NULL;
    const char *name;
    struct json *net;
    while (json_is_object(networks) && json_next(networks, &it, &name, &net)) {
        const char *ip = json_cstr(json_get(net, "IPAddress"));
        if (ip && *ip) {
            copy(ip, c->ip, sizeof(c->ip));
            return;
        }
    }
}

static bool has_named_volume(const struct json *mounts)
{
    for (size_t i = 0; json_is_array(mounts) && i < json_len(mounts); i++) {
        if (str_eq(json_str(json_get(json_item(mounts, i), "Type")), STR("volume"))) {
            return true;
        }
    }
    return false;
}

static enum runtime_state state_of_word(const char *word)
{
    static const struct {
        const char *word;
        enum runtime_state state;
    } words[] = {{"running", RT_RUNNING}, {"restarting", RT_RUNNING}, {"paused", RT_PAUSED},
                 {"created", RT_CREATED}, {"exited", RT_EXITED},      {"dead", RT_EXITED},
                 {"removing", RT_EXITED}};
    for (size_t i = 0; word && i < ARRAY_LEN(words); i++) {
        if (strcmp(word, words[i].word) == 0) {
            return words[i].state;
        }
    }
    return RT_MISSING;
}

bool container_from_list(const struct json *j, struct container *ret)
{
    *ret = (struct container){0};
    labels_into(json_get(j, "Labels"), ret);
    copy(json_cstr(json_get(j, "Id")), ret->cid, sizeof(ret->cid));
    ret->state = state_of_word(json_cstr(json_get(j, "State")));
    const char *mode = json_cstr(json_at(j, "HostConfig.NetworkMode"));
    ret->is_host_net = mode && strcmp(mode, "host") == 0;
    ret->has_volumes |= has_named_volume(json_get(j, "Mounts"));
    address_into(json_at(j, "NetworkSettings.Networks"), ret);
    return ret->id[0] && ret->cid[0] && !label_get(json_get(j, "Labels"), LABEL_SIDECAR);
}

void container_from_inspect(const struct json *j, struct container *ret)
{
    *ret = (struct container){0};
    labels_into(json_at(j, "Config.Labels"), ret);
    copy(json_cstr(json_get(j, "Id")), ret->cid, sizeof(ret->cid));
    ret->state = state_of_word(json_cstr(json_at(j, "State.Status")));
    const char *mode = json_cstr(json_at(j, "HostConfig.NetworkMode"));
    ret->is_host_net = mode && strcmp(mode, "host") == 0;
    ret->has_volumes |= has_named_volume(json_get(j, "Mounts"));
    address_into(json_at(j, "NetworkSettings.Networks"), ret);
}

static int64_t time_of(const struct json *j)
{
    int64_t us = 0;
    struct str s = json_str(j);
    return s.p && !str_starts(s, STR("0001-")) && rfc3339_parse(s, &us) == 0 ? us : 0;
}

void status_from_inspect(const struct json *j, struct runtime_status *ret)
{
    const struct json *st = json_get(j, "State");
    *ret = (struct runtime_status){
        .state = state_of_word(json_cstr(json_get(st, "Status"))),
        .started_us = time_of(json_get(st, "StartedAt")),
        .finished_us = time_of(json_get(st, "FinishedAt")),
    };
    if (ret->state != RT_EXITED) {
        return;
    }
    ret->exit = EXIT_CODE;
    ret->exit_code = (int)json_int(json_get(st, "ExitCode"), -1);
    copy(json_cstr(json_get(st, "Error")), ret->detail, sizeof(ret->detail));
}

/* A list has the exit code only in its sentence: "Exited (7) 2 minutes ago". */
void status_from_list(const struct json *j, struct runtime_status *ret)
{
    struct container c;
    (void)container_from_list(j, &c);
    *ret = (struct runtime_status){.state = c.state};
    if (c.state != RT_EXITED) {
        return;
    }
    struct str text = json_str(json_get(j, "Status"));
    ptrdiff_t open = str_find(text, '('), close = str_find(text, ')');
    int64_t code = 0;
    ret->exit = EXIT_UNKNOWN;
    if (open >= 0 && close > open &&
        parse_i64(str_sub(text, (size_t)open + 1, (size_t)close), &code) == 0) {
        ret->exit = EXIT_CODE;
        ret->exit_code = (int)code;
    }
}

/* ---- the index ---- */

bool index_get(struct docker *d, const char *id, struct container *ret)
{
    (void)pthread_mutex_lock(&d->lock);
    const struct container *c = map_get(&d->containers, str_from(id));
    if (c) {
        *ret = *c;
    }
    (void)pthread_mutex_unlock(&d->lock);
    return c != NULL;
}

void index_put(struct docker *d, const struct container *c)
{
    must(c);
    (void)pthread_mutex_lock(&d->lock);
    struct container *have = map_get(&d->containers, str_from(c->id));
    if (have && strcmp(have->cid, c->cid) == 0) {
        struct container old = *have;
        *have = *c;
        have->is_up = old.is_up;
        have->is_leaving = old.is_leaving;
        have->lost_sidecar = old.lost_sidecar;
        have->expected = old.expected;
        have->stats_at_us = old.stats_at_us;
        have->stats_cpu_ns = old.stats_cpu_ns;
        if (!have->ip[0] && have->has_sidecar) { /* known by looking at the sidecar only */
            copy(old.ip, have->ip, sizeof(have->ip));
            have->sidecar = old.sidecar;
        }
    } else {
        have = NEW(struct container);
        *have = *c;
        free(map_put(&d->containers, str_from(c->id), have));
    }
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->lock);
}

void index_del(struct docker *d, const char *id)
{
    (void)pthread_mutex_lock(&d->lock);
    free(map_del(&d->containers, str_from(id)));
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->lock);
}

void index_set_up(struct docker *d, const char *id)
{
    (void)pthread_mutex_lock(&d->lock);
    struct container *c = map_get(&d->containers, str_from(id));
    if (c) {
        c->is_up = true;
    }
    (void)pthread_mutex_unlock(&d->lock);
}

void index_creating(struct docker *d, const char *id, bool creating)
{
    (void)pthread_mutex_lock(&d->lock);
    if (creating) {
        (void)map_put(&d->creating, str_from(id), d);
    } else {
        (void)map_del(&d->creating, str_from(id));
    }
    (void)pthread_mutex_unlock(&d->lock);
}

bool index_is_creating(struct docker *d, const char *id)
{
    (void)pthread_mutex_lock(&d->lock);
    bool creating = map_get(&d->creating, str_from(id)) != NULL;
    (void)pthread_mutex_unlock(&d->lock);
    return creating;
}

void index_expect(struct docker *d, const char *id, enum runtime_state state)
{
    (void)pthread_mutex_lock(&d->lock);
    struct container *c = map_get(&d->containers, str_from(id));
    if (c) {
        c->expected = state;
    }
    (void)pthread_mutex_unlock(&d->lock);
}

void index_leaving(struct docker *d, const char *id, bool leaving)
{
    (void)pthread_mutex_lock(&d->lock);
    struct container *c = map_get(&d->containers, str_from(id));
    if (c) {
        c->is_leaving = leaving;
    }
    (void)pthread_mutex_unlock(&d->lock);
}

/* ---- asking ---- */

int index_refresh(struct docker *d, struct engine_answer *ret, struct err *e)
{
    struct engine_call c = {.path = LIST_PATH};
    if (engine_do(&d->engine, &c, ret, e) < 0 || engine_check(ret, "list of containers", e) < 0) {
        return -1;
    }
    return json_is_array(ret->json) ? 0
                                    : err_set(e, ERR_IO, "the engine's list of containers is none");
}

int container_find(struct docker *d, const char *id, char ret[CONTAINER_ID_MAX], struct err *e)
{
    struct container c;
    if (index_get(d, id, &c)) {
        copy(c.cid, ret, CONTAINER_ID_MAX);
        return 0;
    }
    cleanup_(engine_answer_done) struct engine_answer a;
    char path[PATH_TEXT_MAX];
    (void)snprintf(path, sizeof(path),
                   "/containers/json?all=1&filters=%%7B%%22label%%22%%3A%%5B%%22opensandbox.io%%2F"
                   "id%%3D%s%%22%%5D%%7D",
                   id);
    struct engine_call call = {.path = path};
    if (engine_do(&d->engine, &call, &a, e) < 0 || engine_check(&a, "look-up", e) < 0) {
        return -1;
    }
    for (size_t i = 0; json_is_array(a.json) && i < json_len(a.json); i++) {
        if (container_from_list(json_item(a.json, i), &c)) {
            copy(c.cid, ret, CONTAINER_ID_MAX);
            return 0;
        }
    }
    return err_set(e, ERR_NOT_FOUND, "the engine has no container of sandbox %s", id);
}

int container_inspect(struct docker *d, const char *cid, struct engine_answer *ret, struct err *e)
{
    char path[PATH_TEXT_MAX];
    (void)snprintf(path, sizeof(path), "/containers/%s/json", cid);
    struct engine_call c = {.path = path};
    if (engine_do(&d->engine, &c, ret, e) < 0) {
        return -1;
    }
    return engine_check(ret, "inspect", e);
}
