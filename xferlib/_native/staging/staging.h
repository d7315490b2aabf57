/* The description of a staged transfer, which Python or stager.c fills in: see staging.c. */

#ifndef XFERLIB_STAGING_H
#define XFERLIB_STAGING_H

#include <stddef.h>
#include <stdint.h>

#include "ring.h"
#include "strided.h"

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
