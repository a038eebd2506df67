#pragma once
/* Where settings come from: the command line, then the environment, then
 * ~/.opensandbox/config.toml, then defaults. An empty text or a zero falls through to the next
 * source, a boolean that is given anywhere does not. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/arg.h"

struct settings {
    char *api_key, *domain, *protocol;
    int64_t request_timeout; /* seconds */
    char *ca_file;
    bool use_server_proxy, color, insecure;
    char *default_image, *default_timeout;
    char *path; /* of the file */
    bool file_exists;
};

/* With `skip_file` the file is looked at by nobody: `config` must be able to mend a broken one. */
int settings_load(struct settings *s, const struct args *root, bool skip_file, struct err *e);
/* Only what is in the file at s->path, on top of what is there. */
void settings_done(struct settings *s);
/* Puts `value` under [section] field into the text of a file, keeping comments and the rest. */
int settings_edit(struct str text, struct str section, struct str field, const char *value,
                  struct buf *out);
extern const char settings_template[];
