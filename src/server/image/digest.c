/* SHA-256 through OpenSSL's EVP interface. */

#include "server/image/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/must.h"

struct digest {
    EVP_MD_CTX *ctx;
};

struct digest *digest_new(void)
{
    struct digest *d = NEW(struct digest);
    d->ctx = EVP_MD_CTX_new();
    must(d->ctx && EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) == 1);
    return d;
}

void digest_free(struct digest *d)
{
    if (d) {
        EVP_MD_CTX_free(d->ctx);
        free(d);
    }
}

void digest_add(struct digest *d, const void *p, size_t n)
{
    must(EVP_DigestUpdate(d->ctx, p, n) == 1);
}

void digest_final(struct digest *d, char out[IMAGE_DIGEST_MAX])
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    must(EVP_DigestFinal_ex(d->ctx, md, &len) == 1);
    struct buf hex = BUF_INIT(IMAGE_DIGEST_MAX);
    (void)buf_add_cstr(&hex, "sha256:");
    (void)hex_encode(&hex, md, len);
    must(str_to_cstr(buf_str(&hex), out, IMAGE_DIGEST_MAX) == 0);
    buf_done(&hex);
}

void digest_of(struct str s, char out[IMAGE_DIGEST_MAX])
{
    struct digest *d = digest_new();
    digest_add(d, s.p, s.n);
    digest_final(d, out);
    digest_free(d);
}

int digest_add_fd(struct digest *d, int fd)
{
    enum { CHUNK = 256 << 10 };
    cleanup_free char *p = xmalloc(CHUNK);
    off_t offset = 0;
    for (;;) {
        ssize_t n = pread(fd, p, CHUNK, offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -errno : 0;
        }
        digest_add(d, p, (size_t)n);
        offset += n;
    }
}
