/* A terminal in a sandbox: a program that asks, and an answer typed from another thread.
 *
 *     ./terminal SANDBOX_ID
 */

#include <opensandbox.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void on_output(const void *p, size_t n, void *arg)
{
    fwrite(p, 1, n, arg);
}

static void on_exit_code(int code, void *arg)
{
    fprintf(arg, "[exit %d]\n", code);
}

static void *type_answer(void *arg)
{
    osb_pty_write(arg, "Ada\n", 4);
    return NULL;
}

int main(int argc, char **argv)
{
    struct osb_error e = {0};
    struct osb_client *c = osb_client_new(NULL, &e);
    struct osb_sandbox *s = c && argc > 1 ? osb_connect(c, argv[1], NULL, &e) : NULL;
    const struct osb_pty_opts opts = {
        .command = "read -p 'Your name? ' name; echo Hello, $name; exit 2", .rows = 24, .cols = 80};
    const struct osb_pty_ops ops = {.on_output = on_output, .on_exit = on_exit_code};
    struct osb_pty *p = s ? osb_pty_open(s, &opts, &ops, stdout, &e) : NULL;
    int code = 1;
    if (p) {
        pthread_t thread;
        pthread_create(&thread, NULL, type_answer, p);
        code = osb_pty_run(p, &e) < 0;
        pthread_join(thread, NULL);
        osb_pty_delete(s, osb_pty_id(p), NULL);
    }
    if (code) {
        fprintf(stderr, "%s\n", argc > 1 ? e.message : "usage: terminal SANDBOX_ID");
    }
    osb_pty_free(p);
    osb_sandbox_free(s);
    osb_client_free(c);
    return code;
}
