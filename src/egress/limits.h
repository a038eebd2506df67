#pragma once
/* Every limit of the egress sidecar. Listed in docs/limits.md. */

#define EGRESS_MAX_BODY (1u << 20)      /* body of an API request: 413 */
#define EGRESS_MAX_RULES 4096           /* default of OPENSANDBOX_EGRESS_MAX_RULES: 413 */
#define EGRESS_MAX_TARGET 512           /* bytes of one target of a rule: 400 */
#define EGRESS_MAX_OVERLAY (1u << 20)   /* bytes of an overlay file */
#define EGRESS_MAX_ROUTES 64            /* routes of the API with all its parts */
#define EGRESS_MAX_PARTS 4              /* parts beside policy and DNS */
#define EGRESS_MAX_REDIRECTS 16         /* TCP ports that are handed to the interceptor */
#define EGRESS_MAX_LEARNED 4096         /* (address, name) pairs remembered; the oldest goes */
#define EGRESS_MAX_SCRIPT (4u << 20)    /* bytes of one nftables transaction */
#define EGRESS_MAX_API_CONNECTIONS 128  /* of the API: 503 */
#define EGRESS_OVERLAY_MS 60000u        /* between two looks at the overlay files */
#define EGRESS_MAX_EVENTS 256           /* refusals that GET /events can show */
#define EGRESS_MAX_WEBHOOKS 256         /* refusals waiting for the webhook; more are dropped */
#define EGRESS_WEBHOOK_TRIES 4          /* attempts to deliver one */
#define EGRESS_WEBHOOK_TIMEOUT_MS 5000u /* of each attempt */
#define EGRESS_LEARN_GRACE_S 60u        /* an address outlives the TTL of its record by so much */
#define EGRESS_LEARN_MAX_S 360u         /* and at most lives so long */
#define EGRESS_TTL_MAX_S 300u           /* TTL of answers, so that no client outlives the address */
