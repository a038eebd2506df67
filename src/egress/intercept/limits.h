#pragma once
/* Every limit of the interceptor. Listed in docs/limits.md. */

#define INTERCEPT_MAX_CONNECTIONS 2048        /* at once, if memory allows; more are reset */
#define INTERCEPT_MIN_CONNECTIONS 16          /* opened at once, however little memory there is */
#define INTERCEPT_MEMORY_MAX (128u << 20)     /* bytes reckoned with; control groups may say less */
#define INTERCEPT_MEMORY_OWN (24u << 20)      /* of them for the rest of the sidecar */
#define INTERCEPT_TUNNEL_BYTES (16u << 10)    /* price of a tunnel; half of the rest pays these */
#define INTERCEPT_OPEN_BYTES (64u << 10)      /* price of an opened connection; more are reset */
#define INTERCEPT_UPGRADED_BYTES (256u << 10) /* price of an opened one that became a tunnel */
#define INTERCEPT_TURN_BYTES (320u << 10)     /* buffers of one under way; the rest waits */
#define INTERCEPT_MAX_LEAVES 64               /* certificates kept ready; the least used goes */
#define INTERCEPT_LEAF_DAYS 7                 /* a certificate is valid for so long */
#define INTERCEPT_LEAF_FRESH_MS 86400000u     /* and used for so long */
#define INTERCEPT_CA_DAYS 3650                /* the authority of a sandbox */
#define INTERCEPT_BUFFER (64u << 10)          /* bytes held per direction of an exchange */
#define INTERCEPT_SUBST_COLLECT                                                                    \
    (64u << 10)                     /* bodies with placeholders: up to this with a length          \
                                     */
#define INTERCEPT_PEEK_MS 3000u     /* for the first bytes of a connection; then spliced */
#define INTERCEPT_SETUP_MS 15000u   /* connect and handshakes: 504 */
#define INTERCEPT_FIRST_MS 4000u    /* of it for an address whose name has another to try */
#define INTERCEPT_IDLE_MS 600000u   /* between two requests */
#define INTERCEPT_STALL_MS 3600000u /* without a byte inside an exchange or a tunnel */
#define INTERCEPT_LINGER_MS 1000u   /* reading on after a refusal, so that it arrives */
