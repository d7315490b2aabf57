/* What an array is: where its elements lie, and of which type they are.

   A NumPy array's own memory tells, as its C API promises; torch's exchange API of DLPack does; other libraries are asked
   through Python. */

#include "replay.h"

#include <stddef.h>
#include <string.h>

typedef struct {
    PyObject_HEAD
    PyTypeObject *scalars;
} descriptor; /* the first field of PyArray_Descr, likewise */

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
static int is_mapped(const ndarray *a)
{
    PyObject *base = a->base, *object;
    int result;
    while (base && (PyObject *)Py_TYPE(base) == replay.ndarray)
        base = ((const ndarray *)base)->base;
    if (!base)
        return 0;
    if ((PyObject *)Py_TYPE(base) == replay.memmap || (PyObject *)Py_TYPE(base) == replay.mmap)
        return 1;
    if ((PyObject *)Py_TYPE(base) == replay.between)
        return 1;
    if (!PyMemoryView_Check(base))
        return 0;
    object = PyObject_GetAttrString(base, "obj");
    result = !object || (PyObject *)Py_TYPE(object) == replay.mmap || PyObject_HasAttrString(object, "base");
    PyErr_Clear();
    Py_XDECREF(object);
    return result;
}

int xf_is_mapped(PyObject *array)
{
    return replay.ndarray && (PyObject *)Py_TYPE(array) == replay.ndarray && is_mapped((const ndarray *)array);
}

static int see_memory(const ndarray *a, description *d)
{
    if (is_mapped(a) || !is_shape(d, a->axes, (const int64_t *)a->extents))
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
    return ((const descriptor *)dtype)->scalars == ((const descriptor *)replay.elements[number].dtype)->scalars;
}

/* The number of the element of an array's dtype, from a table; -1 if none. */
static int found_in(PyObject *table, const ndarray *a)
{
    PyObject *found = PyDict_GetItemWithError(table, a->dtype);
    int number = found ? (int)PyLong_AsLong(found) : -1;
    return number >= 0 && is_of_type(a->dtype, number) ? number : -1;
}

/* Whether a NumPy array has a dtype that every device holds; then `d` describes it. */
int xf_describe_host(PyObject *array, description *d)
{
    const ndarray *a = (const ndarray *)array;
    for (d->element = 0; d->element < replay.element_count; ++d->element)
        if (replay.elements[d->element].dtype == a->dtype)
            return see_memory(a, d);
    return (d->element = found_in(replay.dtypes, a)) >= 0 && see_memory(a, d);
}

/* The same of an array in the other byte order. */
int xf_describe_swapped(PyObject *array, description *d)
{
    const ndarray *a = (const ndarray *)array;
    if ((d->element = found_in(replay.swapped, a)) < 0 || !see_memory(a, d))
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
    for (d->element = 0; d->element < replay.element_count; ++d->element)
        if (replay.elements[d->element].code == t.code && replay.elements[d->element].bits == t.bits)
            break;
    if (d->element == replay.element_count || !is_shape(d, t.axes, t.extents))
        return 0;
    d->data = (char *)t.data + t.offset;
    d->is_c = is_in_order(&t);
    if (!d->is_c) {
        for (int i = 0; i < t.axes; ++i)
            if (__builtin_mul_overflow((Py_ssize_t)t.strides[i], replay.elements[d->element].itemsize, &d->steps[i]))
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
        for (d->element = 0; d->element < replay.element_count; ++d->element)
            if (replay.elements[d->element].dtype == dtype)
                break;
        d->is_c = 1;
        d->kind = ON_CUDA;
        d->index = 0; /* a library of several devices is not described so */
        is_seen = axes <= MOST_AXES && d->element < replay.element_count && is_shape(d, (int)axes, numbers);
    }
    Py_XDECREF(found);
    return is_seen && !PyErr_Occurred();
}

/* Whether an array is memory like any other: then `d` describes it. */
int xf_describe(const library *l, PyObject *array, description *d)
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
    PyObject *base = ((const ndarray *)array)->base;
    while (base && (PyObject *)Py_TYPE(base) == replay.ndarray)
        base = ((const ndarray *)base)->base;
    for (int i = 0; base && i < replay.device_count; ++i)
        if (replay.devices[i]->lease == (PyObject *)Py_TYPE(base))
            return 1;
    return 0;
}

int xf_are_alike(const description *one, const description *other)
{
    return one->element == other->element && one->axes == other->axes &&
           !memcmp(one->extents, other->extents, (size_t)one->axes * sizeof *one->extents);
}

/* Whether elements of an array may share memory, so that nothing may be written there; Python knows it exactly. */
int xf_may_overlap_itself(const description *d)
{
    Py_ssize_t steps[MOST_AXES], extents[MOST_AXES], reach = replay.elements[d->element].itemsize;
    int axes = 0, at;
    if (d->is_c || !d->strides || !d->count)
        return 0;
    for (int i = 0; i < d->axes; ++i) {
        Py_ssize_t step = d->strides[i] < 0 ? -d->strides[i] : d->strides[i];
        if (d->extents[i] == 1)
            continue;
        for (at = axes++; at > 0 && steps[at - 1] > step; --at)
            steps[at] = steps[at - 1], extents[at] = extents[at - 1];
        steps[at] = step;
        extents[at] = d->extents[i];
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

/* Describe an array once more, with its strides where they are. Few have many axes, so that most of the room for them is not
   touched: after other work each line of it comes from memory. */
void xf_describe_again(description *other, const description *d)
{
    memcpy(other, d, offsetof(description, extents) + (size_t)d->axes * sizeof *d->extents);
}

/* What arrives of an array as the element of that number; 0 where Python is to decide, or to refuse. */
int xf_is_converted(const description *src, int number, description *arriving)
{
    const element *given = &replay.elements[src->element], *wanted = &replay.elements[number];
    xf_describe_again(arriving, src);
    arriving->is_swapped = 0;
    if (number == src->element && !src->is_swapped)
        return 1;
    arriving->element = number;
    if (given->code == COMPLEX && wanted->code != COMPLEX)
        return 0;
    return !__builtin_mul_overflow(src->count, wanted->itemsize, &arriving->nbytes);
}

/* The number of the element that a dtype, a scalar type or a name means; -1 where Python is to look at it. */
int xf_element_of(PyObject *dtype)
{
    PyObject *found;
    int is_dtype = PyObject_TypeCheck(dtype, (PyTypeObject *)replay.dtype), number;
    if (!PyUnicode_CheckExact(dtype) && !PyType_Check(dtype) && !is_dtype)
        return -1; /* of another type: its hash may be anything */
    found = PyDict_GetItemWithError(replay.dtypes, dtype);
    number = found ? (int)PyLong_AsLong(found) : -1;
    return number < 0 || !is_dtype || is_of_type(dtype, number) ? number : -1;
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
