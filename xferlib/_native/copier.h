/* One synchronous copy by the driver: see calls.c. */

#ifndef XFERLIB_COPIER_H
#define XFERLIB_COPIER_H

#include "lease.h"

#include <stdint.h>

typedef uint64_t word;

typedef struct {
    int (*copy)(word, word, size_t); /* destination, source, bytes */
    int (*current)(void **);         /* the thread's context */
    int (*query)(void *);            /* whether a stream is idle; NULL: not asked */
    int is_upward;
    unsigned in_vain; /* calls since a wait for the stream was in vain; 0: none was */
} copier;

enum { NOT_ASKED = -1 };

int xf_copy(copier *c, word device, word memory, size_t nbytes);

#endif
