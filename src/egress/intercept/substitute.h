#pragma once
/* Placeholders in a request become secrets: in its path, its query, its header values and its body.
 * Each place has its own encoding, so that a value can never become syntax. */

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"
#include "egress/vault/vault.h"

enum subst_encoding {
    SUBST_RAW,
    SUBST_PERCENT, /* path, query, form bodies */
    SUBST_JSON,    /* inside a JSON string */
};

bool subst_wanted(const struct vault_binding *b, unsigned surface);
/* Appends `in` with every placeholder for that surface replaced. The buffer's maximum decides how
 * large the result may be: look at buf_failed(). Returns how many were replaced. */
size_t subst_text(const struct vault_binding *b, unsigned surface, enum subst_encoding enc,
                  struct str in, struct buf *out);
/* By Content-Type; false: bodies of this type are left alone (multipart, compressed). */
bool subst_body_encoding(struct str content_type, struct str content_encoding,
                         enum subst_encoding *ret);

/* A body in pieces: what could be the beginning of a placeholder is held back. */
struct subst_stream {
    const struct vault_binding *binding;
    enum subst_encoding enc;
    struct buf held;
};
void subst_stream_init(struct subst_stream *s, const struct vault_binding *b,
                       enum subst_encoding enc);
void subst_stream_done(struct subst_stream *s);
void subst_stream_feed(struct subst_stream *s, struct str in, bool is_last, struct buf *out);
