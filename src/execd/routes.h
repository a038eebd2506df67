#pragma once
/* All handlers of execd, by the file that holds them. The table is in routes.c. */

#include "http/server.h"

extern const struct http_route execd_routes[];

/* routes_misc.c */
void route_ping(struct http_req *req);

/* routes_command.c */
void route_command_run(struct http_req *req);
void route_command_status(struct http_req *req);
void route_command_logs(struct http_req *req);
void route_interrupt(struct http_req *req);

/* The same with a body that is there already. */
void command_run_body(struct http_req *req, struct str body);

/* routes_code.c */
void route_code_run(struct http_req *req);
void route_context_create(struct http_req *req);
void route_context_list(struct http_req *req);
void route_context_get(struct http_req *req);
void route_context_delete(struct http_req *req);
void route_contexts_delete(struct http_req *req);

/* routes_session.c */
void route_session_create(struct http_req *req);
void route_session_run(struct http_req *req);
void route_session_delete(struct http_req *req);

/* routes_pty.c */
void route_pty_create(struct http_req *req);
void route_pty_status(struct http_req *req);
void route_pty_delete(struct http_req *req);
void route_pty_connect(struct http_req *req);
