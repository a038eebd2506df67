#include "base/list.h"

#include "../test.h"

struct item {
    int v;
    struct list node;
};

static void keeps_order(void **state)
{
    struct list l = LIST_INIT(l);
    struct item a = {.v = 1}, b = {.v = 2}, c = {.v = 3};
    assert_true(list_empty(&l));
    assert_null(list_first(&l));
    list_push_back(&l, &b.node);
    list_push_back(&l, &c.node);
    list_push_front(&l, &a.node);
    int want = 1;
    list_each (it, &l) {
        assert_int_equal(list_entry(it, struct item, node)->v, want++);
    }
    assert_int_equal(want, 4);
    assert_ptr_equal(list_pop_front(&l), &a.node);
    assert_ptr_equal(list_first(&l), &b.node);
}

static void removes_while_looping(void **state)
{
    struct list l = LIST_INIT(l);
    struct item items[10];
    for (int i = 0; i < 10; i++) {
        items[i].v = i;
        list_push_back(&l, &items[i].node);
    }
    list_each (it, &l) {
        if (list_entry(it, struct item, node)->v % 2) {
            list_del(it);
            list_del(it); /* harmless */
        }
    }
    int n = 0;
    while (list_pop_front(&l)) {
        n++;
    }
    assert_int_equal(n, 5);
    assert_true(list_empty(&l));
    assert_null(list_pop_front(&l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order),
        cmocka_unit_test(removes_while_looping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
