/* Sandboxes that another server of the protocol made on the same engine: recorded as if they had
 * been made here, with the expiry and the metadata they carry. */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "server/lifecycle/internal.h"

#define OWNER_OF_FOUND "default" /* every key's, as of today */
#define FOUND_TEXT_MAX (1u << 20)

static bool is_known(const char *id, void *arg)
{
    struct lifecycle *lc = arg;
    struct sandbox *sb = registry_get(&lc->reg, NULL, str_from(id));
    sandbox_unref(sb);
    return sb != NULL;
}

static struct json *entrypoint_json(const struct runtime_found *f)
{
    struct json *arr = json_array_new();
    for (size_t i = 0; i < f->entrypoint.n; i++) {
        json_push(arr, json_string_new(str_from(f->entrypoint.v[i])));
    }
    return arr;
}

static struct json *metadata_json(const struct runtime_found *f)
{
    struct json *obj = json_object_new();
    for (size_t i = 0; i < f->metadata.n; i++) {
        json_set(obj, f->metadata.v[i].key, json_string_new(str_from(f->metadata.v[i].value)));
    }
    return obj;
}

/* The request it may have come from, as far as it can be told. */
static struct json *request_json(const struct runtime_found *f)
{
    struct json *root = json_object_new(), *image = json_object_new();
    if (f->snapshot_id) {
        json_set(root, "snapshotId", json_string_new(str_from(f->snapshot_id)));
        json_free(image);
    } else {
        json_set(image, "uri", json_string_new(str_from(f->image)));
        json_set(root, "image", image);
    }
    json_set(root, "entrypoint", entrypoint_json(f));
    json_set(root, "resourceLimits", json_object_new());
    return root;
}

static char *text_of(struct json *take)
{
    struct buf b = BUF_INIT(FOUND_TEXT_MAX);
    int r = json_dump(take, &b, 0);
    json_free(take);
    char *text = r < 0 ? NULL : buf_take(&b);
    buf_done(&b);
    return text;
}

static int record(struct lifecycle *lc, const struct runtime_found *f, struct err *e)
{
    cleanup_free char *entry = text_of(entrypoint_json(f)), *meta = text_of(metadata_json(f));
    cleanup_free char *spec = text_of(request_json(f));
    if (!entry || !meta || !spec) {
        return err_set(e, ERR_LIMIT, "its labels are too long");
    }
    int64_t now = clock_wall_us();
    struct store_sandbox row = {
        .id = f->id,
        .owner = OWNER_OF_FOUND,
        .runtime = lc->rt->ops->name,
        .state = sandbox_state_name(SB_RUNNING),
        .reason = "CONTAINER_RUNNING",
        .message = "made by another server",
        .created_us = f->created_us ? f->created_us : now,
        .transition_us = f->created_us ? f->created_us : now,
        .expires_us = f->expires_us,
        .image = f->snapshot_id ? NULL : f->image,
        .snapshot_id = f->snapshot_id,
        .os = f->os,
        .arch = f->arch,
        .entrypoint = entry,
        .metadata = meta,
        .renew_extend_s = f->renew_extend_s,
        .spec = spec,
        .egress_token = f->egress_token,
    };
    struct sandbox *sb = sandbox_from_row(&row, e);
    if (!sb) {
        return -1;
    }
    struct store_event ev = event_make(sb, &caller_reconcile, "adopted", "ADOPTED", "");
    if (registry_add(&lc->reg, sandbox_ref(sb)) < 0) {
        sandbox_unref(sb); /* a create with this id was quicker */
        sandbox_unref(sb);
        return 0;
    }
    int r = store_sandbox_insert(lc->store, &row, &ev, e);
    if (r < 0) {
        registry_remove(&lc->reg, sb);
    } else {
        event_publish(lc, &ev, sb);
        r = reconcile_apply(lc, sb, &f->status, e);
        expiry_schedule(lc, sb);
    }
    sandbox_unref(sb);
    return r;
}

static void on_found(const struct runtime_found *f, void *arg)
{
    struct lifecycle *lc = arg;
    struct err e = {0};
    if (record(lc, f, &e) < 0) {
        log_warn("a sandbox of another server could not be taken over", LOG_S("id", f->id),
                 LOG_ERR(&e));
    } else {
        log_info("took charge of a sandbox of another server", LOG_S("id", f->id));
    }
}

int found_adopt(struct lifecycle *lc, struct err *e)
{
    return lc->rt->ops->found ? lc->rt->ops->found(lc->rt, is_known, on_found, lc, e) : 0;
}
