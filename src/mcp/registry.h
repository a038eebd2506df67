#pragma once
/* The sandboxes this server knows: id to handle, shared by all sessions and all threads. A handle
 * that is in use stays whole when the sandbox is forgotten meanwhile. */

#include "client/opensandbox.h"

struct registry;

struct registry *registry_new(void);
void registry_free(struct registry *r); /* nobody uses it any more */

/* The handle, to be given back, or NULL when the id is not known. */
struct osb_sandbox *registry_use(struct registry *r, const char *id);
/* The same, and from now on it is known. Takes `s`; when the id is known already that one is
 * returned and `s` freed. */
struct osb_sandbox *registry_add(struct registry *r, struct osb_sandbox *take_s);
void registry_give(struct registry *r, struct osb_sandbox *s);
void registry_forget(struct registry *r, const char *id);
size_t registry_len(struct registry *r);
