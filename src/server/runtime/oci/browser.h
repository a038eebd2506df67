#pragma once
/* Policies that make browsers trust an authority. They look at no store of the system's, but read
 * policies from files, which need no tool to be written. */

#include "base/buf.h"

#define BROWSER_POLICY_MAX (256u << 10) /* limit: bytes of a browser's policy file */

/* Firefox: the policy file `old` ("": none) that also installs the certificate in the file
 * `ca_path`. -EINVAL: `old` is not what it should be. */
int browser_firefox(struct str old, const char *ca_path, struct buf *out);
/* Chromium and what is made from it: a policy file of its own, with the certificates of `pem`. */
int browser_chromium(struct str pem, struct buf *out);
