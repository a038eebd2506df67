#pragma once
/* Every limit of execd. Listed in docs/limits.md. */

/* Requests */
#define EXECD_MAX_BODY (16u << 20)     /* JSON request body of commands and sessions: 413 */
#define EXECD_MAX_CONNECTIONS 8192     /* open client connections: 503 */
#define EXECD_MAX_FDS 65536            /* soft limit of descriptors, if the hard one allows */
#define EXECD_POOL_THREADS 4           /* workers for blocking file work */
#define EXECD_POOL_QUEUE 512           /* jobs waiting for them: 503 */
#define EXECD_WRITE_TIMEOUT_MS 600000u /* a response that makes no progress at all is cut */

/* Event streams */
#define EXECD_PING_MS 3000u               /* keep-alive event of a stream */
#define EXECD_READ_CHUNK (64u << 10)      /* one read from a child's pipe */
#define EXECD_EVENT_BATCH (128u << 10)    /* encoded events handed to the connection at once */
#define EXECD_EVENT_TEXT_MAX (512u << 10) /* bytes of one text event; longer ones are split */

/* Commands */
#define EXECD_MAX_RUNNING 4096                  /* commands running at once: 503 */
#define EXECD_MAX_RECORDS 1000                  /* finished commands whose status is kept */
#define EXECD_RECORD_TTL_MS (24u * 3600 * 1000) /* and for how long */
#define EXECD_RECORD_CONTENT_MAX (8u << 10)     /* bytes of command text kept in a record */
#define EXECD_LOG_MAX (64u << 20)         /* newest bytes kept of a background command's output */
#define EXECD_LOGS_TOTAL_MAX (256u << 20) /* of all finished background commands together */
#define EXECD_MAX_LOGS 256                /* finished background commands whose log is kept */
#define EXECD_MAX_DRAINS 256              /* pipes of finished commands that survivors still hold */
#define EXECD_INTERRUPT_GRACE_MS 3000u    /* from SIGTERM to SIGKILL */

/* Entrypoint */
#define EXECD_ACTIVATE_MAX (2u << 20)    /* request that names it later, with its environment */
#define EXECD_ENTRY_LINE_MAX (16u << 10) /* bytes of one line in its log; longer ones are split */
#define EXECD_ENTRY_LOG_MAX (10u << 20)  /* bytes of one of its log files, unless told otherwise */

/* Sessions */
#define EXECD_MAX_SESSIONS 1024
#define EXECD_SESSION_QUEUE 64              /* runs waiting for their turn in one session */
#define EXECD_SESSION_STATE_MAX (16u << 20) /* variables, functions, ... of one session */
#define EXECD_SESSION_TIMEOUT_MS (24ull * 3600 * 1000) /* of a run that names none */

/* Code contexts */
#define EXECD_CODE_PORT 44771                /* where clients look for an interpreter */
#define EXECD_CODE_PORT_CONNECTIONS 16       /* who ask there at once: 503 */
#define EXECD_MAX_CONTEXTS 128               /* code contexts, each with a kernel: 503 */
#define EXECD_KERNEL_MESSAGE_MAX (32u << 20) /* message of a kernel; a larger one is left out */
#define EXECD_KERNEL_SEND_MAX (128u << 20)   /* bytes waiting to be sent to a kernel */
#define EXECD_KERNEL_START_MS 60000u         /* from the start of a kernel to its first answer */
#define EXECD_KERNEL_FIND_MS 25000u          /* for Jupyter to answer and to have the kernel */
#define EXECD_KERNEL_STOP_MS 2000u           /* from asking a kernel to end to SIGKILL */
#define EXECD_KERNEL_INTERRUPT_MS 5000u      /* an interrupted run that goes on is killed */
#define EXECD_KERNEL_HANG_MS 60000u /* a kernel that takes no code, or is stopped, is ended */
#define EXECD_KERNEL_IDLE_MS 10000u /* from a run's reply to the last of its output */
#define EXECD_KERNEL_TAIL 2048      /* end of a kernel's own output, for messages */
#define EXECD_COMPLAINT_MAX 8192    /* end of a run's stderr, for errors without words */
#define EXECD_JUPYTER_ANSWER_MAX (1u << 20) /* body of an answer of Jupyter's REST interface */

/* PTY */
#define EXECD_MAX_PTYS 256
#define EXECD_PTY_RING (1u << 20)        /* output kept for replay */
#define EXECD_PTY_FRAME (32u << 10)      /* output bytes in one live frame */
#define EXECD_PTY_STDIN_MAX (256u << 10) /* input waiting for the process */
#define EXECD_PTY_MESSAGE_MAX (1u << 20) /* one frame from the client */
#define EXECD_PTY_PING_MS 30000u
#define EXECD_PTY_IDLE_MS 60000u          /* no frame at all: dropped */
#define EXECD_PTY_WRITE_TIMEOUT_MS 10000u /* a client that takes nothing for so long is dropped */
#define EXECD_PTY_TTL_MS (3600u * 1000)   /* an exited, unattached session is forgotten */

/* Files read whole */
#define EXECD_PASSWD_MAX (4u << 20) /* /etc/passwd, /etc/group */
#define EXECD_ENVS_MAX (1u << 20)   /* the EXECD_ENVS file */
#define EXECD_STOP_LAST_MS 2000u    /* and from there to the end, whatever is left */
#define EXECD_STOP_GRACE_MS 5000u   /* ordered shutdown: from SIGTERM to SIGKILL */

/* Files and directories */
#define FS_PATH_MAX 4096               /* a path with its NUL: what the kernel takes in one call */
#define FS_MAX_LINKS 40                /* symbolic links followed by hand */
#define FS_WALK_MAX_NAMES (32u << 20)  /* names read ahead on the way to an entry */
#define FS_WALK_MAX_PATH (64u << 10)   /* path of an entry found by a walk */
#define FS_LIST_MAX_RESULT (32u << 20) /* JSON of a listing or search: 500 */
#define FS_COPY_MAX_DEPTH 512          /* nesting of a tree that is moved to another file system */
#define GLOB_MAX_PATTERN 1024          /* bytes of a search pattern */
#define GLOB_MAX_NESTING 16            /* groups inside groups */
#define GLOB_MAX_STEPS 200000u         /* spent on one name, so that no pattern can hold a worker */

/* Uploads and downloads */
#define UPLOAD_MAX_PAIRS 10000          /* files in one request */
#define UPLOAD_MAX_HELD 64              /* complete files held back until the end of the request */
#define UPLOAD_MAX_METADATA (64u << 10) /* bytes of one metadata part */
#define UPLOAD_BATCH (512u << 10)       /* bytes given to a worker at once */
#define UPLOAD_BATCH_MAX (1u << 20) /* a batch, one more read, and metadata, which is never cut */
#define DOWNLOAD_LINE_CHUNK (256u << 10) /* read at once in line mode */
#define DOWNLOAD_SPECIAL_MAX (4u << 20)  /* of a file that says it is empty and is not (/proc) */

/* Metrics */
#define METRICS_SAMPLE_MS 5000u       /* between CPU samples kept for later */
#define METRICS_MIN_SPAN_MS 1000u     /* shortest span over which CPU use is told */
#define METRICS_WATCH_MS 1000u        /* between objects of /metrics/watch */
#define METRICS_MAX_FILE (256u << 10) /* of a cgroup or /proc file */

/* Telemetry */
#define TELEMETRY_PERIOD_MS 60000u    /* between exports (OTEL_METRIC_EXPORT_INTERVAL) */
#define TELEMETRY_TIMEOUT_MS 10000u   /* for one export */
#define TELEMETRY_MAX_SERIES 512      /* combinations of attributes; further ones are not counted */
#define TELEMETRY_MAX_BODY (2u << 20) /* JSON of one export */
#define LOOKUP_TIMEOUT_MS 2000u       /* for an answer of one name server */
