/* Access token check. */

#include "execd/auth.h"

#include "execd/reply.h"

#define REASON "Unauthorized: invalid or missing header " AUTH_HEADER

bool auth_check(struct http_req *req, struct str token)
{
    if (token.n == 0 || str_eq_consttime(http_req_header(req, STR(AUTH_HEADER)), token)) {
        return true;
    }
    /* Published clients look for "error"; "code" and "message" are for everything newer. */
    http_resp_send(
        req, 401, JSON_CTYPE,
        STR("{\"error\":\"" REASON "\",\"code\":\"UNAUTHORIZED\",\"message\":\"" REASON "\"}"));
    return false;
}
