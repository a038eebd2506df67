/* A pool of sandboxes that wait for their user, and one taken out of it.
 *
 *     cc pool.c $(pkg-config --cflags --libs opensandbox) -o pool
 *     OPEN_SANDBOX_DOMAIN=localhost:8080 OPEN_SANDBOX_API_KEY=... ./pool my-pool host
 */

#include <opensandbox.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int complain(const char *what, const struct osb_error *e)
{
    fprintf(stderr, "%s: %s (%s)\n", what, e->message, osb_code_name(e->code));
    return 1;
}

/* Until so many wait; a minute at most. */
static int wait_for(struct osb_client *c, const char *name, int available)
{
    struct osb_error e = {0};
    for (int i = 0; i < 1200; i++) {
        struct osb_pool p;
        if (osb_pool_get(c, name, &p, &e) < 0) {
            return complain("get", &e);
        }
        int have = p.available;
        osb_pool_done(&p);
        if (have == available) {
            printf("%d wait\n", have);
            return 0;
        }
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    }
    fprintf(stderr, "they do not come\n");
    return 1;
}

static int take_one(struct osb_client *c, const char *name)
{
    struct osb_error e = {0};
    const struct osb_pair extensions[] = {{"poolRef", name}, {0}};
    const struct osb_pair env[] = {{"OWN", "mine"}, {0}};
    struct osb_create_opts o = {.extensions = extensions, .env = env, .timeout_seconds = 300};
    struct osb_sandbox *s = osb_create(c, &o, &e);
    if (!s) {
        return complain("create", &e);
    }
    struct osb_result *r = osb_run(s, "echo $SHARED $OWN", NULL, &e);
    printf("inside: %s%s", r ? osb_result_stdout(r) : e.message, r ? "" : "\n");
    osb_result_free(r);
    struct osb_pool p;
    if (osb_pool_get(c, name, &p, &e) == 0) {
        printf("%d taken\n", p.allocated);
        osb_pool_done(&p);
    }
    osb_kill(s, &e);
    osb_sandbox_free(s);
    return 0;
}

static int use_pool(struct osb_client *c, const char *name, const struct osb_create_opts *template)
{
    struct osb_error e = {0};
    const struct osb_capacity one = {1, 1, 0, 4}, two = {2, 2, 0, 4};
    struct osb_pool p;
    struct osb_pool_list all;
    int again = osb_pool_create(c, name, template, &one, NULL, &e);
    printf("a second of that name: %s\n", again < 0 ? osb_code_name(e.code) : "made");
    if (wait_for(c, name, 1) || take_one(c, name)) {
        return 1;
    }
    if (osb_pool_update(c, name, NULL, &two, &p, &e) < 0) {
        return complain("update", &e);
    }
    printf("at least %d, at most %d\n", p.capacity.buffer_min, p.capacity.pool_max);
    osb_pool_done(&p);
    if (wait_for(c, name, 2) || osb_pool_list(c, &all, &e) < 0) {
        return complain("list", &e);
    }
    for (size_t i = 0; i < all.n; i++) {
        if (strcmp(all.v[i].name, name) == 0) {
            printf("listed\n");
        }
    }
    osb_pool_list_done(&all);
    return 0;
}

int main(int argc, char **argv)
{
    struct osb_error e = {0};
    const char *name = argc > 1 ? argv[1] : "example";
    const struct osb_pair env[] = {{"SHARED", "ours"}, {0}};
    const struct osb_pair resources[] = {{"cpu", "1"}, {"memory", "128Mi"}, {0}};
    const struct osb_create_opts template = {
        .image = argc > 2 ? argv[2] : "python:3.12", .env = env, .resources = resources};
    const struct osb_capacity capacity = {1, 1, 0, 4};
    struct osb_pool p;
    struct osb_client *c = osb_client_new(NULL, &e);
    if (!c || osb_pool_create(c, name, &template, &capacity, &p, &e) < 0) {
        osb_client_free(c);
        return complain("create pool", &e);
    }
    printf("made %s\n", p.name);
    osb_pool_done(&p);
    int r = use_pool(c, name, &template);
    if (osb_pool_delete(c, name, &e) < 0) {
        r = complain("delete", &e);
    }
    printf("deleted: %s\n",
           osb_pool_get(c, name, &p, &e) < 0 ? osb_code_name(e.code) : "still there");
    osb_client_free(c);
    return r;
}
