#pragma once
/* Structured logging: one line per event, human-readable on a terminal or JSON lines for machines.
 *
 *     log_info("sandbox created", LOG_S("id", id), LOG_I("ms", ms));
 *
 * The message is a constant sentence; what varies goes into fields. The request id of the current
 * thread is added when set. Libraries do not log above debug: each error is logged once, at the
 * top. Never pass a secret. Thread-safe; a line is one write(2). */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG__COUNT };
enum log_format { LOG_HUMAN, LOG_JSON };

struct log_field {
    const char *key; /* NULL ends the list */
    enum { LOG_FIELD_STR, LOG_FIELD_INT } kind;
    struct str s;
    int64_t i;
};

#define LOG_STR(k, v) ((struct log_field){(k), LOG_FIELD_STR, (v), 0})
#define LOG_S(k, v) LOG_STR(k, str_from(v))
#define LOG_I(k, v) ((struct log_field){(k), LOG_FIELD_INT, STR_NULL, (int64_t)(v)})
#define LOG_ERR(e) LOG_S("error", (e)->msg)

void log_init(enum log_level min, enum log_format format, int fd);
/* JSON lines say whose they are from here on, for a stream that others write to as well. Not
 * copied.
 */
void log_set_program(const char *name);
int log_level_parse(struct str s, enum log_level *ret); /* debug info warn(ing) error, any case */
void log_set_level(enum log_level min);
bool log_enabled(enum log_level level);
/* Thread-local; empty string clears. Copied, at most 128 bytes. */
void log_set_request_id(struct str id);

void log_event(enum log_level level, const char *msg, const struct log_field *fields);

#define LOG_AT(level, msg, ...)                                                                    \
    do {                                                                                           \
        if (log_enabled(level)) {                                                                  \
            log_event((level), (msg),                                                              \
                      (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){NULL}});               \
        }                                                                                          \
    } while (0)
#define log_debug(...) LOG_AT(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) LOG_AT(LOG_INFO, __VA_ARGS__)
#define log_warn(...) LOG_AT(LOG_WARN, __VA_ARGS__)
#define log_error(...) LOG_AT(LOG_ERROR, __VA_ARGS__)
