#pragma once
/* Bundled skills: markdown for coding agents, and where each agent looks for it. */

#include <stdbool.h>

#include "base/str.h"

struct embedded_text {
    const char *name; /* "sandbox-lifecycle.md"; NULL ends the table */
    const char *text;
};
extern const struct embedded_text skill_texts[];

struct skill {
    const char *slug, *title, *summary, *trigger, *area;
};
extern const struct skill skills[]; /* slug NULL ends it; the first is the default of uninstall */

const struct skill *skill_find(const char *slug);
const char *skill_text(const struct skill *s);
/* After the front matter. */
struct str skill_body(const struct skill *s);

struct skill_target {
    const char *name, *label;
    const char *file; /* with one %s for the slug, or none when blocks are appended */
    bool append, keeps_front_matter, own_dir;
};
extern const struct skill_target skill_targets[]; /* name NULL ends it */

enum skill_status { SKILL_ABSENT, SKILL_PRESENT, SKILL_DIFFERENT };

/* Path of the file for a target; scope global is below $HOME. Heap. */
char *skill_path(const struct skill *s, const struct skill_target *t, bool global);
enum skill_status skill_look(const struct skill *s, const struct skill_target *t, const char *path);
/* 0, or a negative errno. */
int skill_install(const struct skill *s, const struct skill_target *t, const char *path);
int skill_uninstall(const struct skill *s, const struct skill_target *t, const char *path);
