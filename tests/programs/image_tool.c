/* The image store on the command line, for tests and benchmarks.
 * usage: image_tool STORE pull|import|export|push|list|remove|prune ... */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/num.h"
#include "server/image/archive.h"
#include "server/image/store.h"

static void print_image(const struct image *img, void *arg)
{
    (void)arg;
    printf("%s %s %zu %llu", img->name, img->arch, img->n_layers, (unsigned long long)img->size);
    for (size_t i = 0; i < img->n_layers; i++) {
        printf(" %s", img->layers[i].id);
    }
    printf("\n");
}

static bool show_progress(const char *layer, const char *what, uint64_t done, uint64_t total,
                          void *arg)
{
    (void)arg;
    fprintf(stderr, "%s %s %llu/%llu\n", what, layer, (unsigned long long)done,
            (unsigned long long)total);
    return true;
}

static int shown(struct image *img)
{
    if (!img) {
        return -1;
    }
    print_image(img, NULL);
    image_free(img);
    return 0;
}

/* "user:password" in OSB_TEST_AUTH. */
static void read_auth(const char **user, const char **password)
{
    char *auth = getenv("OSB_TEST_AUTH"), *colon = auth ? strchr(auth, ':') : NULL;
    if (colon) {
        *colon = '\0';
        *user = auth;
        *password = colon + 1;
    }
}

static int run(struct image_store *s, int argc, char **argv, struct err *e)
{
    const char *verb = argv[0], *name = argc > 1 ? argv[1] : NULL, *user = NULL, *password = NULL;
    uint64_t max = 0;
    read_auth(&user, &password);
    if (strcmp(verb, "list") == 0) {
        return image_store_list(s, print_image, NULL, e);
    }
    if (strcmp(verb, "prune") == 0) {
        if (name && parse_u64(str_from(name), &max) < 0) {
            return err_set(e, ERR_INVALID, "not a number: %s", name);
        }
        struct image_prune p = {.max_bytes = max};
        struct image_pruned done;
        int r = image_store_prune(s, &p, &done, e);
        printf("%llu\n", (unsigned long long)done.bytes);
        return r;
    }
    if (!name) {
        return err_set(e, ERR_INVALID, "%s: which image?", verb);
    }
    if (strcmp(verb, "pull") == 0) {
        struct image_pull p = {.name = name,
                               .arch = argc > 2 ? argv[2] : NULL,
                               .user = user,
                               .password = password,
                               .progress = show_progress};
        return shown(image_store_pull(s, &p, e));
    }
    if (strcmp(verb, "import") == 0) {
        return shown(image_import(s, STDIN_FILENO, strcmp(name, "-") == 0 ? NULL : name, e));
    }
    if (strcmp(verb, "export") == 0) {
        return image_export(s, name, STDOUT_FILENO, e);
    }
    if (strcmp(verb, "push") == 0) {
        struct image_push p = {
            .name = name, .target = argc > 2 ? argv[2] : NULL, .user = user, .password = password};
        return image_push(s, &p, e);
    }
    if (strcmp(verb, "remove") == 0) {
        return image_store_remove(s, name, e);
    }
    return err_set(e, ERR_INVALID, "unknown verb %s", verb);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    if (argc < 3) {
        fprintf(stderr, "usage: image_tool STORE VERB [NAME]\n");
        return 2;
    }
    log_init(LOG_INFO, LOG_HUMAN, STDERR_FILENO);
    const char *ca = getenv("OSB_TEST_CA"), *ca_host = getenv("OSB_TEST_CA_HOST");
    struct image_registry_conf conf = {.host = ca_host, .ca_file = ca};
    struct image_store_opts o = {.dir = argv[1],
                                 .docker_config = getenv("OSB_TEST_DOCKER_CONFIG"),
                                 .registries = &conf,
                                 .n_registries = ca && ca_host ? 1 : 0};
    struct image_store *s = image_store_open(&o, &e);
    int r = s ? run(s, argc - 2, argv + 2, &e) : -1;
    if (r < 0) {
        fprintf(stderr, "error: %s: %s\n", err_code_name(e.code), e.msg);
    }
    image_store_close(s);
    return r < 0 ? 1 : 0;
}
