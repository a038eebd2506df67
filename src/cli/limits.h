#pragma once
/* Limits of osb. */

#define CLI_MAX_INPUT (64u << 20)     /* bytes of a description read from a file or stdin */
#define CLI_MAX_RULES 4096            /* rules of a policy file */
#define CLI_MAX_VOLUMES 256           /* volumes of one sandbox */
#define CLI_MAX_TREE_DEPTH 64         /* directories within directories that cp follows */
#define CLI_MAX_FORWARDS 32           /* ports of one port-forward */
#define CLI_MAX_CONFIG (1u << 20)     /* bytes of the configuration file */
#define CLI_MAX_SKILL_FILE (4u << 20) /* bytes of a file that skills are appended to */
#define CLI_COMPLETION_ASK_MS 2000    /* ms that Tab waits for the server */
#define CLI_SERVER_START_MS 30000     /* ms until a started server listens */
#define CLI_SERVER_STOP_MS 30000      /* ms until a stopped server has ended */
