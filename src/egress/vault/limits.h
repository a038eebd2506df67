#pragma once
/* Every limit of the credential vault. Listed in docs/limits.md. */

#define VAULT_MAX_BODY (1u << 20)   /* body of a request: 413 */
#define VAULT_MAX_CREDENTIALS 1024  /* in one vault: 400 */
#define VAULT_MAX_BINDINGS 256      /* in one vault: 400 */
#define VAULT_MAX_VALUE (16u << 10) /* bytes of one secret: 400 */
#define VAULT_MAX_NAME 256          /* bytes of a name: 400 */
#define VAULT_MAX_LIST 64           /* hosts, methods, paths of one binding: 400 */
#define VAULT_MAX_TEXT 2048         /* bytes of a host, method, path or header name: 400 */
#define VAULT_MAX_HEADERS 32        /* headers that one binding adds: 400 */
#define VAULT_MAX_SUBSTITUTIONS 32  /* of one binding: 400 */
#define VAULT_MIN_PLACEHOLDER 4     /* bytes; shorter ones would hit by accident: 400 */
#define VAULT_MAX_PLACEHOLDER 256   /* bytes: 400 */
#define VAULT_KEEP_SLOT (1u << 20)  /* bytes of a whole vault as it is kept over a crash: 400 */
