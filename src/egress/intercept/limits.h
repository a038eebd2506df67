#pragma once
/* Every limit of the interceptor. Listed in docs/limits.md. */

#define INTERCEPT_MAX_CONNECTIONS 2048    /* at once; more are reset */
#define INTERCEPT_MAX_LEAVES 64           /* certificates kept ready; the least used goes */
#define INTERCEPT_LEAF_DAYS 7             /* a certificate is valid for so long */
#define INTERCEPT_LEAF_FRESH_MS 86400000u /* and used for so long */
#define INTERCEPT_CA_DAYS 3650            /* the authority of a sandbox */
#define INTERCEPT_BUFFER (64u << 10)      /* bytes held per direction of an exchange */
#define INTERCEPT_SUBST_COLLECT                                                                    \
    (64u << 10)                     /* bodies with placeholders up to this keep a length           \
                                     */
#define INTERCEPT_PEEK_MS 3000u     /* for the first bytes of a connection; then spliced */
#define INTERCEPT_SETUP_MS 15000u   /* connect and handshakes: 504 */
#define INTERCEPT_IDLE_MS 600000u   /* between two requests */
#define INTERCEPT_STALL_MS 3600000u /* without a byte inside an exchange or a tunnel */
#define INTERCEPT_LINGER_MS 1000u   /* reading on after a refusal, so that it arrives */
