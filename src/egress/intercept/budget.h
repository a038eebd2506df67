#pragma once
/* How many connections the interceptor takes, by the memory there is.
 *
 * Half of it is for connections as such: each kind has a price, what it needs while nothing is on
 * its way. Who cannot pay is refused. The other half is for what is on its way: an opened
 * connection whose buffers hold something needs much more, and there are only so many turns for
 * that at once. Who finds none waits, unread, until another's buffers are empty: so nothing that
 * was accepted breaks, and nothing grows beyond what there is. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget {
    size_t bytes, used; /* prices of connections */
    unsigned n_turns, n_taken;
};

void budget_init(struct budget *b, uint64_t memory_limit);
/* From one price (0: not there yet) to another. False: that would be too much; nothing changed. */
bool budget_pay(struct budget *b, size_t *paid, size_t price);
