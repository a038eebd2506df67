#include "base/map.h"

#include <stdio.h>

#include "../test.h"

static int one = 1, two = 2;

static void puts_gets_removes(void **state)
{
    struct map m = {0};
    assert_null(map_get(&m, STR("a")));
    assert_null(map_del(&m, STR("a")));
    assert_null(map_put(&m, STR("a"), &one));
    assert_ptr_equal(map_get(&m, STR("a")), &one);
    assert_ptr_equal(map_put(&m, STR("a"), &two), &one);
    assert_ptr_equal(map_get(&m, STR("a")), &two);
    assert_int_equal(map_len(&m), 1);
    assert_ptr_equal(map_del(&m, STR("a")), &two);
    assert_null(map_get(&m, STR("a")));
    assert_int_equal(map_len(&m), 0);
    map_done(&m);
    map_done(&m);
}

static void keys_are_bytes_and_copied(void **state)
{
    struct map m = {0};
    char key[] = "key";
    map_put(&m, str_from(key), &one);
    key[0] = 'x';
    assert_ptr_equal(map_get(&m, STR("key")), &one);
    map_put(&m, STR(""), &two);
    assert_ptr_equal(map_get(&m, STR_NULL), &two);
    map_put(&m, STR("a\0b"), &one);
    assert_null(map_get(&m, STR("a")));
    assert_null(map_get(&m, STR("a\0c")));
    assert_ptr_equal(map_get(&m, STR("a\0b")), &one);
    map_done(&m);
}

/* The same operations on a plain array. */
static void agrees_with_a_model(void **state)
{
    enum { KEYS = 500 };
    static int values[KEYS];
    void *model[KEYS] = {0};
    size_t n = 0;
    struct map m = {0};
    uint64_t seed = 5;
    for (int i = 0; i < 200000; i++) {
        unsigned k = test_rand(&seed) % KEYS;
        char key[16];
        snprintf(key, sizeof(key), "key-%u", k);
        void *expect = model[k];
        if (test_rand(&seed) % 2) {
            model[k] = &values[test_rand(&seed) % KEYS];
            assert_ptr_equal(map_put(&m, str_from(key), model[k]), expect);
            n += !expect;
        } else {
            model[k] = NULL;
            assert_ptr_equal(map_del(&m, str_from(key)), expect);
            n -= expect != NULL;
        }
        assert_int_equal(map_len(&m), n);
    }
    assert_true(m.n_slots <= 4096); /* tombstones do not make it grow for ever */
    for (unsigned k = 0; k < KEYS; k++) {
        char key[16];
        snprintf(key, sizeof(key), "key-%u", k);
        assert_ptr_equal(map_get(&m, str_from(key)), model[k]);
    }
    map_done(&m);
}

static void iterates_and_removes(void **state)
{
    struct map m = {0};
    for (int i = 0; i < 1000; i++) {
        char key[16];
        snprintf(key, sizeof(key), "%d", i);
        map_put(&m, str_from(key), &one);
    }
    bool seen[1000] = {false};
    size_t it = 0;
    struct str key;
    void *value;
    while (map_next(&m, &it, &key, &value)) {
        char text[16];
        assert_int_equal(str_to_cstr(key, text, sizeof(text)), 0);
        int i = (int)strtol(text, NULL, 10);
        assert_false(seen[i]);
        seen[i] = true;
        assert_ptr_equal(value, &one);
        if (i % 3) {
            assert_ptr_equal(map_del(&m, str_from(text)), &one);
        }
    }
    for (int i = 0; i < 1000; i++) {
        assert_true(seen[i]);
    }
    assert_int_equal(map_len(&m), 334);
    it = 0;
    size_t n = 0;
    while (map_next(&m, &it, NULL, NULL)) {
        n++;
    }
    assert_int_equal(n, 334);
    map_done(&m);
}

static void hash_depends_on_every_byte(void **state)
{
    char key[24] = {0};
    uint64_t base = map_hash(str_n(key, sizeof(key)));
    assert_true(base == map_hash(str_n(key, sizeof(key))));
    for (size_t i = 0; i < sizeof(key); i++) {
        key[i] = 1;
        assert_true(map_hash(str_n(key, sizeof(key))) != base);
        key[i] = 0;
        assert_true(map_hash(str_n(key, i)) != base);
    }
}

/* Run again as a child with an argument, the program prints its hash of one key. */
static uint64_t hash_of_another_process(void)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(fds[1], STDOUT_FILENO);
        (void)execl("/proc/self/exe", "test_map", "print", (char *)NULL);
        _exit(1);
    }
    close(fds[1]);
    uint64_t hash = 0;
    assert_int_equal(read(fds[0], &hash, sizeof(hash)), sizeof(hash));
    close(fds[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    return hash;
}

static void hash_differs_between_processes(void **state)
{
    assert_true(hash_of_another_process() != hash_of_another_process());
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        uint64_t hash = map_hash(STR("key"));
        return write(STDOUT_FILENO, &hash, sizeof(hash)) == sizeof(hash) ? 0 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_gets_removes),
        cmocka_unit_test(keys_are_bytes_and_copied),
        cmocka_unit_test(agrees_with_a_model),
        cmocka_unit_test(iterates_and_removes),
        cmocka_unit_test(hash_depends_on_every_byte),
        cmocka_unit_test(hash_differs_between_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
