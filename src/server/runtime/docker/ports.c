/* Host ports for published ports: at random, looked at before they are named, and kept from other
 * creates of this server until the engine holds them. Somebody else may still be quicker; then the
 * create starts over with others. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/rand.h"
#include "server/runtime/docker/docker.h"

void ports_init(struct ports *p)
{
    (void)pthread_mutex_init(&p->lock, NULL);
}

static bool is_free(uint16_t port)
{
    cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    struct sockaddr_in a = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_ANY),
    };
    return fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
           bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
}

static bool reserve(struct ports *p, uint16_t port)
{
    size_t i = port - DOCKER_PORT_FIRST;
    uint8_t bit = (uint8_t)(1u << (i % 8));
    (void)pthread_mutex_lock(&p->lock);
    bool free_here = !(p->used[i / 8] & bit);
    p->used[i / 8] |= bit;
    (void)pthread_mutex_unlock(&p->lock);
    return free_here;
}

uint16_t ports_take(struct ports *p)
{
    for (unsigned i = 0; i < DOCKER_PORT_PROBES; i++) {
        uint16_t port =
            (uint16_t)(DOCKER_PORT_FIRST + rand_below(DOCKER_PORT_LAST - DOCKER_PORT_FIRST + 1));
        if (!reserve(p, port)) {
            continue;
        }
        if (is_free(port)) {
            return port;
        }
        ports_give(p, port);
    }
    return 0;
}

void ports_give(struct ports *p, uint16_t port)
{
    if (!port) {
        return;
    }
    size_t i = port - DOCKER_PORT_FIRST;
    (void)pthread_mutex_lock(&p->lock);
    p->used[i / 8] &= (uint8_t) ~(1u << (i % 8));
    (void)pthread_mutex_unlock(&p->lock);
}
