#include "model/file.h"

#include <errno.h>

const char *const file_type_names[FILE_TYPE__COUNT + 1] = {"file", "directory", "symlink", "other",
                                                           NULL};

static const struct json_field file_info_fields[] = {
    JSON_FIELD(struct file_info, path, "path", JSON_F_STR, .required = true),
    JSON_FIELD(struct file_info, type, "type", JSON_F_STR, .required = true,
               .choices = file_type_names),
    JSON_FIELD(struct file_info, size, "size", JSON_F_INT, .required = true),
    JSON_FIELD(struct file_info, modified_at, "modified_at", JSON_F_TIME, .required = true),
    JSON_FIELD(struct file_info, created_at, "created_at", JSON_F_TIME, .required = true),
    JSON_FIELD(struct file_info, owner, "owner", JSON_F_STR, .required = true),
    JSON_FIELD(struct file_info, group, "group", JSON_F_STR, .required = true),
    JSON_FIELD(struct file_info, mode, "mode", JSON_F_INT, .required = true),
    {0},
};
const struct json_table file_info_table = {"FileInfo", sizeof(struct file_info), file_info_fields};

static const struct json_field file_permission_fields[] = {
    JSON_FIELD(struct file_permission, owner, "owner", JSON_F_STR, .omit_empty = true),
    JSON_FIELD(struct file_permission, group, "group", JSON_F_STR, .omit_empty = true),
    JSON_FIELD(struct file_permission, mode, "mode", JSON_F_INT),
    {0},
};
const struct json_table file_permission_table = {"Permission", sizeof(struct file_permission),
                                                 file_permission_fields, .ignore_case = true};

static const struct json_field file_move_fields[] = {
    JSON_FIELD(struct file_move, src, "src", JSON_F_STR),
    JSON_FIELD(struct file_move, dest, "dest", JSON_F_STR),
    {0},
};
const struct json_table file_move_table = {"RenameFileItem", sizeof(struct file_move),
                                           file_move_fields, .ignore_case = true};

static const struct json_field file_replace_fields[] = {
    JSON_FIELD(struct file_replace, old_text, "old", JSON_F_STR),
    JSON_FIELD(struct file_replace, new_text, "new", JSON_F_STR),
    {0},
};
const struct json_table file_replace_table = {"ReplaceFileContentItem", sizeof(struct file_replace),
                                              file_replace_fields, .ignore_case = true};

static const struct json_field file_replaced_fields[] = {
    JSON_FIELD(struct file_replaced, count, "replacedCount", JSON_F_INT, .required = true),
    {0},
};
const struct json_table file_replaced_table = {"ReplaceFileContentResult",
                                               sizeof(struct file_replaced), file_replaced_fields};

static const struct json_field file_upload_fields[] = {
    JSON_FIELD(struct file_upload, path, "path", JSON_F_STR),
    JSON_FIELD(struct file_upload, owner, "owner", JSON_F_STR, .omit_empty = true),
    JSON_FIELD(struct file_upload, group, "group", JSON_F_STR, .omit_empty = true),
    JSON_FIELD(struct file_upload, mode, "mode", JSON_F_INT),
    {0},
};
const struct json_table file_upload_table = {"FileMetadata", sizeof(struct file_upload),
                                             file_upload_fields, .ignore_case = true};

int file_mode_parse(int64_t mode)
{
    if (mode < 0 || mode > 7777) {
        return -EINVAL;
    }
    int bits = 0;
    for (int shift = 0; mode > 0; mode /= 10, shift += 3) {
        int digit = (int)(mode % 10);
        if (digit > 7) {
            return -EINVAL;
        }
        bits |= digit << shift;
    }
    return bits;
}

int64_t file_mode_digits(unsigned mode)
{
    int64_t digits = 0;
    for (int shift = 9; shift >= 0; shift -= 3) {
        digits = digits * 10 + ((mode >> shift) & 7);
    }
    return digits;
}
