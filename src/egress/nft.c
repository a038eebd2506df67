/* The one door to netfilter. */

#include "egress/nft.h"

#include <nftables/libnftables.h>

#include "base/must.h"

struct nft {
    struct nft_ctx *ctx;
};

static int wake(struct nft *n, struct err *e)
{
    if (n->ctx) {
        return 0;
    }
    n->ctx = nft_ctx_new(NFT_CTX_DEFAULT);
    if (!n->ctx) {
        return err_set(e, ERR_UNSUPPORTED, "nftables: no context (is CAP_NET_ADMIN missing?)");
    }
    (void)nft_ctx_buffer_output(n->ctx);
    (void)nft_ctx_buffer_error(n->ctx);
    nft_ctx_output_set_flags(n->ctx, NFT_CTX_OUTPUT_NUMERIC_ALL);
    return 0;
}

struct nft *nft_new(struct err *e)
{
    struct nft *n = NEW(struct nft);
    if (wake(n, e) < 0) {
        free(n);
        return NULL;
    }
    return n;
}

void nft_rest(struct nft *n)
{
    if (n->ctx) {
        nft_ctx_free(n->ctx);
        n->ctx = NULL;
    }
}

void nft_free(struct nft *n)
{
    if (n) {
        nft_rest(n);
        free(n);
    }
}

int nft_ask(struct nft *n, const char *text, struct buf *out, struct err *e)
{
    if (wake(n, e) < 0) {
        return -1;
    }
    int r = nft_run_cmd_from_buffer(n->ctx, text);
    /* Asking for the buffers also empties them for the next command. */
    const char *said = nft_ctx_get_output_buffer(n->ctx);
    const char *why = nft_ctx_get_error_buffer(n->ctx);
    if (r != 0) {
        size_t len = why ? strcspn(why, "\n") : 0;
        return err_set(e, ERR_IO, "nftables: %.*s", (int)MIN(len, 300u), len ? why : "refused");
    }
    return out && said && buf_add_cstr(out, said) < 0
               ? err_set(e, ERR_LIMIT, "nftables said more than expected")
               : 0;
}

int nft_run(struct nft *n, const char *text, struct err *e)
{
    return nft_ask(n, text, NULL, e);
}
