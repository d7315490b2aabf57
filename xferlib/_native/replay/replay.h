/* The usual calls of to_device and to_host in one call of C: see replay.c. */

#ifndef XFERLIB_REPLAY_H
#define XFERLIB_REPLAY_H

#include "../calls/calls.h"
#include "../staging/staging.h"

enum { MOST_AXES = XF_MOST_AXES, MOST_TYPES = 24, MOST_ENTRIES = 32, MOST_INDEX = 16, MOST_NUMBERS = 60 };
enum { HUGE_PAGE = 2 << 20 }; /* bytes */
enum { ON_CPU = 1, ON_CUDA = 2, WHOLE = 1, COMPLEX = 5 }; /* kDLCPU, kDLCUDA, kDLUInt and kDLComplex of DLPack */
enum { C_ORDER = 0x1, ALIGNED = 0x100, WRITABLE = 0x400 }; /* NPY_ARRAY_... of NumPy's C API */

enum { NUMPY_ABI = 0x02000000, ABI_VERSION = 0, READ_NUMBER = 62, NEW_COPY = 85, NEW_FROM_DTYPE = 94, NEW_ZEROS = 183, NEW_EMPTY = 184, SET_BASE = 282 }; /* its table */

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

typedef struct {
    char *data;
    int axes, element;
    Py_ssize_t count, nbytes;
    const Py_ssize_t *strides; /* in bytes; NULL: not known, and in C order */
    int is_c;      /* in C order */
    int is_swapped; /* in the other byte order */
    int is_pinned; /* surely: it lies in a block of the pinned pool */
    int kind, index; /* of the device */
    int64_t extents[MOST_AXES];
    Py_ssize_t steps[MOST_AXES]; /* room for the strides of an array that has them in elements */
} description;

/* --- what Python has decided for arrays of one form: see copies.c */

enum {
    AT_ONCE = 1,     /* one call of the driver, in this thread; threads stage what it declines, and all without this flag */
    LOOPED = 2,      /* threads come first, where transfers follow one another */
    THROUGH = 4,     /* a download passes through the thread's pinned memory */
    ORDINARY = 8,    /* an upload is gathered in ordinary memory, not in pinned */
    AS_IT_LIES = 16, /* it crosses the link in the order of the host's memory: a kernel puts it in order */
    LEFT = 32,       /* Python copies it */
}; /* as in xferlib/_transfer/plan.py */

typedef struct {
    int flags;
    void *kernel; /* the second step of an upload, or the first of a download; Python keeps it loaded; NULL: there is none */
    unsigned blocks, block[2];
    int count;
    int64_t numbers[MOST_NUMBERS]; /* the kernel's arguments after the two addresses */
} way;

enum { WAYS_KEPT = 256, RANGES_KEPT = 8, STREAMS = 5 };

typedef struct {
    struct range {
        Py_ssize_t over, most; /* bytes */
        int flags;
    } kept[RANGES_KEPT];
    int count, next;
} ranges;

typedef struct {
    PyObject *kept; /* what the setup's addresses are of */
    Setup setup;
    void *stream; /* that it is for; NULL: the default one */
    unsigned long long epoch; /* in which it was given */
    int64_t until_ns, nbytes;  /* how long it is valid, and for transfers of how many bytes there are chunks */
} stream_setup;

/* --- what Python tells of libraries and devices: see tables.c */

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
    struct device_entry *devices[MOST_INDEX]; /* by the device's index; NULL: not known */
} library;

typedef struct device_entry {
    PyObject *device;
    const library *library;
    int kind, index;          /* as DLPack has them; kind 0: left to Python */
    word context;
    PyObject *empty;          /* (extents, dtype) -> array, on the default stream; on the CPU in recycled memory */
    PyObject *maker;          /* (extents, steps, the library's dtype) -> array, likewise; NULL: the library has none */
    PyObject *maker_on;       /* the same, on a current stream that is another one */
    PyObject *empty_on;       /* (extents, dtype, stream, None for the current one) -> array */
    PyObject *empty_between;  /* the same, for work on that stream alone */
    PyObject *hold;           /* (array, stream, source or None): keep them until the stream has done its work so far */
    PyObject *memory;         /* as xf_find_owner() takes it; NULL: nothing is known */
    PyObject *pointer;        /* array -> its address */
    PyObject *stream;         /* () -> handle of the current stream, where the exchange API does not tell */
    PyObject *hand_out;       /* (): the program is given an array; NULL: the library does not want to know */
    PyObject *is_current;     /* () -> whether the device is the thread's; NULL: it is the only one */
    PyObject *pinned;         /* (extents, dtype) -> host array in pinned memory */
    PyObject *scratch;        /* () -> the address and the size of the thread's pinned memory */
    PyObject *lease, *free, *dead; /* the type of the pool's leases, its free blocks by size, and the dead ones */
    PyObject *pool, *is_followed;  /* it counts; () -> whether Python has to lend */
    PyObject *prepare; /* (is_upload, is_pinned, extents, strides, dtypes of the host and the device, is_swapped) -> a way */
    PyObject *stage_setup;  /* (is_upload, bytes, stream, None for the current one) -> (what is to be kept, address of a Setup,
                               bytes), or None */
    PyObject *stage_finish; /* (is_upload, address of a transfer, its result, stream): go on with it, or raise what that means */
    /* The driver's functions, and those of the library `staging`. */
    int (*send)(word, word, size_t), (*fetch)(word, word, size_t); /* destination, source, bytes */
    int (*enqueue)(word, word, size_t, void *); /* reads ordinary memory before it returns; NULL: not tried */
    int (*fetch_later)(word, word, size_t, void *); /* NULL: not tried */
    int (*current)(void **);           /* the thread's context */
    int (*query)(void *);              /* whether a stream is idle; NULL: not asked */
    int (*wait)(void *);               /* until a stream is; NULL: no copies on a stream of the program's own */
    int (*is_captured)(void *, int *); /* whether a graph records a stream, 0 if not; NULL: it never does */
    int (*attribute)(void *, unsigned, word); /* of an address; NULL: no memory is pinned */
    int (*batch)(const word *, const word *, const size_t *, size_t, void *, size_t *, size_t, void *); /* CUDA's cuMemcpyBatchAsync */
    void *beside; /* a stream in order with the default one, on which CUDA makes no batches; NULL: no batches are made for that */
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    void (*spread)(const Layout *, char *, int64_t, int64_t, char *, int, int); /* xf_spread() */
    int64_t (*stage)(const Setup *, const Region *, int64_t, Staging **);       /* xf_copy() */
    Chunk *(*take_chunk)(Ring *, int, int64_t, int64_t); /* xf_ring_take() */
    void (*give_chunk)(Ring *, Chunk *, int);   /* xf_ring_give() */
    void (*lose_chunk)(Ring *, int);            /* xf_ring_lose() */
    int (*is_crowded)(void);
    void (*rouse)(int64_t, int64_t);                                            /* xf_rouse() */
    /* What calls have found out. */
    unsigned in_vain, behind_in_vain; /* uploads since a wait for the stream, before or behind one, was in vain; 0: none was */
    struct prepared *ways[WAYS_KEPT]; /* by the form's hash */
    ranges plain[2][2];              /* ways of plain bytes: to the device, from or to the pinned pool */
    stream_setup setups[2][STREAMS]; /* to the host, and to the device: the first on the default stream, the others on any */
    int next_setup[2];               /* of the others, which is replaced next */
    int64_t last_ns;                 /* when the last transfer of more than a few bytes ended */
} device_entry;

typedef struct {
    void *handle;     /* NULL: the default one */
    PyObject *named;  /* as Python has it, where the call names one; NULL: the current one */
    PyObject *device; /* of the one that is named */
} call_stream;

enum { MOST_BUFFERS = 4 };
enum { ENQUEUED_MOST = 64 << 10 }; /* bytes of ordinary memory that the driver reads at once; for more it waits for the stream */

typedef struct { /* pinned memory through which the arrays of a loop pass: see reader.c; Python provides it, down to `asked_from` */
    PyObject *kept; /* what Python gave, with the memory that the addresses are of; NULL: there is none */
    Py_ssize_t nbytes; /* of each buffer */
    int count;
    struct {
        char *memory;
        void *event; /* behind the last copy from it */
    } at[MOST_BUFFERS];
    int (*copy)(word, word, size_t, void *), (*record)(void *, void *), (*wait)(void *), (*query)(void *); /* the driver's */
    void (*fill)(char *, const char *, int64_t, int64_t, int64_t, int64_t, int64_t);        /* xf_fill() */
    void *(*fill_begin)(char *, const char *, int64_t, int64_t, int64_t, int64_t, int64_t); /* xf_fill_begin() */
    void (*fill_end)(void *);                                                               /* xf_fill_end() */
    long long helpers, most_threads, spin_ns; /* their last arguments */
    Py_ssize_t shared_from, past_most; /* bytes from which on threads fill a buffer together; up to which past the caches */
    Py_ssize_t asked_from; /* bytes from which on the driver is asked whether it reads an array of a list where it lies */
    int next; /* buffer */
    long long passed; /* arrays */
    int is_in_use;     /* the last array has passed */
    int is_behind;     /* the device once was, by more than the patience: the host has time for what lets copies run beside its work */
    long long patience_ns;
    PyObject *source;  /* of the filling that has begun ahead; NULL: there is none */
    void *filling;
} loop_buffers;

typedef struct { /* between an array in host memory and C order on a device, whose context is current */
    device_entry *e;
    const call_stream *on;
    const description *host;
    int element; /* on the device */
    word device; /* address */
    int is_upload, is_fresh; /* the pages on the host were never touched */
    PyObject *source; /* of an upload */
    PyObject *kept;   /* list: takes a pinned source that stays as it is, whose copy is not waited for; NULL: all are read on return */
    void *expected;   /* the stream that the caller marks behind the copies of what is in the list */
    loop_buffers *through; /* plain bytes of ordinary memory pass through, where they fit; NULL: there are none */
} device_copy;

struct tables {
    PyObject *epoch;  /* list of the fast path's epoch */
    PyObject *scopes; /* list that is empty while no block has ever been entered */
    PyObject *scope;  /* () -> the blocks around the call */
    PyObject *moves;  /* list of a number, another one after each change of the blocks that a thread is in */
    PyObject *follow; /* () -> the blocks around the call, which it makes true in the thread */
    PyObject *may_replay, *settle, *register_, *resolve;
    PyObject *to_device, *to_host; /* the general ones */
    PyObject *result; /* (extents, dtype) -> (host array in recycled memory, whether its pages were never touched) */
    PyObject *ndarray, *device, *stream, *memmap, *mmap, *between; /* types */
    void (*copy)(const Layout *, char *, char *, int64_t, int, int64_t, int64_t, int64_t, int64_t); /* xf_host_copy() */
    void (*fill_parts)(char *, const Part *, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t); /* xf_fill_parts() */
    long long helper_nbytes, helpers, most_threads, spin_ns; /* the last arguments of `copy` */
    long long fillers;                                       /* of `fill`, in place of the first two; 0: none may spin */
    Py_ssize_t host_most;  /* bytes; results of copies between host arrays lie in ordinary memory up to here */
    PyObject *dtype;       /* NumPy's type */
    PyObject *bool_, *int64, *float64; /* dtypes */
    PyObject *one;         /* the number */
    PyObject *dtypes;      /* dict: dtype, scalar type or name -> number of the element */
    PyObject *swapped;     /* dict: dtype in the other byte order -> the same */
    element elements[MOST_TYPES];
    int element_count;
    int byte; /* the number of the bytes' element; -1: there is none */
    library *libraries[MOST_ENTRIES];
    int library_count;
    device_entry *devices[MOST_ENTRIES];
    int device_count;
    struct {
        PyObject *backend, *capture, *copy, *device, *dtype, *handle, *out, *pinned, *_raw, *_reuses, *stream;
    } names; /* of keywords and attributes */
};

extern struct tables replay; /* as long as the process; nothing in it is ever freed, as another thread may be using it */

extern struct numpy_functions { /* those of its C API, once xf_numpy_functions() has been called */
    PyObject *(*new_copy)(PyObject *, int);
    PyObject *(*new_array)(PyObject *, PyObject *, int, const void *, const Py_ssize_t *, void *, int, PyObject *); /* extents, strides */
    int (*set_base)(PyObject *, PyObject *);
    PyObject *(*empty)(int, const int64_t *, PyObject *, int), *(*zeros)(int, const int64_t *, PyObject *, int);
    void (*read_number)(PyObject *, void *); /* of NumPy, as it lies in an array of its dtype */
} xf_numpy;

/* --- tables.c: which device and stream a call means, and whether C may use them */

int xf_numpy_functions(PyObject *capsule);
int xf_fill_tables(PyObject *objects, PyObject *elements, PyObject *numpy);
unsigned long long xf_epoch(void);
int xf_may_replay(void);
int xf_is_current(const device_entry *e, call_stream *on);
int xf_read_stream(PyObject *stream, call_stream *on);
device_entry *xf_default_device(void);
device_entry *xf_find_device(PyObject *device);
device_entry *xf_resolve_device(PyObject *device, PyObject *backend);
const library *xf_find_library(PyObject *array);
device_entry *xf_device_of(const library *l, const description *d);

/* --- arrays.c: descriptions of arrays, and new ones */

int xf_is_unusual(PyObject *question, PyObject *array, PyObject *usual);
int xf_describe_host(PyObject *array, description *d);
int xf_describe_swapped(PyObject *array, description *d);
int xf_is_recorded(const library *l);
int xf_describe(const library *l, PyObject *array, description *d);
int xf_describe_unrecorded(const library *l, PyObject *array, description *d);
int xf_is_lent(PyObject *array);
int xf_are_alike(const description *one, const description *other);
int xf_may_overlap(int count, const int64_t *given, const Py_ssize_t *strides, Py_ssize_t reach);
int xf_may_overlap_itself(const description *d);
void xf_describe_again(description *other, const description *d);
int xf_element_of(PyObject *dtype);
int xf_is_converted(const description *src, PyObject *dtype, description *arriving);
void xf_lay_out(const description *d, int wanted, Layout *layout);
PyObject *xf_tuple_of(const int64_t *numbers, int count, int unit);
PyObject *xf_make_on_cpu(const device_entry *e, const description *d);
PyObject *xf_make_on(const device_entry *e, const call_stream *on, const description *d, int is_between, word *address);
PyObject *xf_make_pinned(const device_entry *e, const description *d);
PyObject *xf_make_host_result(const description *d, Py_ssize_t most, int *is_fresh);

/* --- creation.c */

PyObject *xf_make_new(PyObject *size, PyObject *dtype, PyObject *device, PyObject *backend, int is_zero, description *d,
                      const device_entry **on);

/* --- replay.c */

PyObject *xf_as_array(PyObject *array, PyObject *dtype, PyObject *device, PyObject *backend);
PyObject *xf_hand_over(PyObject *array, PyObject *device, word stream, PyObject *kept, Py_ssize_t most, Py_ssize_t waited_most,
                       loop_buffers *through);
device_entry *xf_device_of_call(PyObject *device, PyObject *backend);
RARE PyObject *xf_call_general(PyObject *function, PyObject *const *given, Py_ssize_t count, PyObject *names);

/* --- reader.c */

int xf_send_through(const device_copy *c);

/* --- copies.c and host_copies.c */

int xf_find_way(const device_copy *c, way *found);
int xf_run_way(const device_copy *c, const way *w, PyObject *array, int is_new);
word xf_scratch(const device_entry *e, size_t nbytes, int is_upload);
void xf_keep_scratch(int is_read);
int xf_send_parts(device_entry *e, const call_stream *on, word device, size_t nbytes, const Part *parts, Py_ssize_t count, int is_looped);
PyObject *xf_setup_of(device_entry *e, const call_stream *on, int64_t nbytes, int is_upload, Setup *setup);
int xf_enqueue_each(const device_entry *e, void *stream, const word *to, const word *from, const size_t *nbytes, Py_ssize_t count,
                    int is_upload, void **busy);
int xf_is_idle(device_entry *e, void *stream);
int xf_copy_on_host(const description *src, const description *dst);
PyObject *xf_copy_to_new_on_host(PyObject *x, const description *src, const description *arriving);

/* --- questions that take no call */

static inline int is_of(PyObject *object, PyObject *type)
{
    return (PyObject *)Py_TYPE(object) == type;
}

static inline int is_plain(const description *host, int wanted)
{
    return host->is_c && !host->is_swapped && host->element == wanted;
}

static inline int is_changed(const description *src, const description *arriving)
{
    return src->is_swapped || arriving->element != src->element;
}

/* The last object under the bases of a NumPy array that is not one itself; NULL: it owns its memory. */
static inline PyObject *owner_of(PyObject *array)
{
    PyObject *base = ((const ndarray *)array)->base;
    while (base && is_of(base, replay.ndarray))
        base = ((const ndarray *)base)->base;
    return base;
}

#endif
