#pragma once
/* Every limit of the io room. Listed in docs/limits.md. */

#define IO_ACCEPT_PER_TURN 64           /* connections taken before other events get their turn */
#define IO_ACCEPT_PAUSE_MS 100u         /* pause when descriptors run out */
#define IO_BACKLOG 1024                 /* default queue of a listening socket */
#define IO_UNIX_RETRY_MS 5u             /* between attempts to connect to a full Unix socket */
#define IO_RELAY_BUFFER (64u << 10)     /* bytes held per direction of a tunnel */
#define IO_RELAY_BULK (16u << 10)       /* one read of so much makes a tunnel go over to splice */
#define IO_RELAY_ROUNDS 4               /* fillings of the buffer per turn and direction */
#define IO_LOOP_PIPES 8                 /* empty pipes a loop keeps for tunnels */
#define IO_COPY_FILE_CHUNK (16u << 10)  /* one read where sendfile is not possible */
#define IO_POOL_RING 64                 /* queued jobs that a worker pool has room for at first */
#define IO_CHILD_STACK (64u << 10)      /* stack of a child between clone and exec */
#define IO_CHILD_MAX_CGROUPS 16         /* cgroup files a child is entered into: E2BIG */
#define IO_CHILD_MAX_PATHS 64           /* directories of PATH that are tried */
#define IO_CHILD_ASK_MS 250             /* between two questions whether a run is still wanted */
#define IO_CHILD_READ_CHUNK (16u << 10) /* one read of a blocking child's output */
#define IO_RESOLVE_MAX 8                /* addresses of one name */
#define IO_TLS_RECORD (16u << 10)       /* plaintext of one TLS record */
#define IO_TLS_READ (64u << 10)         /* sealed bytes taken from a socket at once */
#define IO_TLS_BATCH 4                  /* records that leave in one system call */
#define IO_TLS_ALPN_MAX 64              /* bytes of a protocol name */
