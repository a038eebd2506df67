/* Vault JSON: create, patch and restore never crash, and what was accepted survives being kept. The
 * text before the first NUL creates, what follows patches. */

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "egress/vault/vault.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct vault_state *s)
{
    struct err e = {0};
    struct buf kept = BUF_INIT(16u << 20), a = BUF_INIT(16u << 20), b = BUF_INIT(16u << 20);
    must(vault_serialize(s, &kept) == 0);
    struct vault_state *t = vault_restore(buf_str(&kept), &e);
    must(t);
    vault_format(s, &a);
    vault_format(t, &b);
    must(str_eq(buf_str(&a), buf_str(&b)));
    for (size_t i = 0; i < s->n_credentials; i++) {
        must(str_eq(s->credentials[i].value, t->credentials[i].value));
    }
    vault_state_unref(t);
    buf_done(&kept);
    buf_done(&a);
    buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct policy *policy;
    struct err e = {0};
    if (!policy) {
        policy = policy_parse(STR("{\"egress\":[{\"action\":\"allow\",\"target\":\"*.b\"},"
                                  "{\"action\":\"allow\",\"target\":\"a.b\"}]}"),
                              &e);
        must(policy);
    }
    struct str rest = str_n((const char *)data, size);
    struct str first = str_cut(&rest, 0);
    struct vault_state *s = vault_create(first, policy, &e);
    if (s) {
        same(s);
        struct vault_state *t = vault_patch(s, rest, policy, &e);
        if (t) {
            same(t);
            must(t->revision == s->revision + 1);
            vault_state_unref(t);
        }
        vault_state_unref(s);
    } else {
        must(e.code != ERR_NONE && e.msg[0]);
    }
    return 0;
}
