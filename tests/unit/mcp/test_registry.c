#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>

#include "base/must.h"
#include "mcp/limits.h"
#include "mcp/registry.h"

static struct osb_client *client;

static void known_and_forgotten(void **state)
{
    struct registry *r = registry_new();
    assert_null(registry_use(r, "a"));
    struct osb_sandbox *a = registry_add(r, osb_attach(client, "a"));
    struct osb_sandbox *again = registry_add(r, osb_attach(client, "a"));
    assert_ptr_equal(a, again);
    registry_give(r, again);
    registry_forget(r, "a"); /* still in use: whole until it is given back */
    assert_null(registry_use(r, "a"));
    assert_string_equal(osb_sandbox_id(a), "a");
    struct osb_sandbox *fresh = registry_add(r, osb_attach(client, "a"));
    assert_ptr_not_equal(a, fresh);
    registry_give(r, a);
    registry_give(r, fresh);
    assert_int_equal(registry_len(r), 1);
    registry_forget(r, "unknown");
    registry_free(r);
}

static void room(void **state)
{
    struct registry *r = registry_new();
    char id[32];
    struct osb_sandbox *kept = registry_add(r, osb_attach(client, "kept"));
    for (int i = 0; i < MCP_MAX_SANDBOXES + 10; i++) {
        (void)snprintf(id, sizeof(id), "%d", i);
        registry_give(r, registry_add(r, osb_attach(client, id)));
    }
    assert_int_equal(registry_len(r), MCP_MAX_SANDBOXES);
    assert_null(registry_use(r, "0")); /* the one that was not used for longest */
    struct osb_sandbox *same = registry_use(r, "kept");
    assert_ptr_equal(same, kept);
    registry_give(r, same);
    registry_give(r, kept);
    registry_free(r);
}

static void *worker(void *arg)
{
    struct registry *r = arg;
    char id[8];
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(id, sizeof(id), "%d", i % 7);
        struct osb_sandbox *s = registry_use(r, id);
        s = s ? s : registry_add(r, osb_attach(client, id));
        must(osb_sandbox_id(s)[0] == id[0]);
        if (i % 3 == 0) {
            registry_forget(r, id);
        }
        registry_give(r, s);
    }
    return NULL;
}

static void threads(void **state)
{
    struct registry *r = registry_new();
    pthread_t t[4];
    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        must(pthread_create(&t[i], NULL, worker, r) == 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        (void)pthread_join(t[i], NULL);
    }
    registry_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_and_forgotten),
                                       cmocka_unit_test(room), cmocka_unit_test(threads)};
    client = osb_client_new(&(struct osb_config){.domain = "127.0.0.1:1"}, NULL);
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    osb_client_free(client);
    return r;
}
