/* The arithmetic of what fits into memory. */

#include "egress/intercept/budget.h"

#include "base/must.h"
#include "egress/intercept/limits.h"

void budget_init(struct budget *b, uint64_t memory_limit)
{
    /* Without a limit there is no reason to take all that the machine has. */
    uint64_t all = MIN(memory_limit, (uint64_t)INTERCEPT_MEMORY_MAX);
    uint64_t half = all > INTERCEPT_MEMORY_OWN ? (all - INTERCEPT_MEMORY_OWN) / 2 : 0;
    *b = (struct budget){
        .bytes = MAX((size_t)half, INTERCEPT_MIN_CONNECTIONS * (size_t)INTERCEPT_OPEN_BYTES),
        .n_turns = MAX((unsigned)(half / INTERCEPT_TURN_BYTES), INTERCEPT_MIN_CONNECTIONS),
    };
}

bool budget_pay(struct budget *b, size_t *paid, size_t price)
{
    if (price > *paid && b->used + (price - *paid) > b->bytes) {
        return false;
    }
    b->used = b->used - *paid + price;
    *paid = price;
    return true;
}
