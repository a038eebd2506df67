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
#define EGRESS_OVERLAY_MS 60000u        /* between two looks at the overlay files, unasked */
#define EGRESS_OVERLAY_SETTLE_MS 50u    /* from a change in their directory to the look */
#define EGRESS_MAX_EVENTS 256           /* refusals that GET /events can show */
#define EGRESS_EVENT_REPEAT_MS 1000u    /* between two lines about the same refusal */
#define EGRESS_EVENT_LINES 50u          /* lines about refusals per second; the rest come later */
#define EGRESS_PACKET_HEAD 128          /* bytes of a refused packet that are looked at */
#define EGRESS_PACKET_BATCH 32          /* refused packets that the kernel reports at once */
#define EGRESS_PACKET_WAIT_CS 10        /* hundredths of a second that it waits for so many */
#define EGRESS_PACKET_BUFFER 65536      /* bytes of one such report */
#define EGRESS_PACKET_READS 8           /* reports per turn of the loop */
#define EGRESS_PACKET_SOCKET 262144     /* bytes of reports that may wait; more are only counted */
#define EGRESS_PACKET_SETTLE_MS 1000u   /* until what was not listed is counted */
#define EGRESS_PACKETS_PER_S 100        /* refused packets listed per destination and second */
#define EGRESS_PACKETS_ALL_PER_S 2000   /* and in all; more are only counted */
#define EGRESS_PACKET_PLACES 4096       /* destinations told apart for that */
#define EGRESS_LOG_MAX (16 << 20)       /* bytes of a log file; then the oldest lines go */
#define EGRESS_LOG_KEEP (8 << 20)       /* bytes of it that stay */
#define EGRESS_LOG_LOOK_MS 10000u       /* between two looks at its size */
#define EGRESS_SLIM_FIRST_MS 1000u      /* from the start to the giving back of memory */
#define EGRESS_SLIM_MS 5000u            /* between two looks whether some came back */
#define EGRESS_SLIM_FAULTS 64           /* page faults that are worth it */
#define EGRESS_METRICS_MS 60000u        /* between two exports of metrics */
#define EGRESS_METRICS_MIN_MS 200u      /* the least that OTEL_METRIC_EXPORT_INTERVAL can ask for */
#define EGRESS_METRICS_MAX 65536        /* bytes of one export */
#define EGRESS_MAX_WEBHOOKS 256         /* refusals waiting for the webhook; more are dropped */
#define EGRESS_WEBHOOK_TRIES 4          /* attempts to deliver one */
#define EGRESS_WEBHOOK_TIMEOUT_MS 5000u /* of each attempt */
#define EGRESS_LEARN_GRACE_S 60u        /* an address outlives the TTL of its record by so much */
#define EGRESS_LEARN_MAX_S 360u         /* and at most lives so long */
#define EGRESS_TTL_MAX_S 300u           /* TTL of answers, so that no client outlives the address */
#define DNS_MAX_FLIGHTS 256             /* lookups waiting for upstream: SERVFAIL */
#define DNS_MAX_QUERY 1232              /* bytes of a query: FORMERR */
#define DNS_UDP_MAX 1232                /* bytes of an answer over UDP, whatever the client takes */
#define DNS_CACHE_ENTRIES 2048          /* answers kept; the oldest goes */
#define DNS_CACHE_BYTES (512u << 10)    /* bytes of them */
#define DNS_CACHE_MAX_ANSWER 4096u      /* bytes of an answer that is kept */
#define DNS_MAX_CHAIN 16                /* CNAMEs followed in one answer: SERVFAIL */
#define DNS_MAX_ADDRESSES 64            /* addresses taken from one answer: SERVFAIL */
#define DNS_MAX_CLIENTS 64              /* TCP connections of the sandbox; more are closed */
#define DNS_CLIENT_QUERIES 128          /* on one TCP connection */
#define DNS_CLIENT_IDLE_MS 8000u        /* without a query on a TCP connection */
#define DNS_BATCH 32                    /* datagrams taken per system call */
#define DNS_MISS_BURST 500u             /* lookups sent upstream at once: REFUSED */
#define DNS_MISS_PER_S 100u             /* and per second in the long run */
#define DNS_BELOW_MAX_LEN 128u          /* bytes in front of a wildcard's name: denied */
#define DNS_BELOW_MAX_LABELS 10u        /* labels in front of a wildcard's name: denied */
#define DNS_PROBE_TIMEOUT_MS 2000u      /* of a look whether an upstream answers */
