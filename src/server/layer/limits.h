#pragma once
/* Limits of opensandbox-layer. Listed in docs/limits.md. */

#define LAYER_MAX_MEMORY (2ull << 30) /* bytes of address space of opensandbox-layer */
#define LAYER_MAX_FDS 512             /* descriptors of opensandbox-layer */
