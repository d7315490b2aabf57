/* Which accesses are known to have happened before: see order.c. */
#ifndef XF_ORDER_H
#define XF_ORDER_H

#include "kernel.h"

/* Who accesses, and when: from the highest bit the block's name (24 bits, from 1 on), the thread (10), the barrier
   interval of the block (14), the thread's own clock in it (13), and the access's strength (3). */
enum { STRENGTH_MASK = 7, CLOCK_SHIFT = 3, INTERVAL_SHIFT = 16, THREAD_SHIFT = 30, NAME_SHIFT = 40 };
enum { MOST_CLOCK = 0x1ff0, MOST_INTERVAL = 0x3ff0, MOST_NAME = 0xfffffe };

/* What an access may meet without order: nothing that is PLAIN, and
   GUARDED   a plain read that decides only whether its thread writes there, or that write: such a read meets anything
   VOLATILE  a volatile write, or a volatile read whose value is used: the one does not meet the other
   NARROW    an atomic for its block alone: does not meet strong ones of other blocks
   STRONG    other atomics, and volatile reads that only decide what is done: flags */
enum { PLAIN, GUARDED, VOLATILE, NARROW, STRONG };

static inline u32 strength_of(u64 stamp) {
    return (u32)stamp & STRENGTH_MASK;
}

static inline int is_strong(u64 stamp) {
    return strength_of(stamp) >= VOLATILE;
}

static inline u32 name_of(u64 stamp) {
    return (u32)(stamp >> NAME_SHIFT);
}

static inline u32 thread_of(u64 stamp) {
    return (u32)(stamp >> THREAD_SHIFT) & 1023;
}

static inline u32 interval_of(u64 stamp) {
    return (u32)(stamp >> INTERVAL_SHIFT) & 0x3fff;
}

static inline u32 clock_of(u64 stamp) {
    return (u32)(stamp >> CLOCK_SHIFT) & 0x1fff;
}

static inline u64 make_stamp(u32 name, u32 thread, u32 interval, u32 clock) {
    return (u64)name << NAME_SHIFT | (u64)thread << THREAD_SHIFT | (u64)interval << INTERVAL_SHIFT |
           (u64)clock << CLOCK_SHIFT;
}

/* Accesses of one thread in an interval: those with a smaller clock are known. */
typedef struct {
    u16 thread, clock;
} ThreadClock;

typedef struct Knowledge Knowledge;

typedef struct {
    u32 levels;       /* of the tree, for all names of a launch */
    void *free_nodes; /* a list */
} KnowledgePool;

void open_pool(KnowledgePool *pool, u64 names);
void close_pool(KnowledgePool *pool);
Knowledge *retain(Knowledge *knowledge);
void discard(KnowledgePool *pool, Knowledge *knowledge);
/* What both know, in a reference of its own. NULL knows nothing. */
Knowledge *unite(KnowledgePool *pool, Knowledge *one, Knowledge *other);
/* `*into` becomes what it and the other know. */
void learn(KnowledgePool *pool, Knowledge **into, Knowledge *other);
/* Everything of a block before an interval, and these threads in it, in the order of their numbers. */
Knowledge *make_knowledge(KnowledgePool *pool, u32 name, u32 interval, const ThreadClock *clocks, u32 count);
int knows(const KnowledgePool *pool, const Knowledge *knowledge, u64 stamp);
/* Whether it knows anything of the block of that name. */
int knows_of(const KnowledgePool *pool, const Knowledge *knowledge, u32 name);

#endif
