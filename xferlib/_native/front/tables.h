/* What Python tells of libraries and devices, and how arrays are described: see tables.c and arrays.c. */

#ifndef XFERLIB_TABLES_H
#define XFERLIB_TABLES_H

#include "stager.h"
#include "step.h"

enum { MOST_AXES = XF_MOST_AXES, MOST_TYPES = 16, MOST_ENTRIES = 32, MOST_INDEX = 16 };
enum { HUGE_PAGE = 2 << 20 }; /* bytes */
enum { ON_CPU = 1, ON_CUDA = 2, COMPLEX = 5 }; /* kDLCPU, kDLCUDA and kDLComplex of DLPack */
enum { C_ORDER = 0x1, ALIGNED = 0x100, WRITABLE = 0x400 }; /* NPY_ARRAY_... of NumPy's C API */

/* --- arrays, as their libraries lay them out */

typedef struct {
    PyObject_HEAD
    char *data;
    int axes;
    Py_ssize_t *extents, *strides;
    PyObject *base, *dtype;
    int flags;
} ndarray; /* PyArrayObject_fields: a part of NumPy's ABI, as the places in its table of functions are */

typedef struct {
    void *data;
    int32_t kind, index, axes;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *extents, *strides;
    uint64_t offset;
} DLTensor;

typedef struct {
    uint32_t major, minor;
    void *previous;
    void *functions[3];
    int (*describe)(void *, DLTensor *);
    int (*current_stream)(int32_t, int32_t, void **);
} DLPackExchangeAPI;

/* --- what Python tells */

typedef struct {
    PyObject *dtype; /* the one object that NumPy has for it */
    uint8_t code, bits;
    Py_ssize_t itemsize;
} element;

typedef struct {
    PyObject *type; /* of arrays, exactly */
    int is_known;   /* 0: its arrays are left to Python */
    const DLPackExchangeAPI *exchange;
    PyObject *whole;                    /* without that API: array -> (address, extents, dtype), or None */
    PyObject *is_negated, *is_conjugate; /* of an array; NULL: it never is */
    PyObject *recording;                /* () -> None where nothing is recorded; NULL: nothing ever is */
    PyObject *note_write;               /* (array, name); NULL: writes are not followed */
    PyObject *maker, *dtypes;           /* (extents, steps, dtype) -> array on the CPU; the library's dtypes; NULL: none */
    struct end *ends[MOST_INDEX];       /* by the device's index; NULL: not known */
} library;

typedef struct end {
    PyObject *device;
    const library *library;
    int kind, index;          /* as DLPack has them; kind 0: left to Python */
    PyObject *empty;          /* (extents, dtype) -> array, on the default stream */
    PyObject *empty_on;       /* (extents, dtype, stream, None for the current one) -> array */
    PyObject *empty_between;  /* the same, for work on that stream alone */
    PyObject *hold;           /* (array, stream, source or None): keep them until the stream has done its work so far */
    PyObject *pointer;        /* array -> its address */
    PyObject *stream;         /* () -> handle of the current stream, where the exchange API does not tell */
    PyObject *is_current;     /* () -> whether the device is the thread's; NULL: it is the only one */
    PyObject *pinned;         /* (extents, dtype) -> host array in pinned memory */
    PyObject *scratch;        /* () -> the address of the thread's pinned memory */
    PyObject *lease, *free, *dead; /* the type of the pool's leases, its free blocks by size, and the dead ones */
    PyObject *pool, *is_followed;  /* it counts; () -> whether Python has to lend */
    PyObject *result;              /* (extents, dtype) -> (host array, whether its pages were never touched) */
    word context;
    spreader up, down;
    stager staged;
    kernel_steps steps;
} end;

typedef struct {
    void *handle;     /* NULL: the default one */
    PyObject *named;  /* as Python has it, where the call names one; NULL: the current one */
    PyObject *device; /* of the one that is named */
} line; /* the stream of a call */

typedef struct {
    char *data;
    int axes, element;
    Py_ssize_t count, nbytes;
    const Py_ssize_t *strides; /* in bytes; NULL: not known, and in C order */
    int is_c;      /* in C order */
    int is_swapped; /* in the other byte order */
    int is_pinned; /* surely */
    int kind, index; /* of the device */
    int64_t extents[MOST_AXES];
    Py_ssize_t steps[MOST_AXES]; /* room for the strides of an array that has them in elements */
} description;

/* `xf_host_copy` of staging.c */
typedef void (*host_copy)(const Layout *, char *, char *, int64_t, int, int64_t, int64_t, int64_t, int64_t);

struct tables {
    PyObject *number; /* list of the number of the circumstances */
    PyObject *scopes; /* list that is empty while no block has ever been entered */
    PyObject *scope;  /* () -> the blocks around the call */
    PyObject *moves;  /* list of a number, another one after each change of the blocks that a thread is in */
    PyObject *follow; /* () -> the blocks around the call, which it makes true in the thread */
    PyObject *may_skip, *settle, *introduce, *resolve;
    PyObject *to_device, *to_host; /* the general ones */
    PyObject *ndarray, *device, *stream, *memmap, *mmap, *between; /* types */
    PyObject *(*new_copy)(PyObject *, int);
    PyObject *(*new_array)(PyObject *, PyObject *, int, const int64_t *, const Py_ssize_t *, void *, int, PyObject *);
    int (*set_base)(PyObject *, PyObject *);
    host_copy copy;
    int64_t helper_nbytes, helpers, most_threads, spin_ns; /* its last arguments */
    Py_ssize_t most_up, most_down, most_copied, least_through, most_through, most_spread; /* bytes */
    Py_ssize_t scratch;         /* bytes of each thread's pinned memory */
    Py_ssize_t most_ordered;    /* bytes of an array without gaps that the host puts in order */
    Py_ssize_t least_reordered; /* elements; fewer it puts in order too */
    Py_ssize_t least_looped;  /* bytes; from here on threads take part in a loop */
    Py_ssize_t least_looped_up, least_looped_down; /* the same of what has another layout or is converted */
    Py_ssize_t least_narrowed; /* bytes on the host; the same of an upload that becomes narrower */
    Py_ssize_t least_halved, least_quartered; /* bytes; from here on Python decides where what is converted so is */
    PyObject *dtype;       /* NumPy's type */
    PyObject *dtypes;      /* dict: dtype, scalar type or name -> number of the element */
    PyObject *swapped;     /* dict: dtype in the other byte order -> the same */
    element elements[MOST_TYPES];
    int element_count;
    library *libraries[MOST_ENTRIES];
    int library_count;
    end *ends[MOST_ENTRIES];
    int end_count;
    struct {
        PyObject *backend, *capture, *copy, *device, *dtype, *handle, *out, *pinned, *raw, *reuses, *stream;
    } names; /* of keywords and attributes */
};

extern struct tables front; /* as long as the process; nothing in it is ever freed, as another thread may be using it */

int xf_fill_tables(PyObject *objects, PyObject *limits, PyObject *elements, PyObject *numpy);

/* --- questions that take no call */

/* The stream that a call names, for Python; None for the current one. */
static inline PyObject *stream_of(const line *l)
{
    return l->named ? l->named : Py_None;
}

/* Whether a call may use what runs on the default stream alone. */
static inline int is_default(const line *l)
{
    return !l->handle && !l->named;
}

static inline Py_ssize_t bytes_there(const description *host, int wanted)
{
    return host->count * front.elements[wanted].itemsize;
}

static inline int is_plain(const description *host, int wanted)
{
    return host->is_c && !host->is_swapped && host->element == wanted;
}

static inline int is_changed(const description *src, const description *arriving)
{
    return src->is_swapped || arriving->element != src->element;
}

#endif
