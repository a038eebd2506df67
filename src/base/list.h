#pragma once
/* Intrusive doubly linked list. A node that is not in a list points to itself, so list_del() on it
 * is harmless. */

#include <stdbool.h>
#include <stddef.h>

#include "base/must.h"

struct list {
    struct list *prev, *next;
};

#define LIST_INIT(name) ((struct list){&(name), &(name)})

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}
static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}
static inline void list_insert_(struct list *prev, struct list *next, struct list *n)
{
    n->prev = prev;
    n->next = next;
    prev->next = n;
    next->prev = n;
}
static inline void list_push_front(struct list *l, struct list *n)
{
    list_insert_(l, l->next, n);
}
static inline void list_push_back(struct list *l, struct list *n)
{
    list_insert_(l->prev, l, n);
}
static inline void list_del(struct list *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    list_init(n);
}
static inline struct list *list_first(const struct list *l)
{
    return list_empty(l) ? NULL : l->next;
}
static inline struct list *list_pop_front(struct list *l)
{
    struct list *n = list_first(l);
    if (n) {
        list_del(n);
    }
    return n;
}

#define list_entry(node, type, member) container_of(node, type, member)
/* `it` may be removed inside the loop, its successor may not. */
#define list_each(it, l)                                                                           \
    for (struct list *it = (l)->next, *it##_next = it->next; it != (l);                            \
         it = it##_next, it##_next = it->next)
