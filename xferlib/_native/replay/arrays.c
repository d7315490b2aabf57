/* What an array is: where its elements lie, and of which type they are. And new arrays: on the host, in pinned memory, and on a
   device.

   A NumPy array's own memory tells, as its C API promises; torch's exchange API of DLPack does; other libraries are asked
   through Python. */

#include "replay.h"

#include <stddef.h>
#include <string.h>

enum { STEPS = 3, SMALLEST = 9, LARGEST = 26 }; /* of the pool's sizes: see bin_nbytes() in pinned.py */

typedef struct {
    PyObject_HEAD
    PyTypeObject *scalars;
} descriptor; /* the first field of PyArray_Descr, likewise */

/* Whether a question, about an array or about nothing, has another answer than the usual one; also where it fails. NULL: never. */
int xf_is_unusual(PyObject *question, PyObject *array, PyObject *usual)
{
    PyObject *answer;
    if (!question)
        return 0;
    answer = PyObject_CallFunctionObjArgs(question, array, NULL);
    Py_XDECREF(answer);
    return answer != usual;
}

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
    return !__builtin_mul_overflow(d->count, replay.elements[d->element].itemsize, &d->nbytes);
}

/* Whether an array lies in a memory map, so that Python is to look whether its file is still as long. */
int xf_is_mapped(PyObject *array)
{
    PyObject *base, *object;
    int result;
    if (!replay.ndarray || !is_of(array, replay.ndarray) || !(base = owner_of(array)))
        return 0;
    if (is_of(base, replay.memmap) || is_of(base, replay.mmap) || is_of(base, replay.between))
        return 1;
    if (!PyMemoryView_Check(base))
        return 0;
    object = PyObject_GetAttrString(base, "obj");
    result = !object || is_of(object, replay.mmap) || PyObject_HasAttrString(object, "base");
    PyErr_Clear();
    Py_XDECREF(object);
    return result;
}

/* Whether a dtype and the element of a number, which a table has for an equal dtype, are of one type: a dtype made by
   newbyteorder or read by pickle is. Long long is equal to long, and another type: Python keeps which one it is. */
static int is_of_type(PyObject *dtype, int number)
{
    return ((const descriptor *)dtype)->scalars == ((const descriptor *)replay.elements[number].dtype)->scalars;
}

/* The number that a table has for a dtype, a scalar type or a name; -1 if none. */
static int find_in(PyObject *table, PyObject *dtype, int is_dtype)
{
    PyObject *found = PyDict_GetItemWithError(table, dtype);
    int number = found ? (int)PyLong_AsLong(found) : -1;
    return number < 0 || !is_dtype || is_of_type(dtype, number) ? number : -1;
}

/* The number of the element of exactly this dtype, or, without one, of DLPack's code; `element_count` if none. */
static int find_element(PyObject *dtype, uint8_t code, uint8_t bits)
{
    int number = 0;
    for (; number < replay.element_count; ++number) {
        const element *each = &replay.elements[number];
        if (dtype ? each->dtype == dtype : each->code == code && each->bits == bits)
            break;
    }
    return number;
}

static int see_memory(PyObject *array, description *d)
{
    const ndarray *a = (const ndarray *)array;
    if (xf_is_mapped(array) || !is_shape(d, a->axes, (const int64_t *)a->extents))
        return 0;
    d->data = a->data;
    d->strides = a->strides;
    d->is_c = a->flags & C_ORDER;
    d->is_pinned = 0;
    d->kind = ON_CPU;
    d->index = 0;
    return 1;
}

/* Whether a NumPy array has a dtype that every device holds; then `d` describes it. */
int xf_describe_host(PyObject *array, description *d)
{
    PyObject *dtype = ((const ndarray *)array)->dtype;
    d->element = find_element(dtype, 0, 0);
    return (d->element < replay.element_count || (d->element = find_in(replay.dtypes, dtype, 1)) >= 0) && see_memory(array, d);
}

/* The same of an array in the other byte order. */
int xf_describe_swapped(PyObject *array, description *d)
{
    if ((d->element = find_in(replay.swapped, ((const ndarray *)array)->dtype, 1)) < 0 || !see_memory(array, d))
        return 0;
    return d->is_swapped = 1;
}

static int see_exchanged(const library *l, PyObject *array, description *d)
{
    int64_t step = 1;
    DLTensor t;
    if (xf_is_unusual(l->is_negated, array, Py_False))
        return 0;
    if (l->exchange->describe(array, &t) || !t.data || t.lanes != 1 || t.index < 0 || t.index >= MOST_INDEX)
        return 0;
    d->element = find_element(NULL, t.code, t.bits);
    if (d->element == replay.element_count || !is_shape(d, t.axes, t.extents))
        return 0;
    d->data = (char *)t.data + t.offset;
    d->is_c = 1;
    for (int i = t.axes; t.strides && i--; step *= d->extents[i])
        d->is_c &= d->extents[i] == 1 || t.strides[i] == step;
    for (int i = 0; !d->is_c && i < t.axes; ++i)
        if (__builtin_mul_overflow((Py_ssize_t)t.strides[i], replay.elements[d->element].itemsize, &d->steps[i]))
            return 0;
    d->strides = d->is_c ? NULL : d->steps;
    d->kind = t.kind;
    d->index = t.index;
    return t.code != COMPLEX || !xf_is_unusual(l->is_conjugate, array, Py_False);
}

static int see_whole(const library *l, PyObject *array, description *d)
{
    PyObject *found = PyObject_CallFunctionObjArgs(l->whole, array, NULL), *extents, *dtype;
    int64_t numbers[MOST_AXES];
    unsigned long long address;
    Py_ssize_t axes = MOST_AXES + 1;
    int is_seen = found && found != Py_None && PyArg_ParseTuple(found, "KO!O", &address, &PyTuple_Type, &extents, &dtype);
    if (is_seen && (axes = PyTuple_Size(extents)) <= MOST_AXES) {
        for (Py_ssize_t i = 0; i < axes; ++i)
            numbers[i] = PyLong_AsLongLong(PyTuple_GetItem(extents, i));
        d->data = (char *)(uintptr_t)address;
        d->element = find_element(dtype, 0, 0);
        d->is_c = 1;
        d->kind = ON_CUDA;
        d->index = 0; /* a library of several devices is not described so */
        is_seen = d->element < replay.element_count && is_shape(d, (int)axes, numbers);
    }
    Py_XDECREF(found);
    return is_seen && axes <= MOST_AXES && !PyErr_Occurred();
}

/* Whether a library records what is done with its arrays, and so is to do it by itself. */
int xf_is_recorded(const library *l)
{
    return xf_is_unusual(l->recording, NULL, Py_None);
}

/* Whether an array is memory like any other: then `d` describes it. */
int xf_describe(const library *l, PyObject *array, description *d)
{
    return !xf_is_recorded(l) && xf_describe_unrecorded(l, array, d);
}

/* The same, if it is known that its library records nothing. */
int xf_describe_unrecorded(const library *l, PyObject *array, description *d)
{
    if (l->type == replay.ndarray)
        return xf_describe_host(array, d);
    if (l->exchange)
        return see_exchanged(l, array, d);
    return l->whole && see_whole(l, array, d);
}

/* Whether an array surely lies in a block of a pinned pool, or is a view of one that does: the driver copies any size of it. */
int xf_is_lent(PyObject *array)
{
    PyObject *base = owner_of(array);
    for (int i = 0; base && i < replay.device_count; ++i)
        if (is_of(base, replay.devices[i]->lease))
            return 1;
    return 0;
}

int xf_are_alike(const description *one, const description *other)
{
    return one->element == other->element && one->axes == other->axes &&
           !memcmp(one->extents, other->extents, (size_t)one->axes * sizeof *one->extents);
}

/* Whether elements of an array that is not empty may share memory, so that nothing may be written there; Python knows it exactly. */
int xf_may_overlap(int count, const int64_t *given, const Py_ssize_t *strides, Py_ssize_t reach)
{
    Py_ssize_t steps[MOST_AXES], extents[MOST_AXES];
    int axes = 0, at;
    for (int i = 0; i < count; ++i) {
        Py_ssize_t step = strides[i] < 0 ? -strides[i] : strides[i];
        if (given[i] == 1)
            continue;
        for (at = axes++; at > 0 && steps[at - 1] > step; --at)
            steps[at] = steps[at - 1], extents[at] = extents[at - 1];
        steps[at] = step;
        extents[at] = given[i];
    }
    for (int i = 0; i < axes; ++i) { /* each must step over all that those before it reach */
        Py_ssize_t further;
        if (steps[i] < reach)
            return 1;
        if (__builtin_mul_overflow(steps[i], extents[i] - 1, &further) || __builtin_add_overflow(reach, further, &reach))
            return 1;
    }
    return 0;
}

int xf_may_overlap_itself(const description *d)
{
    return !d->is_c && d->strides && d->count && xf_may_overlap(d->axes, d->extents, d->strides, replay.elements[d->element].itemsize);
}

/* Describe an array once more, with its strides where they are. Few have many axes, so that most of the room for them is not
   touched: after other work each line of it comes from memory. */
void xf_describe_again(description *other, const description *d)
{
    memcpy(other, d, offsetof(description, extents) + (size_t)d->axes * sizeof *d->extents);
}

/* The number of the element that a dtype, a scalar type or a name means; -1 where Python is to find it. */
int xf_element_of(PyObject *dtype)
{
    int is_dtype = PyObject_TypeCheck(dtype, (PyTypeObject *)replay.dtype);
    if (!PyUnicode_CheckExact(dtype) && !PyType_Check(dtype) && !is_dtype)
        return -1; /* of another type: its hash may be anything */
    return find_in(replay.dtypes, dtype, is_dtype);
}

/* What arrives of an array as a dtype, a scalar type or a name means, NULL for its own; 0 where Python is to decide or refuse. */
int xf_is_converted(const description *src, PyObject *dtype, description *arriving)
{
    int number = dtype ? xf_element_of(dtype) : src->element;
    if (number < 0)
        return 0;
    xf_describe_again(arriving, src);
    arriving->is_swapped = 0;
    if (number == src->element && !src->is_swapped)
        return 1;
    arriving->element = number;
    if (replay.elements[src->element].code == COMPLEX && replay.elements[number].code != COMPLEX)
        return 0;
    return !__builtin_mul_overflow(src->count, replay.elements[number].itemsize, &arriving->nbytes);
}

/* Describe an array in host memory for strided.c: neighbouring axes that are one in memory become one. */
void xf_lay_out(const description *d, int wanted, Layout *layout)
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
        layout->strides[0] = replay.elements[d->element].itemsize;
    }
    layout->axes = last + 1;
    layout->host_size = replay.elements[d->element].itemsize;
    layout->device_size = replay.elements[wanted].itemsize;
    layout->host_type = d->element;
    layout->device_type = wanted;
    layout->is_swapped = d->is_swapped;
}

/* --- new arrays */

/* An uninitialised NumPy array, in C order; over memory that `base`, whose reference it takes, keeps alive. */
static PyObject *make_host_array(const description *d, void *memory, PyObject *base)
{
    PyObject *dtype = Py_NewRef(replay.elements[d->element].dtype); /* which the next call takes */
    PyObject *result = xf_numpy.new_array(replay.ndarray, dtype, d->axes, d->extents, NULL, memory,
                                        memory ? C_ORDER | ALIGNED | WRITABLE : 0, NULL);
    if (result && base && xf_numpy.set_base(result, base)) {
        Py_DECREF(result);
        return NULL;
    }
    if (!result)
        Py_XDECREF(base);
    return result;
}

/* A tuple of numbers, each divided by a unit. */
PyObject *xf_tuple_of(const int64_t *numbers, int count, int unit)
{
    PyObject *made = PyTuple_New(count);
    for (int i = 0; made && i < count; ++i) {
        PyObject *each = PyLong_FromLongLong(numbers[i] / unit);
        if (!each || PyTuple_SetItem(made, i, each)) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}

/* What a function that makes arrays of such a form gives, which takes one more argument where that is not NULL. */
static PyObject *make_by(PyObject *function, const description *d, PyObject *more)
{
    PyObject *extents = xf_tuple_of(d->extents, d->axes, 1), *result;
    result = extents ? PyObject_CallFunctionObjArgs(function, extents, replay.elements[d->element].dtype, more, NULL) : NULL;
    Py_XDECREF(extents);
    return result;
}

/* A new array by the function that its library has for C. */
static PyObject *make_by_maker(PyObject *maker, const library *l, const description *d)
{
    PyObject *extents, *steps, *result = NULL;
    int64_t apart[MOST_AXES], step = 1;
    for (int i = d->axes; i--; step *= d->extents[i])
        apart[i] = step;
    extents = xf_tuple_of(d->extents, d->axes, 1);
    steps = extents ? xf_tuple_of(apart, d->axes, 1) : NULL;
    if (steps)
        result = PyObject_CallFunctionObjArgs(maker, extents, steps, PyTuple_GetItem(l->dtypes, d->element), NULL);
    Py_XDECREF(steps);
    Py_XDECREF(extents);
    return result;
}

/* A new array on the CPU: by the function that its library has for C, or, where there is none or it fails, by Python. */
PyObject *xf_make_on_cpu(const device_entry *e, const description *d)
{
    const library *l = e->library;
    PyObject *result;
    if (!l->maker || d->count == 0 || d->nbytes > replay.host_most)
        return make_by(e->empty, d, NULL);
    result = make_by_maker(l->maker, l, d);
    if (result || !PyErr_ExceptionMatches(PyExc_RuntimeError))
        return result;
    PyErr_Clear();
    return make_by(e->empty, d, NULL);
}

/* A new array on a device, of the call's stream, and its address, 0 with an error set; `is_between`: for work on that stream
   alone. */
PyObject *xf_make_on(const device_entry *e, const call_stream *on, const description *d, int is_between, word *address)
{
    PyObject *result, *found, *maker = on->named || !d->count ? NULL : on->handle ? e->maker_on : e->maker;
    if (maker)
        result = make_by_maker(maker, e->library, d);
    else if (!on->handle && !on->named)
        result = make_by(e->empty, d, NULL);
    else
        result = make_by(is_between ? e->empty_between : e->empty_on, d, on->named ? on->named : Py_None);
    found = result ? PyObject_CallFunctionObjArgs(e->pointer, result, NULL) : NULL;
    *address = found ? PyLong_AsUnsignedLongLong(found) : 0;
    Py_XDECREF(found);
    if (PyErr_Occurred())
        *address = 0;
    return result;
}

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
    PyObject *before = PyObject_GetAttr(pool, replay.names._reuses);
    PyObject *after = before ? PyLong_FromLong(PyLong_AsLong(before) + 1) : NULL;
    int result = after ? PyObject_SetAttr(pool, replay.names._reuses, after) : -1;
    Py_XDECREF(before);
    Py_XDECREF(after);
    return result;
}

/* A new array in pinned memory: of a free block, else as Python gives it. */
PyObject *xf_make_pinned(const device_entry *e, const description *d)
{
    PyObject *size = NULL, *blocks = NULL, *lease = NULL;
    if (!xf_is_unusual(e->is_followed, NULL, Py_False) && (size = PyLong_FromUnsignedLongLong(bin_of(d->nbytes))))
        blocks = PyDict_GetItemWithError(e->free, size);
    Py_XDECREF(size);
    if (blocks)
        lease = xf_lend(NULL, (PyObject *[]){e->lease, blocks, e->dead}, 3);
    if (!PyErr_Occurred() && (!lease || lease == Py_None)) {
        Py_XDECREF(lease);
        return make_by(e->pinned, d, NULL);
    }
    if (!lease || count_reuse(e->pool)) {
        Py_XDECREF(lease);
        return NULL;
    }
    return make_host_array(d, xf_leased_memory(lease), lease);
}

/* A new array for a result: one of more bytes than `most` lives in recycled memory. */
PyObject *xf_make_host_result(const description *d, Py_ssize_t most, int *is_fresh)
{
    PyObject *answer, *result = NULL;
    if (d->nbytes <= most)
        return make_host_array(d, NULL, NULL);
    answer = make_by(replay.result, d, NULL);
    if (answer && PyArg_ParseTuple(answer, "Op", &result, is_fresh))
        Py_INCREF(result);
    Py_XDECREF(answer);
    return result;
}
