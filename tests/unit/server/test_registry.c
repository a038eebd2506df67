#include "server/lifecycle/registry.h"

#include <errno.h>

#include "../test.h"

static struct sandbox *make(const char *id, const char *owner, int64_t created, const char *meta,
                            const char *idem)
{
    struct store_sandbox row = {.id = id,
                                .owner = owner,
                                .runtime = "fake",
                                .state = "Running",
                                .reason = "R",
                                .message = "",
                                .entrypoint = "[\"x\"]",
                                .spec = "{}",
                                .created_us = created,
                                .metadata = meta,
                                .idem_key = idem,
                                .idem_hash = idem};
    struct err e = {0};
    struct sandbox *sb = sandbox_from_row(&row, &e);
    assert_non_null(sb);
    return sb;
}

static void owners_see_only_their_own(void **state)
{
    struct registry r;
    registry_init(&r);
    assert_int_equal(registry_add(&r, make("a", "o", 1, NULL, "k")), 0);
    assert_int_equal(registry_add(&r, make("b", "p", 2, NULL, "k")), 0);
    struct sandbox *twin = make("a", "o", 3, NULL, NULL), *same_key = make("c", "o", 3, NULL, "k");
    assert_int_equal(registry_add(&r, twin), -EEXIST);
    assert_int_equal(registry_add(&r, same_key), -EEXIST);
    sandbox_unref(twin);
    sandbox_unref(same_key);
    assert_null(registry_get(&r, "p", STR("a")));
    struct sandbox *a = registry_get(&r, "o", STR("a"));
    assert_non_null(a);
    struct sandbox *any = registry_get(&r, NULL, STR("a"));
    assert_ptr_equal(a, any);
    struct sandbox *idem = registry_get_idem(&r, "p", "k");
    assert_string_equal(idem->id, "b");
    assert_null(registry_get_idem(&r, "q", "k"));
    assert_int_equal(registry_count(&r, "o"), 1);
    assert_int_equal(registry_count(&r, NULL), 2);
    registry_remove(&r, a);
    registry_remove(&r, a); /* harmless */
    assert_null(registry_get(&r, NULL, STR("a")));
    assert_null(registry_get_idem(&r, "o", "k"));
    assert_int_equal(registry_count(&r, "o"), 0);
    sandbox_unref(a);
    sandbox_unref(any);
    sandbox_unref(idem);
    registry_done(&r);
}

static void lists_newest_first_by_page(void **state)
{
    struct registry r;
    registry_init(&r);
    char id[16];
    for (int i = 0; i < 25; i++) { /* in mixed order */
        int k = (i * 7) % 25;
        (void)snprintf(id, sizeof(id), "s%02d", k);
        assert_int_equal(registry_add(&r, make(id, k % 5 ? "o" : "p", 100 + k,
                                               k % 2 ? "{\"odd\":\"yes\"}" : NULL, NULL)),
                         0);
    }
    struct arena a = {0};
    struct sandbox_view *v;
    size_t n, total;
    struct sandbox_filter f = {.owner = "o", .page = 1, .page_size = 8};
    registry_list(&r, &a, &f, &v, &n, &total);
    assert_int_equal(total, 20);
    assert_int_equal(n, 8);
    assert_string_equal(v[0].id, "s24");
    assert_string_equal(v[1].id, "s23");
    f.page = 3;
    registry_list(&r, &a, &f, &v, &n, &total);
    assert_int_equal(n, 4);
    assert_string_equal(v[3].id, "s01");
    f.page = SIZE_MAX;
    registry_list(&r, &a, &f, &v, &n, &total);
    assert_int_equal(n, 0);
    assert_int_equal(total, 20);
    struct str_pair pair = {"odd", "yes"};
    f = (struct sandbox_filter){
        .owner = NULL, .page = 1, .page_size = 200, .metadata = {&pair, 1, true}};
    registry_list(&r, &a, &f, &v, &n, &total);
    assert_int_equal(n, 12);
    struct str states[] = {STR("paused"), STR("RUNNING")};
    f.states = states;
    f.n_states = 2;
    registry_list(&r, &a, &f, &v, &n, &total);
    assert_int_equal(n, 12);
    f.n_states = 1;
    registry_list(&r, &a, &f, &v, &n, &total);
    assert_int_equal(n, 0);
    arena_done(&a);
    registry_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_see_only_their_own),
        cmocka_unit_test(lists_newest_first_by_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
