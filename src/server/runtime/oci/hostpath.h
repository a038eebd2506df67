#pragma once
/* Directories and files of this machine that become volumes, and parts of volumes. What is found is
 * a descriptor (O_PATH): no name is trusted twice. Of every runtime whose sandboxes run on this
 * machine. */

#include "server/runtime/runtime.h"

/* A `host` volume, made as far as it is missing. */
int volume_host_open(const struct runtime_spec *spec, const struct volume *v,
                     enum runtime_stage *stage, struct err *e);
/* The same without making anything: what is missing is no error yet. */
int volume_host_check(const struct runtime_spec *spec, const struct volume *v,
                      enum runtime_stage *stage, struct err *e);
/* subPath of a volume whose content is at data_fd. */
int volume_sub_open(int data_fd, const struct volume *v, enum runtime_stage *stage, struct err *e);
