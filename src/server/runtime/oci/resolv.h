#pragma once
/* Name servers for sandboxes: those of the configuration, else the host's upstream ones. A server
 * on the host's loopback cannot be reached from a sandbox and is left out. */

#include <stddef.h>

#include "base/str.h"
#include "net/cidr.h"

/* Up to `max` usable servers out of the text of a resolv.conf. Pure. */
size_t resolv_parse(struct str text, struct ip *out, size_t max);
/* The host's: /etc/resolv.conf, or the upstreams behind a local stub. */
size_t resolv_host(struct ip *out, size_t max);
