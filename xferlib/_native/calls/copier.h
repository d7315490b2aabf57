/* Copies by the driver that are over for the caller when they return: see copier.c. */

#ifndef XFERLIB_COPIER_H
#define XFERLIB_COPIER_H

#include "lease.h"

#include <stdint.h>

typedef uint64_t word;

typedef struct {
    int (*copy)(word, word, size_t); /* destination, source, bytes */
    int (*current)(void **);         /* the thread's context */
    int (*query)(void *);            /* whether a stream is idle; NULL: not asked */
    int (*wait)(void *);             /* until a stream is; NULL: no copies on a stream of the program's own */
    int (*is_captured)(void *, int *); /* whether a graph records a stream, 0 if not; NULL: it never does */
    int (*attribute)(void *, unsigned, word); /* of an address; NULL: no memory is pinned */
    int (*enqueue)(word, word, size_t, void *); /* reads ordinary memory before it returns; NULL: not tried */
    int is_upward;
    unsigned in_vain; /* calls since a wait for the stream was in vain; 0: none was */
    unsigned behind_in_vain; /* the same of waits behind a copy */
} copier;

typedef struct {
    copier copier;
    union {
        void (*gather)(const void *, const char *, int64_t, int64_t, char *, int);
        void (*scatter)(const void *, char *, int64_t, int64_t, const char *, int);
    } c; /* of strided.c */
} spreader;

enum { NOT_ASKED = -1 };
enum { PINNED = 1 }; /* CUDA's CU_MEMORYTYPE_HOST */

int xf_is_word(PyObject *given, word *found); /* of calls.c */
int xf_kind_of(const copier *c, const char *host);
int xf_copy(copier *c, word device, word memory, size_t nbytes, void *stream);
int xf_is_over(copier *c, void *stream);
int xf_fetch_through(copier *c, char *host, word device, size_t nbytes, word memory, void *stream);
int xf_spread(spreader *s, const void *layout, char *host, word count, word device, size_t nbytes, word memory, void *stream,
              int is_ordinary);

#endif
