/* The pinned chunks of one device that its transfers share.

   Python makes the chunks, each with an event of the device, and frees them. A transfer takes one when it has a block to
   fill or to ask for, keeps it for its later blocks, and gives all of them back when its last block is done. A chunk that
   comes back may still be read by a copy: its event tells when it may be filled.

   The obvious way is a queue. With one, each transfer uses other chunks than the last, and finds none of them in the
   processor's caches; so the first free one is taken. One direction gets no more than a share, so that transfers in the
   other go on.

   `lock` protects everything here; nothing else is locked while it is held. */

#include "state.h"

#include <stdlib.h>

enum { MOST = 64 }; /* chunks: one bit each */

struct Ring {
    pthread_mutex_t lock;
    pthread_cond_t freed;
    int64_t waiting; /* threads */
    uint64_t there;  /* the chunks that exist, */
    uint64_t free;   /* and those that no transfer has */
    int64_t lent[2]; /* to downloads and uploads */
    Chunk chunks[MOST];
};

EXPORT Ring *xf_ring_new(void) {
    Ring *ring = calloc(1, sizeof *ring);
    if (ring == NULL) return NULL;
    pthread_mutex_init(&ring->lock, NULL);
    condition_init(&ring->freed);
    return ring;
}

/* Only when no transfer uses it. */
EXPORT void xf_ring_close(Ring *ring) {
    if (ring == NULL) return;
    pthread_cond_destroy(&ring->freed);
    pthread_mutex_destroy(&ring->lock);
    free(ring);
}

static int64_t count_of(uint64_t bits) {
    return __builtin_popcountll(bits);
}

static int64_t lowest(uint64_t bits) {
    return __builtin_ctzll(bits);
}

static uint64_t bit(int64_t number) {
    return (uint64_t)1 << number;
}

/* Returns the chunk's number, or -1 where there are as many as there can be. */
EXPORT int64_t xf_ring_add(Ring *ring, char *memory, void *event) {
    pthread_mutex_lock(&ring->lock);
    int64_t number = ~ring->there ? lowest(~ring->there) : -1;
    if (number >= 0) {
        ring->chunks[number] = (Chunk){memory, event, 0, 0};
        ring->there |= bit(number);
        ring->free |= bit(number);
        if (ring->waiting) pthread_cond_broadcast(&ring->freed);
    }
    pthread_mutex_unlock(&ring->lock);
    return number;
}

/* Take a free chunk away for good; returns its number, or -1. A copy may still use it until its event completes. */
EXPORT int64_t xf_ring_remove(Ring *ring) {
    pthread_mutex_lock(&ring->lock);
    int64_t number = ring->free ? lowest(ring->free) : -1;
    if (number >= 0) ring->free &= ~bit(number), ring->there &= ~bit(number);
    pthread_mutex_unlock(&ring->lock);
    return number;
}

/* How many chunks transfers have: all downloads, or all uploads. */
EXPORT int64_t xf_ring_lent(Ring *ring, int64_t way) {
    pthread_mutex_lock(&ring->lock);
    int64_t lent = ring->lent[way != 0];
    pthread_mutex_unlock(&ring->lock);
    return lent;
}

EXPORT int64_t xf_ring_free(Ring *ring) {
    pthread_mutex_lock(&ring->lock);
    int64_t count = count_of(ring->free);
    pthread_mutex_unlock(&ring->lock);
    return count;
}

/* How many chunks are free or lent: all but those that were lost. */
EXPORT int64_t xf_ring_usable(Ring *ring) {
    pthread_mutex_lock(&ring->lock);
    int64_t count = count_of(ring->free) + ring->lent[0] + ring->lent[1];
    pthread_mutex_unlock(&ring->lock);
    return count;
}

/* The first free chunk; NULL if no more than `left` are free, or all transfers of this direction have `most` but for these. */
EXPORT Chunk *xf_ring_take(Ring *ring, int way, int64_t most, int64_t left) {
    Chunk *chunk = NULL;
    pthread_mutex_lock(&ring->lock);
    if (count_of(ring->free) > left && ring->lent[way] < most - left) {
        int64_t number = lowest(ring->free);
        ring->free &= ~bit(number);
        ring->lent[way]++;
        chunk = &ring->chunks[number];
    }
    pthread_mutex_unlock(&ring->lock);
    return chunk;
}

EXPORT void xf_ring_give(Ring *ring, Chunk *chunk, int way) {
    pthread_mutex_lock(&ring->lock);
    ring->free |= bit(chunk - ring->chunks);
    ring->lent[way]--;
    if (ring->waiting) pthread_cond_broadcast(&ring->freed);
    pthread_mutex_unlock(&ring->lock);
}

/* The transfer of a chunk failed, and a copy may use it for ever: it keeps its number, and nothing uses it again. */
EXPORT void xf_ring_lose(Ring *ring, int way) {
    pthread_mutex_lock(&ring->lock);
    ring->lent[way]--;
    if (ring->waiting) pthread_cond_broadcast(&ring->freed);
    pthread_mutex_unlock(&ring->lock);
}

/* Wait until `xf_ring_take` would return a chunk; 0 after a while in which nothing has changed. */
int ring_await(Ring *ring, int way, int64_t most, int64_t patience_ns) {
    pthread_mutex_lock(&ring->lock);
    ring->waiting++;
    int has_come = (ring->free && ring->lent[way] < most) || wait_at_most(&ring->freed, &ring->lock, patience_ns);
    ring->waiting--;
    pthread_mutex_unlock(&ring->lock);
    return has_come;
}
