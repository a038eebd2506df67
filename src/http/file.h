#pragma once
/* Files as responses: Range (single and open-ended, suffix), If-Range, If-None-Match and
 * If-Modified-Since, HEAD, sendfile. */

#include <stdint.h>

#include "base/str.h"
#include "http/server.h"

struct http_range {
    uint64_t start, len;
};
/* "bytes=a-b", "bytes=a-", "bytes=-n" against a file of `size` bytes. 1: satisfiable, in *ret. 0:
 * no or unusable Range (several ranges, other unit): send everything. -ERANGE: answer 416. */
int http_range_parse(struct str value, uint64_t size, struct http_range *ret);
/* Answers with the file behind take_fd (a regular file). Extra headers were set before by
 * http_resp_header(). */
void http_resp_file(struct http_req *req, int take_fd, const char *ctype);
