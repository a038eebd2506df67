#pragma once
/* The options that describe a new sandbox, shared by `sandbox create` and `run`. */

#include "cli/cli.h"

#define CREATE_OPTIONS                                                                             \
    {.name = "image",                                                                              \
     .letter = 'i',                                                                                \
     .type = ARG_TEXT,                                                                             \
     .help = "Image to start from (defaults.image of the configuration)."},                        \
        {.name = "snapshot",                                                                       \
         .type = ARG_TEXT,                                                                         \
         .help = "Id of a snapshot to start from, instead of an image."},                          \
        {.name = "image-auth-username",                                                            \
         .type = ARG_TEXT,                                                                         \
         .help = "User at the image's registry."},                                                 \
        {.name = "image-auth-password", .type = ARG_TEXT, .help = "Password of that user."},       \
        {.name = "timeout",                                                                        \
         .letter = 't',                                                                            \
         .type = ARG_LIFETIME,                                                                     \
         .help = "Time to live, or none."},                                                        \
        {.name = "env",                                                                            \
         .letter = 'e',                                                                            \
         .type = ARG_PAIR,                                                                         \
         .many = true,                                                                             \
         .help = "Environment variable; repeatable."},                                             \
        {.name = "metadata",                                                                       \
         .letter = 'm',                                                                            \
         .type = ARG_PAIR,                                                                         \
         .many = true,                                                                             \
         .help = "Metadata; repeatable."},                                                         \
        {.name = "extension", .type = ARG_PAIR, .many = true, .help = "Extension; repeatable."},   \
        {.name = "resource",                                                                       \
         .type = ARG_PAIR,                                                                         \
         .many = true,                                                                             \
         .help = "Resource limit; repeatable.",                                                    \
         .fallback = "cpu=1 memory=2Gi"},                                                          \
        {.name = "entrypoint",                                                                     \
         .type = ARG_TEXT,                                                                         \
         .many = true,                                                                             \
         .help = "One word of the entrypoint; repeatable.",                                        \
         .fallback = "tail -f /dev/null"},                                                         \
        {.name = "network-policy-file",                                                            \
         .type = ARG_FILE,                                                                         \
         .help = "JSON: {defaultAction, egress: [{action, target}]}."},                            \
        {.name = "credential-proxy",                                                               \
         .type = ARG_FLAG,                                                                         \
         .help = "Allow credentials to be filled in; needs a policy."},                            \
        {.name = "volumes-file", .type = ARG_FILE, .help = "JSON array of volumes."},              \
        {.name = "skip-health-check", .type = ARG_FLAG, .help = "Do not wait until it answers."},  \
    {                                                                                              \
        .name = "ready-timeout", .type = ARG_DURATION, .fallback = "30s",                          \
        .help = "How long to wait until it answers."                                               \
    }

struct create_spec {
    struct osb_create_opts opts;
    struct osb_pair *env, *metadata, *extensions, *resources;
    const char **entrypoint;
    struct json *policy, *volumes; /* what rules and volumes point into */
    struct osb_rule *rules;
    struct osb_volume *vols;
    const char ***vol_options;
};

/* Reads the options and makes the sandbox: 0 once it answers, or an exit code after a message.
 * Ctrl-C ends the waiting. create_spec_done() either way. */
int create_sandbox(struct cli *x, struct create_spec *spec, struct osb_sandbox **ret);
void create_spec_done(struct create_spec *s);
