#pragma once
/* Can this machine do what the embedded runtime needs? Each question has an answer for people: what
 * is there, or what is missing and what to do. Asked at start, and by `osb doctor`. */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "server/config/config.h"

struct host_fact {
    const char *name; /* "cgroups" */
    bool ok;
    bool is_needed; /* with this configuration the server does not start without it */
    char detail[240];
};

#define HOST_FACTS_MAX 16

struct host_facts {
    struct host_fact v[HOST_FACTS_MAX];
    size_t n;
};

/* Changes nothing on the machine. */
void host_probe(const struct config_oci *cfg, struct host_facts *ret);
/* ERR_UNSUPPORTED with the first needed thing that is missing. */
int host_require(const struct config_oci *cfg, struct err *e);
