/* Floats and their bits, for the files that compute as a GPU does. */
#ifndef XF_FLOATS_H
#define XF_FLOATS_H

#include "kernel.h"

#include <string.h>

static inline f32 float_of(u32 bits) {
    f32 a;
    memcpy(&a, &bits, 4);
    return a;
}

/* The one NaN that a GPU gives. */
static inline f32 canonical(f32 a) {
    return a != a ? float_of(0x7fffffff) : a;
}

#endif
