/* Copies of elements: see strided.c. And the description of a staged transfer, which Python or copies.c fills in: see staging.c. */

#ifndef XFERLIB_STAGING_H
#define XFERLIB_STAGING_H

#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define XF_MOST_AXES 32

typedef struct {
    int64_t axes;
    int64_t extents[XF_MOST_AXES]; /* in C order, the last one fastest */
    int64_t strides[XF_MOST_AXES]; /* of the host, in bytes */
    int64_t host_size, device_size; /* bytes of an element */
    int64_t host_type, device_type; /* places in the tables of loops.h */
    int64_t is_swapped;             /* the host's elements are in the other byte order */
} Layout; /* what Python fills in, and keeps for arrays alike: see xferlib/_native/__init__.py */

void chunk_fill(int is_streamed, char *restrict pinned, const char *restrict host, size_t nbytes);
void chunk_empty(int is_streamed, char *restrict host, const char *restrict pinned, size_t nbytes);
EXPORT int64_t xf_unit(const Layout *layout);
EXPORT void xf_spread(
    const Layout *layout, char *host, int64_t first, int64_t count, char *device, int is_gather, int is_streamed);

/* --- staged transfers */

typedef struct {
    char *memory;
    void *event;
    int64_t is_busy; /* a copy may still use it until the event completes */
    int64_t next;    /* where in it the next block of a download begins, if there is room */
} Chunk;

/* Where in its chunk a block of a download lies; `most`: the bytes of the largest. A device writes slowly to memory that a core has just
   read and still has in its cache: 64 arrays of 1.5 MiB, each at the start of one of eight chunks, reached an H200's host at 25 GB/s, and
   come at 47 if each block of a chunk lies behind the one before, in whole pages. */
static inline char *place_in(Chunk *chunk, int64_t nbytes, int64_t most) {
    int64_t size = (nbytes + 4095) / 4096 * 4096, start = chunk->next + size <= most ? chunk->next : 0;
    chunk->next = start + size;
    return chunk->memory + start;
}

typedef struct Ring Ring;

typedef struct {
    char *host;
    int64_t place, nbytes; /* its offset in the region, in bytes on the device, and its size there */
    const Layout *layout;  /* of an array that is not plain; NULL: contiguous bytes stay as they are */
} Part;

typedef struct {
    char *host;
    uint64_t device;
    int64_t nbytes; /* on the device */
    int64_t unit;   /* every block and piece begins at a multiple of it; 0: that of the layout */
    const Layout *layout; /* of an array that is not plain; NULL: contiguous bytes stay as they are */
    const Part *part;     /* instead of `host`: arrays that are copied together, in the order of their places */
    int64_t parts;
    int64_t is_fresh; /* pages that were never touched: the kernel clears each in the thread that does so first */
} Region; /* what Python fills in: see xferlib/_native/__init__.py */

typedef struct {
    Ring *ring;
    void *stream;
    int (*copy)(uint64_t dst, uint64_t src, size_t nbytes, void *stream);
    int (*record)(void *event, void *stream);
    int (*wait)(void *event);
    int (*order)(void *stream, void *event, unsigned flags); /* let a stream wait; NULL: the host waits instead */
    int (*enter)(void *context); /* what a helper calls before it calls the others; NULL: nothing */
    void *context;
    int64_t is_upward;
    int64_t most_chunks;   /* of this transfer */
    int64_t shared_chunks; /* the same while the other direction is at work too */
    int64_t way_chunks;    /* of all transfers in this direction */
    int64_t first_block, largest_block, block_parts; /* blocks double from the first, up to a part of the transfer */
    int64_t least_piece, most_piece;
    int64_t helper_nbytes; /* of the transfer, for each helper that is called */
    int64_t streamed_from; /* bytes of transfers that go past the processor's caches, beside their link */
    int64_t cached_from;   /* bytes of uploads that do not, */
    int64_t shared_cached_from; /* and the same while downloads are at work */
    int64_t patient_from;  /* bytes from which on it does not matter that a helper has to wait for a core */
    int64_t spin_ns;       /* how long a helper spins before it sleeps, in a loop of transfers */
    int64_t each_way, clearing, both_ways; /* threads of a transfer, of one with fresh pages, and helpers in all */
    int64_t is_marked;
    void *before_first, *after_last; /* events that a recording wants around all blocks */
} Setup; /* likewise; xf_open() copies it */

#define LOOP_NS 1000000 /* transfers that come so soon after one another are a loop, for which threads spin */

typedef struct Staging Staging;

enum { NO_MEMORY = -1, STARVED = -2 }; /* results of xf_copy() that are not the driver's */

#endif
