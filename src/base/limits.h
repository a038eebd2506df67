#pragma once
/* Limits of the base room that have no better place. */

#define LOG_LINE_MAX 8192       /* bytes of one log line; fields that do not fit are left out */
#define LOG_VALUE_MAX 2048      /* bytes taken of one string in a log line */
#define LOG_REQUEST_ID_MAX 128  /* bytes of a request id */
#define DIR_REMOVE_MAX_DEPTH 64 /* descriptors held open while a tree is removed */
#define OPENAT2_MAX_TRIES 64    /* while others rename directories on the path */
