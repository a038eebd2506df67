#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "cli/arg.h"

static const struct cli_opt opts[] = {
    {.name = "image", .letter = 'i', .type = ARG_TEXT},
    {.name = "env", .letter = 'e', .type = ARG_PAIR, .many = true},
    {.name = "port", .letter = 'p', .type = ARG_INT, .min = 1, .max = 65535},
    {.name = "watch", .letter = 'w', .type = ARG_FLAG},
    {.name = "quiet", .letter = 'q', .type = ARG_FLAG},
    {.name = "proxy", .type = ARG_SWITCH},
    OPT_OUTPUT("table|json"),
    {0},
};
static const struct cli_cmd one = {.name = "one", .opts = opts, .args = {"ID", "[REST]..."}};
static const struct cli_cmd exact = {.name = "exact", .opts = opts, .args = {"ID", "[NAME]"}};
static const struct cli_cmd line = {
    .name = "line", .opts = opts, .args = {"ID", "[WORDS]..."}, .verbatim_after = 2};
static const struct cli_cmd *const subs[] = {&one, &exact, NULL};
static const struct cli_cmd group = {.name = "group", .opts = opts, .subs = subs};

#define PARSE(cmd, ret, ...)                                                                       \
    ({                                                                                             \
        static char *argv_[] = {__VA_ARGS__, NULL};                                                \
        args_parse((cmd), argv_, (int)ARRAY_LEN(argv_) - 1, (ret));                                \
    })

static void interspersed(void **state)
{
    struct args a;
    assert_int_equal(PARSE(&one, &a, (char *)(uintptr_t) "--image=x", (char *)(uintptr_t) "id",
                           (char *)(uintptr_t) "-p80", (char *)(uintptr_t) "-wq",
                           (char *)(uintptr_t) "-e",
                           (char *)(uintptr_t) "A=", (char *)(uintptr_t) "-eB=2=3",
                           (char *)(uintptr_t) "--", (char *)(uintptr_t) "-p"),
                     0);
    assert_string_equal(arg_get(&a, "image"), "x");
    assert_int_equal(arg_int(&a, "port", 0), 80);
    assert_true(arg_has(&a, "watch") && arg_has(&a, "quiet"));
    cleanup_free const char **env = arg_list(&a, "env");
    assert_string_equal(env[0], "A=");
    assert_string_equal(env[1], "B=2=3");
    assert_null(env[2]);
    assert_int_equal(a.n_pos, 2);
    assert_string_equal(a.pos[1], "-p");
    assert_null(a.pos[2]);
    args_done(&a);
}

static int parse_line(const struct cli_cmd *cmd, const char *text, struct args *a)
{
    static char copy[512];
    static char *argv[32];
    int n = 0;
    struct str rest = str_from(text);
    size_t used = 0;
    while (rest.p) {
        struct str w = str_cut(&rest, ' ');
        argv[n++] = copy + used;
        must(str_to_cstr(w, copy + used, sizeof(copy) - used) == 0);
        used += w.n + 1;
    }
    return args_parse(cmd, argv, n, a);
}

static void messages(void **state)
{
    static const struct {
        const struct cli_cmd *cmd;
        const char *line, *message;
    } cases[] = {
        {&one, "--imgae x", "No such option: --imgae Did you mean --image?"},
        {&one, "--zzzzz", "No such option: --zzzzz"},
        {&one, "-z", "No such option: -z"},
        {&one, "id -p", "Option '-p' requires an argument."},
        {&one, "id --port", "Option '--port' requires an argument."},
        {&one, "id --watch=1", "Option '--watch' does not take a value."},
        {&one, "id -p 0", "Invalid value for '-p' / '--port': 0 is not in the range 1<=x<=65535."},
        {&one, "id -p x", "Invalid value for '-p' / '--port': 'x' is not a valid integer."},
        {&one, "id -o xml",
         "Invalid value for '-o' / '--output': 'xml' is not one of 'table', 'json'."},
        {&one, "id -e A", "Invalid value for '-e' / '--env': 'A' is not KEY=VALUE."},
        {&one, "-w", "Missing argument 'ID'."},
        {&exact, "a b c", "Got unexpected extra argument (c)"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct args a;
        assert_int_equal(parse_line(cases[i].cmd, cases[i].line, &a), -1);
        assert_string_equal(a.message, cases[i].message);
        args_done(&a);
    }
}

static void switches_and_groups(void **state)
{
    struct args a;
    assert_int_equal(parse_line(&one, "id --proxy --no-proxy", &a), 0);
    assert_string_equal(arg_get(&a, "proxy"), "0");
    args_done(&a);
    assert_int_equal(parse_line(&group, "-w one -p 99999999", &a), 0);
    assert_int_equal(a.used, 1);
    args_done(&a);
    assert_int_equal(parse_line(&one, "-h", &a), 0);
    assert_true(a.help);
    args_done(&a);
    assert_int_equal(parse_line(&line, "-w id ls -l --zz", &a), 0);
    assert_int_equal(a.n_pos, 4);
    assert_string_equal(a.pos[3], "--zz");
    args_done(&a);
    assert_ptr_equal(cmd_find(&group, "exact"), &exact);
    assert_string_equal(cmd_nearest(&group, "exat"), "exact");
    assert_null(cmd_nearest(&group, "banana"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interspersed),
        cmocka_unit_test(messages),
        cmocka_unit_test(switches_and_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
