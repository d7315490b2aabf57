/* Staged transfers of one call, for front.c: see stager.c. */

#ifndef XFERLIB_STAGER_H
#define XFERLIB_STAGER_H

#include "../calls/copier.h"
#include "../staging/staging.h"

enum { STREAMS = 5 };

typedef struct {
    PyObject *kept; /* what the setup's addresses are of */
    Setup setup;
    void *stream; /* that it is for; NULL: the default one */
    unsigned long long number; /* of the circumstances in which it was given */
    int64_t until_ns, nbytes;  /* how long it is valid, and for transfers of how many bytes there are chunks */
} way;

typedef struct {
    PyObject *prepare; /* (whether it is upward, bytes, stream) -> (what is to be kept, address of a Setup, bytes), or None;
                          the stream is None where the current one is meant */
    PyObject *finish;  /* (whether it is upward, address of a transfer, its result, stream): go on with it, or raise what the
                          result means */
    int64_t (*copy)(const Setup *, const Region *, int64_t, Staging **);
    int (*is_crowded)(void);
    way ways[2][STREAMS]; /* to the host, and to the device: the first on the default stream, the others on any */
    int next[2];          /* of the others, which is replaced next */
    int64_t last_ns;   /* when the last transfer of more than a few bytes ended */
} stager;

enum { IS_PINNED = 2 };

int xf_stage(stager *s, const copier *c, const Region *region, void *stream, PyObject *named, unsigned long long number,
             int may_be_drivers, int is_looped);
int xf_is_looped(const stager *s);
void xf_note_end(stager *s);

#endif
