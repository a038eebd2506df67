/* Connections, errors, deadlines and cancellation. */

#include "fixture.h"

#include <pthread.h>
#include <unistd.h>

static void addresses(void **state)
{
    static const char *const bad[] = {"a b", "ftp://x", "http://", "://", "/"};
    struct osb_error e;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        e = (struct osb_error){0};
        assert_null(osb_client_new(&(struct osb_config){.domain = bad[i]}, &e));
        assert_int_equal(e.code, OSB_EINVALID);
        assert_true(e.message[0]);
    }
    assert_null(osb_client_new(&(struct osb_config){.protocol = "gopher"}, NULL));
    char url[2 * IO_ADDR_TEXT_MAX];
    static const char *const forms[] = {"http://%s", "http://%s/", "http://%s/v1", "%s/v1/"};
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        struct str form = str_from(forms[i]);
        ptrdiff_t at = str_find(form, '%');
        (void)snprintf(url, sizeof(url), "%.*s%s%s", (int)at, forms[i], fx.domain,
                       forms[i] + at + 2);
        struct osb_client *c = osb_client_new(&(struct osb_config){.domain = url}, &e);
        assert_non_null(c);
        assert_int_equal(osb_client_health(c, &e), 0);
        osb_client_free(c);
    }
    must(setenv("OPEN_SANDBOX_DOMAIN", fx.domain, 1) == 0);
    struct osb_client *c = osb_client_new(NULL, &e);
    assert_int_equal(osb_client_health(c, &e), 0);
    osb_client_free(c);
    must(unsetenv("OPEN_SANDBOX_DOMAIN") == 0);
    osb_client_free(NULL);
}

static void info(void **state)
{
    struct osb_error e = {0};
    struct osb_info *i = osb_info_get(fx.client, "box", &e);
    assert_non_null(i);
    assert_string_equal(osb_info_state(i), "Running");
    assert_string_equal(osb_info_image(i), "i");
    assert_string_equal(osb_info_metadata(i, "k"), "v");
    assert_null(osb_info_metadata(i, "none"));
    assert_null(osb_info_expires(i));
    osb_info_free(i);
}

static void errors(void **state)
{
    struct osb_error e = {0};
    assert_null(osb_info_get(fx.client, "gone", &e));
    assert_int_equal(e.code, OSB_ENOTFOUND);
    assert_int_equal(e.http_status, 404);
    assert_string_equal(e.api_code, "T::GONE");
    assert_string_equal(e.message, "it is gone");
    assert_string_equal(e.request_id, "req-1");
    assert_null(osb_info_get(fx.client, "gone", NULL));
    assert_null(osb_info_get(fx.client, "plain", &e));
    assert_int_equal(e.code, OSB_ESERVER);
    assert_string_equal(e.message, "come back later");
    assert_null(osb_info_get(fx.client, "broken", &e));
    assert_int_equal(e.code, OSB_EPROTOCOL);
    struct osb_client *nobody = osb_client_new(&(struct osb_config){.domain = "127.0.0.1:1"}, &e);
    assert_null(osb_info_get(nobody, "x", &e));
    assert_int_equal(e.code, OSB_ENETWORK);
    assert_int_equal(e.http_status, 0);
    osb_client_free(nobody);
    assert_string_equal(osb_code_name(OSB_ENOTREADY), "not_ready");
    assert_string_equal(osb_code_name((enum osb_code)999), "unknown");
}

static void ready(void **state)
{
    struct osb_error e = {0};
    struct osb_sandbox *s = osb_create(fx.client, &(struct osb_create_opts){.image = "i"}, &e);
    assert_non_null(s);
    assert_string_equal(osb_sandbox_id(s), "box");
    assert_true(osb_is_healthy(s));
    assert_int_equal(osb_kill(s, &e), 0);
    osb_sandbox_free(s);
    assert_null(osb_create(fx.client, &(struct osb_create_opts){0}, &e));
    assert_int_equal(e.code, OSB_EINVALID);
    s = osb_attach(fx.client, "dead");
    assert_int_equal(osb_wait_ready(s, 1, &(struct osb_call){.timeout_ms = 30}, &e), -1);
    assert_int_equal(e.code, OSB_ENOTREADY);
    assert_false(osb_is_healthy(s));
    osb_sandbox_free(s);
}

static void deadline(void **state)
{
    struct osb_error e = {0};
    struct osb_call call = {.timeout_ms = 1000};
    char *text = osb_request(
        fx.client, &(struct osb_request){.method = "GET", .path = "/sandboxes/slow", .call = call},
        &e);
    assert_null(text);
    assert_int_equal(e.code, OSB_ETIMEOUT);
    must(sem_wait(&fx.entered) == 0);
    fx_let_go();
}

static void *cancel_when_entered(void *arg)
{
    must(sem_wait(&fx.entered) == 0);
    osb_cancel(arg);
    return NULL;
}

static void cancellation(void **state)
{
    struct osb_error e = {0};
    struct osb_token *t = osb_token_new();
    struct osb_call call = {.token = t};
    pthread_t thread;
    must(pthread_create(&thread, NULL, cancel_when_entered, t) == 0);
    assert_null(osb_request(
        fx.client, &(struct osb_request){.method = "GET", .path = "/sandboxes/slow", .call = call},
        &e));
    assert_int_equal(e.code, OSB_ECANCELED);
    (void)pthread_join(thread, NULL);
    fx_let_go();
    /* Once canceled, always canceled. */
    assert_null(osb_request(
        fx.client, &(struct osb_request){.method = "GET", .path = "/sandboxes/slow", .call = call},
        &e));
    assert_int_equal(e.code, OSB_ECANCELED);
    osb_token_free(t);
    osb_cancel(NULL);
}

static void snapshots(void **state)
{
    struct osb_error e = {0};
    char *text = osb_snapshot_wait(fx.client, "ready", NULL, &e);
    assert_non_null(text);
    free(text);
    assert_null(osb_snapshot_wait(fx.client, "failed", NULL, &e));
    assert_int_equal(e.code, OSB_ESERVER);
    assert_string_equal(e.message, "snapshot failed is Failed: why");
    assert_null(osb_snapshot_wait(fx.client, "late", &(struct osb_call){.timeout_ms = 20}, &e));
    assert_int_equal(e.code, OSB_ETIMEOUT);
    struct osb_token *t = osb_token_new();
    pthread_t thread;
    must(pthread_create(&thread, NULL, cancel_when_entered, t) == 0);
    assert_null(osb_snapshot_wait(fx.client, "watched", &(struct osb_call){.token = t}, &e));
    assert_int_equal(e.code, OSB_ECANCELED);
    (void)pthread_join(thread, NULL);
    osb_token_free(t);
    while (sem_trywait(&fx.entered) == 0) { /* it was asked more than once */
    }
}

static int refuse_bytes(const void *p, size_t n, void *arg)
{
    return -1;
}

/* What has no deadline can be canceled. */
static void canceled_streams(void **state)
{
    struct osb_error e = {0};
    char path[] = "/tmp/osb-canceled-XXXXXX";
    must(mkdtemp(path));
    cleanup_free char *file = xasprintf("%s/file", path);
    struct osb_sandbox *s = osb_attach(fx.client, "slow");
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        struct osb_read_opts o = {.call = {.token = osb_token_new()}};
        must(pthread_create(&thread, NULL, cancel_when_entered, o.call.token) == 0);
        int r = i ? osb_image_export(fx.client, "slow", refuse_bytes, NULL, &o.call, &e)
                  : osb_download_file(s, "/x", file, &o, &e);
        assert_int_equal(r, -1);
        assert_int_equal(e.code, OSB_ECANCELED);
        (void)pthread_join(thread, NULL);
        fx_let_go();
        osb_token_free(o.call.token);
    }
    assert_int_equal(rmdir(path), 0); /* nothing is left */
    osb_sandbox_free(s);
}

static void pools(void **state)
{
    static const struct osb_capacity capacity = {.buffer_max = 1, .pool_max = 1};
    static const struct osb_create_opts template = {.image = "i"};
    struct osb_error e = {0};
    struct osb_pool p;
    struct osb_pool_list l = {0};
    assert_int_equal(osb_pool_create(fx.client, "p", &template, NULL, NULL, &e), -1);
    assert_int_equal(e.code, OSB_EINVALID);
    assert_int_equal(osb_pool_create(fx.client, NULL, &template, &capacity, NULL, NULL), -1);
    assert_int_equal(osb_pool_create(fx.client, "p", NULL, &capacity, &p, &e), -1);
    assert_int_equal(e.code, OSB_EINVALID);
    assert_int_equal(osb_pool_get(fx.client, "gone", &p, &e), -1);
    assert_int_equal(e.code, OSB_ENOTFOUND);
    /* Answers that are none, and one that says little. */
    assert_int_equal(osb_pool_update(fx.client, "p", NULL, &capacity, &p, &e), -1);
    assert_int_equal(e.code, OSB_EPROTOCOL);
    assert_int_equal(osb_pool_list(fx.client, &l, &e), -1);
    assert_int_equal(e.code, OSB_EPROTOCOL);
    osb_pool_list_done(&l);
    assert_int_equal(osb_pool_get(fx.client, "box", &p, &e), 0);
    assert_string_equal(p.name, "");
    assert_null(p.revision);
    osb_pool_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses), cmocka_unit_test(info),
        cmocka_unit_test(errors),    cmocka_unit_test(ready),
        cmocka_unit_test(deadline),  cmocka_unit_test(cancellation),
        cmocka_unit_test(snapshots), cmocka_unit_test(canceled_streams),
        cmocka_unit_test(pools)};
    return cmocka_run_group_tests(tests, fx_start, fx_stop);
}
