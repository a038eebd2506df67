/* Logs, numbers and words about a container. */

#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

int container_logs(struct docker *d, const char *cid, unsigned tail, int64_t since_us,
                   struct buf *out, struct err *e)
{
    char path[PATH_TEXT_MAX], since[48] = "";
    if (since_us > 0) {
        (void)snprintf(since, sizeof(since), "&since=%lld.%06lld", (long long)(since_us / 1000000),
                       (long long)(since_us % 1000000));
    }
    (void)snprintf(path, sizeof(path),
                   "/containers/%s/logs?stdout=1&stderr=1&timestamps=1&tail=%u%s", cid, tail,
                   since);
    struct engine_call c = {.path = path};
    cleanup_(engine_answer_done) struct engine_answer a;
    if (engine_do(&d->engine, &c, &a, e) < 0 || engine_check(&a, "logs", e) < 0) {
        return -1;
    }
    logs_unframe(buf_str(&a.body), out);
    return 0;
}

int docker_logs(struct runtime *rt, const char *id, unsigned tail, int64_t since_us,
                struct buf *out, struct err *e)
{
    struct docker *d = docker_of(rt);
    char cid[CONTAINER_ID_MAX];
    cleanup_(buf_done) struct buf all = BUF_INIT(DOCKER_BODY_MAX);
    if (container_find(d, id, cid, e) < 0 ||
        container_logs(d, cid, tail + DOCKER_EXECD_LINES, since_us, &all, e) < 0) {
        return -1;
    }
    logs_without_execd(buf_str(&all), tail, out);
    return 0;
}

/* ---- numbers ---- */

static uint64_t number(const struct json *j, const char *path)
{
    int64_t v = json_int(json_at(j, path), 0);
    return v > 0 ? (uint64_t)v : 0;
}

static double cores_since_last(struct docker *d, const char *id, uint64_t cpu_ns)
{
    double cores = 0;
    uint64_t now = clock_mono_us();
    (void)pthread_mutex_lock(&d->lock);
    struct container *c = map_get(&d->containers, str_from(id));
    if (c) {
        if (c->stats_at_us && now > c->stats_at_us && cpu_ns >= c->stats_cpu_ns) {
            cores = (double)(cpu_ns - c->stats_cpu_ns) / 1000.0 / (double)(now - c->stats_at_us);
        }
        c->stats_at_us = now;
        c->stats_cpu_ns = cpu_ns;
    }
    (void)pthread_mutex_unlock(&d->lock);
    return cores;
}

int docker_stats(struct runtime *rt, const char *id, struct runtime_stats *ret, struct err *e)
{
    struct docker *d = docker_of(rt);
    char cid[CONTAINER_ID_MAX], path[PATH_TEXT_MAX];
    if (container_find(d, id, cid, e) < 0) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "/containers/%s/stats?stream=false&one-shot=true", cid);
    struct engine_call c = {.path = path};
    cleanup_(engine_answer_done) struct engine_answer a;
    if (engine_do(&d->engine, &c, &a, e) < 0 || engine_check(&a, "stats", e) < 0) {
        return -1;
    }
    uint64_t cpu_ns = number(a.json, "cpu_stats.cpu_usage.total_usage");
    *ret = (struct runtime_stats){
        .cpu_usage_us = cpu_ns / 1000,
        .memory_bytes = number(a.json, "memory_stats.usage"),
        .memory_limit = number(a.json, "memory_stats.limit"),
        .pids = number(a.json, "pids_stats.current"),
        .cpu_cores_used = cores_since_last(d, id, cpu_ns),
    };
    const struct json *nets = json_get(a.json, "networks");
    void *it = NULL;
    const char *key;
    struct json *net;
    while (json_is_object(nets) && json_next(nets, &it, &key, &net)) {
        ret->net_rx += number(net, "rx_bytes");
        ret->net_tx += number(net, "tx_bytes");
    }
    return 0;
}

/* ---- words ---- */

static void line(struct buf *out, const char *key, const struct json *v)
{
    const char *text = json_cstr(v);
    if (text) {
        (void)buf_printf(out, "%-18s %s\n", key, text);
    } else if (json_is_int(v)) {
        (void)buf_printf(out, "%-18s %lld\n", key, (long long)json_int(v, 0));
    } else if (json_is_bool(v)) {
        (void)buf_printf(out, "%-18s %s\n", key, json_bool(v, false) ? "true" : "false");
    }
}

static void describe_network(const struct json *j, struct buf *out)
{
    void *it = NULL;
    const char *key;
    struct json *v;
    const struct json *nets = json_at(j, "NetworkSettings.Networks");
    (void)buf_add_cstr(out, "\nNetwork\n");
    while (json_is_object(nets) && json_next(nets, &it, &key, &v)) {
        const char *ip = json_cstr(json_get(v, "IPAddress"));
        (void)buf_printf(out, "  %s: %s\n", key, ip && *ip ? ip : "-");
    }
    const struct json *ports = json_at(j, "NetworkSettings.Ports");
    it = NULL;
    (void)buf_add_cstr(out, "\nPorts\n");
    while (json_is_object(ports) && json_next(ports, &it, &key, &v)) {
        const struct json *first = json_item(v, 0);
        const char *ip = json_cstr(json_get(first, "HostIp"));
        const char *port = json_cstr(json_get(first, "HostPort"));
        (void)buf_printf(out, "  %s: %s:%s\n", key, ip ? ip : "-", port ? port : "-");
    }
}

static void describe_labels(const struct json *labels, struct buf *out)
{
    void *it = NULL;
    const char *key;
    struct json *v;
    (void)buf_add_cstr(out, "\nLabels\n");
    while (json_is_object(labels) && json_next(labels, &it, &key, &v)) {
        const char *text = json_cstr(v);
        bool secret = strcmp(key, LABEL_TOKEN) == 0 && text && *text;
        (void)buf_printf(out, "  %s=%s\n", key, secret ? "***" : text ? text : "");
    }
}

int docker_describe(struct runtime *rt, const char *id, struct buf *out, struct err *e)
{
    struct docker *d = docker_of(rt);
    char cid[CONTAINER_ID_MAX];
    cleanup_(engine_answer_done) struct engine_answer a = {0};
    if (container_find(d, id, cid, e) < 0 || container_inspect(d, cid, &a, e) < 0) {
        return -1;
    }
    static const struct {
        const char *key, *path;
    } rows[] = {{"Name", "Name"},
                {"Image", "Config.Image"},
                {"Status", "State.Status"},
                {"Running", "State.Running"},
                {"Paused", "State.Paused"},
                {"OOM killed", "State.OOMKilled"},
                {"Exit code", "State.ExitCode"},
                {"Started", "State.StartedAt"},
                {"Finished", "State.FinishedAt"},
                {"Error", "State.Error"},
                {"Runtime", "HostConfig.Runtime"},
                {"Memory limit", "HostConfig.Memory"},
                {"Nano CPUs", "HostConfig.NanoCpus"},
                {"Pids limit", "HostConfig.PidsLimit"}};
    (void)buf_printf(out, "%-18s docker\n%-18s %.12s\n", "Engine", "Container", cid);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        line(out, rows[i].key, json_at(a.json, rows[i].path));
    }
    describe_network(a.json, out);
    describe_labels(json_at(a.json, "Config.Labels"), out);
    return 0;
}
