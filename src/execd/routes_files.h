#pragma once
/* Handlers of /files and /directories. */

#include "http/server.h"

void files_info(struct http_req *req, struct http_reply *reply);
void files_delete(struct http_req *req, struct http_reply *reply);
void files_permissions(struct http_req *req, struct http_reply *reply);
void files_move(struct http_req *req, struct http_reply *reply);
void files_search(struct http_req *req, struct http_reply *reply);
void files_replace(struct http_req *req, struct http_reply *reply);
void files_upload(struct http_req *req);
void files_download(struct http_req *req);

void directories_list(struct http_req *req, struct http_reply *reply);
void directories_create(struct http_req *req, struct http_reply *reply);
void directories_delete(struct http_req *req, struct http_reply *reply);
