#pragma once
/* API keys and who is behind them. Today every key belongs to the one owner "default"; the name of
 * a key (never the key) stands in events and logs. */

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "server/config/config.h"
#include "server/store/store.h"

#define KEY_NAME_MAX 32

struct keyring;

struct principal {
    const char *owner; /* static */
    char actor[KEY_NAME_MAX];
};

/* The configured keys; without any, the one in key_file, which is generated when it is not there.
 * `ret_note` (heap, may be NULL) says in a sentence what was done and where the key is. An empty
 * key that was configured explicitly, or OPENSANDBOX_INSECURE_SERVER=YES without a key, means no
 * authentication: keyring_is_open(). */
struct keyring *keyring_new(const struct config *cfg, char **ret_note, struct err *e);
void keyring_free(struct keyring *k);
bool keyring_is_open(const struct keyring *k);
/* Replaces the keys after a reload. */
int keyring_reload(struct keyring *k, const struct config *cfg, struct err *e);
/* Any thread. Compares with every key in constant time. False: not a key of ours. */
bool keyring_find(struct keyring *k, struct str key, struct principal *ret);

/* Starting without any key must be confirmed: by the environment, or on a terminal within 30 s. */
int auth_confirm_open(struct err *e);
