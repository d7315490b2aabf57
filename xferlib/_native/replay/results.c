/* New arrays: on the host, in pinned memory, and on a device. */

#include "replay.h"

enum { STEPS = 3, SMALLEST = 9, LARGEST = 26 }; /* of the pool's sizes: see bin_nbytes() in pinned.py */

/* An uninitialised NumPy array, in C order; over memory that `base`, whose reference it takes, keeps alive. */
PyObject *xf_host_array(const description *d, void *memory, PyObject *base)
{
    PyObject *dtype = replay.elements[d->element].dtype, *result;
    Py_INCREF(dtype); /* taken by the next call_stream */
    result = replay.new_array(replay.ndarray, dtype, d->axes, d->extents, NULL, memory, memory ? C_ORDER | ALIGNED | WRITABLE : 0, NULL);
    if (result && base && replay.set_base(result, base)) {
        Py_DECREF(result);
        return NULL;
    }
    if (!result)
        Py_XDECREF(base);
    return result;
}

PyObject *xf_tuple_of(const int64_t *numbers, int count)
{
    PyObject *made = PyTuple_New(count);
    for (int i = 0; made && i < count; ++i) {
        PyObject *each = PyLong_FromLongLong(numbers[i]);
        if (!each) {
            Py_DECREF(made);
            return NULL;
        }
        PyTuple_SetItem(made, i, each);
    }
    return made;
}

/* A new array, of a function that makes them. */
static PyObject *made(PyObject *empty, const description *d)
{
    PyObject *extents = xf_tuple_of(d->extents, d->axes), *result;
    if (!extents)
        return NULL;
    result = PyObject_CallFunctionObjArgs(empty, extents, replay.elements[d->element].dtype, NULL);
    Py_DECREF(extents);
    return result;
}

/* A new array on the CPU: by the function that its library has for C, or, where there is none or it fails, by Python. */
PyObject *xf_make_on_cpu(const device_entry *e, const description *d)
{
    const library *l = e->library;
    PyObject *extents, *steps, *result = NULL;
    int64_t apart[MOST_AXES], step = 1;
    if (!l->maker || d->count == 0 || d->nbytes > replay.host_most)
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

/* A new array on a device, of the call's stream; `is_between`: for work on that stream alone. */
PyObject *xf_make_on(const device_entry *e, const call_stream *on, const description *d, int is_between)
{
    PyObject *extents, *result;
    if (!on->handle && !on->named)
        return made(e->empty, d);
    extents = xf_tuple_of(d->extents, d->axes);
    if (!extents)
        return NULL;
    result = PyObject_CallFunctionObjArgs(is_between ? e->empty_between : e->empty_on, extents,
                                          replay.elements[d->element].dtype, stream_of(on), NULL);
    Py_DECREF(extents);
    return result;
}

/* The address that a library tells of its array; 0 with an error set. */
word xf_address_of(const device_entry *e, PyObject *array)
{
    PyObject *found = PyObject_CallFunctionObjArgs(e->pointer, array, NULL);
    word address = found ? PyLong_AsUnsignedLongLong(found) : 0;
    Py_XDECREF(found);
    return PyErr_Occurred() ? 0 : address;
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
    PyObject *before = PyObject_GetAttr(pool, replay.names.reuses), *after;
    int result;
    after = before ? PyLong_FromLong(PyLong_AsLong(before) + 1) : NULL;
    result = after ? PyObject_SetAttr(pool, replay.names.reuses, after) : -1;
    Py_XDECREF(before);
    Py_XDECREF(after);
    return result;
}

/* A new array in pinned memory: of a free block, else as Python gives it. */
PyObject *xf_pinned_array(const device_entry *e, const description *d)
{
    PyObject *size, *blocks = NULL, *lease;
    if (xf_is_answered(e->is_followed, 1) || PyErr_Occurred() || !(size = PyLong_FromUnsignedLongLong(bin_of(d->nbytes))))
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
    return xf_host_array(d, xf_leased_memory(lease), lease);
}

/* A new array for a result: one of more bytes than `most` lives in recycled memory. */
PyObject *xf_host_result(const description *d, Py_ssize_t most, int *is_fresh)
{
    PyObject *extents, *answer, *result = NULL;
    if (d->nbytes <= most)
        return xf_host_array(d, NULL, NULL);
    extents = xf_tuple_of(d->extents, d->axes);
    answer = extents ? PyObject_CallFunctionObjArgs(replay.result, extents, replay.elements[d->element].dtype, NULL) : NULL;
    Py_XDECREF(extents);
    if (answer && PyArg_ParseTuple(answer, "Op", &result, is_fresh))
        Py_INCREF(result);
    Py_XDECREF(answer);
    return result;
}

int xf_note_write(const library *l, PyObject *array)
{
    PyObject *done;
    if (!l->note_write)
        return 1;
    done = PyObject_CallFunctionObjArgs(l->note_write, array, replay.names.out, NULL);
    Py_XDECREF(done);
    return done != NULL;
}
