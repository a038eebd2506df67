/* A first program with libopensandbox: connect, create, operate, clean up.
 *
 *     cc first.c $(pkg-config --cflags --libs opensandbox) -o first
 *     OPEN_SANDBOX_DOMAIN=localhost:8080 OPEN_SANDBOX_API_KEY=... ./first host
 */

#include <opensandbox.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(const char *what, const struct osb_error *e)
{
    fprintf(stderr, "%s: %s (%s%s%s)\n", what, e->message, osb_code_name(e->code),
            e->request_id[0] ? ", request " : "", e->request_id);
    return 1;
}

static bool print_line(const struct osb_event *ev, void *arg)
{
    if (ev->type == OSB_EV_STDOUT) {
        printf("%s says: %.*s\n", (const char *)arg, (int)ev->text_len, ev->text);
    }
    return true;
}

static int operate(struct osb_sandbox *s)
{
    struct osb_error e = {0};
    char name[] = "the sandbox";

    /* Output as it comes. */
    struct osb_run_opts opts = {.on_event = print_line, .arg = name, .cwd = "/tmp"};
    struct osb_result *r = osb_run(s, "echo hello; pwd; exit 3", &opts, &e);
    if (!r) {
        return complain("run", &e);
    }
    printf("exit code %d\n", osb_result_exit_code(r));
    osb_result_free(r);

    /* A file in, and out again. */
    if (osb_write_file(s, "/tmp/note.txt", "remember", strlen("remember"), NULL, &e) < 0) {
        return complain("write", &e);
    }
    size_t n = 0;
    char *text = osb_read_file(s, "/tmp/note.txt", NULL, &n, &e);
    if (!text) {
        return complain("read", &e);
    }
    printf("read %zu bytes: %s\n", n, text);
    free(text);
    return 0;
}

int main(int argc, char **argv)
{
    struct osb_error e = {0};
    struct osb_client *c = osb_client_new(NULL, &e); /* from the environment */
    if (!c) {
        return complain("connect", &e);
    }
    struct osb_create_opts opts = {.image = argc > 1 ? argv[1] : "host", .timeout_seconds = 300};
    struct osb_sandbox *s = osb_create(c, &opts, &e);
    if (!s) {
        osb_client_free(c);
        return complain("create", &e);
    }
    int code = operate(s);
    if (osb_kill(s, &e) < 0) { /* ends the sandbox ... */
        code = complain("kill", &e);
    }
    osb_sandbox_free(s); /* ... and the handle */
    osb_client_free(c);
    return code;
}
