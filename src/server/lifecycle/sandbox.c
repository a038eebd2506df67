/* Making, sharing and showing one sandbox. */

#include "server/lifecycle/sandbox.h"

#include "base/cleanup.h"
#include "base/map.h"
#include "base/must.h"
#include "json/json.h"

static const char *const state_names[SB__COUNT] = {
    [SB_PENDING] = "Pending", [SB_RUNNING] = "Running",       [SB_PAUSING] = "Pausing",
    [SB_PAUSED] = "Paused",   [SB_RESUMING] = "Resuming",     [SB_STOPPING] = "Stopping",
    [SB_FAILED] = "Failed",   [SB_TERMINATED] = "Terminated",
};

static const char *const op_names[OP__COUNT] = {
    [OP_NONE] = "nothing",
    [OP_CREATE] = "being created",
    [OP_PAUSE] = "being paused",
    [OP_RESUME] = "being resumed",
    [OP_REMOVE] = "being removed",
    [OP_INSPECT] = "being inspected",
    [OP_SNAPSHOT] = "being captured",
};

const char *sandbox_state_name(enum sandbox_state s)
{
    return state_names[s];
}

int sandbox_state_parse(const char *name, enum sandbox_state *ret)
{
    for (int i = 0; i < SB__COUNT; i++) {
        if (str_eq_nocase(str_from(name), str_from(state_names[i]))) {
            *ret = (enum sandbox_state)i;
            return 0;
        }
    }
    return -1;
}

const char *sandbox_op_name(enum sandbox_op op)
{
    return op_names[op];
}

struct sandbox *sandbox_ref(struct sandbox *sb)
{
    __atomic_add_fetch(&sb->refs, 1, __ATOMIC_RELAXED);
    return sb;
}

void sandbox_unref(struct sandbox *sb)
{
    if (!sb || __atomic_sub_fetch(&sb->refs, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    must(sb->heap_slot == 0 && !sb->plan);
    free(sb->reason);
    free(sb->message);
    arena_done(&sb->metadata_arena);
    arena_done(&sb->arena);
    free(sb);
}

void sandbox_set_state(struct sandbox *sb, enum sandbox_state state, const char *reason,
                       const char *message, int64_t transition_us)
{
    char *r = xstrdup(reason), *m = xstrdup(message);
    free(sb->reason);
    free(sb->message);
    sb->reason = r;
    sb->message = m;
    sb->state = state;
    sb->transition_us = transition_us;
}

static void copy_map(struct arena *a, struct str_map *to, const struct str_map *from)
{
    to->has = from->has;
    to->n = from->n;
    to->v = arena_array(a, from->n + 1, sizeof(*to->v));
    for (size_t i = 0; i < from->n; i++) {
        to->v[i].key = arena_strdup(a, from->v[i].key);
        to->v[i].value = arena_strdup(a, from->v[i].value);
    }
}

static void copy_list(struct arena *a, struct str_list *to, const struct str_list *from)
{
    to->n = from->n;
    to->v = arena_array(a, from->n + 1, sizeof(*to->v));
    for (size_t i = 0; i < from->n; i++) {
        to->v[i] = arena_strdup(a, from->v[i]);
    }
}

static const char *copy_str(struct arena *a, const char *s)
{
    return s ? arena_strdup(a, s) : NULL;
}

uint64_t metadata_bit(const char *key, const char *value)
{
    return UINT64_C(1) << ((map_hash(str_from(key)) ^ 3 * map_hash(str_from(value))) >> 58);
}

static void set_metadata_bits(struct sandbox *sb)
{
    sb->metadata_bits = 0;
    for (size_t i = 0; i < sb->metadata.n; i++) {
        sb->metadata_bits |= metadata_bit(sb->metadata.v[i].key, sb->metadata.v[i].value);
    }
}

void sandbox_set_metadata(struct sandbox *sb, const struct str_map *m)
{
    struct arena fresh = {0};
    struct str_map copy = {.has = m->has};
    if (m->n) {
        copy_map(&fresh, &copy, m);
    }
    arena_done(&sb->metadata_arena);
    sb->metadata_arena = fresh;
    sb->metadata = copy;
    set_metadata_bits(sb);
}

static int read_entrypoint(struct sandbox *sb, const char *text, struct err *e)
{
    cleanup_(json_free) struct json *j = json_parse(str_from(text), e);
    if (!json_is_array(j)) {
        return e->code ? -1 : err_set(e, ERR_INTERNAL, "entrypoint is not an array");
    }
    sb->entrypoint.v = arena_array(&sb->arena, json_len(j) + 1, sizeof(char *));
    for (size_t i = 0; i < json_len(j); i++) {
        const char *s = json_cstr(json_item(j, i));
        sb->entrypoint.v[sb->entrypoint.n++] = arena_strdup(&sb->arena, s ? s : "");
    }
    return 0;
}

static int read_metadata(struct sandbox *sb, const char *text, struct err *e)
{
    if (!text) {
        return 0;
    }
    cleanup_(json_free) struct json *j = json_parse(str_from(text), e);
    if (!json_is_object(j)) {
        return e->code ? -1 : err_set(e, ERR_INTERNAL, "metadata is not an object");
    }
    sb->metadata.has = true;
    if (!json_len(j)) {
        return 0;
    }
    struct arena *a = &sb->metadata_arena;
    sb->metadata.v = arena_array(a, json_len(j), sizeof(*sb->metadata.v));
    void *it = NULL;
    const char *key;
    struct json *v;
    while (json_next(j, &it, &key, &v)) {
        const char *s = json_cstr(v);
        sb->metadata.v[sb->metadata.n++] =
            (struct str_pair){arena_strdup(a, key), arena_strdup(a, s ? s : "")};
    }
    set_metadata_bits(sb);
    return 0;
}

struct sandbox *sandbox_from_row(const struct store_sandbox *row, struct err *e)
{
    struct sandbox *sb = NEW(struct sandbox);
    struct arena *a = &sb->arena;
    sb->refs = 1;
    list_init(&sb->waiters);
    enum sandbox_state state;
    if (str_to_cstr(str_from(row->id), sb->id, sizeof(sb->id)) < 0 ||
        sandbox_state_parse(row->state, &state) < 0) {
        (void)err_set(e, ERR_INTERNAL, "the record of sandbox %.64s is unreadable", row->id);
        sandbox_unref(sb);
        return NULL;
    }
    sb->owner = arena_strdup(a, row->owner);
    sb->image = copy_str(a, row->image);
    sb->snapshot_id = copy_str(a, row->snapshot_id);
    sb->os = copy_str(a, row->os);
    sb->arch = copy_str(a, row->arch);
    sb->idem_key = copy_str(a, row->idem_key);
    sb->idem_hash = copy_str(a, row->idem_hash);
    sb->egress_token = copy_str(a, row->egress_token);
    sb->pool = copy_str(a, row->pool);
    sb->is_member = str_starts(str_from(sb->owner), STR(MEMBER_OWNER));
    sb->created_us = row->created_us;
    sb->renew_extend_s = row->renew_extend_s;
    sb->had_auth = row->had_auth;
    sb->answered = row->answered;
    sb->expires_us = row->expires_us;
    sandbox_set_state(sb, state, row->reason, row->message, row->transition_us);
    if (read_entrypoint(sb, row->entrypoint, e) < 0 || read_metadata(sb, row->metadata, e) < 0) {
        (void)err_wrap(e, "the record of sandbox %s", sb->id);
        sandbox_unref(sb);
        return NULL;
    }
    return sb;
}

static struct sandbox_status *to_status(const struct sandbox *sb, struct arena *a)
{
    struct sandbox_status *st = ARENA_NEW(a, struct sandbox_status);
    st->state = state_names[sb->state];
    st->reason = arena_strdup(a, sb->reason);
    st->message = arena_strdup(a, sb->message);
    st->last_transition_at = (struct opt_int){true, sb->transition_us};
    return st;
}

static struct platform_ref *to_platform(const struct sandbox *sb, struct arena *a)
{
    if (!sb->os) {
        return NULL;
    }
    struct platform_ref *p = ARENA_NEW(a, struct platform_ref);
    p->os = arena_strdup(a, sb->os);
    p->arch = arena_strdup(a, sb->arch);
    return p;
}

void sandbox_to_view(const struct sandbox *sb, struct arena *a, struct sandbox_view *v)
{
    *v = (struct sandbox_view){.id = arena_strdup(a, sb->id)};
    if (sb->snapshot_id) {
        v->snapshot_id = arena_strdup(a, sb->snapshot_id);
    } else if (sb->image) {
        v->image = ARENA_NEW(a, struct image_spec);
        v->image->uri = arena_strdup(a, sb->image);
    }
    v->platform = to_platform(sb, a);
    v->status = to_status(sb, a);
    copy_map(a, &v->metadata, &sb->metadata);
    copy_list(a, &v->entrypoint, &sb->entrypoint);
    v->created_at = (struct opt_int){true, sb->created_us};
    v->expires_at = (struct opt_int){sb->expires_us != 0, sb->expires_us};
}

void sandbox_to_created(const struct sandbox *sb, struct arena *a, struct sandbox_created *v)
{
    *v = (struct sandbox_created){.id = arena_strdup(a, sb->id)};
    v->status = to_status(sb, a);
    copy_map(a, &v->metadata, &sb->metadata);
    v->platform = to_platform(sb, a);
    copy_list(a, &v->entrypoint, &sb->entrypoint);
    v->created_at = (struct opt_int){true, sb->created_us};
    v->expires_at = (struct opt_int){sb->expires_us != 0, sb->expires_us};
}
