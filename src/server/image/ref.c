/* Image names. The grammar is the one of the distribution specification; what it does not allow is
 * refused here, so that a name can be part of a URL or a file name further on. */

#include "server/image/ref.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#define DEFAULT_REGISTRY "docker.io"

static bool is_lower_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool image_digest_valid(struct str s)
{
    if (!str_starts(s, STR("sha256:")) || s.n != 71) {
        return false;
    }
    for (size_t i = 7; i < s.n; i++) {
        char c = s.p[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
    }
    return true;
}

static bool tag_valid(struct str s)
{
    if (s.n == 0 || s.n > 128) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool ok = isalnum(c) || c == '_' || (i > 0 && (c == '.' || c == '-'));
        if (!ok) {
            return false;
        }
    }
    return true;
}

/* Components of lower-case letters and digits, joined inside by . _ __ or dashes. */
static bool repo_valid(struct str s)
{
    if (s.n == 0 || s.n > 255) {
        return false;
    }
    bool edge = true; /* at the start of a component: a letter or digit must come */
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (is_lower_alnum(c)) {
            edge = false;
        } else if (c == '/') {
            if (edge || !is_lower_alnum(s.p[i - 1])) {
                return false;
            }
            edge = true;
        } else if (c == '.' || c == '_' || c == '-') {
            if (edge || (c == '.' && s.p[i - 1] == '.')) {
                return false;
            }
        } else {
            return false;
        }
    }
    return !edge && is_lower_alnum(s.p[s.n - 1]);
}

static bool registry_valid(struct str s)
{
    if (s.n == 0 || s.n > 255 || !(isalnum((unsigned char)s.p[0]) || s.p[0] == '[')) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (!isalnum(c) && c != '.' && c != '-' && c != ':' && c != '[' && c != ']') {
            return false;
        }
    }
    return true;
}

static bool looks_like_registry(struct str s)
{
    return str_find(s, '.') >= 0 || str_find(s, ':') >= 0 || str_eq(s, STR("localhost"));
}

/* Splits "@digest" and ":tag" off the end of *rest. */
static int split_reference(struct str *rest, struct image_ref *r, struct str whole, struct err *e)
{
    ptrdiff_t at = str_find(*rest, '@');
    if (at >= 0) {
        struct str digest = str_sub(*rest, (size_t)at + 1, rest->n);
        if (!image_digest_valid(digest)) {
            return err_set(e, ERR_INVALID,
                           "image '%.*s': the digest must be sha256: and 64 hex digits",
                           STR_FMT(whole));
        }
        (void)str_to_cstr(digest, r->digest, sizeof(r->digest));
        *rest = str_sub(*rest, 0, (size_t)at);
    }
    ptrdiff_t colon = str_rfind(*rest, ':');
    if (colon >= 0 && str_rfind(*rest, '/') < colon) {
        struct str tag = str_sub(*rest, (size_t)colon + 1, rest->n);
        if (!tag_valid(tag)) {
            return err_set(e, ERR_INVALID, "image '%.*s': invalid tag", STR_FMT(whole));
        }
        (void)str_to_cstr(tag, r->tag, sizeof(r->tag));
        *rest = str_sub(*rest, 0, (size_t)colon);
    }
    return 0;
}

int image_ref_parse(struct str s, struct image_ref *ret, struct err *e)
{
    struct image_ref r = {0};
    struct str whole = s, rest = s;
    if (s.n == 0 || s.n > IMAGE_MAX_REF) {
        return err_set(e, ERR_INVALID, "an image name has 1 to %d characters", IMAGE_MAX_REF);
    }
    if (split_reference(&rest, &r, whole, e) < 0) {
        return -1;
    }
    struct str registry = STR(DEFAULT_REGISTRY);
    ptrdiff_t slash = str_find(rest, '/');
    bool named = slash > 0 && looks_like_registry(str_sub(rest, 0, (size_t)slash));
    if (named) {
        registry = str_sub(rest, 0, (size_t)slash);
        rest = str_sub(rest, (size_t)slash + 1, rest.n);
    }
    if (!registry_valid(registry)) {
        return err_set(e, ERR_INVALID, "image '%.*s': invalid registry", STR_FMT(whole));
    }
    if (!repo_valid(rest)) {
        return err_set(e, ERR_INVALID, "image '%.*s': invalid repository name (lower case only)",
                       STR_FMT(whole));
    }
    (void)str_to_cstr(registry, r.registry, sizeof(r.registry));
    bool official = str_eq(registry, STR(DEFAULT_REGISTRY)) && str_find(rest, '/') < 0;
    int n = snprintf(r.repo, sizeof(r.repo), "%s%.*s", official ? "library/" : "", STR_FMT(rest));
    if (n < 0 || (size_t)n >= sizeof(r.repo)) {
        return err_set(e, ERR_INVALID, "image '%.*s': name too long", STR_FMT(whole));
    }
    if (!r.tag[0] && !r.digest[0]) {
        (void)snprintf(r.tag, sizeof(r.tag), "latest");
    }
    *ret = r;
    return 0;
}

int image_ref_format(const struct image_ref *r, char *out, size_t out_len)
{
    int n = r->digest[0] ? snprintf(out, out_len, "%s/%s@%s", r->registry, r->repo, r->digest)
                         : snprintf(out, out_len, "%s/%s:%s", r->registry, r->repo, r->tag);
    return n < 0 || (size_t)n >= out_len ? -ENAMETOOLONG : 0;
}

const char *image_ref_reference(const struct image_ref *r)
{
    return r->digest[0] ? r->digest : r->tag;
}
