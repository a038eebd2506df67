#pragma once
/* Pools of the lifecycle protocol and their field tables (specs/sandbox-lifecycle.yml). No I/O. */

#include "json/field.h"

struct pool_capacity {
    struct opt_int buffer_max, buffer_min; /* idle ones */
    struct opt_int pool_max, pool_min;     /* all of them */
};

/* PUT has no name, and a template only where it changes. */
struct pool_request {
    const char *name;
    struct json *tmpl;
    struct pool_capacity *capacity;
};

struct pool_status {
    struct opt_int total, allocated, available;
    const char *revision;
};

struct pool_view {
    const char *name;
    struct pool_capacity *capacity;
    struct pool_status *status;
    struct opt_int created_at;
};

struct pool_list {
    struct obj_list items; /* struct pool_view */
};

extern const struct json_table pool_capacity_table;
extern const struct json_table pool_create_table;
extern const struct json_table pool_update_table;
extern const struct json_table pool_view_table;
extern const struct json_table pool_list_table;
