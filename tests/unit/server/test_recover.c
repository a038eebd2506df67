/* What a server finds at its start, and what it makes of it. Rows are written as a crash would have
 * left them, the fake runtime is set up as it would be found. */

#include "../test.h"
#include "world.h"

static struct world w;

static int setup(void **state)
{
    world_init(&w, "");
    world_down(&w);
    char path[96];
    struct err e = {0};
    (void)snprintf(path, sizeof(path), "%s/x.db", w.dir);
    w.store = store_open(path, &e);
    return w.store ? 0 : -1;
}

static int teardown(void **state)
{
    fake_release(&w.fake);
    world_done(&w);
    return 0;
}

static struct store_sandbox row(const char *id, const char *state)
{
    return (struct store_sandbox){
        .id = id,
        .owner = "o",
        .runtime = "fake",
        .state = state,
        .reason = "",
        .message = "",
        .created_us = clock_wall_us(),
        .transition_us = clock_wall_us(),
        .entrypoint = "[\"x\"]",
        .spec = "{" REQUEST "}",
    };
}

static void put(struct store_sandbox r)
{
    struct err e = {0};
    assert_int_equal(store_sandbox_insert(w.store, &r, NULL, &e), 0);
}

static void start(void)
{
    store_close(w.store);
    world_up(&w);
}

static void pending(void **state)
{
    put(row("unknown", "Pending"));
    fake_add(&w.fake, "unknown", RT_RUNNING);
    struct store_sandbox r = row("keyed", "Pending");
    r.idem_key = "k";
    r.idem_hash = "h";
    put(r);
    r = row("answered", "Pending");
    r.answered = true;
    put(r);
    fake_add(&w.fake, "answered", RT_CREATED);
    r = row("auth", "Pending");
    r.answered = true;
    r.had_auth = true;
    put(r);
    start();
    assert_true(world_await(&w, "keyed", "Running"));
    assert_true(world_await(&w, "answered", "Running"));
    assert_true(world_await(&w, "auth", "Failed"));
    assert_true(world_await(&w, "unknown", "")); /* its client never knew it */
    assert_int_equal(fake_len(&w.fake), 2);
}

static void running_and_paused(void **state)
{
    static const char *const states[] = {"Running", "Pausing", "Paused", "Resuming"};
    char id[32];
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(id, sizeof(id), "r-%s", states[i]);
        put(row(id, states[i]));
        fake_add(&w.fake, id, RT_RUNNING);
        (void)snprintf(id, sizeof(id), "p-%s", states[i]);
        put(row(id, states[i]));
        fake_add(&w.fake, id, RT_PAUSED);
        (void)snprintf(id, sizeof(id), "m-%s", states[i]);
        put(row(id, states[i]));
    }
    start();
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(id, sizeof(id), "r-%s", states[i]);
        assert_string_equal(world_state(&w, id), "Running");
        (void)snprintf(id, sizeof(id), "p-%s", states[i]);
        assert_string_equal(world_state(&w, id), "Paused");
        (void)snprintf(id, sizeof(id), "m-%s", states[i]);
        assert_string_equal(world_state(&w, id), "Failed");
    }
}

static void stopping_is_finished(void **state)
{
    put(row("s", "Stopping"));
    fake_add(&w.fake, "s", RT_RUNNING);
    put(row("gone", "Stopping"));
    start();
    assert_true(world_await(&w, "s", ""));
    assert_true(world_await(&w, "gone", ""));
    assert_int_equal(fake_len(&w.fake), 0);
}

static void exits_meanwhile(void **state)
{
    put(row("e", "Running"));
    fake_add(&w.fake, "e", RT_EXITED);
    w.fake.v[0].st.exit = EXIT_CODE;
    w.fake.v[0].st.exit_code = 0;
    put(row("done", "Terminated"));
    start();
    assert_string_equal(world_state(&w, "e"), "Terminated");
    assert_string_equal(world_state(&w, "done"), "Terminated");
}

static void expired_ones_go_renewed_ones_stay(void **state)
{
    struct store_sandbox r = row("old", "Running");
    r.expires_us = clock_wall_us() - 1000000;
    put(r);
    fake_add(&w.fake, "old", RT_RUNNING);
    r = row("new", "Paused");
    r.expires_us = clock_wall_us() + INT64_C(3600000000);
    put(r);
    fake_add(&w.fake, "new", RT_PAUSED);
    start();
    assert_true(world_await(&w, "old", ""));
    assert_string_equal(world_state(&w, "new"), "Paused");
    struct sandbox *sb = registry_get(lifecycle_registry(w.lc), "o", STR("new"));
    assert_int_equal(sb->expires_us, r.expires_us);
    sandbox_unref(sb);
}

static void orphans_are_removed(void **state)
{
    fake_add(&w.fake, "nobody", RT_RUNNING);
    put(row("known", "Running"));
    fake_add(&w.fake, "known", RT_RUNNING);
    start();
    assert_int_equal(fake_len(&w.fake), 1);
    assert_string_equal(world_state(&w, "known"), "Running");
}

static void keys_survive(void **state)
{
    start();
    char first[SANDBOX_ID_MAX], second[SANDBOX_ID_MAX];
    world_create(&w, "{" REQUEST "}", "k", first);
    world_down(&w);
    world_up(&w);
    world_create(&w, "{" REQUEST "}", "k", second);
    assert_string_equal(first, second);
    struct waiting wt;
    struct problem p;
    assert_int_equal(world_begin(&w, "{" REQUEST ",\"timeout\":60}", "k", &wt, &p), -1);
    assert_int_equal(p.status, 409);
}

static void stopping_keeps_what_waits(void **state)
{
    start();
    struct waiting wt;
    struct problem p;
    w.fake.hold = true;
    assert_int_equal(world_begin(&w, "{" REQUEST "}", "k", &wt, &p), 0);
    fake_await_waiting(&w.fake, 1);
    struct sandbox *sb = registry_get_idem(lifecycle_registry(w.lc), "o", "k");
    char id[SANDBOX_ID_MAX];
    (void)snprintf(id, sizeof(id), "%s", sb->id);
    sandbox_unref(sb);
    world_down(&w); /* the create gives up, its record stays */
    waiting_wait(&wt);
    assert_int_not_equal(wt.status, 0);
    w.fake.hold = false;
    world_up(&w);
    assert_true(world_await(&w, id, "Running"));
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(pending),
        T(running_and_paused),
        T(stopping_is_finished),
        T(exits_meanwhile),
        T(expired_ones_go_renewed_ones_stay),
        T(orphans_are_removed),
        T(keys_survive),
        T(stopping_keeps_what_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
