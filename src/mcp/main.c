/* opensandbox-mcp: sandboxes as tools for language models. */

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "io/addr.h"
#include "mcp/mcp.h"
#include "mcp/tool.h"

static const char usage[] =
    "Usage: opensandbox-mcp [OPTIONS]\n"
    "\n"
    "An MCP server: sandboxes as tools for language models.\n"
    "\n"
    "Options:\n"
    "  --transport stdio|streamable-http  How clients talk to it. [default: stdio]\n"
    "  --host ADDRESS                     HTTP: listen here. [default: 127.0.0.1]\n"
    "  --port PORT                        HTTP: and on this port; 0 takes a free one. [default: "
    "8000]\n"
    "  --allow-origin ORIGIN              HTTP: web pages that may use it, beside those of this\n"
    "                                     machine. May be given again.\n"
    "  --allow-host HOST                  HTTP: names it may be called by. May be given again.\n"
    "  --auth-token TOKEN                 HTTP: bearer token that clients must send; better in\n"
    "                                     OPENSANDBOX_MCP_TOKEN.\n"
    "  --no-auth                          HTTP: listen to other machines without a token.\n"
    "  --toolset NAME[,NAME...]           Tools to offer: core, lifecycle, code, session, "
    "snapshot,\n"
    "                                     egress, logs, all. May be given again. [default: core]\n"
    "  --api-key KEY                      Key of the server; better in OPEN_SANDBOX_API_KEY.\n"
    "  --domain HOST[:PORT]|URL           The server. [env OPEN_SANDBOX_DOMAIN; localhost:8080]\n"
    "  --protocol http|https              Unless the domain says it. [default: http]\n"
    "  --request-timeout-seconds SECONDS  Of one request to the server. [default: 30]\n"
    "  --use-server-proxy                 Reach sandboxes through the server.\n"
    "  --ca-file FILE                     Certificates to trust.\n"
    "  --version                          Print the version.\n"
    "  -h, --help                         Print this.\n";

#define MAX_TOOLSETS 16

struct options {
    struct osb_config config;
    struct http_opts http;
    bool is_http, no_auth;
    const char *toolsets[MAX_TOOLSETS + 1];
    size_t n_toolsets;
    const char *origins[MCP_MAX_ORIGINS + 1], *hosts[MCP_MAX_ORIGINS + 1];
    size_t n_origins, n_hosts;
};

enum {
    OPT_TRANSPORT = 256,
    OPT_HOST,
    OPT_PORT,
    OPT_ORIGIN,
    OPT_ALLOW_HOST,
    OPT_TOKEN,
    OPT_NO_AUTH,
    OPT_TOOLSET,
    OPT_KEY,
    OPT_DOMAIN,
    OPT_PROTOCOL,
    OPT_TIMEOUT,
    OPT_PROXY,
    OPT_CA,
    OPT_VERSION
};

static const struct option long_options[] = {
    {"transport", required_argument, NULL, OPT_TRANSPORT},
    {"host", required_argument, NULL, OPT_HOST},
    {"port", required_argument, NULL, OPT_PORT},
    {"allow-origin", required_argument, NULL, OPT_ORIGIN},
    {"allow-host", required_argument, NULL, OPT_ALLOW_HOST},
    {"auth-token", required_argument, NULL, OPT_TOKEN},
    {"no-auth", no_argument, NULL, OPT_NO_AUTH},
    {"toolset", required_argument, NULL, OPT_TOOLSET},
    {"api-key", required_argument, NULL, OPT_KEY},
    {"domain", required_argument, NULL, OPT_DOMAIN},
    {"protocol", required_argument, NULL, OPT_PROTOCOL},
    {"request-timeout-seconds", required_argument, NULL, OPT_TIMEOUT},
    {"use-server-proxy", no_argument, NULL, OPT_PROXY},
    {"ca-file", required_argument, NULL, OPT_CA},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int complain(const char *what, const char *value)
{
    (void)fprintf(stderr, "opensandbox-mcp: %s: %s\nTry 'opensandbox-mcp --help'.\n", what, value);
    return 2;
}

static int add(const char **list, size_t *n, size_t max, const char *value)
{
    if (*n == max) {
        return complain("too many of one option", value);
    }
    list[(*n)++] = value;
    return 0;
}

/* Cuts `names` at its commas, in place. */
static int add_toolsets(struct options *o, char *names)
{
    for (char *name = names; name;) {
        char *comma = strchr(name, ',');
        if (comma) {
            *comma++ = '\0';
        }
        if (!toolset_known(name)) {
            return complain("there is no such toolset", name);
        }
        if (add(o->toolsets, &o->n_toolsets, MAX_TOOLSETS, name)) {
            return 2;
        }
        name = comma;
    }
    return 0;
}

static int set_timeout(struct options *o, const char *text)
{
    double s;
    if (parse_double(str_from(text), &s) < 0 || s <= 0 || s > 86400) {
        return complain("--request-timeout-seconds is not a number of seconds", text);
    }
    o->config.request_timeout_ms = (uint64_t)(s * 1000);
    return 0;
}

static int set_transport(struct options *o, const char *text)
{
    o->is_http = strcmp(text, "streamable-http") == 0 || strcmp(text, "http") == 0;
    return o->is_http || strcmp(text, "stdio") == 0
               ? 0
               : complain("--transport is stdio or streamable-http, not", text);
}

static int set_port(struct options *o, const char *text)
{
    return strcmp(text, "0") == 0                          ? (int)(o->http.port = 0)
           : parse_port(str_from(text), &o->http.port) < 0 ? complain("not a port", text)
                                                           : 0;
}

static int set_protocol(struct options *o, const char *text)
{
    o->config.protocol = text;
    return strcmp(text, "http") == 0 || strcmp(text, "https") == 0
               ? 0
               : complain("--protocol is http or https, not", text);
}

/* 0: go on; else the exit code + 1. */
static int set_option(struct options *o, int opt, char *value)
{
    int r = 0;
    switch (opt) {
    case OPT_TRANSPORT:
        r = set_transport(o, value);
        break;
    case OPT_HOST:
        o->http.host = value;
        break;
    case OPT_PORT:
        r = set_port(o, value);
        break;
    case OPT_ORIGIN:
        r = add(o->origins, &o->n_origins, MCP_MAX_ORIGINS, value);
        break;
    case OPT_ALLOW_HOST:
        r = add(o->hosts, &o->n_hosts, MCP_MAX_ORIGINS, value);
        break;
    case OPT_TOKEN:
        o->http.token = value;
        break;
    case OPT_NO_AUTH:
        o->no_auth = true;
        break;
    case OPT_TOOLSET:
        r = add_toolsets(o, value);
        break;
    case OPT_KEY:
        o->config.api_key = value;
        break;
    case OPT_DOMAIN:
        o->config.domain = value;
        break;
    case OPT_PROTOCOL:
        r = set_protocol(o, value);
        break;
    case OPT_TIMEOUT:
        r = set_timeout(o, value);
        break;
    case OPT_PROXY:
        o->config.use_server_proxy = true;
        break;
    case OPT_CA:
        o->config.ca_file = value;
        break;
    case OPT_VERSION:
        (void)printf("opensandbox-mcp, version %s\n", OSB_VERSION);
        return 1;
    case 'h':
        (void)fputs(usage, stdout);
        return 1;
    default:
        (void)fputs("Try 'opensandbox-mcp --help'.\n", stderr);
        return 3;
    }
    return r ? r + 1 : 0;
}

static int parse_options(struct options *o, int argc, char **argv)
{
    int opt, r;
    o->http = (struct http_opts){.host = "127.0.0.1", .port = 8000};
    while ((opt = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if ((r = set_option(o, opt, optarg))) {
            return r;
        }
    }
    if (optind < argc) {
        return complain("unexpected argument", argv[optind]) + 1;
    }
    if (o->n_toolsets == 0) {
        o->toolsets[o->n_toolsets++] = "core";
    }
    const char *token = getenv("OPENSANDBOX_MCP_TOKEN");
    o->http.token = o->http.token ? o->http.token : token && token[0] ? token : NULL;
    o->http.origins = o->origins;
    o->http.hosts = o->hosts;
    struct io_addr a;
    if (o->is_http && io_addr_ip(str_from(o->http.host), o->http.port, &a) < 0) {
        return complain("--host is not an address", o->http.host) + 1;
    }
    if (o->is_http && !io_addr_is_loopback(&a) && !o->http.token && !o->no_auth) {
        return complain("everybody who reaches this address could use your sandboxes; set "
                        "OPENSANDBOX_MCP_TOKEN, or say --no-auth",
                        o->http.host) +
               1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct osb_error why = {0};
    struct err e = {0};
    struct mcp m;
    int r = parse_options(&o, argc, argv);
    if (r) {
        return r - 1;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    log_init(LOG_WARN, LOG_HUMAN, STDERR_FILENO);
    o.config.user_agent = "opensandbox-mcp/" OSB_VERSION;
    struct osb_client *c = osb_client_new(&o.config, &why);
    if (!c) {
        (void)fprintf(stderr, "opensandbox-mcp: %s\n", why.message);
        return 2;
    }
    mcp_init(&m, c, o.toolsets);
    r = o.is_http ? http_serve(&m, &o.http, &e) : stdio_serve(&m, STDIN_FILENO, STDOUT_FILENO);
    if (r < 0) {
        (void)fprintf(stderr, "opensandbox-mcp: %s\n", e.msg);
        r = 1;
    }
    if (!mcp_wait_idle(&m, 0)) {
        _exit(r); /* a call that cannot be canceled: it must not see things freed under it */
    }
    mcp_done(&m);
    return r;
}
