/* Ranges, validators and conditional requests. */

#include <sys/stat.h>

#include "harness.h"
#include "http/file.h"

static void test_range(void **state)
{
    static const struct {
        const char *value;
        int result;
        uint64_t start, len;
    } cases[] = {
        {"bytes=0-0", 1, 0, 1},
        {"bytes=0-99", 1, 0, 100},
        {"bytes=10-19", 1, 10, 10},
        {"Bytes=10-19", 1, 10, 10},
        {"bytes=99-99", 1, 99, 1},
        {"bytes=90-200", 1, 90, 10},
        {"bytes=5-", 1, 5, 95},
        {"bytes=-1", 1, 99, 1},
        {"bytes=-100", 1, 0, 100},
        {"bytes=-500", 1, 0, 100},
        {"bytes=0-99999999999999999999999", 1, 0, 100},
        {"bytes=-99999999999999999999999", 1, 0, 100},
        {"bytes=100-", -ERANGE, 0, 0},
        {"bytes=100-200", -ERANGE, 0, 0},
        {"bytes=99999999999999999999999-", -ERANGE, 0, 0},
        {"bytes=-0", -ERANGE, 0, 0},
        {"bytes=10-9", 0, 0, 0},
        {"bytes=-", 0, 0, 0},
        {"bytes=", 0, 0, 0},
        {"bytes=5", 0, 0, 0},
        {"bytes=a-b", 0, 0, 0},
        {"bytes=1-2-3", 0, 0, 0},
        {"bytes=+1-2", 0, 0, 0},
        {"bytes=1 -2", 0, 0, 0},
        {"bytes=0-1,5-6", 0, 0, 0},
        {"items=0-1", 0, 0, 0},
        {"", 0, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_range r = {0};
        int result = http_range_parse(str_from(cases[i].value), 100, &r);
        if (result != cases[i].result || r.start != cases[i].start || r.len != cases[i].len) {
            fail_msg("%s: %d, %ju+%ju", cases[i].value, result, (uintmax_t)r.start,
                     (uintmax_t)r.len);
        }
    }
    struct http_range r;
    assert_int_equal(http_range_parse(STR("bytes=0-"), 0, &r), -ERANGE);
    assert_int_equal(http_range_parse(STR("bytes=-5"), 0, &r), -ERANGE);
    assert_int_equal(http_range_parse(STR("bytes=0-"), UINT64_MAX, &r), 1);
    assert_true(r.len == UINT64_MAX);
}

static char path[] = "/tmp/osb-test-file-XXXXXX";

static void get_file(struct http_req *req)
{
    fx_track(req);
    http_resp_header(req, STR("X-Extra"), STR("1"));
    http_resp_file(req, open(path, O_RDONLY | O_CLOEXEC), "text/plain");
}

static void get_dir(struct http_req *req)
{
    fx_track(req);
    http_resp_file(req, open("/tmp", O_RDONLY | O_CLOEXEC | O_DIRECTORY), NULL);
}

static const struct http_route routes[] = {
    {"*", "/file", HTTP_STREAM, .stream = get_file},
    {"GET", "/dir", HTTP_STREAM, .stream = get_dir},
    {0},
};

static void write_file(const char *text)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    struct timespec t[2] = {{1000000000, 0}, {1000000000, 5}};
    must(futimens(fd, t) == 0 && close(fd) == 0);
}

static int setup(void **state)
{
    int fd = mkstemp(path);
    must(fd >= 0 && close(fd) == 0);
    write_file("0123456789");
    fx_start(&(struct http_server_opts){.routes = routes});
    return 0;
}

static int teardown(void **state)
{
    fx_stop();
    must(unlink(path) == 0);
    memset(path + strlen(path) - 6, 'X', 6);
    return 0;
}

/* GET /file with one header line more. */
static char *get(const char *name, const char *value)
{
    char text[512];
    (void)snprintf(text, sizeof(text), REQ("GET", "/file", "%s%s%s%s"), name, *name ? ": " : "",
                   value, *name ? "\r\n" : "");
    return fx_talk(str_from(text), NULL);
}

static void expect(const char *name, const char *value, int status, const char *body)
{
    char *out = get(name, value);
    assert_int_equal(fx_status(out), status);
    assert_string_equal(strstr(out, "\r\n\r\n") + 4, body);
    free(out);
}

static void field(const char *response, const char *name, char *out, size_t max)
{
    const char *p = strstr(response, name);
    assert_non_null(p);
    p += strlen(name) + 2;
    (void)snprintf(out, max, "%.*s", (int)(strstr(p, "\r\n") - p), p);
}

static void test_whole(void **state)
{
    char *out = get("", "");
    assert_int_equal(fx_status(out), 200);
    assert_non_null(strstr(out, "Content-Length: 10\r\n"));
    assert_non_null(strstr(out, "Accept-Ranges: bytes\r\n"));
    assert_non_null(strstr(out, "Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT\r\n"));
    assert_non_null(strstr(out, "X-Extra: 1\r\n"));
    assert_non_null(strstr(out, "\r\n\r\n0123456789"));
    free(out);
    out = fx_talk(LIT(REQ("HEAD", "/file", "Range: bytes=0-1\r\n")), NULL);
    assert_int_equal(fx_status(out), 200); /* a range is for GET only */
    assert_non_null(strstr(out, "Content-Length: 10\r\n"));
    free(out);
    write_file("");
    expect("", "", 200, "");
    expect("Range", "bytes=0-", 416, "");
    fx_expect(LIT(REQ("GET", "/dir", "")), 500, false, NULL);
}

static void test_ranges(void **state)
{
    expect("Range", "bytes=2-4", 206, "234");
    expect("Range", "bytes=7-", 206, "789");
    expect("Range", "bytes=-2", 206, "89");
    expect("Range", "bytes=0-0,2-3", 200, "0123456789");
    char *out = get("Range", "bytes=2-40");
    assert_non_null(strstr(out, "Content-Range: bytes 2-9/10\r\n"));
    free(out);
    out = get("Range", "bytes=10-");
    assert_int_equal(fx_status(out), 416);
    assert_non_null(strstr(out, "Content-Range: bytes */10\r\n"));
    free(out);
}

static void test_conditions(void **state)
{
    char etag[64], weak[80], line[256];
    char *out = get("", "");
    field(out, "ETag", etag, sizeof(etag));
    free(out);
    (void)snprintf(weak, sizeof(weak), "\"x\", W/%s", etag);
    expect("If-None-Match", etag, 304, "");
    expect("If-None-Match", weak, 304, "");
    expect("If-None-Match", "*", 304, "");
    expect("If-None-Match", "\"x\"", 200, "0123456789");
    expect("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT", 304, "");
    expect("If-Modified-Since", "Sun, 09 Sep 2001 01:46:39 GMT", 200, "0123456789");
    expect("If-Modified-Since", "yesterday", 200, "0123456789");
    (void)snprintf(line, sizeof(line), "%s\r\nRange: bytes=0-1", etag);
    expect("If-Range", line, 206, "01");
    expect("If-Range", "\"x\"\r\nRange: bytes=0-1", 200, "0123456789");
    expect("If-Range", "Sun, 09 Sep 2001 01:46:40 GMT\r\nRange: bytes=0-1", 206, "01");
    expect("If-Range", "Sun, 09 Sep 2001 01:46:41 GMT\r\nRange: bytes=0-1", 200, "0123456789");
    write_file("0123456788x");
    expect("If-None-Match", etag, 200, "0123456788x");
    out = get("If-None-Match", "*");
    assert_non_null(strstr(out, "ETag: "));
    assert_null(strstr(out, "Content-Length"));
    free(out);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range),
        T(test_whole),
        T(test_ranges),
        T(test_conditions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
