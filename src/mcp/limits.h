#pragma once
/* Every limit of the MCP server. Listed in docs/limits.md. */

#define MCP_MAX_MESSAGE (16u << 20) /* one JSON-RPC message that is read: refused, or 413 */
#define MCP_MAX_REPLY (64u << 20)   /* one JSON-RPC message that is sent: an error instead */
#define MCP_MAX_BATCH 64            /* messages in one batch (protocol 2025-03-26) */
#define MCP_MAX_CALLS 128           /* tool calls at the same time: more are refused */
#define MCP_MAX_ID 256              /* bytes of a request id that is a string */
#define MCP_MAX_SANDBOXES 4096      /* known sandboxes; the one unused for longest is forgotten */
#define MCP_MAX_OUTPUT                                                                             \
    (4u << 20)                  /* output of one command that is returned; the rest is counted     \
                                 */
#define MCP_MAX_LINES 100000    /* lines of one command that are returned */
#define MCP_MAX_FILE (8u << 20) /* bytes of a file that file_read returns at once */
#define MCP_MAX_SESSIONS 1024   /* sessions over HTTP at the same time: 503 */
#define MCP_MAX_STREAMS 8       /* open GET streams of one session: 409 */
#define MCP_MAX_ORIGINS 32      /* --allow-origin and --allow-host, each */
#define MCP_SESSION_IDLE_MS 3600000u /* a session over HTTP without a request is forgotten */
#define MCP_KEEPALIVE_MS 15000u      /* between two comments on an open stream */
#define MCP_END_GRACE_MS 2000u       /* for calls to finish after the end of standard input */
#define MCP_PROGRESS_EVERY_MS 250u   /* between two progress messages of a running command */
