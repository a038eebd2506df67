#pragma once
/* The packets that the rules refused, one by one: reads what the kernel logs to our group and
 * passes each on as a refusal. Only tells; nothing is decided here. */

#include "base/err.h"

struct egress;
struct packets;

#define PACKETS_INVALID "invalid" /* prefix of rules for packets that belong to nothing */

/* -1: the kernel cannot log, or somebody else has the group: rules must not name it then. */
struct packets *packets_new(struct egress *g, struct err *e);
void packets_free(struct packets *k);
