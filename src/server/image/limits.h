#pragma once
/* Limits of the image store. Listed in docs/limits.md. */

#define IMAGE_MAX_REF 512             /* characters of an image name */
#define IMAGE_MAX_MANIFEST (4u << 20) /* manifest, index or image config, bytes */
#define IMAGE_MAX_LAYERS 127          /* layers of one image (overlayfs takes no more by far) */
#define IMAGE_MAX_LAYER_BYTES (64ull << 30)     /* compressed size of one layer */
#define IMAGE_MAX_UNPACKED_BYTES (128ull << 30) /* unpacked size of one layer */
#define IMAGE_MAX_ENTRIES 4000000u              /* entries of one layer */
#define IMAGE_MAX_DIR_TIMES 200000u /* directories of a layer whose times are restored */
#define IMAGE_MAX_XATTR (64u << 10) /* bytes of one extended attribute */
#define IMAGE_PULL_PARALLEL 3       /* layers of one image fetched at the same time */
#define IMAGE_PULL_TRIES 5          /* attempts per blob; each resumes where the last one broke */
#define IMAGE_CONNECT_TIMEOUT_MS 15000u /* to a registry */
#define IMAGE_STALL_SECONDS 30          /* without 1 kB/s: the transfer counts as broken */
#define IMAGE_MAX_RECORD (1u << 20)     /* bytes of what is recorded about one image */
#define IMAGE_MAX_DEPTH 256u            /* directories below each other that are counted */
#define IMAGE_WATCH_MS 250              /* between two looks at a pull that others make */
#define IMAGE_PART_KEEP_SECONDS 86400   /* a broken download is kept to be resumed */
