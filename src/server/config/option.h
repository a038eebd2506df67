#pragma once
/* The option table behind config.h: private to this directory. */

#include "server/config/config.h"

enum option_kind {
    OPT_STR,
    OPT_INT,
    OPT_BOOL,
    OPT_LIST,   /* strings */
    OPT_MAP,    /* table of strings */
    OPT_BYTES,  /* integer, or a quantity such as "64Mi"; int64_t */
    OPT_TABLES, /* tables by name, of what the user of the value understands; kept as JSON text */
    OPT_PATH,   /* string; a leading ~ is expanded, must be absolute then; empty stays empty */
};

struct option {
    const char *key; /* "section.name" */
    enum option_kind kind;
    size_t offset;    /* in struct config */
    const char *def;  /* TOML text; NULL: no default (string: NULL, number: 0) */
    int64_t min, max; /* OPT_INT, OPT_BYTES; both 0: any */
    const char *const *choices;
    bool not_empty;
    bool reload;                                    /* takes effect on SIGHUP */
    bool secret;                                    /* never shown */
    int (*check)(const void *value, struct err *e); /* of this value alone */
    const char *help;
    const char *example; /* OPT_TABLES, OPT_MAP: lines for a commented file */
};

extern const struct option config_options[]; /* ends with key NULL */

const struct option *option_find(const char *key);
/* What was probably meant by an unknown key: nearly the same, or the same name in another section;
 * or NULL. */
const struct option *option_nearest(const char *key);
/* Sections of the protocol's other runtimes: their keys are accepted and reported, not "unknown".
 */
const char *option_foreign_section(const char *key);

/* Checks across fields; `which` receives the key to blame. */
int config_check(struct config *c, const char **ret_key, struct err *e);
