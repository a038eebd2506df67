#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "mcp/schema.h"
#include "mcp/tool.h"

static const char schema_text[] =
    "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"s\"],\"properties\":{"
    "\"s\":{\"type\":\"string\",\"minLength\":1},"
    "\"n\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":10,\"default\":5},"
    "\"i\":{\"type\":\"integer\",\"minimum\":-1,\"maximum\":9},"
    "\"b\":{\"type\":\"boolean\",\"default\":false},"
    "\"e\":{\"type\":\"string\",\"enum\":[\"x\",\"y\"]},"
    "\"o\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"default\":null},"
    "\"m\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},"
    "\"l\":{\"type\":\"array\",\"maxItems\":2,\"items\":{\"type\":\"object\",\"required\":[\"p\"],"
    "\"properties\":{\"p\":{\"type\":\"string\"},\"q\":{\"type\":\"integer\",\"default\":7}}}}}}";

static void check(const char *text, const char *want, const char *complaint)
{
    struct err e = {0};
    cleanup_(json_free) struct json *schema = json_parse(str_from(schema_text), NULL);
    cleanup_(json_free) struct json *value = json_parse(str_from(text), NULL);
    assert_non_null(schema);
    assert_non_null(value);
    cleanup_(json_free) struct json *got = schema_fit(schema, value, &e);
    if (complaint) {
        assert_null(got);
        assert_int_equal(e.code, ERR_INVALID);
        assert_true(str_starts(str_from(e.msg), str_from(complaint)));
        return;
    }
    assert_non_null(got);
    cleanup_(json_free) struct json *expected = json_parse(str_from(want), NULL);
    assert_true(json_eq(got, expected));
}

static void fits(void **state)
{
    check("{\"s\":\"a\"}", "{\"s\":\"a\",\"n\":5,\"b\":false,\"o\":null}", NULL);
    check("{\"s\":\"a\",\"n\":\"2.5\",\"i\":3.0,\"b\":\"true\",\"o\":null,\"e\":\"y\"}",
          "{\"s\":\"a\",\"n\":2.5,\"i\":3,\"b\":true,\"o\":null,\"e\":\"y\"}", NULL);
    check("{\"s\":\"a\",\"m\":{\"k\":\"v\"},\"l\":[{\"p\":\"x\"}]}",
          "{\"s\":\"a\",\"n\":5,\"b\":false,\"o\":null,\"m\":{\"k\":\"v\"},\"l\":[{\"p\":\"x\","
          "\"q\":7}]}",
          NULL);
}

static void refuses(void **state)
{
    check("[]", NULL, "expected an object");
    check("{}", NULL, "s: is required");
    check("{\"s\":\"\"}", NULL, "s: must not be empty");
    check("{\"s\":null}", NULL, "s: expected a string");
    check("{\"s\":\"a\",\"n\":0}", NULL, "n: out of range");
    check("{\"s\":\"a\",\"n\":\"1e999\"}", NULL, "n: expected a number");
    check("{\"s\":\"a\",\"i\":1.5}", NULL, "i: expected an integer");
    check("{\"s\":\"a\",\"i\":1e300}", NULL, "i: ");
    check("{\"s\":\"a\",\"b\":1}", NULL, "b: expected true or false");
    check("{\"s\":\"a\",\"e\":\"z\"}", NULL, "e: must be one of");
    check("{\"s\":\"a\",\"o\":3}", NULL, "o: expected a string");
    check("{\"s\":\"a\",\"m\":{\"k\":1}}", NULL, "m.k: expected a string");
    check("{\"s\":\"a\",\"l\":[{\"p\":\"x\"},{}]}", NULL, "l[1].p: is required");
    check("{\"s\":\"a\",\"l\":[{\"p\":\"x\"},{\"p\":\"x\"},{\"p\":\"x\"}]}", NULL,
          "l: too many items");
    check("{\"s\":\"a\",\"zz\":1}", NULL, "zz: no such argument; there are s n i");
}

/* What clients are shown is JSON, and every tool can be found. */
static void tools(void **state)
{
    static const char *const all[] = {"all", NULL};
    struct mcp m = {.toolsets = all};
    for (const struct tool_text *t = tool_texts; t->name; t++) {
        cleanup_(json_free) struct json *j = json_parse(str_from(t->text), NULL);
        cleanup_(json_free) struct json *in = json_parse(str_from(t->input), NULL);
        assert_non_null(j);
        assert_non_null(in);
        assert_true(json_eq(json_get(j, "inputSchema"), in));
        assert_non_null(tool_find(&m, t->name));
        assert_true(toolset_known(t->toolset));
    }
    assert_null(tool_find(&m, "nothing"));
    assert_string_equal(tool_nearest(&m, "file_reed"), "file_read");
    assert_null(tool_nearest(&m, "something else entirely"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fits), cmocka_unit_test(refuses),
                                       cmocka_unit_test(tools)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
