#pragma once
/* Files and directories as the protocol shows them: what is known of one, and the small objects in
 * which clients ask for permissions, moves and replacements. */

#include "json/field.h"

enum file_type {
    FILE_TYPE_FILE,
    FILE_TYPE_DIRECTORY,
    FILE_TYPE_SYMLINK,
    FILE_TYPE_OTHER,
    FILE_TYPE__COUNT
};
extern const char *const file_type_names[FILE_TYPE__COUNT + 1]; /* NULL-terminated */

struct file_info {
    const char *path;           /* absolute */
    const char *type;           /* one of file_type_names */
    struct opt_int size;        /* bytes, of the entry itself */
    struct opt_int modified_at; /* microseconds */
    struct opt_int created_at;  /* when the inode last changed */
    const char *owner, *group;  /* a name, or the number when it has none */
    struct opt_int mode;        /* decimal digits to be read as octal: 755 */
};
extern const struct json_table file_info_table;

/* Absent, null and empty all mean: leave it as it is. */
struct file_permission {
    const char *owner, *group;
    struct opt_int mode; /* as above; 0: leave */
};
extern const struct json_table file_permission_table;

struct file_move {
    const char *src, *dest;
};
extern const struct json_table file_move_table;

struct file_replace {
    const char *old_text, *new_text;
};
extern const struct json_table file_replace_table;

struct file_replaced {
    struct opt_int count;
};
extern const struct json_table file_replaced_table;

/* The metadata part of an upload. */
struct file_upload {
    const char *path;
    const char *owner, *group;
    struct opt_int mode;
};
extern const struct json_table file_upload_table;

/* The digits of `mode` read as octal: 0..07777, or -EINVAL. */
int file_mode_parse(int64_t mode);
/* The other way: 0755 becomes 755. */
int64_t file_mode_digits(unsigned mode);
