#pragma once
/* Every limit of the Docker runtime that is not a key of [docker]. Listed in docs/limits.md. */

#define DOCKER_BODY_MAX (64u << 20)    /* bytes of one answer of the engine */
#define DOCKER_EVENT_MAX (256u << 10)  /* bytes of one line of the engine's streams */
#define DOCKER_IDLE_CONNECTIONS 16u    /* connections to the engine kept open */
#define DOCKER_SECCOMP_MAX (1u << 20)  /* bytes of a seccomp profile */
#define DOCKER_EXECD_MAX (64u << 20)   /* bytes of execd, or of the archive that brings it */
#define DOCKER_PORT_FIRST 40000u       /* first host port that is published */
#define DOCKER_PORT_LAST 60000u        /* last host port that is published */
#define DOCKER_PORT_PROBES 50u         /* ports tried for one that nobody listens on */
#define DOCKER_PORT_RETRIES 10u        /* creates anew when the engine finds a port taken */
#define DOCKER_CONFIG_MAX (1u << 20)   /* bytes of the engine client's config.json */
#define DOCKER_RECONNECT_MIN_MS 200u   /* before the events are asked for again, doubled up to */
#define DOCKER_RECONNECT_MAX_MS 5000u  /* this */
#define DOCKER_REMOVE_WAIT_MS 30000u   /* for a removal that somebody else began */
#define DOCKER_SIDECAR_WAIT_MS 30000u  /* for the egress sidecar to answer */
#define DOCKER_EXECD_LINES 64u         /* lines of execd itself that are looked through */
#define DOCKER_LOGS_MAX (8u << 20)     /* bytes that one reading of logs returns */
#define DOCKER_STRAY_AGE_S 600         /* age at which a sidecar of another server is a leftover */
#define DOCKER_PULL_SILENCE_MS 300000u /* a pull without a word for so long is broken */
