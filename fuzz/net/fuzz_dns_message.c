/* DNS messages: whatever comes, reading stays inside, and what we write can be read again. */

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "net/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str msg = str_n((const char *)data, size);
    struct dns_query q, again;
    cleanup_(buf_done) struct buf out = BUF_INIT(2u * DNS_MESSAGE_MAX);
    int v = dns_query_parse(msg, &q);
    if (v >= 0) {
        must(dns_answer_write(&out, msg, &q, DNS_NXDOMAIN, 0) == 0);
        must(dns_edns_write(&out, 0, 1232, true) == 0);
        must(dns_query_parse(buf_str(&out), &again) == -1);
    }
    if (v == 0) {
        must(q.question_end <= size && strlen(q.name) < DNS_TEXT_MAX);
        buf_clear(&out);
        struct str question = str_sub(msg, DNS_HEADER_LEN, q.question_end);
        must(dns_query_write(&out, 7, DNS_RD, question, 1232, q.wants_dnssec) == 0);
        must(dns_query_parse(buf_str(&out), &again) == 0);
        must(strcmp(q.name, again.name) == 0 && q.type == again.type && again.has_edns);
        must(dns_same_question(msg, q.question_end, buf_str(&out), again.question_end));
    }
    struct dns_reader r;
    struct dns_record rec;
    char target[DNS_TEXT_MAX];
    struct ip ip;
    if (dns_reader_init(&r, msg) == 0) {
        while (dns_reader_next(&r, &rec) > 0) {
            must(rec.rdata_at + rec.rdata_len <= size && r.at <= size);
            (void)dns_record_ip(msg, &rec, &ip);
            (void)dns_record_target(msg, &rec, target);
        }
    }
    return 0;
}
