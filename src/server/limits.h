#pragma once
/* Every limit of the server room that is not a key of the configuration. Listed in docs/limits.md.
 */

#define IMAGE_NEWS_MS 100               /* between two lines about a pull */
#define IMAGE_PIECE_MAX (4u << 20)      /* bytes of an archive between two writes */
#define IMAGE_CHUNK (128u << 10)        /* bytes of an exported image on their way */
#define IMAGE_IMPORT_MAX (256ull << 30) /* bytes of an archive to be imported */
#define PROGRESS_INTERVAL_MS 250u       /* between two updates of what a create shows of a pull */
#define MALLOC_MAP_BYTES (128 << 10) /* buffers from this size on go back to the system at once */
#define CONFIG_FILE_MAX (1u << 20)   /* bytes of the configuration file */
#define CREATE_BODY_MAX (1u << 20)   /* bytes of a create request: 413 */
#define API_BODY_MAX (1u << 20)      /* bytes of any other request: 413 */
#define CREATE_ENV_MAX 1024u         /* environment entries of one sandbox */
#define CREATE_METADATA_MAX 256u     /* metadata entries of one sandbox */
#define CREATE_ENTRYPOINT_MAX 1024u  /* arguments of one entrypoint */
#define CREATE_VOLUMES_MAX 64u       /* volumes of one sandbox */
#define CREATE_SPEC_MAX                                                                            \
    (256u << 10)                 /* bytes of environment and entrypoint together: E2BIG inside */
#define IDEMPOTENCY_KEY_MAX 255u /* bytes of an Idempotency-Key */
#define REQUEST_ID_MAX 128u      /* bytes of an X-Request-ID that is echoed */
#define API_QUEUE_MAX 4096u      /* API calls waiting for a worker: 503 */
#define SNAPSHOT_THREADS 2u      /* snapshots taken at once */
#define SNAPSHOT_QUEUE_MAX 1024u /* and waiting: 503 */
#define FETCH_THREADS 32u        /* creates that fetch their image at once */
#define MAINT_THREADS 4u         /* removals by expiry and reconcile at once */
#define MAINT_QUEUE_MAX 65536u   /* and waiting */
#define PAGE_SIZE_MAX 200        /* entries of one page */
#define PAGE_SIZE_DEFAULT 20
#define OP_WAIT_MS 30000u     /* waiting for another operation on the same sandbox: 409 */
#define EXPIRY_TICK_MS 1000u  /* longest sleep of the expiry timer: notices clock jumps */
#define EXPIRY_RETRY_MS 5000u /* after a removal that failed, doubled up to the next */
#define EXPIRY_RETRY_MAX_MS 60000u
#define RECONCILE_INTERVAL_MS 60000u /* sweep for what belongs to nobody */
#define FAILED_CREATE_KEEP_S 3600    /* how long a create that failed after its 202 stays listed */
#define CLOCK_JUMP_US 2000000        /* wall clock against monotonic: reported */
#define EVENTS_PER_SANDBOX 1000u     /* kept in the store */
#define EVENTS_PRUNE_ROWS 5000u      /* deleted in one transaction */
#define DIAG_LOG_MAX (8u << 20)      /* bytes of one diagnostics answer */
#define DIAG_TAIL_MAX 10000
#define DIAG_EVENTS_MAX 500
#define RENEW_QUEUE_MAX 8192u /* sandboxes with a renew intent waiting */
#define RENEW_INTENT_MAX_AGE_S 300
#define REDIS_WAIT_S 5
#define REDIS_PAYLOAD_MAX (64u << 10)
#define SHUTDOWN_DRAIN_MS 5000u /* for requests in flight at SIGTERM */
#define PORT_WAIT_MS 2000u      /* for a port that a crashed server still holds */
#define KEY_MIN 8u              /* shortest configured API key */
#define POOLS_MAX 256u          /* warm pools */
#define POOL_THREADS 2u         /* members made at once, of different pools */
#define POOL_QUIET_MS 250u      /* without a create before a pool that has enough gets more */
#define POOL_YIELD_MS 5u        /* and before one that has too few does */
#define POOL_YIELD_MAX_MS 100u  /* but not longer than this */
#define POOL_RETRY_MS 1000u     /* after a member could not be made, doubled up to the next */
#define POOL_RETRY_MAX_MS 60000u
#define POOL_TEMPLATE_MAX (512u << 10) /* bytes of a template */
