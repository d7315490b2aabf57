/* Copies between a contiguous range of elements and a host array of any strides, with conversion: see strided.c. */

#ifndef XFERLIB_STRIDED_H
#define XFERLIB_STRIDED_H

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

#endif
