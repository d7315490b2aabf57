/* What the files of this folder share: host memory of NumPy arrays, and loops for more than one processor. */

#ifndef XFERLIB_COMPUTE_H
#define XFERLIB_COMPUTE_H

#include "../replay/replay.h"

enum { LONG_COUNT = 1 << 14 }; /* elements from which a call is worth releasing the GIL */

/* Some are called on x86 alone. */
#define INLINED static inline __attribute__((always_inline, unused))

/* A function of arguments ARGS, given as NAMES, whose body is the inlined function NAME##_body: for any processor, and for the
   vectors of AVX2. The bits are the same: there is no fma, as the flags of the build say. An analyzer reads one of the two. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(XF_ANALYZED)
#define FOR_VECTORS(NAME, ARGS, NAMES)                                           \
    __attribute__((target("avx2"))) static void NAME##_avx2 ARGS { NAME##_body NAMES; } \
    static void NAME##_anywhere ARGS { NAME##_body NAMES; }                      \
    static void NAME ARGS                                                        \
    {                                                                            \
        if (__builtin_cpu_supports("avx2"))                                      \
            NAME##_avx2 NAMES;                                                   \
        else                                                                     \
            NAME##_anywhere NAMES;                                               \
    }
#else
#define FOR_VECTORS(NAME, ARGS, NAMES) \
    static void NAME ARGS { NAME##_body NAMES; }
#endif

void xf_meet_arrays(PyObject *type);

/* The memory of a NumPy array of one axis, aligned and in C order; NULL for any other object. */
static inline char *row_of(PyObject *array, Py_ssize_t *count, int is_written)
{
    const ndarray *a = (const ndarray *)array;
    int wanted = C_ORDER | ALIGNED | (is_written ? WRITABLE : 0);
    if (!replay.ndarray || !is_of(array, replay.ndarray) || a->axes != 1 || (a->flags & wanted) != wanted)
        return NULL;
    *count = a->extents[0];
    return a->data;
}

#endif
