/* Flags of the supervisor. */

#include <errno.h>
#include <stdio.h>

#include "base/must.h"
#include "base/num.h"
#include "execd/supervise.h"

enum kind { TEXT, MS, COUNT, FRACTION, SWITCH, LEVEL };

#define AT(member) offsetof(struct supervise_config, member)

static const struct {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *help;
} flags[] = {
    {"pre-start", TEXT, AT(pre_start), "shell command before each launch"},
    {"post-exit", TEXT, AT(post_exit), "shell command after each end"},
    {"pre-start-timeout", MS, AT(pre_start_timeout_ms), "for the former (30s)"},
    {"post-exit-timeout", MS, AT(post_exit_timeout_ms), "for the latter (30s)"},
    {"event-log", TEXT, AT(event_log), "file for events (stderr)"},
    {"backoff-min", MS, AT(backoff_min_ms), "first pause (1s)"},
    {"backoff-max", MS, AT(backoff_max_ms), "longest pause (30s)"},
    {"backoff-jitter", FRACTION, AT(backoff_jitter), "random part of it (0.1)"},
    {"stable-after", MS, AT(stable_after_ms), "uptime that makes up for earlier ends (60s)"},
    {"burst-window", MS, AT(burst_window_ms), "time in which launches are counted (5m)"},
    {"burst-max", COUNT, AT(burst_max), "launches in it before giving up (10)"},
    {"on-burst-exit", SWITCH, AT(on_burst_exit), "give up then (true)"},
    {"grace-period", MS, AT(grace_ms), "from SIGTERM to SIGKILL when stopped (10s)"},
    {"name", TEXT, AT(name), "name in events"},
    {"log-level", LEVEL, AT(log_level), "debug, info, warn, error"},
};

void supervise_usage(void)
{
    printf("usage: opensandbox-supervisor [flags] -- command [argument...]\n\nflags:\n");
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        printf("  --%-20s %s\n", flags[i].name, flags[i].help);
    }
}

static int set(struct supervise_config *c, size_t i, const char *value)
{
    void *at = (char *)c + flags[i].offset;
    struct str s = str_from(value);
    uint64_t n;
    switch (flags[i].kind) {
    case TEXT:
        *(const char **)at = value;
        return 0;
    case MS:
        return parse_duration_ms(s, at) < 0 || *(int64_t *)at < 0 ? -EINVAL : 0;
    case COUNT:
        if (parse_u64(s, &n) < 0 || n < 1 || n > SUPERVISE_BURST_LIMIT) {
            return -EINVAL;
        }
        *(int64_t *)at = (int64_t)n;
        return 0;
    case FRACTION:
        return parse_double(s, at) < 0 || *(double *)at < 0 || *(double *)at > 1 ? -EINVAL : 0;
    case SWITCH:
        return parse_bool(s, at);
    case LEVEL:
        return log_level_parse(s, at);
    }
    return -EINVAL;
}

/* One flag. Returns how many arguments it took, or -1. */
static int parse_one(struct supervise_config *c, char *const *argv, struct err *e)
{
    struct str arg = str_from(argv[0]);
    arg = str_sub(arg, str_starts(arg, STR("--")) ? 2 : 1, arg.n);
    struct str name = str_cut(&arg, '=');
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        if (!str_eq(str_from(flags[i].name), name)) {
            continue;
        }
        bool separate = !arg.p && flags[i].kind != SWITCH;
        const char *value = arg.p ? arg.p : separate ? argv[1] : "true";
        if (!value) {
            return err_set(e, ERR_INVALID, "flag needs an argument: -%s", flags[i].name);
        }
        if (set(c, i, value) < 0) {
            return err_set(e, ERR_INVALID, "invalid value \"%s\" for flag -%s", value,
                           flags[i].name);
        }
        return separate ? 2 : 1;
    }
    return err_set(e, ERR_INVALID, "flag provided but not defined: -%.*s", STR_FMT(name));
}

int supervise_parse(struct supervise_config *c, int argc, char *const *argv, struct err *e)
{
    *c = (struct supervise_config){
        .backoff_min_ms = 1000,
        .backoff_max_ms = 30000,
        .backoff_jitter = 0.1,
        .stable_after_ms = 60000,
        .burst_window_ms = 300000,
        .burst_max = 10,
        .on_burst_exit = true,
        .grace_ms = 10000,
        .pre_start_timeout_ms = 30000,
        .post_exit_timeout_ms = 30000,
        .log_level = LOG_INFO,
    };
    int i = 1;
    while (i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return err_set(e, ERR_UNSUPPORTED, "help");
        }
        int used = parse_one(c, argv + i, e);
        if (used < 0) {
            return -1;
        }
        i += used;
    }
    i += i < argc && strcmp(argv[i], "--") == 0;
    if (i >= argc) {
        return err_set(e, ERR_INVALID, "no command to run");
    }
    c->command = argv + i;
    if (!c->name) {
        const char *slash = strrchr(argv[i], '/');
        c->name = slash ? slash + 1 : argv[i];
    }
    c->backoff_max_ms = MAX(c->backoff_max_ms, c->backoff_min_ms);
    return 0;
}

int64_t supervise_backoff_ms(const struct supervise_config *c, unsigned n)
{
    int64_t ms = c->backoff_min_ms;
    for (unsigned i = 1; i < n && ms < c->backoff_max_ms; i++) {
        ms *= 2;
    }
    return MIN(ms, c->backoff_max_ms);
}
