/* The pinned chunks of one device that its transfers share: see ring.c. */

#ifndef XFERLIB_RING_H
#define XFERLIB_RING_H

#include <stdint.h>

typedef struct {
    char *memory;
    void *event;
    int64_t is_busy; /* a copy may still use it until the event completes */
    int64_t next;    /* where in it the next block of a download begins, if there is room */
} Chunk;

typedef struct Ring Ring;

Chunk *ring_take(Ring *ring, int way, int64_t most);
void ring_give(Ring *ring, Chunk *chunk, int way);
void ring_lose(Ring *ring, int way);
int ring_await(Ring *ring, int way, int64_t most, int64_t patience_ns);

#endif
