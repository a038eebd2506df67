#include "model/metrics.h"

static const struct json_field metrics_fields[] = {
    JSON_FIELD(struct metrics, cpu_count, "cpu_count", JSON_F_NUM, .required = true),
    JSON_FIELD(struct metrics, cpu_used_pct, "cpu_used_pct", JSON_F_NUM, .required = true),
    JSON_FIELD(struct metrics, mem_total_mib, "mem_total_mib", JSON_F_NUM, .required = true),
    JSON_FIELD(struct metrics, mem_used_mib, "mem_used_mib", JSON_F_NUM, .required = true),
    JSON_FIELD(struct metrics, timestamp, "timestamp", JSON_F_INT, .required = true),
    {0},
};
const struct json_table metrics_table = {"Metrics", sizeof(struct metrics), metrics_fields};
