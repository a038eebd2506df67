#pragma once
/* What a sandbox uses of what it has, at one moment. */

#include "json/field.h"

struct metrics {
    struct opt_num cpu_count;
    struct opt_num cpu_used_pct; /* of all its CPUs together: 0..100 */
    struct opt_num mem_total_mib, mem_used_mib;
    struct opt_int timestamp; /* milliseconds since the epoch */
};
extern const struct json_table metrics_table;
