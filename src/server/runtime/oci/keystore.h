#pragma once
/* Java's trust store in its older format (JKS), which every Java reads: the certificates one after
 * the other and a checksum. No tool of Java's is needed to write one. */

#include "base/buf.h"

#define KEYSTORE_CERT_MAX                                                                          \
    (32u << 10) /* limit: bytes of one certificate in PEM; larger ones are left out */

/* A store with every certificate of the PEM text. 0, or -ENOSPC. */
int keystore_from_pem(struct str pem, struct buf *out);
/* The store `old` and the certificates of `pem` behind it. -EINVAL when `old` is in another format
 * or broken. */
int keystore_extend(struct str old, struct str pem, struct buf *out);
