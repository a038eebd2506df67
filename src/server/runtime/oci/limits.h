#pragma once
/* Every limit of the embedded runtime that is not a key of [oci]. Listed in docs/limits.md. */

#define OCI_LAYERS_MAX 128u             /* layers of one image */
#define OCI_BINDS_MAX 80u               /* host paths and volumes bound into one sandbox */
#define OCI_STATE_MAX (1u << 20)        /* bytes of a sandbox's state.json */
#define OCI_CONFIG_MAX (4u << 20)       /* bytes of a generated config.json */
#define OCI_SECCOMP_MAX (1u << 20)      /* bytes of a seccomp profile given as a file */
#define OCI_ENGINE_LOG_TAIL 2048u       /* bytes of the engine's messages kept for an error */
#define OCI_LOGS_MAX (8u << 20)         /* bytes that one reading of logs returns */
#define OCI_HEADROOM_MEMORY (48u << 20) /* bytes execd may use beyond the sandbox's limit */
#define OCI_HEADROOM_PIDS 64u           /* tasks execd may have beyond the sandbox's limit */
#define OCI_RUNSC_PIDS_EACH 3u          /* host threads runsc may have for each task inside */
#define OCI_RUNSC_PIDS_OWN 512u         /* and for itself */
#define OCI_MEMORY_MIN (6u << 20)       /* bytes: a smaller memory limit is refused */
#define OCI_CPU_MIN_MILLIS 10u          /* thousandths of a core: a smaller limit is refused */
#define OCI_PIDS_MIN 4u                 /* tasks: a smaller limit is refused */
#define OCI_DISK_MIN (16u << 20)        /* bytes: a smaller writable layer is refused */
#define OCI_DISK_MAX (1ull << 44)       /* bytes: the largest writable layer */
#define OCI_DISK_RESERVE (256u << 20)   /* bytes left free on the host: creates are refused below */
#define OCI_DISK_TEMPLATES 32u          /* sizes of writable layers kept as templates */
#define OCI_FREEZE_WAIT_MS 5000u        /* for every task of a sandbox to stop */
#define OCI_KILL_WAIT_MS 10000u         /* for every task of a sandbox to be gone after SIGKILL */
#define OCI_ENGINE_WAIT_MS 10000u       /* for the engine to end once its sandbox answers */
#define OCI_NETNS_QUARANTINE_MS 10000u  /* before a used network namespace is handed out again */
#define OCI_NETNS_RECYCLE_MAX 256u      /* used network namespaces kept for another sandbox */
#define OCI_UPLINKS_LOOK_MS 10000u      /* between two looks for links that must forward IPv6 too */
#define OCI_SPARE_HOMES 8u              /* directories with a writable layer kept ready */
#define OCI_SPARE_USERNS 8u             /* user namespaces kept ready */
#define OCI_OSSFS_TIMEOUT_MS 30000u     /* for a bucket to be mounted */
#define OCI_RESOLVERS_MAX 3u            /* name servers in a sandbox's resolv.conf */
#define COPY_DEPTH_MAX 512u             /* directories in one another that a snapshot takes along */
#define COPY_PATH_MAX 16384u            /* bytes of a path that a snapshot takes along */
#define OCI_ACTIVATE_MAX (2u << 20)     /* bytes execd is told when a warm sandbox is given away */
#define OCI_ACTIVATE_WAIT_S 5           /* for its answer */
#define OCI_EGRESS_PORT 18080           /* of a sandbox with a policy: its sidecar's API */
#define OCI_EGRESS_START_MS 30000u      /* for an egress sidecar to be ready */
#define OCI_EGRESS_MEMORY (128u << 20)  /* bytes an egress sidecar may use */
#define OCI_EGRESS_PIDS 32u             /* tasks it may have */
