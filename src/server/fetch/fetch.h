#pragma once
/* Blocking HTTP for workers, on libcurl: registries, container engines, cluster APIs.
 *
 * A handle keeps its connections between requests and belongs to one thread at a time. Only http
 * and https are spoken; redirects are followed only when asked for, never from https to http, and
 * credentials are not carried to another host. Link-local (metadata) addresses are never dialled.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct fetch;

#define FETCH_MAX_HEADERS 24

struct fetch_opts {
    const char *method; /* NULL: GET */
    const char *url;
    const char *unix_socket;                /* dial this instead of the URL's host */
    bool no_proxy;                          /* whatever the environment says about proxies */
    const char *headers[FETCH_MAX_HEADERS]; /* "Name: value", ends with NULL */
    struct str body;
    int body_fd; /* with body_len > 0: sends a file instead of `body` */
    uint64_t body_len;
    const char *user, *password; /* basic authentication */
    const char *bearer;
    const char *ca_file, *cert_file, *key_file;
    bool skip_verify;            /* only on an explicit user option */
    bool follow;                 /* redirects, at most 5 */
    uint64_t connect_timeout_ms; /* 0: 15 s */
    uint64_t total_timeout_ms;   /* 0: none; then stall_seconds is the watchdog */
    unsigned stall_seconds;      /* below 1 kB/s for so long: broken; 0: never */
    uint64_t resume_from;        /* Range: bytes=N- */
    size_t max_body;             /* of resp->body; 0: 4 MiB */
    /* Pieces of a 2xx body instead of collecting it; a negative errno stops. */
    int (*on_data)(struct str data, void *arg);
    bool (*cancelled)(void *arg); /* asked about once a second; may be NULL */
    void *arg;
};

struct fetch_resp {
    int status;
    struct buf body;
    struct buf head; /* raw header lines of the last response */
    char *url;       /* after redirects */
};

struct fetch *fetch_new(void);
void fetch_free(struct fetch *f);
/* 0 for any HTTP answer, whatever its status. -1: transport failure (ERR_UNAVAILABLE, ERR_TIMEOUT),
 * a body over the limit (ERR_LIMIT), or what on_data returned. resp is always to be ended. */
int fetch_do(struct fetch *f, const struct fetch_opts *o, struct fetch_resp *resp, struct err *e);
void fetch_resp_done(struct fetch_resp *resp);
/* Value of the first header of that name, or STR_NULL. */
struct str fetch_header(const struct fetch_resp *resp, const char *name);
