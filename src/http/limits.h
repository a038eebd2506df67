#pragma once
/* Every limit of the HTTP room. Listed in docs/limits.md. */

#define HTTP_MAX_HEAD (64u << 10)       /* request or response head, bytes: 431 */
#define HTTP_MAX_TARGET (32u << 10)     /* request target: 414 */
#define HTTP_MAX_HEADERS 128            /* header lines: 431 */
#define HTTP_MAX_WORK_BODY (4u << 20)   /* default for collected bodies: 413 */
#define HTTP_MAX_CHUNK_EXT 256          /* bytes of extension per chunk line */
#define HTTP_MAX_TRAILER (8u << 10)     /* bytes of trailers, which are dropped */
#define HTTP_MAX_METHOD 32              /* bytes: 501 */
#define HTTP_MAX_PIPELINE 64            /* requests answered per turn of the loop */
#define HTTP_READ_CHUNK (64u << 10)     /* one read from a socket */
#define HTTP_OUT_HIGH (256u << 10)      /* response bytes queued before the producer must wait */
#define HTTP_OUT_LOW (64u << 10)        /* and below which it may go on */
#define HTTP_OUT_MAX (64u << 20)        /* queued by a handler that does not wait: cut off */
#define HTTP_MAX_REPLY (64u << 20)      /* whole answer of a worker: 500 */
#define HTTP_MAX_DISPATCH 8             /* local dispatches of one request: 500 */
#define HTTP_MAX_CONNECTIONS 20000      /* default, per loop: 503 */
#define HTTP_MAX_REFUSING 256           /* beyond it, still told 503; more are cut off */
#define HTTP_MAX_FREE_REQUESTS 64       /* request objects kept for reuse, per loop */
#define HTTP_MAX_SSE_FRAME (64u << 20)  /* one event that is sent */
#define HTTP_HEAD_TIMEOUT_MS 15000u     /* from the first byte of a head to its end: 408 */
#define HTTP_IDLE_TIMEOUT_MS 75000u     /* keep-alive without a request */
#define HTTP_BODY_TIMEOUT_MS 60000u     /* without a byte of an expected body: 408 */
#define HTTP_WRITE_TIMEOUT_MS 60000u    /* without progress of a queued response */
#define HTTP_CONNECT_TIMEOUT_MS 5000u   /* upstream connect */
#define HTTP_LINGER_MS 1000u            /* draining an unread body before closing */
#define HTTP_MAX_DRAIN (256u << 10)     /* unread body bytes dropped to keep a connection */
#define HTTP_POOL_IDLE_MS 30000u        /* kept-alive upstream connections */
#define HTTP_POOL_MAX_IDLE 64           /* per target */
#define HTTP_CALL_MAX_HEAD (128u << 10) /* head of a request that the client sends */
#define HTTP_CALL_MAX_OUT (64u << 20)   /* body queued by one that does not wait: -ENOBUFS */
#define HTTP_MAX_FREE_CALLS 64          /* call objects of the client kept for reuse, per loop */
#define HTTP_PROXY_MAX_ADD 32           /* headers a proxy adds to a message */
#define HTTP_WS_MAX_MESSAGE (16u << 20) /* default for one message: close code 1009 */
#define HTTP_WS_MAX_HEADERS 64          /* given to a WebSocket client for its handshake */
#define HTTP_WS_MAX_QUEUE (64u << 20)   /* queued by one that does not wait: refused */
#define HTTP_WS_MAX_EARLY (128u << 10)  /* bytes read behind the handshake */
#define HTTP_WS_CLOSE_MS 2000u          /* for the peer's part of the close handshake */
#define HTTP_MULTIPART_MAX_HEAD (16u << 10) /* headers of one part: malformed */
