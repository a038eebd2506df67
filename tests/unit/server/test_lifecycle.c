#include "server/lifecycle/lifecycle.h"

#include "../test.h"
#include "world.h"

static struct world w;

static int setup(void **state)
{
    world_init(&w, "[limits]\ncreate_concurrency = 4\ncreate_per_key = 3\n[renew_intent]\n"
                   "enabled = true\nmin_interval_seconds = 3600\n");
    return 0;
}

static int teardown(void **state)
{
    w.fake.fail_remove = false;
    fake_release(&w.fake);
    world_done(&w);
    return 0;
}

static void from_create_to_delete(void **state)
{
    char id[SANDBOX_ID_MAX];
    struct problem p = {0};
    world_create(&w, "{" REQUEST ",\"timeout\":60,\"metadata\":{\"a\":\"1\"}}", NULL, id);
    assert_string_equal(world_state(&w, id), "Running");
    assert_int_equal(lifecycle_resume(w.lc, &me, str_from(id), &p), -1);
    assert_int_equal(p.status, 409);
    assert_string_equal(p.code, "DOCKER::SANDBOX_NOT_PAUSED");
    assert_int_equal(lifecycle_pause(w.lc, &me, str_from(id), &p), 0);
    assert_string_equal(world_state(&w, id), "Paused");
    assert_int_equal(lifecycle_pause(w.lc, &me, str_from(id), &p), -1);
    assert_string_equal(p.code, "DOCKER::SANDBOX_NOT_RUNNING");
    assert_int_equal(lifecycle_resume(w.lc, &me, str_from(id), &p), 0);
    assert_string_equal(world_state(&w, id), "Running");
    struct caller stranger = {"other", "key-2", NULL};
    assert_int_equal(lifecycle_delete(w.lc, &stranger, str_from(id), &p), -1);
    assert_int_equal(p.status, 404);
    assert_int_equal(lifecycle_delete(w.lc, &me, str_from(id), &p), 0);
    assert_int_equal(lifecycle_delete(w.lc, &me, str_from(id), &p), -1);
    assert_int_equal(p.status, 404);
    assert_int_equal(fake_len(&w.fake), 0);
    struct arena a = {0};
    struct store_event *v = NULL;
    struct err e = {0};
    size_t n = 0;
    assert_int_equal(store_event_list(w.store, &a, id, 50, &v, &n, &e), 0);
    static const char *const types[] = {"create",   "running", "pausing",  "paused",
                                        "resuming", "resumed", "stopping", "deleted"};
    assert_int_equal(n, 8);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(v[i].type, types[i]);
        assert_string_equal(v[i].actor, i == 1 ? "runtime" : "key-1");
    }
    arena_done(&a);
}

static void failures_leave_nothing(void **state)
{
    static const struct {
        enum runtime_stage stage;
        int status;
        const char *code;
    } cases[] = {
        {STAGE_START, 500, "DOCKER::SANDBOX_START_FAILED"},
        {STAGE_IMAGE, 500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED"},
        {STAGE_EXECD, 503, "DOCKER::SANDBOX_EXECD_START_FAILED"},
    };
    for (size_t i = 0; i < 3; i++) {
        struct waiting wt;
        struct problem p;
        w.fake.fail_create = true;
        w.fake.fail_stage = cases[i].stage;
        assert_int_equal(world_begin(&w, "{" REQUEST "}", "again", &wt, &p), 0);
        waiting_wait(&wt);
        assert_int_equal(wt.status, cases[i].status);
        assert_string_equal(wt.code, cases[i].code);
        assert_int_equal(registry_count(lifecycle_registry(w.lc), NULL), 0);
    }
    w.fake.fail_create = false;
    char id[SANDBOX_ID_MAX];
    world_create(&w, "{" REQUEST "}", "again", id); /* the key is free again */
    struct waiting wt;
    struct problem p;
    assert_int_equal(world_begin(&w,
                                 "{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"x\"],"
                                 "\"resourceLimits\":{\"gpu\":\"1\"}}",
                                 NULL, &wt, &p),
                     -1);
    assert_int_equal(p.status, 400);
}

static void one_key_is_one_sandbox(void **state)
{
    struct waiting a, b, c;
    struct problem p;
    w.fake.hold = true;
    assert_int_equal(world_begin(&w, "{" REQUEST "}", "k", &a, &p), 0);
    assert_int_equal(world_begin(&w, " {" REQUEST "}", "k", &b, &p), 0);
    assert_int_equal(world_begin(&w, "{" REQUEST ",\"timeout\":60}", "k", &c, &p), -1);
    assert_int_equal(p.status, 409);
    problem_done(&p);
    fake_release(&w.fake);
    waiting_wait(&a);
    waiting_wait(&b);
    assert_string_equal(a.id, b.id);
    assert_int_equal(world_begin(&w, "{" REQUEST "}", "k", &c, &p), 0);
    waiting_wait(&c);
    assert_string_equal(a.id, c.id);
    assert_int_equal(w.fake.n_created, 1);
}

static void nobody_waits_means_undone(void **state)
{
    struct waiting a;
    struct problem p;
    w.fake.hold = true;
    assert_int_equal(world_begin(&w, "{" REQUEST "}", NULL, &a, &p), 0);
    fake_await_waiting(&w.fake, 1);
    assert_true(lifecycle_create_leave(w.lc, &a.w));
    assert_false(lifecycle_create_leave(w.lc, &a.w));
    for (int i = 0; i < 4000 && registry_count(lifecycle_registry(w.lc), NULL); i++) {
        (void)usleep(5000);
    }
    assert_int_equal(registry_count(lifecycle_registry(w.lc), NULL), 0);
    assert_int_equal(fake_len(&w.fake), 0);
}

static void a_key_or_an_answer_means_it_goes_on(void **state)
{
    struct waiting a, b;
    struct problem p;
    w.fake.hold = true;
    assert_int_equal(world_begin(&w, "{" REQUEST "}", "k", &a, &p), 0);
    assert_int_equal(world_begin(&w, "{" REQUEST "}", NULL, &b, &p), 0);
    fake_await_waiting(&w.fake, 2);
    assert_true(lifecycle_create_leave(w.lc, &a.w));
    struct sandbox *sb = NULL;
    assert_true(lifecycle_create_detach(w.lc, &b.w, &sb));
    assert_string_equal(world_state(&w, sb->id), "Pending");
    assert_int_equal(lifecycle_pause(w.lc, &me, str_from(sb->id), &p), -1);
    assert_int_equal(p.status, 409);
    fake_release(&w.fake);
    assert_true(world_await(&w, sb->id, "Running"));
    assert_int_equal(registry_count(lifecycle_registry(w.lc), NULL), 2);
    sandbox_unref(sb);
}

static void failing_after_the_answer_stays_visible(void **state)
{
    struct waiting a;
    struct problem p;
    w.fake.hold = true;
    w.fake.fail_create = true;
    assert_int_equal(world_begin(&w, "{" REQUEST "}", NULL, &a, &p), 0);
    fake_await_waiting(&w.fake, 1);
    struct sandbox *sb = NULL;
    assert_true(lifecycle_create_detach(w.lc, &a.w, &sb));
    fake_release(&w.fake);
    assert_true(world_await(&w, sb->id, "Failed"));
    assert_int_equal(lifecycle_delete(w.lc, &me, str_from(sb->id), &p), 0);
    sandbox_unref(sb);
}

static void deleting_what_is_being_created(void **state)
{
    struct waiting a;
    struct problem p = {0};
    w.fake.hold = true;
    assert_int_equal(world_begin(&w, "{" REQUEST "}", "k", &a, &p), 0);
    fake_await_waiting(&w.fake, 1);
    struct sandbox *sb = registry_get_idem(lifecycle_registry(w.lc), "o", "k");
    assert_int_equal(lifecycle_delete(w.lc, &me, str_from(sb->id), &p), 0);
    waiting_wait(&a);
    assert_int_not_equal(a.status, 0);
    assert_int_equal(registry_count(lifecycle_registry(w.lc), NULL), 0);
    sandbox_unref(sb);
}

static void limits_are_answers(void **state)
{
    struct waiting v[4];
    struct problem p;
    w.fake.hold = true;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(world_begin(&w, "{" REQUEST "}", NULL, &v[i], &p), 0);
    }
    assert_int_equal(world_begin(&w, "{" REQUEST "}", NULL, &v[3], &p), -1);
    assert_int_equal(p.status, 429);
    assert_true(p.retry_after_s > 0);
    assert_non_null(strstr(p.message, "limits.create_per_key"));
    fake_release(&w.fake);
    for (int i = 0; i < 3; i++) {
        waiting_wait(&v[i]);
    }
    assert_int_equal(world_begin(&w, "{" REQUEST "}", NULL, &v[3], &p), 0);
    waiting_wait(&v[3]);
    assert_int_equal(v[3].status, 0);
}

static void expiry_and_renewal(void **state)
{
    char a[SANDBOX_ID_MAX], b[SANDBOX_ID_MAX], c[SANDBOX_ID_MAX];
    struct problem p = {0};
    world_create(&w, "{" REQUEST ",\"timeout\":60}", NULL, a);
    world_create(&w, "{" REQUEST ",\"timeout\":60}", NULL, b);
    world_create(&w, "{" REQUEST "}", NULL, c);
    int64_t now = clock_wall_us();
    assert_int_equal(lifecycle_renew(w.lc, &me, str_from(a), now - 1, &p), -1);
    assert_int_equal(p.status, 400);
    assert_int_equal(lifecycle_renew(w.lc, &me, str_from(c), now + 9000000, &p), -1);
    assert_int_equal(p.status, 409);
    assert_int_equal(lifecycle_pause(w.lc, &me, str_from(a), &p), 0);
    assert_int_equal(lifecycle_renew(w.lc, &me, str_from(a), now + 300000, &p), 0);
    assert_true(world_await(&w, a, "")); /* paused or not */
    assert_string_equal(world_state(&w, b), "Running");
    assert_int_equal(fake_len(&w.fake), 2);
}

static void a_removal_that_fails_is_tried_again(void **state)
{
    char id[SANDBOX_ID_MAX];
    struct problem p = {0};
    world_create(&w, "{" REQUEST "}", NULL, id);
    w.fake.fail_remove = true;
    assert_int_equal(lifecycle_delete(w.lc, &me, str_from(id), &p), -1);
    assert_int_equal(p.status, 500);
    assert_string_equal(p.code, "DOCKER::SANDBOX_DELETE_FAILED");
    assert_string_equal(world_state(&w, id), "Stopping");
    assert_int_equal(lifecycle_pause(w.lc, &me, str_from(id), &p), -1);
    w.fake.fail_remove = false;
    assert_int_equal(lifecycle_delete(w.lc, &me, str_from(id), &p), 0); /* asked again: at once */
    assert_string_equal(world_state(&w, id), "");
}

static void ends_are_noticed(void **state)
{
    static const struct {
        struct runtime_status st;
        const char *state, *reason;
    } cases[] = {
        {{.state = RT_EXITED, .exit = EXIT_CODE, .exit_code = 0}, "Terminated", "CONTAINER_EXITED"},
        {{.state = RT_EXITED, .exit = EXIT_CODE, .exit_code = 3},
         "Failed",
         "CONTAINER_EXITED_ERROR"},
        {{.state = RT_EXITED, .exit = EXIT_SIGNAL, .exit_code = 9},
         "Failed",
         "CONTAINER_EXITED_ERROR"},
        {{.state = RT_EXITED, .exit = EXIT_OOM}, "Failed", "CONTAINER_OOM_KILLED"},
        {{.state = RT_MISSING}, "Failed", "CONTAINER_LOST"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char id[SANDBOX_ID_MAX];
        world_create(&w, "{" REQUEST "}", NULL, id);
        (void)pthread_mutex_lock(&w.fake.lock);
        w.fake.v[fake_find(&w.fake, id)].st = cases[i].st;
        (void)pthread_mutex_unlock(&w.fake.lock);
        w.fake.rt.on_exit(id, &cases[i].st, w.fake.rt.on_exit_arg);
        assert_true(world_await(&w, id, cases[i].state));
        struct sandbox *sb = registry_get(lifecycle_registry(w.lc), NULL, str_from(id));
        assert_string_equal(sb->reason, cases[i].reason);
        sandbox_unref(sb);
    }
}

static void pause_that_fails_tells_the_truth(void **state)
{
    char id[SANDBOX_ID_MAX];
    struct problem p = {0};
    world_create(&w, "{" REQUEST "}", NULL, id);
    w.fake.fail_pause = true;
    assert_int_equal(lifecycle_pause(w.lc, &me, str_from(id), &p), -1);
    assert_int_equal(p.status, 500);
    assert_string_equal(p.code, "DOCKER::SANDBOX_PAUSE_FAILED");
    assert_string_equal(world_state(&w, id), "Running");
}

static const char *meta(const char *id, const char *key)
{
    struct sandbox *sb = registry_get(lifecycle_registry(w.lc), NULL, str_from(id));
    const char *v = str_map_get(&sb->metadata, key);
    sandbox_unref(sb);
    return v;
}

static void metadata_is_merged(void **state)
{
    char id[SANDBOX_ID_MAX];
    struct problem p = {0};
    world_create(&w, "{" REQUEST ",\"metadata\":{\"a\":\"1\",\"b\":\"2\"}}", NULL, id);
    struct str_pair one[] = {{"a", NULL}, {"c", "3"}, {"b", "4"}, {"z", NULL}};
    assert_int_equal(lifecycle_patch_metadata(w.lc, &me, str_from(id), one, 4, &p), 0);
    assert_null(meta(id, "a"));
    assert_string_equal(meta(id, "b"), "4");
    assert_string_equal(meta(id, "c"), "3");
    struct str_pair two[] = {{"d", "5"}};
    assert_int_equal(lifecycle_patch_metadata(w.lc, &me, str_from(id), two, 1, &p), 0);
    assert_null(meta(id, "a")); /* what was deleted stays deleted */
    struct str_pair reserved[] = {{"opensandbox.io/x", NULL}}, bad[] = {{"x", "a b"}};
    assert_int_equal(lifecycle_patch_metadata(w.lc, &me, str_from(id), reserved, 1, &p), -1);
    assert_string_equal(p.code, "INVALID_METADATA_LABEL");
    assert_int_equal(lifecycle_patch_metadata(w.lc, &me, str_from(id), bad, 1, &p), -1);
    assert_string_equal(p.code, "SANDBOX::INVALID_METADATA_LABEL");
    assert_int_equal(lifecycle_patch_metadata(w.lc, &me, STR("nope"), two, 1, &p), -1);
    assert_int_equal(p.status, 404);
    /* A patch of nothing adds no event and keeps everything. */
    assert_int_equal(lifecycle_patch_metadata(w.lc, &me, str_from(id), NULL, 0, &p), 0);
    assert_string_equal(meta(id, "d"), "5");
}

static int64_t expires(const char *id)
{
    struct sandbox *sb = registry_get(lifecycle_registry(w.lc), NULL, str_from(id));
    registry_read(lifecycle_registry(w.lc));
    int64_t at = sb->expires_us;
    registry_unlock(lifecycle_registry(w.lc));
    sandbox_unref(sb);
    return at;
}

static void renewal_on_access_is_throttled(void **state)
{
    char id[SANDBOX_ID_MAX], plain[SANDBOX_ID_MAX];
    world_create(&w,
                 "{" REQUEST ",\"timeout\":60,\"extensions\":"
                 "{\"access.renew.extend.seconds\":\"300\"}}",
                 NULL, id);
    world_create(&w, "{" REQUEST ",\"timeout\":60}", NULL, plain);
    int64_t before = expires(id), plain_before = expires(plain);
    struct sandbox *sb = registry_get(lifecycle_registry(w.lc), NULL, str_from(id));
    struct sandbox *sp = registry_get(lifecycle_registry(w.lc), NULL, str_from(plain));
    lifecycle_touch(w.lc, sb, "server_proxy");
    lifecycle_touch(w.lc, sp, "server_proxy");
    for (int i = 0; i < 4000 && expires(id) == before; i++) {
        (void)usleep(5000);
    }
    int64_t once = expires(id);
    assert_true(once > before + 200 * INT64_C(1000000));
    for (int i = 0; i < 100; i++) {
        lifecycle_touch(w.lc, sb, "server_proxy");
    }
    (void)usleep(20000);
    assert_int_equal(expires(id), once);
    assert_int_equal(expires(plain), plain_before);
    sandbox_unref(sb);
    sandbox_unref(sp);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(from_create_to_delete),
        T(failures_leave_nothing),
        T(one_key_is_one_sandbox),
        T(nobody_waits_means_undone),
        T(a_key_or_an_answer_means_it_goes_on),
        T(failing_after_the_answer_stays_visible),
        T(deleting_what_is_being_created),
        T(limits_are_answers),
        T(expiry_and_renewal),
        T(a_removal_that_fails_is_tried_again),
        T(ends_are_noticed),
        T(pause_that_fails_tells_the_truth),
        T(metadata_is_merged),
        T(renewal_on_access_is_throttled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
