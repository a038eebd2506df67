#pragma once
/* The sockets of the DNS proxy: UDP and TCP, IPv4 and IPv6, towards the sandbox; upstream sockets
 * are in dns_upstream.c. */

#include "base/err.h"
#include "egress/policy.h"

struct dns_server;
struct egress;
struct resolver;

struct dns_server *dns_server_new(struct egress *g, struct err *e);
void dns_server_free(struct dns_server *d);
struct resolver *dns_server_resolver(struct dns_server *d);
/* A question of our own over the real socket: whether somebody answers there. */
int dns_server_check(struct dns_server *d, struct err *e);
