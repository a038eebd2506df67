/* Policies: what is accepted can be written and read again, and decides the same. */

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "egress/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_n((const char *)data, size);
    struct err e = {0};
    cleanup_(policy_free) struct policy *p = policy_parse(text, &e);
    cleanup_(policy_free) struct policy *lines = policy_parse_lines(text, POLICY_DENY, &e);
    cleanup_(buf_done) struct buf out = BUF_INIT(16u << 20);
    size_t removed = 0;
    if (!p) {
        return 0;
    }
    must(policy_format(p, &out, 2) == 0);
    cleanup_(policy_free) struct policy *again = policy_parse(buf_str(&out), &e);
    must(again && again->n_rules == p->n_rules && again->fallback == p->fallback);
    for (size_t i = 0; i < p->n_rules; i++) {
        struct str name = str_from(p->rules[i].name);
        must(policy_allows_name(p, name) == policy_allows_name(again, name));
    }
    cleanup_(policy_free) struct policy *patched = policy_patch(p, text, &e);
    cleanup_(policy_free) struct policy *less = policy_without(p, text, &removed, &e);
    cleanup_(policy_free) struct policy *all = policy_overlay(p, lines, patched);
    must(all->n_rules >= p->n_rules && (!less || less->n_rules + removed == p->n_rules));
    return 0;
}
