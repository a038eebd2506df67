#pragma once
/* specs/sandbox-lifecycle.yml as JSON, put in at build time by tools/embed_spec.c. */
#include <stddef.h>
extern const char spec_lifecycle[];
extern const size_t spec_lifecycle_len;
