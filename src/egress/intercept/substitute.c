/* Replacing placeholders. */

#include "egress/intercept/substitute.h"

#include <string.h>

#include "base/codec.h"
#include "base/must.h"
#include "egress/intercept/limits.h"
#include "egress/vault/limits.h"
#include "egress/vault/secret.h"
#include "json/json.h"

bool subst_wanted(const struct vault_binding *b, unsigned surface)
{
    for (size_t i = 0; i < b->n_substitutions; i++) {
        if (b->substitutions[i].in & surface) {
            return true;
        }
    }
    return false;
}

/* The encoders append straight to the output, so no copy of a secret is left anywhere else. */
static void put_value(struct str value, enum subst_encoding enc, struct buf *out)
{
    switch (enc) {
    case SUBST_PERCENT:
        (void)percent_encode(out, value, false);
        return;
    case SUBST_JSON:
        (void)json_escape(out, value);
        return;
    case SUBST_RAW:
    default:
        (void)buf_add_str(out, value);
    }
}

static const struct vault_substitution *placeholder_at(const struct vault_binding *b,
                                                       unsigned surface, struct str rest)
{
    for (size_t i = 0; i < b->n_substitutions; i++) {
        const struct vault_substitution *s = &b->substitutions[i];
        if ((s->in & surface) && s->placeholder[0] == rest.p[0] &&
            str_starts(rest, str_from(s->placeholder))) {
            return s;
        }
    }
    return NULL;
}

/* Replaces in in[0..until), looking beyond it for the end of a placeholder; returns where it
 * stopped, which is behind `until` when the last placeholder reaches over it. */
static size_t replace(const struct vault_binding *b, unsigned surface, enum subst_encoding enc,
                      struct str in, size_t until, struct buf *out, size_t *n_hits)
{
    size_t at = 0, plain = 0;
    while (at < until) {
        const struct vault_substitution *s = placeholder_at(b, surface, str_sub(in, at, in.n));
        if (!s) {
            at++;
            continue;
        }
        (void)buf_add_str(out, str_sub(in, plain, at));
        put_value(s->value->value, enc, out);
        at += strlen(s->placeholder);
        plain = at;
        (*n_hits)++;
    }
    (void)buf_add_str(out, str_sub(in, plain, at));
    return at;
}

size_t subst_text(const struct vault_binding *b, unsigned surface, enum subst_encoding enc,
                  struct str in, struct buf *out)
{
    size_t n_hits = 0;
    (void)replace(b, surface, enc, in, in.n, out, &n_hits);
    return n_hits;
}

bool subst_body_encoding(struct str content_type, struct str content_encoding,
                         enum subst_encoding *ret)
{
    struct str type = content_type;
    type = str_trim(str_cut(&type, ';'));
    if ((content_encoding.n && !str_eq_nocase(content_encoding, STR("identity"))) ||
        str_starts_nocase(type, STR("multipart/"))) {
        return false;
    }
    bool json = str_eq_nocase(type, STR("application/json")) ||
                (type.n > 5 && str_eq_nocase(str_sub(type, type.n - 5, type.n), STR("+json")));
    *ret = json                                                            ? SUBST_JSON
           : str_eq_nocase(type, STR("application/x-www-form-urlencoded")) ? SUBST_PERCENT
                                                                           : SUBST_RAW;
    return true;
}

void subst_stream_init(struct subst_stream *s, const struct vault_binding *b,
                       enum subst_encoding enc)
{
    *s = (struct subst_stream){b, enc, BUF_INIT(INTERCEPT_BUFFER * 4)};
}

void subst_stream_done(struct subst_stream *s)
{
    buf_done(&s->held);
}

void subst_stream_feed(struct subst_stream *s, struct str in, bool is_last, struct buf *out)
{
    size_t longest = 1, n_hits = 0;
    for (size_t i = 0; i < s->binding->n_substitutions; i++) {
        longest = MAX(longest, strlen(s->binding->substitutions[i].placeholder));
    }
    must(buf_add_str(&s->held, in) == 0); /* pieces are one read at most */
    struct str all = buf_str(&s->held);
    size_t until = is_last ? all.n : all.n >= longest ? all.n - (longest - 1) : 0;
    size_t used = replace(s->binding, VAULT_BODY, s->enc, all, until, out, &n_hits);
    buf_consume(&s->held, used);
}
