#pragma once
/* Terminal sessions: a shell on a PTY (or on three pipes), its output kept for replay, and at most
 * one client on a WebSocket.
 *
 * The process starts with the first client and lives on without one; when it has ended, the next
 * client starts a new one in the same session, and the offsets go on. A client that does not read
 * pauses the process; one that reads nothing for EXECD_PTY_WRITE_TIMEOUT_MS is dropped. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "execd/execd.h"
#include "execd/ring.h"
#include "http/ws.h"
#include "io/child.h"
#include "io/timer.h"

struct pty;

/* One direction from the process. A PTY has only the first, which is also its input. */
struct pty_out {
    struct pty *pty;
    struct io_stream *s;
    char channel; /* PTY_STDOUT or PTY_STDERR */
    size_t left;  /* after the exit: bytes in the pipe that are still the process's own */
};

struct pty {
    struct list node;
    struct execd *x;
    char id[UUID_LEN + 1];
    char *cwd, *command; /* may be NULL */
    struct ring ring;
    bool deleted; /* not in the table any more; freed when the process has ended */
    uint64_t idle_since_ms;

    /* the process; child is NULL when none runs */
    struct io_child *child;
    bool is_tty;
    struct pty_out out[2];
    struct io_stream *in; /* pipe mode: its stdin, NULL once closed */
    struct buf in_queue;  /* input it has not taken yet */
    bool in_eof;          /* close its stdin when the queue is empty */
    bool exited;
    int exit_code;
    struct io_timer settle; /* after the exit: survivors hold the terminal, wait for silence */

    /* the client */
    struct ws_conn *client;
    bool blocked; /* it has enough queued */
    bool input_paused;
    struct io_timer stuck;
};

struct pty_table {
    struct execd *x;
    struct map by_id;
    struct list all;
    struct io_timer sweep;
};

struct pty_table *pty_table_new(struct execd *x);
void pty_table_free(struct pty_table *t);
struct pty *pty_find(struct execd *x, struct str id);
struct pty *pty_new(struct execd *x, const char *cwd, const char *command, struct err *e);
/* Kills the process; the session is gone for everybody at once. */
void pty_delete(struct pty *p);
/* `signo` (0: none) to every process. Returns how many there are. */
size_t pty_signal_all(struct execd *x, int signo);

/* ---- process (pty_process.c) ---- */
void pty_process_init(struct pty *p);
/* 0 or -errno. */
int pty_start(struct pty *p, bool tty);
/* Reads, or does not while the client is blocked. */
void pty_resume_output(struct pty *p);
/* Input for the process. False: enough is waiting, pause the client until pty_client_input_room().
 */
bool pty_write_input(struct pty *p, struct str data);
void pty_close_input(struct pty *p);
void pty_signal(struct pty *p, int signo);
void pty_process_done(struct pty *p); /* frees what belongs to the process */

/* ---- client (pty_client.c) ---- */
void pty_client_init(struct pty *p);
/* Upgrades the request and attaches. The caller has checked that nobody else is there, or wants to
 * take over. */
void pty_attach(struct pty *p, struct http_req *req, bool tty, uint64_t since);
/* A piece of output: frame[0] is room for the channel byte. */
void pty_client_output(struct pty *p, char channel, char *frame, size_t len);
void pty_client_input_failed(struct pty *p, int error);
void pty_client_input_room(struct pty *p);
/* The process is over: tells and closes. */
void pty_client_exit(struct pty *p);
void pty_client_drop(struct pty *p, unsigned code, struct str reason);

/* ---- for all three ---- */
void pty_free(struct pty *p);
/* Frees a deleted session once nothing is left of it, and notes since when it is idle. */
void pty_maybe_free(struct pty *p);
