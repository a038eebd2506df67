#pragma once
/* libcurl, loaded when it is first needed. It brings some twenty libraries along, and a server
 * that pulls nothing is better off without their 4 MB. */

#include <curl/curl.h>

#include "base/err.h"

/* The functions of that name without "curl_"; valid once libcurl_load() has succeeded. */
extern struct libcurl {
    typeof(curl_global_init) *global_init;
    typeof(curl_easy_init) *easy_init;
    typeof(curl_easy_cleanup) *easy_cleanup;
    typeof(curl_easy_reset) *easy_reset;
    typeof(curl_easy_setopt) *easy_setopt;
    typeof(curl_easy_getinfo) *easy_getinfo;
    typeof(curl_easy_perform) *easy_perform;
    typeof(curl_easy_strerror) *easy_strerror;
    typeof(curl_slist_append) *slist_append;
    typeof(curl_slist_free_all) *slist_free_all;
} libcurl;

/* Any thread, as often as one likes. ERR_UNSUPPORTED where it is not installed. */
int libcurl_load(struct err *e);
