/* The state of a transfer: see staging.c, whose head says which lock protects what. */

#ifndef XFERLIB_STATE_H
#define XFERLIB_STATE_H

#include "threads.h"

#include "staging.h"

typedef struct {
    int64_t begun_ns, ended_ns; /* when the piece was filled or emptied */
    int64_t nbytes;
    int64_t thread; /* a helper's number, -1, -2, ...; of any other its thread_number() */
} Mark; /* what a recording wants to know of one piece */

typedef struct {
    Chunk *chunk;   /* NULL: the place is vacant */
    char *memory;   /* where in it */
    Region region;
    int64_t offset, nbytes; /* in the region */
    int64_t share;          /* bytes of a piece; the last one may be smaller */
    int64_t next, pieces;   /* the first piece that no thread has taken, and how many there are */
    int64_t left;           /* pieces that are not done */
    int is_settled;         /* the chunk may be filled, or has arrived */
    int is_streamed;        /* it is filled, or emptied, past the processor's caches */
} Block;

typedef struct {
    Block **blocks;
    int64_t first, count, room;
} Queue;

struct Staging {
    Setup setup;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_mutex_t marking; /* so that a recording's events are outside all blocks */
    Region *regions;
    int64_t region_count, region_room;
    int64_t region, offset; /* where the next block begins */
    int64_t total, begun;   /* bytes of all regions, and of the blocks that have been begun */
    int64_t work;           /* bytes of all regions, on the side where they are more: what threads have to do */
    int64_t following;      /* bytes of the next block, if that many are left */
    int64_t asked, sent, done; /* blocks that have been begun, are enqueued, and are done */
    int64_t all;               /* of all regions, once that is known; -1 before; atomic */
    int64_t threads;           /* that share a block */
    int64_t free_cores;        /* for helpers; -1 while nothing has asked */
    int is_closed;             /* no region will be added */
    Block *blocks; /* one for each chunk that it may have */
    int64_t held;  /* chunks; atomic */
    Queue free, arriving;
    Block *open;   /* the block whose pieces are being handed out; NULL when all of them are */
    int64_t error; /* the driver's first result that is not 0 */
    int is_ending; /* no thread may take another piece */
    int is_counted; /* among those at work */
    int is_fresh;
    int is_ended; /* a recording's event behind the last block is enqueued */
    Mark *marks;
    int64_t mark_count, mark_room;
    int64_t spin_ns;
    int64_t added;  /* how often regions were; atomic */
    int64_t wanted, called, helping; /* helpers that may still come, that were called, and that are here */
    Staging *following_wanted;       /* the next one that wants helpers */
    Staging *behind;                 /* in the list of all */
};

extern int64_t at_work[2]; /* downloads and uploads that are open; atomic */

static inline void push(Queue *queue, Block *block) {
    queue->blocks[(queue->first + queue->count++) % queue->room] = block;
}

static inline Block *pop(Queue *queue) {
    Block *block = queue->blocks[queue->first];
    queue->first = (queue->first + 1) % queue->room;
    queue->count--;
    return block;
}

static inline int64_t least(int64_t one, int64_t two) {
    return one < two ? one : two;
}

static inline int64_t most(int64_t one, int64_t two) {
    return one > two ? one : two;
}

/* The largest multiple of `unit` up to `nbytes`, at least one. */
static inline int64_t multiple(int64_t nbytes, int64_t unit) {
    return most(nbytes / unit, 1) * unit;
}

static inline int way_of(const Staging *staging) {
    return staging->setup.is_upward != 0;
}

/* It is not at work any more. */
static inline void rest(Staging *staging) {
    if (staging->is_counted) __atomic_sub_fetch(&at_work[way_of(staging)], 1, __ATOMIC_RELAXED);
    staging->is_counted = 0;
}

static inline int64_t held(const Staging *staging) {
    return __atomic_load_n(&staging->held, __ATOMIC_RELAXED);
}

/* Bytes of a region on the side where they are more: those of a conversion to a narrower dtype are the host's. */
static inline int64_t work_of(const Region *region) {
    const Layout *layout = region->layout;
    if (layout == NULL || layout->host_size <= layout->device_size) return region->nbytes;
    return region->nbytes / layout->device_size * layout->host_size;
}

/* --- of staging.c */

int run_pieces(Staging *staging, int64_t count, int64_t number);
void begin_loop(void);
void move_part(int is_upward, int is_streamed, const Layout *layout, char *host, char *pinned, int64_t offset, int64_t nbytes);
void move_parts(
    int is_upward, int is_streamed, const Region *region, char *pinned, int64_t offset, int64_t nbytes);
EXPORT Staging *xf_open(const Setup *setup);
EXPORT int xf_add(Staging *staging, const Region *regions, int64_t count, int is_last, int64_t more);
EXPORT int xf_run(Staging *staging, int64_t count);
EXPORT int64_t xf_end(Staging *staging);
EXPORT void xf_close(Staging *staging, int is_lost);

/* --- of ring.c */

EXPORT Chunk *xf_ring_take(Ring *ring, int way, int64_t most, int64_t left);
EXPORT void xf_ring_give(Ring *ring, Chunk *chunk, int way);
EXPORT void xf_ring_lose(Ring *ring, int way);
int ring_await(Ring *ring, int way, int64_t most, int64_t patience_ns);

/* --- of helpers.c */

EXPORT int xf_is_crowded(void);
int64_t free_cores(void);
void call_helpers(Staging *staging, int64_t count);
int help_another(Staging *staging);
void list_transfer(Staging *staging);
void unlist_transfer(Staging *staging);
void count_work(int way, int more);
int rouse(int64_t count, int64_t most_threads, int64_t spin_ns);
void note_crowded(void);
void pause_briefly(void);

/* --- of fill.c */

int has_fills(void);
int help_fills(void);
void forget_fills(void);

/* --- of host_copy.c */

int sends_nothing(uint64_t dst, uint64_t src, size_t nbytes, void *stream);
int records_nothing(void *event, void *stream);
int awaits_nothing(void *event);

#endif
