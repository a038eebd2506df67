#pragma once
/* Domain names and patterns: "example.com" (exact), "*.example.com" (any depth below, not itself),
 * "*" (everything). Compared without case and without a final dot. */
#include "base/str.h"
#include <stdbool.h>
#define DOMAIN_MAX 253
bool domain_valid(struct str s); /* LDH labels and '_', 1..63 each */
bool domain_pattern_valid(struct str s);
bool domain_match(struct str pattern, struct str name);
/* Lower case, no final dot; -EINVAL when not valid. */
int domain_normalize(struct str s, char out[DOMAIN_MAX + 1]);
/* Of a rule: "name" or "*.name", in normal form and without the "*." in `out`. -EINVAL for what can
 * match nothing, such as "1.2.3" and "01.2.3.4": typos of addresses, since no top-level domain is a
 * number. */
int domain_target(struct str s, char out[DOMAIN_MAX + 1], bool *ret_below);
