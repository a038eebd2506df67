#pragma once
/* The distribution API of one registry, for one repository: manifests and blobs, down and up.
 * Blocking; a handle belongs to one thread (registry_clone() for another). */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "server/image/ref.h"

struct registry;

struct registry_opts {
    const char *user, *password; /* NULL: anonymous */
    const char *ca_file;
    bool plain_http; /* http instead of https; implied for loopback registries */
    bool skip_verify;
    const char *mirror; /* "http[s]://host[:port]" asked instead of the registry's own address */
};

typedef bool registry_cancel_fn(void *arg);

struct registry *registry_open(const struct image_ref *ref, const struct registry_opts *o);
struct registry *registry_clone(const struct registry *r);
void registry_free(struct registry *r);
void registry_on_cancel(struct registry *r, registry_cancel_fn *fn, void *arg);

struct registry_manifest {
    struct buf body;
    char media_type[128];
    char digest[IMAGE_DIGEST_MAX]; /* computed from the body */
};
/* `reference` is a tag or a digest; with a digest the body is verified against it. */
int registry_get_manifest(struct registry *r, const char *reference, struct registry_manifest *ret,
                          struct err *e);
void registry_manifest_done(struct registry_manifest *m);

/* Small blobs (image configs) into memory, verified. */
int registry_get_blob(struct registry *r, const char *digest, struct buf *out, struct err *e);
/* A layer into `fd`, which may already hold its first bytes from a broken attempt: goes on from
 * there, retries, verifies the digest of the whole. `size` is what the manifest claims; more is an
 * error at once. on_bytes is told each piece. */
int registry_fetch_blob(struct registry *r, const char *digest, uint64_t size, int fd,
                        void (*on_bytes)(uint64_t n, void *arg), void *arg, struct err *e);

/* Uploads, skipping blobs the registry has. */
int registry_put_blob(struct registry *r, const char *digest, int fd, uint64_t size, struct err *e);
int registry_put_manifest(struct registry *r, const char *reference, const char *media_type,
                          struct str body, struct err *e);
