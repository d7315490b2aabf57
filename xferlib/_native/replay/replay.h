/* The usual calls of to_device and to_host in one call of C: see replay.c. */

#ifndef XFERLIB_REPLAY_H
#define XFERLIB_REPLAY_H

#include "../calls/calls.h"
#include "../staging/staging.h"

enum { MOST_AXES = XF_MOST_AXES, MOST_TYPES = 16, MOST_ENTRIES = 32, MOST_INDEX = 16, MOST_NUMBERS = 60 };
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

/* --- ways: what Python has decided for arrays of one form, see ways.c */

enum {
    AT_ONCE = 1,     /* one call of the driver, in this thread; threads stage what it declines, and all without this flag */
    LOOPED = 2,      /* threads come first, where transfers follow one another */
    THROUGH = 4,     /* a download passes through the thread's pinned memory */
    ORDINARY = 8,    /* an upload is gathered in ordinary memory, not in pinned */
    AS_IT_LIES = 16, /* it crosses the link in the order of the host's memory: a kernel puts it in order */
    LEFT = 32,       /* Python copies it */
}; /* as in xferlib/_transfer/plan.py */

typedef struct {
    void *handle; /* of a function that Python keeps loaded; NULL: there is no kernel */
    unsigned blocks, block[2];
    int count;
    int64_t numbers[MOST_NUMBERS]; /* the arguments after the two addresses */
} kernel_launch;

typedef struct {
    int flags;
    kernel_launch kernel; /* the second step of an upload, or the first of a download */
} way;

enum { WAYS_KEPT = 256, PLAIN_KEPT = 8 };

typedef struct {
    PyObject *prepare; /* (is_upload, is_pinned, extents, strides, dtypes of the host and the device, is_swapped) -> a way */
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    struct prepared *kept[WAYS_KEPT]; /* by the form's hash */
    struct {
        struct {
            Py_ssize_t over, most; /* bytes */
            int flags;
        } rows[PLAIN_KEPT];
        int count, next;
    } plain[2][2]; /* of plain bytes: to the device, from or to the pinned pool */
} ways;

/* --- staged transfers of one call: see stager.c */

enum { STREAMS = 5 };

typedef struct {
    PyObject *kept; /* what the setup's addresses are of */
    Setup setup;
    void *stream; /* that it is for; NULL: the default one */
    unsigned long long epoch; /* in which it was given */
    int64_t until_ns, nbytes;  /* how long it is valid, and for transfers of how many bytes there are chunks */
} stream_setup;

typedef struct {
    PyObject *prepare; /* (whether it is upward, bytes, stream) -> (what is to be kept, address of a Setup, bytes), or None;
                          the stream is None where the current one is meant */
    PyObject *finish;  /* (whether it is upward, address of a transfer, its result, stream): go on with it, or raise what the
                          result means */
    int64_t (*copy)(const Setup *, const Region *, int64_t, Staging **);
    int (*is_crowded)(void);
    stream_setup setups[2][STREAMS]; /* to the host, and to the device: the first on the default stream, the others on any */
    int next[2];          /* of the others, which is replaced next */
    int64_t last_ns;   /* when the last transfer of more than a few bytes ended */
} stager;

enum { IS_PINNED = 2 };

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
    PyObject *empty;          /* (extents, dtype) -> array, on the default stream; on the CPU in recycled memory */
    PyObject *empty_on;       /* (extents, dtype, stream, None for the current one) -> array */
    PyObject *empty_between;  /* the same, for work on that stream alone */
    PyObject *hold;           /* (array, stream, source or None): keep them until the stream has done its work so far */
    PyObject *pointer;        /* array -> its address */
    PyObject *stream;         /* () -> handle of the current stream, where the exchange API does not tell */
    PyObject *is_current;     /* () -> whether the device is the thread's; NULL: it is the only one */
    PyObject *pinned;         /* (extents, dtype) -> host array in pinned memory */
    PyObject *scratch;        /* () -> the address and the size of the thread's pinned memory */
    PyObject *lease, *free, *dead; /* the type of the pool's leases, its free blocks by size, and the dead ones */
    PyObject *pool, *is_followed;  /* it counts; () -> whether Python has to lend */
    word context;
    spreader up, down;
    stager staged;
    ways ways;
} device_entry;

typedef struct {
    void *handle;     /* NULL: the default one */
    PyObject *named;  /* as Python has it, where the call names one; NULL: the current one */
    PyObject *device; /* of the one that is named */
} call_stream;

/* `xf_host_copy` of staging.c */
typedef void (*host_copy)(const Layout *, char *, char *, int64_t, int, int64_t, int64_t, int64_t, int64_t);

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
    PyObject *(*new_copy)(PyObject *, int);
    PyObject *(*new_array)(PyObject *, PyObject *, int, const int64_t *, const Py_ssize_t *, void *, int, PyObject *);
    int (*set_base)(PyObject *, PyObject *);
    host_copy copy;
    int64_t helper_nbytes, helpers, most_threads, spin_ns; /* its last arguments */
    Py_ssize_t host_most;  /* bytes; results of copies between host arrays lie in ordinary memory up to here */
    PyObject *dtype;       /* NumPy's type */
    PyObject *dtypes;      /* dict: dtype, scalar type or name -> number of the element */
    PyObject *swapped;     /* dict: dtype in the other byte order -> the same */
    element elements[MOST_TYPES];
    int element_count;
    library *libraries[MOST_ENTRIES];
    int library_count;
    device_entry *devices[MOST_ENTRIES];
    int device_count;
    struct {
        PyObject *backend, *capture, *copy, *device, *dtype, *handle, *out, *pinned, *raw, *reuses, *stream;
    } names; /* of keywords and attributes */
};

extern struct tables replay; /* as long as the process; nothing in it is ever freed, as another thread may be using it */

/* --- the module's functions */

PyObject *xf_bind_replay(PyObject *module, PyObject *arguments);
PyObject *xf_add_library(PyObject *module, PyObject *arguments);
PyObject *xf_add_device(PyObject *module, PyObject *arguments);
PyObject *xf_forget_devices(PyObject *module, PyObject *ignored);
PyObject *xf_fetch_pinned(PyObject *module, PyObject *arrays);
int xf_fill_tables(PyObject *objects, PyObject *elements, PyObject *numpy);

/* --- devices.c: which device and stream a call means, and whether C may use them */

unsigned long long xf_epoch(void);
int xf_may_replay(void);
int xf_is_answered(PyObject *question, int if_none);
int xf_is_current(const device_entry *e, call_stream *on);
int xf_read_stream(PyObject *stream, call_stream *on);
void xf_forget_stream(const call_stream *on);
int xf_follow(void);
device_entry *xf_default_device(void);
device_entry *xf_find_device(PyObject *device);
device_entry *xf_resolve_device(PyObject *device, PyObject *backend);
const library *xf_find_library(PyObject *array);
device_entry *xf_device_of(const library *l, const description *d);

/* --- arrays.c: descriptions */

int xf_is_mapped(PyObject *array);
int xf_describe_host(PyObject *array, description *d);
int xf_describe_swapped(PyObject *array, description *d);
int xf_describe(const library *l, PyObject *array, description *d);
int xf_is_lent(PyObject *array);
int xf_are_alike(const description *one, const description *other);
int xf_may_overlap_itself(const description *d);
void xf_describe_again(description *other, const description *d);
int xf_is_converted(const description *src, int number, description *arriving);
int xf_element_of(PyObject *dtype);
void xf_lay_out(const description *d, int wanted, Layout *layout);

/* --- results.c: new arrays */

PyObject *xf_tuple_of(const int64_t *numbers, int count);
PyObject *xf_host_array(const description *d, void *memory, PyObject *base);
PyObject *xf_make_on_cpu(const device_entry *e, const description *d);
PyObject *xf_make_on(const device_entry *e, const call_stream *on, const description *d, int is_between);
word xf_address_of(const device_entry *e, PyObject *array);
PyObject *xf_pinned_array(const device_entry *e, const description *d);
PyObject *xf_host_result(const description *d, Py_ssize_t most, int *is_fresh);
int xf_note_write(const library *l, PyObject *array);

/* --- ways.c */

int xf_find_way(device_entry *e, const description *host, int wanted, int is_upload, way *found);
int xf_launch(const ways *w, const kernel_launch *kernel, uint64_t dst, uint64_t src, void *stream);

/* --- stager.c and moves.c: copies between an array in host memory and a device */

int xf_stage(stager *s, const copier *c, const Region *region, const call_stream *on, int may_be_drivers, int is_looped);
int xf_is_looped(const stager *s);
void xf_note_end(stager *s);
int xf_move(device_entry *e, spreader *s, const description *host, int wanted, word device, const call_stream *on, int is_fresh,
            int flags);
int xf_is_held(device_entry *e, const call_stream *on, PyObject *array, PyObject *source);
int xf_send(device_entry *e, const call_stream *on, PyObject *x, const description *src, int wanted, word device, PyObject *array,
            int is_new, const way *w);
int xf_move_in_steps(device_entry *e, PyObject *x, const description *host, word device, const call_stream *on, int is_fresh,
                     int is_upload, const way *w);

/* --- host_copies.c and transfers.c */

int xf_copy_on_host(const description *src, const description *dst);
PyObject *xf_copied_on_host(PyObject *x, const description *src, const description *arriving);
PyObject *xf_small_copy(PyObject *object, Py_ssize_t most);
PyObject *xf_upload(PyObject *x, PyObject *device, PyObject *backend, PyObject *out, PyObject *dtype, call_stream *on);
PyObject *xf_download(PyObject *d, PyObject *out, int is_pinned, PyObject *dtype, call_stream *on);

/* --- questions that take no call */

/* The stream that a call names, for Python; None for the current one. */
static inline PyObject *stream_of(const call_stream *on)
{
    return on->named ? on->named : Py_None;
}

static inline Py_ssize_t bytes_there(const description *host, int wanted)
{
    return host->count * replay.elements[wanted].itemsize;
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
