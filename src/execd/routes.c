/* The one route table. */

#include "execd/routes.h"

#include "execd/limits.h"
#include "execd/routes_files.h"
#include "execd/routes_metrics.h"
#include "execd/routes_proxy.h"

const struct http_route execd_routes[] = {
    {"GET", "/ping", HTTP_STREAM, .stream = route_ping},

    {"POST", "/command", HTTP_STREAM, .stream = route_command_run},
    {"DELETE", "/command", HTTP_STREAM, .stream = route_interrupt},
    {"GET", "/command/status/{id}", HTTP_STREAM, .stream = route_command_status},
    {"GET", "/command/{id}/logs", HTTP_STREAM, .stream = route_command_logs},

    {"POST", "/code", HTTP_STREAM, .stream = route_code_run},
    {"DELETE", "/code", HTTP_STREAM, .stream = route_interrupt},
    {"POST", "/code/context", HTTP_STREAM, .stream = route_context_create},
    {"GET", "/code/contexts", HTTP_STREAM, .stream = route_context_list},
    {"DELETE", "/code/contexts", HTTP_STREAM, .stream = route_contexts_delete},
    {"GET", "/code/contexts/{id}", HTTP_STREAM, .stream = route_context_get},
    {"DELETE", "/code/contexts/{id}", HTTP_STREAM, .stream = route_context_delete},

    {"POST", "/session", HTTP_STREAM, .stream = route_session_create},
    {"POST", "/session/{id}/run", HTTP_STREAM, .stream = route_session_run},
    {"DELETE", "/session/{id}", HTTP_STREAM, .stream = route_session_delete},

    {"POST", "/pty", HTTP_STREAM, .stream = route_pty_create},
    {"GET", "/pty/{id}", HTTP_STREAM, .stream = route_pty_status},
    {"DELETE", "/pty/{id}", HTTP_STREAM, .stream = route_pty_delete},
    {"GET", "/pty/{id}/ws", HTTP_STREAM, .stream = route_pty_connect},

    {"GET", "/files/info", HTTP_WORK, .work = files_info},
    {"DELETE", "/files", HTTP_WORK, .work = files_delete},
    {"POST", "/files/permissions", HTTP_WORK, .work = files_permissions},
    {"POST", "/files/mv", HTTP_WORK, .work = files_move},
    {"GET", "/files/search", HTTP_WORK, .work = files_search},
    {"POST", "/files/replace", HTTP_WORK, .work = files_replace, .max_body = EXECD_MAX_BODY},
    {"POST", "/files/upload", HTTP_STREAM, .stream = files_upload},
    {"GET", "/files/download", HTTP_STREAM, .stream = files_download},
    {"GET", "/directories/list", HTTP_WORK, .work = directories_list},
    {"POST", "/directories", HTTP_WORK, .work = directories_create},
    {"DELETE", "/directories", HTTP_WORK, .work = directories_delete},

    {"GET", "/metrics", HTTP_STREAM, .stream = metrics_get},
    {"GET", "/metrics/watch", HTTP_STREAM, .stream = metrics_watch},

    {"*", "/proxy/{rest...}", HTTP_STREAM, .stream = proxy_any},

    {0},
};
