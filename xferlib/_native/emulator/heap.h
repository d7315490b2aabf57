/* Blocks of the device's heap: see services.c. */
#ifndef XF_HEAP_H
#define XF_HEAP_H

#include "kernel.h"

typedef struct HeapBlock {
    struct HeapBlock *left, *right, *next_freed;
    u64 begin, nbytes, priority;
    char *memory;
    u64 *initialised; /* a bit for each byte that has been written */
    int is_freed;
    void *shadow; /* of the checked launch with the serial number `owner` */
    u64 owner;
    u64 unwatched; /* launches without checks that had ended when it was allocated: what a further one writes is not noted */
} HeapBlock;

/* The block of which the address is a byte, or one of the margin behind it; freed ones too. NULL where there is none. */
HeapBlock *find_heap_block(u64 address);

/* Whether `initialised` tells of all that has been written. */
int is_noted(const HeapBlock *block);

#endif
