/* Field tables of pools. See pool.h. */

#include "model/pool.h"

#define POOL_NAME "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
#define COUNT_MAX INT32_MAX

#define COUNT(member, key, other)                                                                  \
    JSON_FIELD(struct pool_capacity, member, key, JSON_F_INT, .required = true, .alias = (other),  \
               .lenient = true, .max = COUNT_MAX)

static const struct json_field capacity_fields[] = {
    COUNT(buffer_max, "bufferMax", "buffer_max"),
    COUNT(buffer_min, "bufferMin", "buffer_min"),
    COUNT(pool_max, "poolMax", "pool_max"),
    COUNT(pool_min, "poolMin", "pool_min"),
    {0},
};
const struct json_table pool_capacity_table = {"PoolCapacitySpec", sizeof(struct pool_capacity),
                                               capacity_fields};

static const struct json_field create_fields[] = {
    JSON_FIELD(struct pool_request, name, "name", JSON_F_STR, .required = true, .max_len = 253,
               .pattern = POOL_NAME),
    JSON_FIELD(struct pool_request, tmpl, "template", JSON_F_ANY, .required = true),
    JSON_FIELD(struct pool_request, capacity, "capacitySpec", JSON_F_OBJ, .required = true,
               .alias = "capacity_spec", .sub = &pool_capacity_table),
    {0},
};
const struct json_table pool_create_table = {"CreatePoolRequest", sizeof(struct pool_request),
                                             create_fields};

static const struct json_field update_fields[] = {
    JSON_FIELD(struct pool_request, tmpl, "template", JSON_F_ANY),
    JSON_FIELD(struct pool_request, capacity, "capacitySpec", JSON_F_OBJ, .required = true,
               .alias = "capacity_spec", .sub = &pool_capacity_table),
    {0},
};
const struct json_table pool_update_table = {"UpdatePoolRequest", sizeof(struct pool_request),
                                             update_fields};

static const struct json_field status_fields[] = {
    JSON_FIELD(struct pool_status, total, "total", JSON_F_INT),
    JSON_FIELD(struct pool_status, allocated, "allocated", JSON_F_INT),
    JSON_FIELD(struct pool_status, available, "available", JSON_F_INT),
    JSON_FIELD(struct pool_status, revision, "revision", JSON_F_STR),
    {0},
};
static const struct json_table status_table = {"PoolStatus", sizeof(struct pool_status),
                                               status_fields};

static const struct json_field view_fields[] = {
    JSON_FIELD(struct pool_view, name, "name", JSON_F_STR),
    JSON_FIELD(struct pool_view, capacity, "capacitySpec", JSON_F_OBJ, .sub = &pool_capacity_table),
    JSON_FIELD(struct pool_view, status, "status", JSON_F_OBJ, .sub = &status_table),
    JSON_FIELD(struct pool_view, created_at, "createdAt", JSON_F_TIME),
    {0},
};
const struct json_table pool_view_table = {"PoolResponse", sizeof(struct pool_view), view_fields};

static const struct json_field list_fields[] = {
    JSON_FIELD(struct pool_list, items, "items", JSON_F_OBJ_LIST, .sub = &pool_view_table),
    {0},
};
const struct json_table pool_list_table = {"ListPoolsResponse", sizeof(struct pool_list),
                                           list_fields};
