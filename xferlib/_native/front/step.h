/* A kernel that is the second step of an upload, or the first of a download: see step.c. */

#ifndef XFERLIB_STEP_H
#define XFERLIB_STEP_H

#include "../calls/lease.h"
#include "../staging/strided.h"

#include <stdint.h>

enum { MOST_NUMBERS = 60, STEPS_KEPT = 64 };

typedef struct {
    int16_t is_upward, is_pinned; /* the latter: the device reads or fills the host's memory by itself */
    int32_t axes, host, there;    /* the last two: numbers of the elements' types */
    int64_t extents[XF_MOST_AXES], strides[XF_MOST_AXES]; /* of the end on the host */
} step_form;

typedef struct {
    step_form form;
    void *handle; /* of the kernel, which relayout.py keeps loaded; NULL: there is none for the form */
    unsigned blocks, block[2];
    int count;
    int64_t numbers[MOST_NUMBERS]; /* the arguments after the two addresses */
} kernel_step;

typedef struct {
    PyObject *describe; /* (is_upward, is_pinned, extents, strides, dtypes of the host and there) -> as device_step.described; NULL: none */
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    kernel_step *kept[STEPS_KEPT]; /* by the form's hash */
} kernel_steps;

PyObject *xf_tuple_of(const int64_t *numbers, int count);
int xf_find_step(kernel_steps *s, const step_form *form, PyObject *host, PyObject *there, kernel_step *found);
int xf_launch_step(const kernel_steps *s, const kernel_step *found, uint64_t dst, uint64_t src, void *stream);

#endif
