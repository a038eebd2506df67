#include "execd/upload_parts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "execd/fs_path.h"
#include "execd/fs_perm.h"
#include "execd/fs_writer.h"
#include "execd/limits.h"
#include "execd/reply.h"

struct pair {
    struct arena arena;
    bool has_meta, has_file, open; /* open: the writer is in use */
    struct file_upload meta;
    const char *abs;
    struct fs_owner_mode om;
    struct fs_writer writer;
    int spool_fd; /* the file came first: its bytes, else -1 */
    struct upload_error error;
};

struct upload_set {
    struct pair **pairs; /* NULL once in place */
    size_t n, cap;
    size_t n_meta, n_file; /* parts seen */
    size_t next;           /* first pair that is not in place */
    struct pair *current;  /* file being received */
    struct passwd_db db;
    bool has_db;
    struct upload_error error;
};

static void fail(struct upload_error *e, int status, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void fail(struct upload_error *e, int status, const char *code, const char *fmt, ...)
{
    if (e->status) {
        return; /* the first one counts */
    }
    e->status = status;
    e->code = code;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
    va_end(ap);
}

struct upload_set *upload_set_new(void)
{
    return NEW(struct upload_set);
}

static void pair_free(struct pair *p)
{
    if (!p) {
        return;
    }
    if (p->open) {
        fs_writer_abort(&p->writer);
    }
    if (p->spool_fd >= 0) {
        (void)close(p->spool_fd);
    }
    arena_done(&p->arena);
    free(p);
}

void upload_set_free(struct upload_set *s)
{
    if (!s) {
        return;
    }
    for (size_t i = 0; i < s->n; i++) {
        pair_free(s->pairs[i]);
    }
    free(s->pairs);
    if (s->has_db) {
        passwd_done(&s->db);
    }
    free(s);
}

static struct pair *pair_at(struct upload_set *s, size_t i)
{
    if (i >= UPLOAD_MAX_PAIRS) {
        fail(&s->error, 400, CODE_INVALID_FILE, "more than %u files in one request",
             UPLOAD_MAX_PAIRS);
        return NULL;
    }
    if (i >= s->cap) {
        s->cap = s->cap ? s->cap * 2 : 8;
        s->pairs = xreallocarray(s->pairs, s->cap, sizeof(s->pairs[0]));
    }
    while (s->n <= i) {
        s->pairs[s->n] = NEW(struct pair);
        s->pairs[s->n++]->spool_fd = -1;
    }
    return s->pairs[i];
}

int upload_meta_parse(struct arena *a, struct str json, struct file_upload *ret,
                      struct upload_error *ret_error)
{
    struct err e = {0};
    cleanup_(json_free) struct json *tree = json_parse(json, &e);
    if (!tree ||
        (!json_is_null(tree) && json_decode(a, &file_upload_table, tree, ret, NULL, &e) < 0)) {
        fail(ret_error, 400, CODE_INVALID_FILE_METADATA, "invalid metadata format. %s", e.msg);
        return -1;
    }
    if (json_is_null(tree) || !ret->path || !*ret->path) {
        fail(ret_error, 400, CODE_INVALID_FILE_METADATA, "metadata path is empty");
        return -1;
    }
    return 0;
}

/* Opens the temporary file beside the target. */
static void pair_open(struct pair *p)
{
    struct err e = {0};
    int r = fs_make_parents(&p->arena, p->abs, 0777);
    if (r < 0) {
        (void)err_sys(&e, r, "%s", p->abs);
        fail(&p->error, 500, CODE_RUNTIME_ERROR, "error creating target directory of %s. %s",
             p->abs, e.msg);
        return;
    }
    if (fs_writer_open(&p->writer, &p->arena, p->abs, &e) < 0) {
        fail(&p->error, 500, CODE_RUNTIME_ERROR, "error opening destination file %s. %s", p->abs,
             e.msg);
        return;
    }
    p->open = true;
}

static void copy_failed(struct pair *p, int error)
{
    struct err e = {0};
    (void)err_sys(&e, error, "write");
    fail(&p->error, 500, CODE_RUNTIME_ERROR, "error copying file %s. %s", p->abs ? p->abs : "",
         e.msg);
    if (p->open) { /* a full disk is to be freed at once */
        fs_writer_abort(&p->writer);
        p->open = false;
    }
}

/* The file was here before its metadata. */
static void pair_unspool(struct pair *p)
{
    pair_open(p);
    if (p->open) {
        int r =
            lseek(p->spool_fd, 0, SEEK_SET) < 0 ? -errno : fs_copy_data(p->spool_fd, p->writer.fd);
        if (r < 0) {
            copy_failed(p, r);
        }
    }
    (void)close(p->spool_fd);
    p->spool_fd = -1;
}

static void pair_commit(struct pair *p)
{
    struct err e = {0};
    if (p->error.status) {
        return;
    }
    p->open = false;
    if (fs_writer_commit(&p->writer, &p->om, &e) < 0) {
        fail(&p->error, 500, CODE_RUNTIME_ERROR, "error writing file %s. %s", p->abs, e.msg);
    }
}

static bool is_complete(const struct upload_set *s, const struct pair *p)
{
    return p->has_meta && p->has_file && p != s->current;
}

/* Puts complete pairs into place, in order, until `keep` are left. */
static void commit_oldest(struct upload_set *s, size_t keep)
{
    while (!s->error.status && s->next < s->n && s->n - s->next > keep) {
        struct pair *p = s->pairs[s->next];
        if (!is_complete(s, p)) {
            return;
        }
        pair_commit(p);
        s->error = p->error;
        s->pairs[s->next++] = NULL;
        pair_free(p);
    }
}

/* A failed pair ends the upload as soon as all pairs before it are complete. */
static void check_failed(struct upload_set *s)
{
    for (size_t i = s->next; i < s->n && !s->error.status; i++) {
        const struct pair *p = s->pairs[i];
        if (p->error.status) {
            commit_oldest(s, s->n - i);
            fail(&s->error, p->error.status, p->error.code, "%s", p->error.msg);
            return;
        }
        if (!is_complete(s, p)) {
            return;
        }
    }
}

void upload_set_meta(struct upload_set *s, struct str json)
{
    struct pair *p = s->error.status ? NULL : pair_at(s, s->n_meta);
    if (!p) {
        return;
    }
    s->n_meta++;
    p->has_meta = true;
    if (!s->has_db) {
        passwd_load(&s->db);
        s->has_db = true;
    }
    struct err e = {0};
    if (upload_meta_parse(&p->arena, json, &p->meta, &p->error) == 0) {
        const struct file_permission perm = {p->meta.owner, p->meta.group, p->meta.mode};
        p->abs = fs_path_resolve(&p->arena, str_from(p->meta.path), &e);
        if (!p->abs) {
            fail(&p->error, 500, CODE_RUNTIME_ERROR, "error resolving target path %s. %s",
                 p->meta.path, e.msg);
        } else if (fs_perm_parse(&s->db, &perm, &p->om, &e) < 0) {
            fail(&p->error, 500, CODE_RUNTIME_ERROR, "error chmoding file %s. %s", p->abs, e.msg);
        } else if (p->has_file) {
            pair_unspool(p);
        }
    }
    check_failed(s);
}

void upload_set_file_begin(struct upload_set *s)
{
    struct pair *p = s->error.status ? NULL : pair_at(s, s->n_file);
    if (!p) {
        return;
    }
    s->n_file++;
    s->current = p;
    if (p->has_meta) {
        if (!p->error.status) {
            pair_open(p);
        }
    } else if (s->n_file - s->n_meta > UPLOAD_MAX_HELD) {
        fail(&s->error, 400, CODE_INVALID_FILE, "more than %u files before their metadata",
             UPLOAD_MAX_HELD);
    } else {
        p->spool_fd = fs_temp_open();
        if (p->spool_fd < 0) {
            copy_failed(p, p->spool_fd);
        }
    }
    check_failed(s);
}

void upload_set_file_data(struct upload_set *s, struct str data)
{
    struct pair *p = s->current;
    if (!p || p->error.status || s->error.status) {
        return;
    }
    int r = fd_write_full(p->open ? p->writer.fd : p->spool_fd, data.p, data.n);
    if (r < 0) {
        copy_failed(p, r);
        check_failed(s);
    }
}

void upload_set_file_end(struct upload_set *s)
{
    struct pair *p = s->current;
    s->current = NULL;
    if (p) {
        p->has_file = true;
        check_failed(s);
        commit_oldest(s, UPLOAD_MAX_HELD);
    }
}

void upload_set_finish(struct upload_set *s)
{
    if (s->error.status) {
        return;
    }
    if (s->n_meta == 0) {
        fail(&s->error, 400, CODE_INVALID_FILE_METADATA, "metadata file is missing");
    } else if (s->n_file == 0) {
        fail(&s->error, 400, CODE_INVALID_FILE_CONTENT, "file is missing");
    } else if (s->n_meta != s->n_file) {
        fail(&s->error, 400, CODE_INVALID_FILE, "metadata and file count mismatch: %zu vs %zu",
             s->n_meta, s->n_file);
    } else {
        commit_oldest(s, 0);
    }
}

const struct upload_error *upload_set_error(const struct upload_set *s)
{
    return s->error.status ? &s->error : NULL;
}
