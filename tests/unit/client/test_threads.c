/* One client and one handle used by many threads at once; meant to run with the thread sanitizer.
 */

#include "fixture.h"

#include <pthread.h>

#define N_THREADS 8
#define N_ROUNDS 40

static struct osb_sandbox *box;

static const char stream[] =
    "{\"type\":\"init\",\"text\":\"e\"}\n{\"type\":\"stdout\",\"text\":\"hi\"}\n"
    "{\"type\":\"execution_complete\"}\n";

static void *work(void *arg)
{
    struct osb_token *canceled = arg;
    struct osb_error e = {0};
    for (int i = 0; i < N_ROUNDS; i++) {
        struct osb_result *r = osb_run(box, stream, NULL, &e);
        must(r && strcmp(osb_result_stdout(r), "hi\n") == 0);
        osb_result_free(r);
        struct osb_info *info = osb_info_get(fx.client, "box", &e);
        must(info && strcmp(osb_info_id(info), "box") == 0);
        osb_info_free(info);
        char *text = osb_read_file(box, "/x", NULL, NULL, &e);
        must(text && strcmp(text, "/x") == 0);
        free(text);
        struct osb_run_opts o = {.call = {.token = canceled}};
        must(!osb_run(box, stream, &o, &e) && e.code == OSB_ECANCELED);
        must(!osb_info_get(fx.client, "gone", &e) && e.code == OSB_ENOTFOUND);
        must(osb_is_healthy(box));
    }
    return NULL;
}

static void shared(void **state)
{
    pthread_t t[N_THREADS];
    struct osb_token *canceled = osb_token_new();
    osb_cancel(canceled);
    box = osb_attach(fx.client, "box"); /* the first to need the endpoint looks it up */
    for (size_t i = 0; i < N_THREADS; i++) {
        must(pthread_create(&t[i], NULL, work, canceled) == 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        (void)pthread_join(t[i], NULL);
    }
    osb_sandbox_free(box);
    osb_token_free(canceled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shared)};
    return cmocka_run_group_tests(tests, fx_start, fx_stop);
}
