/* The usual calls of to_device and to_host, each in one call of C.

   Most calls move one small array, and their time is that of the steps around the copy: some twenty frames of Python, and
   a question to the array's library for each thing to be known of it. Here a call looks at the arrays' own memory (a
   NumPy array's is laid out as its C API promises; torch's is described by DLPack's C exchange API), asks the library
   for what that does not tell, and lets the driver copy; between two arrays in host memory it copies by itself. All else is
   left, with nothing done, to the functions in Python (`general`), which know every case and raise every error: another
   keyword, other layouts on the device, managed memory, a recording, and what went wrong here. The stream may be one of the
   program's own: see calls.c for what that means to a copy. Large arrays are staged: see stager.c. What a kernel of the device
   puts in order or converts: see step.c.

   What no call changes is asked once, and again after anything that could change it has replaced the number of
   xferlib/_runtime/circumstances.py: whether short cuts are allowed, and where arrays go for which no device is named. Both
   answers belong to a thread. xferlib/_api/front.py gives them, and describes libraries and devices. */

#include "front.h"
#include "plain.h"
#include "stager.h"
#include "step.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AXES = XF_MOST_AXES, MOST_TYPES = 16, MOST_ENTRIES = 32, MOST_INDEX = 16, GIL_KEPT_MOST = 64 << 10 };
enum { C_ORDER = 0x1, ALIGNED = 0x100, WRITABLE = 0x400 }; /* NPY_ARRAY_... of NumPy's C API */
enum { NUMPY_ABI = 0x02000000, ABI_VERSION = 0, NEW_COPY = 85, NEW_FROM_DTYPE = 94, SET_BASE = 282 }; /* its table */
enum { HUGE_PAGE = 2 << 20, PAGE = 4096, LINE = 64 };      /* bytes of a page, and of a line of the cache */
enum { ON_CPU = 1, ON_CUDA = 2, COMPLEX = 5 };             /* kDLCPU, kDLCUDA and kDLComplex of DLPack */

typedef struct {
    PyObject_HEAD
    char *data;
    int axes;
    Py_ssize_t *extents, *strides;
    PyObject *base, *dtype;
    int flags;
} ndarray; /* PyArrayObject_fields: a part of NumPy's ABI, as the places in its table of functions are */

typedef struct {
    PyObject_HEAD
    PyTypeObject *scalars;
} descriptor; /* the first field of PyArray_Descr, likewise */

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

static struct {
    PyObject *number; /* list of the number of the circumstances */
    PyObject *scopes; /* list that is empty while no block has ever chosen a backend */
    PyObject *scope;  /* () -> the backend that a block chose, or None */
    PyObject *may_skip, *settle, *introduce, *resolve;
    PyObject *to_device, *to_host; /* the general ones */
    PyObject *ndarray, *device, *stream; /* types */
    PyObject *(*new_copy)(PyObject *, int);
    PyObject *(*new_array)(PyObject *, PyObject *, int, const int64_t *, const Py_ssize_t *, void *, int, PyObject *);
    int (*set_base)(PyObject *, PyObject *);
    void (*copy)(const Layout *, char *, char *, int64_t, int, int64_t, int64_t, int64_t, int64_t); /* of staging.c */
    int64_t helper_nbytes, helpers, most_threads, spin_ns; /* its last arguments */
    Py_ssize_t most_up, most_down, most_copied, least_through, most_through, most_spread; /* bytes */
    Py_ssize_t scratch;         /* bytes of each thread's pinned memory */
    Py_ssize_t most_ordered;    /* bytes of an array without gaps that the host puts in order */
    Py_ssize_t least_reordered; /* elements; fewer it puts in order too */
    Py_ssize_t least_looped;  /* bytes; from here on threads take part in a loop */
    Py_ssize_t least_looped_up, least_looped_down; /* the same of what has another layout or is converted */
    Py_ssize_t least_narrowed; /* bytes on the host; the same of an upload that becomes narrower */
    Py_ssize_t least_halved, least_quartered; /* bytes; from here on Python decides where what is converted so is */
    PyTypeObject *dtype;   /* NumPy's */
    PyObject *dtypes;      /* dict: dtype, scalar type or name -> number of the element */
    PyObject *swapped;     /* dict: dtype in the other byte order -> the same */
    element elements[MOST_TYPES];
    int element_count;
    library *libraries[MOST_ENTRIES];
    int library_count;
    end *ends[MOST_ENTRIES];
    int end_count;
    PyMethodDef methods[2];
} front; /* as long as the process; nothing in it is ever freed, as another thread may be using it */

static _Thread_local struct { /* of a thread of the system */
    unsigned long long asked, settled; /* the circumstances in which the answers were given */
    int may_skip, end;
    PyObject *scope;
    unsigned long long found; /* likewise, of the memory */
    word scratch;
    Py_ssize_t next; /* where in it the next array from a device comes */
    const end *scratch_of;
    uint64_t owner; /* the Python thread whose scratch it is: one of C's may be several of them, one after the other */
} mine;

static PyObject *name_backend, *name_copy, *name_device, *name_dtype, *name_out, *name_pinned, *name_reuses, *name_stream;
static PyObject *name_raw, *name_handle, *name_capture;

/* --- the circumstances */

static unsigned long long circumstances(void)
{
    return PyLong_AsUnsignedLongLong(PyList_GetItem(front.number, 0));
}

/* Whether calls may be done here: the question's answer is then the address of xf_host_copy and its last arguments, else
   None. */
static int may_skip(void)
{
    unsigned long long now = circumstances(), copy;
    long long helper_nbytes, helpers, most_threads, spin_ns;
    if (now != mine.asked) {
        PyObject *answer = PyObject_CallNoArgs(front.may_skip);
        if (!answer)
            return 0;
        mine.may_skip = answer != Py_None &&
                        PyArg_ParseTuple(answer, "KLLLL", &copy, &helper_nbytes, &helpers, &most_threads, &spin_ns);
        Py_DECREF(answer);
        if (PyErr_Occurred())
            return 0;
        mine.asked = now;
        if (mine.may_skip) {
            front.copy = (void (*)(const Layout *, char *, char *, int64_t, int, int64_t, int64_t, int64_t, int64_t))(uintptr_t)copy;
            front.helper_nbytes = helper_nbytes;
            front.helpers = helpers;
            front.most_threads = most_threads;
            front.spin_ns = spin_ns;
        }
    }
    return mine.may_skip;
}

static int is_answered(PyObject *question, int if_none)
{
    PyObject *answer;
    int result;
    if (!question)
        return if_none;
    answer = PyObject_CallNoArgs(question);
    if (!answer)
        return 0;
    result = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return result > 0;
}

static int is_entered(const end *e)
{
    void *context = NULL;
    return !e->up.copier.current(&context) && (word)(uintptr_t)context == e->context;
}

/* Whether a copy can be made on a stream: CUDA has two more default ones of these numbers, and a graph that another library
   records would read the memory at each of its launches. */
static int is_served(const end *e, const line *l)
{
    enum { LEGACY = 1, PER_THREAD = 2 };
    const copier *up = &e->up.copier, *down = &e->down.copier;
    int result, status = 0;
    if (!l->handle)
        return 1;
    if ((uintptr_t)l->handle <= PER_THREAD || !up->wait || !up->enqueue || !down->enqueue)
        return 0;
    if (!up->is_captured)
        return 1;
    Py_BEGIN_ALLOW_THREADS /* it may block: see calls.c */
    result = up->is_captured(l->handle, &status);
    Py_END_ALLOW_THREADS
    return !result && !status;
}

/* Whether the device is the thread's, by its context and to its library, and the call's stream one of its; the current one is
   found here. */
static int is_at_hand(const end *e, line *l)
{
    const DLPackExchangeAPI *exchange = e->library->exchange;
    PyObject *handle;
    if (!is_entered(e) || !is_answered(e->is_current, 1))
        return 0;
    if (l->named)
        return l->device == e->device && is_served(e, l);
    l->handle = NULL;
    if (exchange)
        return exchange->current_stream(ON_CUDA, e->index, &l->handle) == 0 && is_served(e, l);
    handle = PyObject_CallNoArgs(e->stream);
    if (!handle)
        return 0;
    l->handle = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(handle);
    Py_DECREF(handle);
    return !PyErr_Occurred() && is_served(e, l);
}

/* Read a stream that a call names, which is one of ours: 0 where Python is to look at it. */
static int read_line(PyObject *stream, line *l)
{
    PyObject *handle, *capture;
    if (!stream)
        return 1;
    if (!(l->named = PyObject_GetAttr(stream, name_raw)))
        return 0;
    l->device = PyObject_GetAttr(l->named, name_device);
    handle = l->device ? PyObject_GetAttr(l->named, name_handle) : NULL;
    capture = handle ? PyObject_GetAttr(l->named, name_capture) : NULL;
    l->handle = handle ? (void *)(uintptr_t)PyLong_AsUnsignedLongLong(handle) : NULL;
    Py_XDECREF(handle);
    Py_XDECREF(capture);
    return capture == Py_None && !PyErr_Occurred();
}

static void forget_line(const line *l)
{
    Py_XDECREF(l->named);
    Py_XDECREF(l->device);
}

/* The stream that a call names, for Python; None for the current one. */
static PyObject *stream_of(const line *l)
{
    return l->named ? l->named : Py_None;
}

/* Whether a call may use what runs on the default stream alone. */
static int is_default(const line *l)
{
    return !l->handle && !l->named;
}

/* Whether the device that was the thread's is no longer: the library has another now. */
static int has_moved(void)
{
    const end *e = mine.end < 0 || mine.end >= front.end_count ? NULL : front.ends[mine.end];
    return e && e->kind == ON_CUDA && !is_entered(e);
}

/* The device of a call that names none; NULL where Python is to find it. */
static end *default_end(void)
{
    unsigned long long now = circumstances();
    PyObject *scope = NULL, *answer;
    if (PyList_Size(front.scopes)) { /* each asynchronous task has its own */
        scope = PyObject_CallNoArgs(front.scope);
        if (!scope)
            return NULL;
        Py_DECREF(scope); /* the context variable, or `mine`, holds it */
    }
    if (now != mine.settled || scope != mine.scope || has_moved()) {
        answer = PyObject_CallNoArgs(front.settle);
        if (!answer)
            return NULL;
        mine.end = (int)PyLong_AsLong(answer);
        Py_DECREF(answer);
        Py_XDECREF(mine.scope);
        mine.scope = Py_XNewRef(scope);
        mine.settled = now;
    }
    return mine.end < 0 || mine.end >= front.end_count ? NULL : front.ends[mine.end];
}

static int introduce(PyObject *thing, int index)
{
    PyObject *done = PyObject_CallFunction(front.introduce, "Oi", thing, index);
    Py_XDECREF(done);
    return done != NULL;
}

static end *find_end(PyObject *device)
{
    for (int twice = 0; twice < 2; ++twice) {
        for (int i = 0; i < front.end_count; ++i)
            if (front.ends[i]->device == device)
                return front.ends[i]->kind ? front.ends[i] : NULL;
        if (twice || (PyObject *)Py_TYPE(device) != front.device || !introduce(device, 0))
            break;
    }
    return NULL;
}

/* The device that is named by a specification, or as a backend's; NULL where Python is to find it. */
static end *resolved_end(PyObject *device, PyObject *backend)
{
    PyObject *found;
    end *e;
    if (device && !backend && (PyObject *)Py_TYPE(device) == front.device)
        return find_end(device);
    if ((device && !PyUnicode_CheckExact(device) && !PyLong_CheckExact(device)) || (backend && !PyUnicode_CheckExact(backend)))
        return NULL;
    found = PyObject_CallFunctionObjArgs(front.resolve, device ? device : Py_None, backend ? backend : Py_None, NULL);
    e = found ? find_end(found) : NULL;
    Py_XDECREF(found);
    return e;
}

static const library *find_library(PyObject *array)
{
    PyObject *type = (PyObject *)Py_TYPE(array);
    for (int twice = 0; twice < 2; ++twice) {
        for (int i = 0; i < front.library_count; ++i)
            if (front.libraries[i]->type == type)
                return front.libraries[i]->is_known ? front.libraries[i] : NULL;
        if (twice || !introduce(type, -1))
            break;
    }
    return NULL;
}

/* --- arrays */

static int is_shape(description *d, int axes, const int64_t *extents)
{
    if (axes < 0 || axes > MOST_AXES)
        return 0;
    d->axes = axes;
    d->count = 1;
    d->is_swapped = 0;
    d->strides = NULL;
    for (int i = 0; i < axes; ++i) {
        d->extents[i] = extents[i];
        if (__builtin_mul_overflow(d->count, (Py_ssize_t)extents[i], &d->count))
            return 0;
    }
    return !__builtin_mul_overflow(d->count, front.elements[d->element].itemsize, &d->nbytes);
}

static int see_memory(const ndarray *a, description *d)
{
    if (!is_shape(d, a->axes, (const int64_t *)a->extents))
        return 0;
    d->data = a->data;
    d->strides = a->strides;
    d->is_c = a->flags & C_ORDER;
    d->is_pinned = 0;
    d->kind = ON_CPU;
    d->index = 0;
    return 1;
}

/* Whether a dtype and the element of a number, which a table has for an equal dtype, are of one type: a dtype made by
   newbyteorder or read by pickle is. Long long is equal to long, and another type: Python keeps which one it is. */
static int is_of_type(PyObject *dtype, int number)
{
    return ((const descriptor *)dtype)->scalars == ((const descriptor *)front.elements[number].dtype)->scalars;
}

/* The number of the element of an array's dtype, from a table; -1 if none. */
static int found_in(PyObject *table, const ndarray *a)
{
    PyObject *found = PyDict_GetItemWithError(table, a->dtype);
    int number = found ? (int)PyLong_AsLong(found) : -1;
    return number >= 0 && is_of_type(a->dtype, number) ? number : -1;
}

/* Whether a NumPy array has a dtype that every device holds; then `d` describes it. */
static int see_host(PyObject *array, description *d)
{
    const ndarray *a = (const ndarray *)array;
    for (d->element = 0; d->element < front.element_count; ++d->element)
        if (front.elements[d->element].dtype == a->dtype)
            return see_memory(a, d);
    return (d->element = found_in(front.dtypes, a)) >= 0 && see_memory(a, d);
}

/* Whether an array surely lies in a block of a pinned pool, or is a view of one that does: the driver copies any size of it. */
static int is_lent(PyObject *array)
{
    PyObject *base = ((const ndarray *)array)->base;
    while (base && (PyObject *)Py_TYPE(base) == front.ndarray)
        base = ((const ndarray *)base)->base;
    for (int i = 0; base && i < front.end_count; ++i)
        if (front.ends[i]->lease == (PyObject *)Py_TYPE(base))
            return 1;
    return 0;
}

/* The same of an array in the other byte order. */
static int see_swapped(PyObject *array, description *d)
{
    const ndarray *a = (const ndarray *)array;
    if ((d->element = found_in(front.swapped, a)) < 0 || !see_memory(a, d))
        return 0;
    d->is_swapped = 1;
    return 1;
}

static int is_in_order(const DLTensor *t)
{
    int64_t step = 1;
    if (!t->strides)
        return 1;
    for (int i = t->axes - 1; i >= 0; --i) {
        if (t->extents[i] != 1 && t->strides[i] != step)
            return 0;
        step *= t->extents[i];
    }
    return 1;
}

/* Whether a question about an array is answered by True; also where it fails. */
static int is_so(PyObject *question, PyObject *array)
{
    PyObject *answer;
    int result;
    if (!question)
        return 0;
    answer = PyObject_CallFunctionObjArgs(question, array, NULL);
    result = answer != Py_False;
    Py_XDECREF(answer);
    return result;
}

static int is_recorded(const library *l)
{
    PyObject *answer;
    if (!l->recording)
        return 0;
    answer = PyObject_CallNoArgs(l->recording);
    Py_XDECREF(answer);
    return answer != Py_None;
}

static int see_exchanged(const library *l, PyObject *array, description *d)
{
    DLTensor t;
    if (is_so(l->is_negated, array) || is_recorded(l))
        return 0;
    if (l->exchange->describe(array, &t) || !t.data || t.lanes != 1 || t.index < 0 || t.index >= MOST_INDEX)
        return 0;
    for (d->element = 0; d->element < front.element_count; ++d->element)
        if (front.elements[d->element].code == t.code && front.elements[d->element].bits == t.bits)
            break;
    if (d->element == front.element_count || !is_shape(d, t.axes, t.extents))
        return 0;
    d->data = (char *)t.data + t.offset;
    d->is_c = is_in_order(&t);
    if (!d->is_c) {
        for (int i = 0; i < t.axes; ++i)
            if (__builtin_mul_overflow((Py_ssize_t)t.strides[i], front.elements[d->element].itemsize, &d->steps[i]))
                return 0;
        d->strides = d->steps;
    }
    d->kind = t.kind;
    d->index = t.index;
    return t.code != COMPLEX || !is_so(l->is_conjugate, array);
}

static int see_whole(const library *l, PyObject *array, description *d)
{
    PyObject *found = PyObject_CallFunctionObjArgs(l->whole, array, NULL), *extents, *dtype;
    int64_t numbers[MOST_AXES];
    Py_ssize_t axes;
    int is_seen = 0;
    if (found && PyTuple_Check(found) && PyTuple_Size(found) == 3) {
        d->data = (char *)(uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GetItem(found, 0));
        extents = PyTuple_GetItem(found, 1);
        dtype = PyTuple_GetItem(found, 2);
        axes = PyTuple_Check(extents) ? PyTuple_Size(extents) : MOST_AXES + 1;
        for (Py_ssize_t i = 0; i < axes && axes <= MOST_AXES; ++i)
            numbers[i] = PyLong_AsLongLong(PyTuple_GetItem(extents, i));
        for (d->element = 0; d->element < front.element_count; ++d->element)
            if (front.elements[d->element].dtype == dtype)
                break;
        d->is_c = 1;
        d->kind = ON_CUDA;
        d->index = 0; /* a library of several devices is not described so */
        is_seen = axes <= MOST_AXES && d->element < front.element_count && is_shape(d, (int)axes, numbers);
    }
    Py_XDECREF(found);
    return is_seen && !PyErr_Occurred();
}

/* Whether an array is memory like any other: then `d` describes it. */
static int see(const library *l, PyObject *array, description *d)
{
    if (l->type == front.ndarray)
        return see_host(array, d);
    if (l->exchange)
        return see_exchanged(l, array, d);
    return l->whole && see_whole(l, array, d);
}

/* The device that an array is on; NULL where Python is to copy it. */
static end *end_of(const library *l, const description *d)
{
    if (d->kind != ON_CUDA || (!l->ends[d->index] && !introduce(l->type, d->index)))
        return NULL;
    return l->ends[d->index] && l->ends[d->index]->kind ? l->ends[d->index] : NULL;
}

static int are_alike(const description *one, const description *other)
{
    return one->element == other->element && one->axes == other->axes &&
           !memcmp(one->extents, other->extents, (size_t)one->axes * sizeof *one->extents);
}

/* Whether elements of an array share memory: nothing may be written there. */
static int repeats(const description *d)
{
    for (int i = 0; !d->is_c && d->strides && i < d->axes; ++i)
        if (d->extents[i] > 1 && !d->strides[i])
            return 1;
    return 0;
}

/* Describe an array once more, with its strides where they are. Few have many axes, so that most of the room for them is not
   touched: after other work each line of it comes from memory. */
static void describe_again(description *other, const description *d)
{
    memcpy(other, d, offsetof(description, extents) + (size_t)d->axes * sizeof *d->extents);
}

/* What arrives of an array as the element of that number; 0 where Python is to decide, or to refuse. */
static int is_converted(const description *src, int number, description *arriving)
{
    const element *given = &front.elements[src->element], *wanted = &front.elements[number];
    describe_again(arriving, src);
    arriving->is_swapped = 0;
    if (number == src->element && !src->is_swapped)
        return 1;
    arriving->element = number;
    if (given->code == COMPLEX && wanted->code != COMPLEX)
        return 0;
    return !__builtin_mul_overflow(src->count, wanted->itemsize, &arriving->nbytes);
}

static int is_changed(const description *src, const description *arriving)
{
    return src->is_swapped || arriving->element != src->element;
}

/* Whether an array that is not in C order fills its memory without gaps, as a transposed one: the device may put it in order. */
static int is_dense(const description *d)
{
    Py_ssize_t span = front.elements[d->element].itemsize;
    for (int i = 0; i < d->axes; ++i)
        span += (d->extents[i] - 1) * d->strides[i];
    return span == d->nbytes;
}

static Py_ssize_t bytes_there(const description *host, int wanted)
{
    return host->count * front.elements[wanted].itemsize;
}

static int is_plain(const description *host, int wanted)
{
    return host->is_c && !host->is_swapped && host->element == wanted;
}

/* Whether it is sure that the host puts an array in order and converts it, if that must be, which has elements of the number
   `wanted` on the device: where the device may do it by a kernel, plan.py decides. */
static int is_for_host(const description *host, int wanted, int is_upward)
{
    Py_ssize_t there = bytes_there(host, wanted);
    int is_changed = host->is_swapped || host->element != wanted;
    Py_ssize_t size = front.elements[host->element].itemsize, size_there = front.elements[wanted].itemsize;
    int is_slow = (size == 8 && front.elements[host->element].code < 2) || (size_there == 8 && front.elements[wanted].code < 2);
    int is_quarter = is_slow || 4 * size <= size_there || 4 * size_there <= size;
    Py_ssize_t least = is_quarter ? front.least_quartered : front.least_halved;
    int is_wider = size > size_there;
    if (host->count <= 0)
        return 0;
    if (!host->is_c && there > front.most_ordered && host->count >= front.least_reordered &&
        (!is_changed || !is_wider || !is_upward || host->nbytes >= front.least_narrowed) && is_dense(host))
        return 0;
    if (!is_changed || (host->nbytes < least && there < least))
        return 1;
    return is_wider || size == size_there;
}

/* Describe an array in host memory for strided.c: neighbouring axes that are one in memory become one. */
static void lay_out(const description *d, int wanted, Layout *layout)
{
    int last = -1;
    for (int i = 0; i < d->axes; ++i) {
        if (d->extents[i] == 1)
            continue;
        if (last >= 0 && layout->strides[last] == d->strides[i] * d->extents[i]) {
            layout->extents[last] *= d->extents[i];
        } else {
            ++last;
            layout->extents[last] = d->extents[i];
        }
        layout->strides[last] = d->strides[i];
    }
    if (last < 0) {
        last = 0;
        layout->extents[0] = 1;
        layout->strides[0] = front.elements[d->element].itemsize;
    }
    layout->axes = last + 1;
    layout->host_size = front.elements[d->element].itemsize;
    layout->device_size = front.elements[wanted].itemsize;
    layout->host_type = d->element;
    layout->device_type = wanted;
    layout->is_swapped = d->is_swapped;
}

static word scratch_of(const end *e)
{
    unsigned long long now = circumstances();
    uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
    if (mine.found != now || mine.scratch_of != e || mine.owner != thread) {
        PyObject *found = PyObject_CallNoArgs(e->scratch);
        if (!found)
            return 0;
        mine.scratch = PyLong_AsUnsignedLongLong(found);
        mine.scratch_of = e;
        mine.owner = thread;
        mine.found = now;
        Py_DECREF(found);
    }
    return mine.scratch;
}

/* Where in the thread's pinned memory an array from a device comes: behind the one before. The device writes slowly to memory
   that a core has just read and still has in its cache: 192 KiB to the same place take 24 us, and 19.5 to others. */
static word landing_of(const end *e, Py_ssize_t nbytes)
{
    word scratch = scratch_of(e);
    Py_ssize_t size = (nbytes + PAGE - 1) / PAGE * PAGE, start = mine.next + size <= front.scratch ? mine.next : 0;
    mine.next = start + size;
    return scratch ? scratch + (word)start : 0;
}

/* Copy between a host array and the device, whose context is current, where the elements are of the number `wanted`, by this
   thread: whether that is done. */
static int copy_at_once(end *e, spreader *s, const description *host, int wanted, word device, const line *l)
{
    Layout layout;
    word scratch;
    if (is_plain(host, wanted) && (s->copier.is_upward || host->nbytes < front.least_through || host->is_pinned ||
                                   host->nbytes > front.most_through))
        return !xf_copy(&s->copier, device, (word)(uintptr_t)host->data, (size_t)host->nbytes, l->handle);
    scratch = s->copier.is_upward ? scratch_of(e) : landing_of(e, bytes_there(host, wanted));
    if (!scratch || PyErr_Occurred())
        return 0;
    if (is_plain(host, wanted))
        return !xf_fetch_through(&s->copier, host->data, device, (size_t)host->nbytes, scratch, l->handle);
    lay_out(host, wanted, &layout);
    return !xf_spread(s, &layout, host->data, (word)host->count, device, (size_t)bytes_there(host, wanted), scratch, l->handle);
}

/* The same by several threads, in blocks. `is_fresh`: the pages were never touched; `is_looped`: only where threads spin. */
static int copy_in_blocks(end *e, spreader *s, const description *host, int wanted, word device, const line *l, int is_fresh,
                          int is_looped)
{
    Layout layout;
    Region region = {.host = host->data, .device = device, .nbytes = bytes_there(host, wanted), .unit = is_fresh ? HUGE_PAGE : LINE,
                     .is_fresh = is_fresh};
    if (host->is_pinned)
        return 0;
    if (!is_plain(host, wanted)) {
        lay_out(host, wanted, &layout);
        region.layout = &layout;
        region.unit = 0;
    }
    return xf_stage(&e->staged, &s->copier, &region, l->handle, l->named, circumstances(), host->is_c, is_looped);
}

/* The same by the way that is fastest: one thread for little; the driver for somewhat more; several threads from less on in a
   loop, where they are awake. */
static int move(end *e, spreader *s, const description *host, int wanted, word device, const line *l, int is_fresh)
{
    Py_ssize_t there = bytes_there(host, wanted), size = host->nbytes > there ? host->nbytes : there;
    int plain = is_plain(host, wanted), is_upward = s->copier.is_upward;
    Py_ssize_t most = !plain ? front.most_spread : is_upward ? front.most_up : front.most_down;
    int is_at_once = size <= most || (plain && host->is_pinned), is_done = 0;
    int is_shared = plain ? size > front.least_looped : is_upward ? size > front.least_looped_up : there > front.least_looped_down;
    if (is_at_once && is_shared && !host->is_pinned && xf_is_looped(&e->staged))
        is_done = copy_in_blocks(e, s, host, wanted, device, l, is_fresh, 1) == 1;
    if (!is_done && is_at_once && !PyErr_Occurred())
        is_done = copy_at_once(e, s, host, wanted, device, l);
    if (!is_done && !PyErr_Occurred())
        is_done = copy_in_blocks(e, s, host, wanted, device, l, is_fresh, 0);
    if (is_done == IS_PINNED)
        is_done = plain && copy_at_once(e, s, host, wanted, device, l);
    if (is_done && (is_shared || size > front.least_looped))
        xf_note_end(&e->staged);
    return is_done;
}

/* An uninitialised NumPy array, in C order; over memory that `base`, whose reference it takes, keeps alive. */
static PyObject *host_array(const description *d, void *memory, PyObject *base)
{
    PyObject *dtype = front.elements[d->element].dtype, *result;
    Py_INCREF(dtype); /* taken by the next line */
    result = front.new_array(front.ndarray, dtype, d->axes, d->extents, NULL, memory, memory ? C_ORDER | ALIGNED | WRITABLE : 0, NULL);
    if (result && base && front.set_base(result, base)) {
        Py_DECREF(result);
        return NULL;
    }
    if (!result)
        Py_XDECREF(base);
    return result;
}

/* A new array, of a function that makes them. */
static PyObject *made(PyObject *empty, const description *d)
{
    PyObject *extents = xf_tuple_of(d->extents, d->axes), *result;
    if (!extents)
        return NULL;
    result = PyObject_CallFunctionObjArgs(empty, extents, front.elements[d->element].dtype, NULL);
    Py_DECREF(extents);
    return result;
}

/* A new array on the CPU: by the function that its library has for C, or, where there is none or it fails, by Python. */
static PyObject *made_on_cpu(const end *e, const description *d)
{
    const library *l = e->library;
    PyObject *extents, *steps, *result = NULL;
    int64_t apart[MOST_AXES], step = 1;
    if (!l->maker || d->count == 0)
        return made(e->empty, d);
    for (int i = d->axes; i--; step *= d->extents[i])
        apart[i] = step;
    extents = xf_tuple_of(d->extents, d->axes);
    steps = extents ? xf_tuple_of(apart, d->axes) : NULL;
    if (steps)
        result = PyObject_CallFunctionObjArgs(l->maker, extents, steps, PyTuple_GetItem(l->dtypes, d->element), NULL);
    Py_XDECREF(steps);
    Py_XDECREF(extents);
    if (result || !PyErr_ExceptionMatches(PyExc_RuntimeError))
        return result;
    PyErr_Clear();
    return made(e->empty, d);
}

/* A new array on a device, of the call's stream. */
static PyObject *made_on(const end *e, const line *l, const description *d)
{
    PyObject *extents, *result;
    if (is_default(l))
        return made(e->empty, d);
    extents = xf_tuple_of(d->extents, d->axes);
    if (!extents)
        return NULL;
    result = PyObject_CallFunctionObjArgs(e->empty_on, extents, front.elements[d->element].dtype, stream_of(l), NULL);
    Py_DECREF(extents);
    return result;
}

/* The address that a library tells of its array; 0 with an error set. */
static word address_of(const end *e, PyObject *array)
{
    PyObject *found = PyObject_CallFunctionObjArgs(e->pointer, array, NULL);
    word address = found ? PyLong_AsUnsignedLongLong(found) : 0;
    Py_XDECREF(found);
    return PyErr_Occurred() ? 0 : address;
}

/* --- with a kernel of the device as a second step */

/* Whether an array crosses the link as it lies in host memory, where a kernel of the device puts it in order or converts it; else
   the host gathers or scatters it, and the kernel converts what is in C order. */
static int crosses_as_it_lies(const description *host)
{
    return host->is_c || is_dense(host);
}

/* Whether one kernel puts an array in host memory in order, or converts it, which has elements of the number `wanted` at
   `device`, or at an address yet to come; then it is in `found`. */
static int find_step(end *e, const description *host, int wanted, word device, int is_upward, kernel_step *found)
{
    step_form form;
    Py_ssize_t itemsize = front.elements[host->element].itemsize;
    int lies = crosses_as_it_lies(host);
    if (host->is_swapped || host->count <= 0 || device % (word)front.elements[wanted].itemsize)
        return 0;
    form.is_upward = (int16_t)is_upward;
    form.is_pinned = (int16_t)(lies && host->is_pinned);
    form.axes = host->axes;
    form.host = host->element;
    form.there = wanted;
    for (int i = host->axes; i--; itemsize *= host->extents[i]) {
        form.extents[i] = host->extents[i];
        form.strides[i] = host->is_c || !lies ? itemsize : host->strides[i];
    }
    return xf_find_step(&e->steps, &form, front.elements[host->element].dtype, front.elements[wanted].dtype, found);
}

/* Whether the device should convert what it reads or fills by itself, if it can: threads convert pinned memory more slowly than
   the link carries it. */
static int is_better_there(const description *host, int wanted)
{
    return host->is_pinned && host->element != wanted;
}

enum { SOON_OVER = 256 << 10 };

/* Keep an array that has been filled on another stream than the default one until it is: the stream that its memory belongs to
   must not give it to others before. A small copy is over before Python has noted that. */
static int is_held(end *e, const line *l, PyObject *array, PyObject *source, Py_ssize_t nbytes)
{
    PyObject *done;
    if (!l->handle || (nbytes <= SOON_OVER && xf_is_over(&e->up.copier, l->handle)))
        return 1;
    done = PyObject_CallFunctionObjArgs(e->hold, array, stream_of(l), source ? source : Py_None, NULL);
    Py_XDECREF(done);
    return done != NULL;
}

/* Send an array that no step follows to memory of `array`: whether that is done. Pinned memory is read on a stream of the
   program's own when that comes to it: a call that names the stream does not wait, and one on the current stream does. */
static int send_as_is(end *e, const line *l, PyObject *x, const description *src, int wanted, word device, PyObject *array,
                      int is_new)
{
    const copier *c = &e->up.copier;
    int error, is_kept, kind = 0;
    if (l->handle && is_plain(src, wanted)) {
        Py_BEGIN_ALLOW_THREADS
        kind = xf_kind_of(c, src->data);
        Py_END_ALLOW_THREADS
    }
    if (kind && kind != PINNED) /* managed: the driver would read it later */
        return 0;
    if (!kind)
        return move(e, &e->up, src, wanted, device, l, 0) && (is_new || is_held(e, l, array, NULL, src->nbytes));
    Py_BEGIN_ALLOW_THREADS
    error = c->enqueue(device, (word)(uintptr_t)src->data, (size_t)src->nbytes, l->handle);
    Py_END_ALLOW_THREADS
    is_kept = !error && l->named && is_held(e, l, array, x, src->nbytes);
    if (!error && !is_kept) {
        Py_BEGIN_ALLOW_THREADS
        error = c->wait(l->handle);
        Py_END_ALLOW_THREADS
    }
    return !error && !PyErr_Occurred();
}

/* Copy by way of memory of the device in which the elements have the dtype of the host's, and lie as they cross the link; `x` is
   the source of an upload. */
static int move_in_steps(end *e, PyObject *x, const description *host, word device, const line *l, int is_fresh,
                         const kernel_step *s)
{
    description flat = *host;
    const description *crossing = crosses_as_it_lies(host) ? &flat : host;
    PyObject *between;
    word there;
    int is_done = 0;
    flat.axes = 1;
    flat.extents[0] = host->count;
    flat.strides = NULL;
    flat.is_c = 1;
    between = made_on(e, l, &flat);
    there = between ? address_of(e, between) : 0;
    if (there && s->form.is_upward)
        is_done = send_as_is(e, l, x, crossing, host->element, there, between, 1) &&
                  !xf_launch_step(&e->steps, s, device, there, l->handle);
    else if (there)
        is_done = !xf_launch_step(&e->steps, s, there, device, l->handle) &&
                  move(e, &e->down, crossing, host->element, there, l, is_fresh);
    Py_XDECREF(between); /* its library reuses the memory in the order of the stream */
    return is_done;
}

/* Copy between two host arrays, of which `plain` is in C order, as is the other one where it has no layout. */
static void copy_by_threads(const Layout *layout, char *host, const description *plain, int is_gathered)
{
    front.copy(layout, host, plain->data, plain->nbytes, is_gathered, front.helper_nbytes, front.helpers, front.most_threads,
               front.spin_ns);
}

/* Copy bytes between two host arrays; 0, with nothing done, where they share memory. */
static int copy_bytes(const description *dst, const description *src)
{
    size_t nbytes = (size_t)src->nbytes;
    if ((uintptr_t)dst->data < (uintptr_t)src->data + nbytes && (uintptr_t)src->data < (uintptr_t)dst->data + nbytes)
        return 0;
    if (nbytes <= GIL_KEPT_MOST) {
        copy_plain(dst->data, src->data, nbytes);
        return 1;
    }
    Py_BEGIN_ALLOW_THREADS
    copy_by_threads(NULL, src->data, dst, 1);
    Py_END_ALLOW_THREADS
    return 1;
}

/* Whether an array of at least one element has bytes in common with one in C order, or may have. */
static int may_overlap(const description *one, const description *other)
{
    uintptr_t low = (uintptr_t)one->data, high = low + (size_t)front.elements[one->element].itemsize;
    for (int i = 0; i < one->axes; ++i) {
        Py_ssize_t reach = (one->extents[i] - 1) * one->strides[i];
        if (reach < 0)
            low += (uintptr_t)reach;
        else
            high += (uintptr_t)reach;
    }
    return low < (uintptr_t)other->data + (size_t)other->nbytes && (uintptr_t)other->data < high;
}

/* Whether two host arrays are small enough to be copied here; at least one of them must be in C order. */
static int is_for_one_call(const description *src, const description *dst)
{
    return src->nbytes > 0 && src->nbytes < front.most_copied && dst->nbytes < front.most_copied;
}

/* Copy between two host arrays by strided.c, one of which is in C order and in native byte order. */
static void spread_on_host(const description *host, const description *plain, int is_gathered)
{
    Layout layout;
    lay_out(host, plain->element, &layout);
    copy_by_threads(&layout, host->data, plain, is_gathered);
}

enum { SHORT_ROW = 8 };

/* Give two arrays of one shape, neither in C order, their axes in the order in which `dst` lies in memory, if it is dense: then it
   is in C order, as strided.c wants one of them. Whether that is done. */
static int is_turned(description *dst, description *src)
{
    int order[MOST_AXES], axes = dst->axes, is_c = 1;
    Py_ssize_t here[MOST_AXES], there[MOST_AXES], size = front.elements[dst->element].itemsize;
    int64_t extents[MOST_AXES];
    for (int i = 0; i < axes; ++i) { /* the largest step first */
        int place = i;
        for (; place > 0 && dst->strides[order[place - 1]] < dst->strides[i]; --place)
            order[place] = order[place - 1];
        order[place] = i;
    }
    for (int i = axes; i--;) {
        Py_ssize_t step = front.elements[src->element].itemsize;
        for (int j = axes - 1; j > order[i]; --j)
            step *= src->extents[j];
        extents[i] = dst->extents[order[i]];
        there[i] = dst->strides[order[i]];
        here[i] = src->strides ? src->strides[order[i]] : step;
        if (extents[i] > 1 && there[i] != size)
            return 0;
        size *= extents[i];
    }
    size = front.elements[src->element].itemsize;
    for (int i = axes; i--; size *= extents[i]) {
        is_c &= extents[i] == 1 || here[i] == size;
        dst->extents[i] = src->extents[i] = extents[i];
        dst->steps[i] = there[i];
        src->steps[i] = here[i];
    }
    dst->strides = dst->steps;
    src->strides = src->steps;
    dst->is_c = 1;
    src->is_c = is_c;
    return 1;
}

/* Whether the last two axes of an array have elements enough for a block of them to be worth converting. */
static int has_rows(const description *d)
{
    int64_t last = d->extents[d->axes - 1];
    return last >= SHORT_ROW && (d->axes < 2 || last * d->extents[d->axes - 2] >= SHORT_ROW * SHORT_ROW);
}

/* Copy between two host arrays of as many elements; 0, with nothing done, where they may share memory, or are as no way here
   takes them. */
static int copy_on_host(const description *src, const description *dst)
{
    description turned_dst, turned_src, host;
    const description *plain;
    int is_gathered;
    /* Where `src` is in C order, to scatter it takes as long as this, on average. */
    if (!dst->is_c && !dst->is_swapped && (!src->is_c || src->is_swapped)) {
        describe_again(&turned_dst, dst);
        describe_again(&turned_src, src);
        if (is_turned(&turned_dst, &turned_src) && (!is_changed(src, dst) || has_rows(&turned_dst)))
            dst = &turned_dst, src = &turned_src;
    }
    if (src->is_c && dst->is_c && !is_changed(src, dst))
        return copy_bytes(dst, src);
    is_gathered = dst->is_c;
    describe_again(&host, is_gathered ? src : dst);
    plain = is_gathered ? dst : src;
    if (!plain->is_c || plain->is_swapped || repeats(dst) || (uintptr_t)plain->data % (size_t)front.elements[plain->element].itemsize)
        return 0;
    if (!host.strides) { /* in C order */
        Py_ssize_t step = front.elements[host.element].itemsize;
        for (int i = host.axes - 1; i >= 0; step *= host.extents[i--])
            host.steps[i] = step;
        host.strides = host.steps;
    }
    if (may_overlap(&host, plain))
        return 0;
    if (src->nbytes <= GIL_KEPT_MOST && dst->nbytes <= GIL_KEPT_MOST) {
        spread_on_host(&host, plain, is_gathered);
    } else {
        Py_BEGIN_ALLOW_THREADS
        spread_on_host(&host, plain, is_gathered);
        Py_END_ALLOW_THREADS
    }
    return 1;
}

/* A new NumPy array with the elements of one in host memory; NULL, with or without an error set, where Python is to do it.
   NumPy's own copy of `x`, its own array, knows arrays without elements, and keeps a dtype that is another object than the one
   that NumPy has for it, such as one with metadata. */
static PyObject *copied_on_host(PyObject *x, const description *src, const description *arriving)
{
    PyObject *result;
    description dst;
    int is_here = is_for_one_call(src, arriving), is_usual = !x || ((const ndarray *)x)->dtype == front.elements[src->element].dtype;
    if (x && !(is_here && is_usual) && !is_changed(src, arriving) && src->nbytes < front.most_copied)
        return front.new_copy(x, 0);
    result = is_here ? host_array(arriving, NULL, NULL) : NULL;
    if (result && see_host(result, &dst) && copy_on_host(src, &dst))
        return result;
    Py_XDECREF(result);
    return NULL;
}

/* A copy of a NumPy array of up to `most` bytes and of a dtype that every device holds; NULL, without an error but for the
   copy's own, of any other object. */
PyObject *xf_small_copy(PyObject *object, Py_ssize_t most)
{
    description d;
    if (!front.new_copy || (PyObject *)Py_TYPE(object) != front.ndarray || !see_host(object, &d) || d.nbytes > most)
        return NULL;
    return front.new_copy(object, 0);
}

/* --- to a device: NULL, with or without an error set, where Python is to do it */

static PyObject *send_to_new(PyObject *x, const description *src, const description *arriving, end *e, line *l)
{
    PyObject *result;
    word pointer;
    kernel_step second;
    int is_second, is_needed;
    if (e->kind == ON_CPU) {
        description dst;
        if (l->named)
            return NULL;
        if (e->library->type == front.ndarray)
            return copied_on_host(x, src, arriving);
        result = is_for_one_call(src, arriving) ? made_on_cpu(e, arriving) : NULL;
        if (result && see(e->library, result, &dst) && dst.is_c && dst.kind == ON_CPU && copy_on_host(src, &dst))
            return result;
        Py_XDECREF(result);
        return NULL;
    }
    if (!is_at_hand(e, l))
        return NULL;
    is_needed = !is_for_host(src, arriving->element, 1);
    is_second = (is_needed || is_better_there(src, arriving->element)) && find_step(e, src, arriving->element, 0, 1, &second);
    if ((is_needed && !is_second) || PyErr_Occurred())
        return NULL;
    result = made_on(e, l, arriving);
    pointer = result ? address_of(e, result) : 0;
    if (pointer && (is_second ? move_in_steps(e, x, src, pointer, l, 0, &second)
                              : send_as_is(e, l, x, src, arriving->element, pointer, result, 1)))
        return result;
    Py_XDECREF(result);
    return NULL;
}

static int note_write(const library *l, PyObject *array)
{
    PyObject *done;
    if (!l->note_write)
        return 1;
    done = PyObject_CallFunctionObjArgs(l->note_write, array, name_out, NULL);
    Py_XDECREF(done);
    return done != NULL;
}

static PyObject *send_to_existing(PyObject *x, const description *src, const description *arriving, PyObject *out, line *on)
{
    const library *l = find_library(out);
    description dst;
    word device;
    kernel_step second;
    int is_second, is_needed;
    end *e;
    if (!l || !see(l, out, &dst) || !are_alike(arriving, &dst) || src->nbytes <= 0)
        return NULL;
    if (dst.kind == ON_CPU) {
        if (on->named || !is_for_one_call(src, &dst) || (l->type == front.ndarray && !(((ndarray *)out)->flags & WRITABLE)))
            return NULL;
        return note_write(l, out) && copy_on_host(src, &dst) ? Py_NewRef(out) : NULL;
    }
    e = dst.is_c ? end_of(l, &dst) : NULL;
    device = (word)(uintptr_t)dst.data;
    if (!e || !is_at_hand(e, on))
        return NULL;
    is_needed = !is_for_host(src, dst.element, 1);
    is_second = (is_needed || is_better_there(src, dst.element)) && find_step(e, src, dst.element, device, 1, &second);
    if ((is_needed && !is_second) || PyErr_Occurred() || !note_write(l, out))
        return NULL;
    if (is_second ? move_in_steps(e, x, src, device, on, 0, &second) && is_held(e, on, out, NULL, dst.nbytes)
                  : send_as_is(e, on, x, src, dst.element, device, out, 0))
        return Py_NewRef(out);
    return NULL;
}

/* The number of the element that a dtype, a scalar type or a name means; -1 where Python is to look at it. */
static int element_of(PyObject *dtype)
{
    PyObject *found;
    int is_dtype = PyObject_TypeCheck(dtype, front.dtype), number;
    if (!PyUnicode_CheckExact(dtype) && !PyType_Check(dtype) && !is_dtype)
        return -1; /* of another type: its hash may be anything */
    found = PyDict_GetItemWithError(front.dtypes, dtype);
    number = found ? (int)PyLong_AsLong(found) : -1;
    return number < 0 || !is_dtype || is_of_type(dtype, number) ? number : -1;
}

static PyObject *sent(PyObject *x, PyObject *device, PyObject *backend, PyObject *out, PyObject *dtype, line *l)
{
    description src, arriving;
    int number;
    end *e;
    if ((PyObject *)Py_TYPE(x) != front.ndarray || (!see_host(x, &src) && !see_swapped(x, &src)) || !may_skip())
        return NULL;
    number = dtype ? element_of(dtype) : src.element;
    if (number < 0 || !is_converted(&src, number, &arriving))
        return NULL;
    src.is_pinned = src.nbytes > front.most_up && is_lent(x);
    if (out)
        return device || backend ? NULL : send_to_existing(x, &src, &arriving, out, l);
    e = device || backend ? resolved_end(device, backend) : l->named ? find_end(l->device) : default_end();
    if (!e || !e->kind)
        return NULL;
    return send_to_new(x, &src, &arriving, e, l);
}

/* --- to the host, likewise */

enum { STEPS = 3, SMALLEST = 9, LARGEST = 26 }; /* of the pool's sizes: see bin_nbytes() in pinned.py */

/* The pool's size for a number of bytes; 0 where Python is to tell. */
static unsigned long long bin_of(Py_ssize_t nbytes)
{
    int bits = 0, step;
    if (nbytes > (Py_ssize_t)1 << LARGEST)
        return 0;
    if (nbytes <= (Py_ssize_t)1 << SMALLEST)
        return 1ull << SMALLEST;
    while ((nbytes - 1) >> bits)
        ++bits;
    step = bits - STEPS - 1;
    return (((unsigned long long)nbytes + (1ull << step) - 1) >> step) << step;
}

/* Count a block that is used again, as the pool itself does. */
static int count_reuse(PyObject *pool)
{
    PyObject *before = PyObject_GetAttr(pool, name_reuses), *after;
    int result;
    after = before ? PyLong_FromLong(PyLong_AsLong(before) + 1) : NULL;
    result = after ? PyObject_SetAttr(pool, name_reuses, after) : -1;
    Py_XDECREF(before);
    Py_XDECREF(after);
    return result;
}

/* A new array in pinned memory: of a free block, else as Python gives it. */
static PyObject *pinned_array(const end *e, const description *d)
{
    PyObject *size, *blocks = NULL, *lease;
    if (is_answered(e->is_followed, 1) || PyErr_Occurred() || !(size = PyLong_FromUnsignedLongLong(bin_of(d->nbytes))))
        return PyErr_Occurred() ? NULL : made(e->pinned, d);
    blocks = PyDict_GetItemWithError(e->free, size);
    Py_DECREF(size);
    if (!blocks)
        return PyErr_Occurred() ? NULL : made(e->pinned, d);
    lease = xf_lend(NULL, (PyObject *[]){e->lease, blocks, e->dead}, 3);
    if (lease == Py_None) {
        Py_DECREF(lease);
        return made(e->pinned, d);
    }
    if (!lease || count_reuse(e->pool)) {
        Py_XDECREF(lease);
        return NULL;
    }
    return host_array(d, xf_leased_memory(lease), lease);
}

/* A new array for a result: large ones live in recycled memory. */
static PyObject *host_result(const end *e, const description *d, int *is_fresh)
{
    PyObject *extents, *answer, *result = NULL;
    if (d->nbytes < HUGE_PAGE)
        return host_array(d, NULL, NULL);
    extents = xf_tuple_of(d->extents, d->axes);
    answer = extents ? PyObject_CallFunctionObjArgs(e->result, extents, front.elements[d->element].dtype, NULL) : NULL;
    Py_XDECREF(extents);
    if (answer && PyArg_ParseTuple(answer, "Op", &result, is_fresh))
        Py_INCREF(result);
    Py_XDECREF(answer);
    return result;
}

/* The same from an array in host memory. */
static PyObject *fetched_on_host(PyObject *d, PyObject *out, const description *src, PyObject *dtype)
{
    description arriving, dst;
    int number = dtype ? element_of(dtype) : src->element;
    if (number < 0 || !is_converted(src, number, &arriving))
        return NULL;
    if (!out)
        return copied_on_host((PyObject *)Py_TYPE(d) == front.ndarray ? d : NULL, src, &arriving);
    if ((PyObject *)Py_TYPE(out) != front.ndarray || !see_host(out, &dst) || !are_alike(&arriving, &dst) ||
        !(((ndarray *)out)->flags & WRITABLE) || !is_for_one_call(src, &dst) || !copy_on_host(src, &dst))
        return NULL;
    return Py_NewRef(out);
}

/* The addresses of a copy to pinned memory, and its stream. */
typedef struct {
    word memory, device;
    size_t nbytes;
    void *stream;
} arrival;

/* Enqueue the copy of an array to new pinned memory, which is returned; the last copy of several is waited for, and the
   others with it, since they are on one stream. NULL, with or without an error set, where Python is to do it. */
static PyObject *fetched_later(PyObject *d, end **common, line *on, int is_last, arrival *made_here)
{
    const library *l = find_library(d);
    description src, dst;
    PyObject *result;
    end *e;
    int error;
    if (!l || !see(l, d, &src) || src.kind == ON_CPU || !src.is_c || src.nbytes <= 0 || !(e = end_of(l, &src)) ||
        !e->down.copier.enqueue || (*common ? e != *common : !is_at_hand(e, on)))
        return NULL;
    *common = e;
    result = pinned_array(e, &src);
    if (!result || (PyObject *)Py_TYPE(result) != front.ndarray || !see_host(result, &dst) || !((ndarray *)result)->base) {
        Py_XDECREF(result);
        return NULL;
    }
    *made_here = (arrival){(word)(uintptr_t)dst.data, (word)(uintptr_t)src.data, (size_t)src.nbytes, on->handle};
    if (is_last) {
        error = xf_copy(&e->down.copier, made_here->device, made_here->memory, made_here->nbytes, on->handle);
    } else {
        Py_BEGIN_ALLOW_THREADS /* a queue may be full */
        error = e->down.copier.enqueue(made_here->memory, made_here->device, made_here->nbytes, on->handle);
        Py_END_ALLOW_THREADS
    }
    if (error) {
        made_here->nbytes = 0;
        Py_DECREF(result);
        return NULL;
    }
    return result;
}

/* (list of arrays of one device, all in C order) -> list of arrays in pinned memory; None, and nothing done, where Python is
   to do it. One wait for all: each alone would take the link's 10 us. */
PyObject *xf_fetch_pinned(PyObject *module, PyObject *arrays)
{
    Py_ssize_t count = PyList_Check(arrays) ? PyList_Size(arrays) : 0, done = 0;
    PyObject *results = count && may_skip() ? PyList_New(count) : NULL;
    arrival last = {0};
    line on = {0};
    end *common = NULL;
    (void)module;
    for (; results && done < count; ++done) {
        arrival made_here = {0};
        PyObject *array = Py_NewRef(PyList_GetItem(arrays, done)); /* the list may change while the GIL is released */
        PyObject *result = fetched_later(array, &common, &on, done == count - 1, &made_here);
        Py_DECREF(array);
        if (!result)
            break;
        PyList_SetItem(results, done, result);
        last = made_here;
        if (PyList_Size(arrays) != count)
            break;
    }
    if (results && done == count)
        return results;
    if (last.nbytes) { /* what is enqueued must be over before its memory is given up: waiting for the last once more does */
        PyObject *kind, *value, *traceback;
        PyErr_Fetch(&kind, &value, &traceback);
        xf_copy(&common->down.copier, last.device, last.memory, last.nbytes, last.stream);
        PyErr_Restore(kind, value, traceback);
    }
    Py_XDECREF(results);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *fetched(PyObject *d, PyObject *out, int is_pinned, PyObject *dtype, line *on)
{
    const library *l;
    description src, arriving, dst;
    PyObject *result;
    int number, is_first, is_needed, is_fresh = 0, is_done;
    kernel_step first;
    word device;
    end *e;
    if (!may_skip() || !(l = find_library(d)))
        return NULL;
    if (!see(l, d, &src) && !(l->type == front.ndarray && see_swapped(d, &src)))
        return NULL;
    if (src.kind == ON_CPU)
        return is_pinned || on->named ? NULL : fetched_on_host(d, out, &src, dtype);
    number = dtype ? element_of(dtype) : src.element;
    if (!src.is_c || src.nbytes <= 0 || number < 0 || !is_converted(&src, number, &arriving))
        return NULL;
    if (out) {
        if ((PyObject *)Py_TYPE(out) != front.ndarray || !see_host(out, &dst) || !are_alike(&arriving, &dst) ||
            repeats(&dst) || !(((ndarray *)out)->flags & WRITABLE))
            return NULL;
        is_pinned = src.nbytes > front.most_down && is_lent(out);
    }
    e = end_of(l, &src);
    device = (word)(uintptr_t)src.data;
    if (!e || !is_at_hand(e, on))
        return NULL;
    dst.is_pinned = arriving.is_pinned = is_pinned;
    is_needed = !is_for_host(out ? &dst : &arriving, src.element, 0);
    is_first = (is_needed || is_better_there(out ? &dst : &arriving, src.element)) &&
               find_step(e, out ? &dst : &arriving, src.element, device, 0, &first);
    if ((is_needed && !is_first) || PyErr_Occurred())
        return NULL;
    if (out) {
        result = Py_NewRef(out);
    } else {
        result = is_pinned ? pinned_array(e, &arriving) : host_result(e, &arriving, &is_fresh);
        if (!result || (PyObject *)Py_TYPE(result) != front.ndarray || !see_host(result, &dst) ||
            (is_pinned && !((ndarray *)result)->base)) {
            Py_XDECREF(result); /* ordinary memory, from a pool that is full */
            return NULL;
        }
    }
    dst.is_pinned = is_pinned;
    if (is_first)
        is_done = move_in_steps(e, NULL, &dst, device, on, is_fresh, &first);
    else
        is_done = move(e, &e->down, &dst, src.element, device, on, is_fresh);
    if (!is_done) {
        Py_DECREF(result);
        return NULL;
    }
    return result;
}

/* --- calls */

/* Read the arguments by keyword of a usual call: 0 where there are others, or not just one by position. */
static int is_usual(PyObject *const *given, Py_ssize_t count, PyObject *names, int is_upward, PyObject **out, PyObject **other,
                    PyObject **backend, PyObject **dtype, PyObject **stream)
{
    Py_ssize_t length = names ? PyTuple_Size(names) : 0;
    if (count != 1)
        return 0;
    for (Py_ssize_t i = 0; i < length; ++i) {
        PyObject *name = PyTuple_GetItem(names, i), *value = given[count + i];
        if (name == name_out)
            *out = value == Py_None ? NULL : value;
        else if (is_upward && name == name_device)
            *other = value == Py_None ? NULL : value;
        else if (is_upward && name == name_backend)
            *backend = value == Py_None ? NULL : value;
        else if (!is_upward && name == name_pinned && (value == Py_False || value == Py_True))
            *other = value == Py_False ? NULL : value;
        else if (name == name_dtype)
            *dtype = value == Py_None ? NULL : value;
        else if (name == name_stream && (PyObject *)Py_TYPE(value) == front.stream)
            *stream = value;
        else if (name == name_copy ? value != Py_True : value != Py_None)
            return 0;
        else if (name != name_stream && name != name_copy)
            return 0;
    }
    return 1;
}

/* The general function's result: nothing has been done here. An error is left for it to meet again, in its own words. */
static PyObject *in_general(PyObject *function, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    Py_ssize_t length = names ? PyTuple_Size(names) : 0;
    PyObject *arguments, *options = NULL, *result = NULL;
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) /* Ctrl-C */
            return NULL;
        PyErr_Clear();
    }
    arguments = PyTuple_New(count);
    if (!arguments)
        return NULL;
    for (Py_ssize_t i = 0; i < count; ++i)
        PyTuple_SetItem(arguments, i, Py_NewRef(given[i]));
    if (!length || (options = PyDict_New()) != NULL) {
        for (Py_ssize_t i = 0; i < length; ++i)
            if (PyDict_SetItem(options, PyTuple_GetItem(names, i), given[count + i]))
                goto done;
        result = PyObject_Call(function, arguments, options);
    }
done:
    Py_XDECREF(options);
    Py_DECREF(arguments);
    return result;
}

static PyObject *to_device(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    PyObject *out = NULL, *device = NULL, *backend = NULL, *dtype = NULL, *stream = NULL, *done = NULL;
    line l = {0};
    (void)self;
    if (is_usual(given, count, names, 1, &out, &device, &backend, &dtype, &stream) && read_line(stream, &l))
        done = sent(given[0], device, backend, out, dtype, &l);
    forget_line(&l);
    return done ? done : in_general(front.to_device, given, count, names);
}

static PyObject *to_host(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    PyObject *out = NULL, *pinned = NULL, *dtype = NULL, *stream = NULL, *done = NULL;
    line l = {0};
    (void)self;
    if (is_usual(given, count, names, 0, &out, &pinned, NULL, &dtype, &stream) && !(pinned && out) && read_line(stream, &l))
        done = fetched(given[0], out, pinned != NULL, dtype, &l);
    forget_line(&l);
    return done ? done : in_general(front.to_host, given, count, names);
}

/* --- what Python tells */

static int takes_numpy(PyObject *capsule)
{
    void **table = PyCapsule_GetPointer(capsule, NULL);
    if (!table)
        return 0;
    if (((unsigned (*)(void))table[ABI_VERSION])() >> 24 != NUMPY_ABI >> 24) {
        PyErr_SetString(PyExc_RuntimeError, "this NumPy has another ABI");
        return 0;
    }
    front.new_copy = (PyObject * (*)(PyObject *, int)) table[NEW_COPY];
    front.new_array = (PyObject * (*)(PyObject *, PyObject *, int, const int64_t *, const Py_ssize_t *, void *, int, PyObject *))
        table[NEW_FROM_DTYPE];
    front.set_base = (int (*)(PyObject *, PyObject *))table[SET_BASE];
    return 1;
}

static int intern(PyObject **name, const char *text)
{
    if (!*name)
        *name = PyUnicode_InternFromString(text);
    return *name != NULL;
}

static PyObject *function_of(int number, PyObject *general, const char *name, PyCFunction code, PyObject *module, PyObject *doc)
{
    const char *text = PyUnicode_AsUTF8AndSize(doc, NULL);
    if (!text)
        return NULL;
    Py_INCREF(doc);
    Py_INCREF(general);
    front.methods[number] = (PyMethodDef){name, code, METH_FASTCALL | METH_KEYWORDS, text};
    return PyCFunction_NewEx(&front.methods[number], NULL, module);
}

/* (functions, lists, types, limits, (NumPy's dtype, numbers of dtypes, of swapped ones), elements, NumPy's C API, module, documentation) -> the two functions */
PyObject *xf_bind_front(PyObject *ignored, PyObject *arguments)
{
    PyObject *elements, *numpy, *module, *doc_up, *doc_down, *up = NULL, *down = NULL;
    (void)ignored;
    if (!PyArg_ParseTuple(arguments, "(OOOOOOO)(O!O!)(OOO)(nnnnnnnnnnnnnnn)(O!O!O!)O!OO(OO)", &front.may_skip, &front.settle, &front.introduce, &front.resolve,
                          &front.scope, &front.to_device, &front.to_host, &PyList_Type, &front.number,
                          &PyList_Type, &front.scopes, &front.ndarray, &front.device, &front.stream, &front.most_up,
                          &front.most_down, &front.most_copied, &front.least_through, &front.most_through, &front.most_spread,
                          &front.scratch, &front.least_looped, &front.least_looped_up, &front.least_looped_down, &front.most_ordered, &front.least_reordered, &front.least_narrowed, &front.least_halved, &front.least_quartered, &PyType_Type, &front.dtype, &PyDict_Type, &front.dtypes,
                          &PyDict_Type, &front.swapped, &PyList_Type, &elements, &numpy, &module, &doc_up, &doc_down))
        return NULL;
    Py_INCREF(arguments); /* and so all that it holds */
    front.element_count = 0;
    for (Py_ssize_t i = 0; i < PyList_Size(elements) && i < MOST_TYPES; ++i) {
        element *each = &front.elements[i];
        if (!PyArg_ParseTuple(PyList_GetItem(elements, i), "Obbn", &each->dtype, &each->code, &each->bits, &each->itemsize))
            return NULL;
        Py_INCREF(each->dtype);
        front.element_count = (int)i + 1;
    }
    if (!takes_numpy(numpy))
        return NULL;
    if (!intern(&name_backend, "backend") || !intern(&name_copy, "copy") || !intern(&name_device, "device") ||
        !intern(&name_dtype, "dtype") || !intern(&name_out, "out") ||
        !intern(&name_pinned, "pinned") || !intern(&name_reuses, "_reuses") || !intern(&name_stream, "stream") ||
        !intern(&name_raw, "_raw") || !intern(&name_handle, "handle") || !intern(&name_capture, "capture"))
        return NULL;
    up = function_of(0, front.to_device, "to_device", (PyCFunction)(void (*)(void))to_device, module, doc_up);
    down = up ? function_of(1, front.to_host, "to_host", (PyCFunction)(void (*)(void))to_host, module, doc_down) : NULL;
    if (!down) {
        Py_XDECREF(up);
        return NULL;
    }
    return Py_BuildValue("(NN)", up, down);
}

static void *kept(const void *entry, size_t size)
{
    void *copy = malloc(size);
    if (!copy)
        return PyErr_NoMemory();
    return memcpy(copy, entry, size);
}

static PyObject *or_null(PyObject *given)
{
    return given == Py_None ? NULL : Py_NewRef(given);
}

/* (type of arrays, whether they are known here, exchange API, whole, is_negated, is_conjugate, recording, maker, dtypes,
   note_write) -> its number, -1 where there is no room */
PyObject *xf_add_library(PyObject *ignored, PyObject *arguments)
{
    PyObject *type, *exchange, *whole, *negated, *conjugate, *recording, *maker, *dtypes, *writes;
    library l = {0};
    (void)ignored;
    if (!PyArg_ParseTuple(arguments, "OpOOOOOOO!O", &type, &l.is_known, &exchange, &whole, &negated, &conjugate, &recording,
                          &maker, &PyTuple_Type, &dtypes, &writes))
        return NULL;
    if (front.library_count == MOST_ENTRIES)
        return PyLong_FromLong(-1);
    if (exchange != Py_None) {
        l.exchange = PyCapsule_GetPointer(exchange, "dlpack_exchange_api");
        if (!l.exchange)
            return NULL;
        if (l.exchange->major != 1 || !l.exchange->describe || !l.exchange->current_stream)
            l.exchange = NULL;
    }
    l.type = Py_NewRef(type);
    l.whole = or_null(whole);
    l.is_negated = or_null(negated);
    l.is_conjugate = or_null(conjugate);
    l.recording = or_null(recording);
    l.maker = PyTuple_Size(dtypes) == front.element_count ? or_null(maker) : NULL;
    l.dtypes = Py_NewRef(dtypes);
    l.note_write = or_null(writes);
    front.libraries[front.library_count] = kept(&l, sizeof l);
    return front.libraries[front.library_count] ? PyLong_FromLong(front.library_count++) : NULL;
}

/* (device, library, index, kind, functions, pool, addresses, context) -> its number, -1 where there is no room; `kind` as in
   DLPack, 0 for a device that is left to Python */
PyObject *xf_add_end(PyObject *ignored, PyObject *arguments)
{
    PyObject *device, *empty, *pointer, *stream, *is_current, *pinned, *scratch, *lease, *blocks, *dead, *pool, *followed;
    PyObject *result, *prepare, *finish, *describe, *empty_on, *hold;
    unsigned long long wait, captured, send, receive, enqueue, current, query, attribute, launch, gather, scatter, staging, crowded, later;
    int number;
    end e = {0};
    (void)ignored;
    if (!PyArg_ParseTuple(arguments, "Oiii(OOOOOOOOOOOO)(OOOOO)(KKKKKKKKKKKKKK)K", &device, &number, &e.index, &e.kind, &empty,
                          &pointer, &stream, &is_current, &pinned, &scratch, &result, &prepare, &finish, &describe, &empty_on, &hold, &lease, &blocks, &dead, &pool, &followed, &send,
                          &receive, &enqueue, &later, &current, &query, &attribute, &launch, &wait, &captured, &gather, &scatter, &staging, &crowded, &e.context))
        return NULL;
    if (front.end_count == MOST_ENTRIES || e.index < 0 || e.index >= MOST_INDEX || number >= front.library_count)
        return PyLong_FromLong(-1);
    if (number < 0 || !front.libraries[number]->is_known)
        e.kind = 0;
    else
        e.library = front.libraries[number];
    e.device = Py_NewRef(device);
    e.empty = or_null(empty);
    e.empty_on = or_null(empty_on);
    e.hold = or_null(hold);
    e.pointer = or_null(pointer);
    e.stream = or_null(stream);
    e.is_current = or_null(is_current);
    e.pinned = or_null(pinned);
    e.scratch = or_null(scratch);
    e.result = or_null(result);
    e.staged.prepare = or_null(prepare);
    e.staged.finish = or_null(finish);
    e.staged.copy = (int64_t (*)(const Setup *, const Region *, int64_t, Staging **))(uintptr_t)staging;
    e.staged.is_crowded = (int (*)(void))(uintptr_t)crowded;
    e.steps.describe = or_null(describe);
    e.steps.launch = (int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                              void **))(uintptr_t)launch;
    e.lease = or_null(lease);
    e.free = or_null(blocks);
    e.dead = or_null(dead);
    e.pool = or_null(pool);
    e.is_followed = or_null(followed);
    e.up.copier.copy = (int (*)(word, word, size_t))(uintptr_t)send;
    e.down.copier.copy = (int (*)(word, word, size_t))(uintptr_t)receive;
    e.up.copier.current = (int (*)(void **))(uintptr_t)current;
    e.up.copier.enqueue = (int (*)(word, word, size_t, void *))(uintptr_t)enqueue;
    e.down.copier.enqueue = (int (*)(word, word, size_t, void *))(uintptr_t)later;
    e.up.copier.query = (int (*)(void *))(uintptr_t)query;
    e.up.copier.attribute = e.down.copier.attribute = (int (*)(void *, unsigned, word))(uintptr_t)attribute;
    e.up.copier.is_captured = (int (*)(void *, int *))(uintptr_t)captured;
    e.up.copier.wait = e.down.copier.wait = (int (*)(void *))(uintptr_t)wait;
    e.up.copier.is_upward = 1;
    e.up.c.gather = (void (*)(const void *, const char *, int64_t, int64_t, char *, int))(uintptr_t)gather;
    e.down.c.scatter = (void (*)(const void *, char *, int64_t, int64_t, const char *, int))(uintptr_t)scatter;
    front.ends[front.end_count] = kept(&e, sizeof e);
    if (!front.ends[front.end_count])
        return NULL;
    if (e.kind != ON_CPU && number >= 0)
        front.libraries[number]->ends[e.index] = front.ends[front.end_count];
    return PyLong_FromLong(front.end_count++);
}

/* Know no library and no device any more: some are gone, or other ones now. */
PyObject *xf_forget_ends(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    front.library_count = front.end_count = 0;
    Py_RETURN_NONE;
}
