#include "server/api/auth.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "../tempdir.h"
#include "../test.h"
#include "base/fd.h"

static int setup(void **state)
{
    (void)unsetenv("OPENSANDBOX_SERVER_API_KEY");
    (void)unsetenv("OPENSANDBOX_INSECURE_SERVER");
    return top_make(state);
}

static struct config *config(const char *extra)
{
    char text[512];
    struct err e = {0};
    (void)snprintf(text, sizeof(text), "[server]\ndata_dir = '%s'\n%s", top, extra);
    struct config *c = config_parse("t", str_from(text), NULL, &e);
    assert_non_null(c);
    return c;
}

static void configured_keys(void **state)
{
    struct err e = {0};
    struct config *c = config("api_key = 'first-key'\napi_keys = ['second-key']\n");
    char *note = NULL;
    struct keyring *k = keyring_new(c, &note, &e);
    struct principal who;
    assert_null(note);
    assert_true(keyring_find(k, STR("first-key"), &who));
    assert_string_equal(who.owner, OWNER_DEFAULT);
    char first[KEY_NAME_MAX];
    memcpy(first, who.actor, sizeof(first));
    assert_true(keyring_find(k, STR("second-key"), &who));
    assert_string_not_equal(first, who.actor);
    assert_false(keyring_find(k, STR("first-key "), &who));
    assert_false(keyring_find(k, STR("first-ke"), &who));
    assert_false(keyring_find(k, STR(""), &who));
    struct config *d = config("api_key = 'third-key'\n");
    assert_int_equal(keyring_reload(k, d, &e), 0);
    assert_false(keyring_find(k, STR("first-key"), &who));
    assert_true(keyring_find(k, STR("third-key"), &who));
    struct config *open = config("api_key = ''\n");
    assert_int_equal(keyring_reload(k, open, &e), -1); /* never by a reload */
    assert_true(keyring_find(k, STR("third-key"), &who));
    config_unref(open);
    config_unref(d);
    config_unref(c);
    keyring_free(k);
}

static void a_key_is_generated_once(void **state)
{
    struct err e = {0};
    struct config *c = config("");
    char *note = NULL;
    struct keyring *k = keyring_new(c, &note, &e);
    assert_non_null(k);
    assert_non_null(strstr(note, c->server.key_file));
    struct stat st;
    assert_int_equal(stat(c->server.key_file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    struct buf text = BUF_INIT(256);
    assert_int_equal(file_read(AT_FDCWD, c->server.key_file, &text), 0);
    struct str key = buf_str(&text);
    key.n--; /* line feed */
    assert_int_equal(key.n, 40);
    struct principal who;
    assert_true(keyring_find(k, key, &who));
    keyring_free(k);
    free(note);
    k = keyring_new(c, NULL, &e);
    assert_true(keyring_find(k, key, &who)); /* the same after a restart */
    keyring_free(k);
    assert_int_equal(chmod(c->server.key_file, 0644), 0);
    assert_null(keyring_new(c, NULL, &e));
    assert_non_null(strstr(e.msg, "read by others"));
    assert_int_equal(chmod(c->server.key_file, 0600), 0);
    buf_done(&text);
    config_unref(c);
}

static void keyless_must_be_wanted(void **state)
{
    struct err e = {0};
    struct config *c = config("api_key = ' '\n");
    struct keyring *k = keyring_new(c, NULL, &e);
    assert_true(keyring_is_open(k));
    keyring_free(k);
    config_unref(c);
    int saved = dup(STDIN_FILENO), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(dup2(null, STDIN_FILENO) >= 0);
    assert_int_equal(auth_confirm_open(&e), -1);
    (void)setenv("OPENSANDBOX_INSECURE_SERVER", "yes", 1);
    assert_int_equal(auth_confirm_open(&e), -1);
    (void)setenv("OPENSANDBOX_INSECURE_SERVER", "YES", 1);
    assert_int_equal(auth_confirm_open(&e), 0);
    c = config("");
    k = keyring_new(c, NULL, &e);
    assert_true(keyring_is_open(k)); /* asked for: no key is generated */
    keyring_free(k);
    config_unref(c);
    (void)unsetenv("OPENSANDBOX_INSECURE_SERVER");
    (void)dup2(saved, STDIN_FILENO);
    (void)close(saved);
    (void)close(null);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configured_keys),
        cmocka_unit_test(a_key_is_generated_once),
        cmocka_unit_test(keyless_must_be_wanted),
    };
    return cmocka_run_group_tests(tests, setup, top_remove);
}
