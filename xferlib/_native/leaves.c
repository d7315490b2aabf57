/* The leaves of a tree: where they lie on the host, and copies of many of them in one call.

   A tree of a thousand arrays pays for each step a thousand times: the address of an array costs Python half a
   microsecond, and a copy that is enqueued one and a half. Here they cost 50 ns, and what the driver takes. */

#include "leaves.h"

#include <stdlib.h>

/* --- on the host */

/* A list -> whether no object is in it twice. */
PyObject *xf_is_distinct(PyObject *module, PyObject *list)
{
    Py_ssize_t length, room = 16;
    PyObject **seen;
    int is_distinct = 1;
    (void)module;
    if (!PyList_Check(list))
        return PyErr_Format(PyExc_TypeError, "is_distinct takes a list");
    length = PyList_Size(list);
    while (room < 2 * length)
        room *= 2;
    seen = calloc((size_t)room, sizeof *seen);
    if (!seen)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < length && is_distinct; ++i) {
        PyObject *item = PyList_GetItem(list, i);
        uint64_t place = ((uint64_t)(uintptr_t)item >> 4) * 0x9E3779B97F4A7C15u >> 20;
        while (seen[place & (uint64_t)(room - 1)] && seen[place & (uint64_t)(room - 1)] != item)
            ++place;
        is_distinct = !seen[place & (uint64_t)(room - 1)];
        seen[place & (uint64_t)(room - 1)] = item;
    }
    free(seen);
    return PyBool_FromLong(is_distinct);
}

static PyObject *dtype_name, *nbytes_name; /* interned, for the life of the process */

/* Whether an array is copied here: of `most` bytes or fewer, and of one of the dtypes. -1 with an error set. `known` is
   the dtype of the array before, if it is one of them: as a rule this one's too. */
static int is_small(PyObject *array, PyObject *dtypes, Py_ssize_t most, PyObject **known)
{
    PyObject *dtype = PyObject_GetAttr(array, dtype_name), *size;
    Py_ssize_t nbytes;
    int is_one;
    if (!dtype)
        return -1;
    is_one = dtype == *known ? 1 : PySet_Contains(dtypes, dtype);
    if (is_one == 1)
        *known = dtype; /* compared, never used */
    Py_DECREF(dtype);
    if (is_one != 1)
        return is_one;
    size = PyObject_GetAttr(array, nbytes_name);
    if (!size)
        return -1;
    nbytes = PyLong_AsSsize_t(size);
    Py_DECREF(size);
    return nbytes == -1 && PyErr_Occurred() ? -1 : nbytes <= most;
}

/* (list, function that copies an array, type of arrays, frozenset of dtypes, most bytes) -> a list with the copies of those
   that are of exactly that type, one of the dtypes, and not larger, the other objects as they are; and how many those are. */
PyObject *xf_copied(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t length, most, others = 0;
    PyObject *made, *known = NULL;
    (void)module;
    if (count != 5 || !PyList_Check(given[0]) || !PyAnySet_Check(given[3]))
        return PyErr_Format(PyExc_TypeError, "copied takes a list, a function, a type, a set and a size");
    most = PyLong_AsSsize_t(given[4]);
    if (most == -1 && PyErr_Occurred())
        return NULL;
    if (!dtype_name)
        dtype_name = PyUnicode_InternFromString("dtype");
    if (!nbytes_name)
        nbytes_name = PyUnicode_InternFromString("nbytes");
    length = PyList_Size(given[0]);
    made = dtype_name && nbytes_name ? PyList_New(length) : NULL;
    for (Py_ssize_t i = 0; made && i < length; ++i) {
        PyObject *item = Py_XNewRef(PyList_GetItem(given[0], i)), *copy = NULL;
        int is_copied = !item ? -1 : (PyObject *)Py_TYPE(item) != given[2] ? 0 : is_small(item, given[3], most, &known);
        if (is_copied == 1)
            copy = PyObject_CallFunctionObjArgs(given[1], item, NULL);
        else if (is_copied == 0)
            copy = Py_NewRef(item), ++others;
        Py_XDECREF(item);
        if (!copy || PyList_SetItem(made, i, copy)) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made ? Py_BuildValue("Nn", made, others) : NULL;
}

/* --- between host and device */

typedef struct {
    const void *host;
    int64_t place, nbytes;
    const void *layout;
} Part; /* as in staging.c */

/* (list of arrays, list of their offsets, address of as many parts) -> how many of the arrays are not plain bytes in C
   order. The parts then say where the others lie; the address and the size of those stay 0. */
PyObject *xf_locate(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Part *parts;
    Py_ssize_t length, odd = 0;
    (void)module;
    if (count != 3 || !PyList_Check(given[0]) || !PyList_Check(given[1]) || PyList_Size(given[0]) != PyList_Size(given[1]))
        return PyErr_Format(PyExc_TypeError, "locate takes two lists of one length and an address");
    parts = (Part *)(uintptr_t)PyLong_AsUnsignedLongLong(given[2]);
    if (PyErr_Occurred())
        return NULL;
    length = PyList_Size(given[0]);
    for (Py_ssize_t i = 0; i < length; ++i) {
        Py_buffer host;
        Part *part = &parts[i];
        *part = (Part){.place = PyLong_AsLongLong(PyList_GetItem(given[1], i))};
        if (part->place == -1 && PyErr_Occurred())
            return NULL;
        if (PyObject_GetBuffer(PyList_GetItem(given[0], i), &host, PyBUF_SIMPLE)) {
            if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_BufferError))
                return NULL;
            PyErr_Clear();
            ++odd;
            continue;
        }
        part->host = host.buf;
        part->nbytes = host.len;
        PyBuffer_Release(&host);
    }
    return PyLong_FromSsize_t(odd);
}

/* (list of destinations, list of sources, list of sizes, stream) -> the driver's first result that is not 0. The GIL is
   released meanwhile: the driver blocks while the queue of the stream is full. */
PyObject *xf_copy_each(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const CopyEach *each = PyCapsule_GetPointer(self, NULL);
    Py_ssize_t length;
    uint64_t stream, *words;
    int result = 0;
    if (!each)
        return NULL;
    if (count != 4 || !PyList_Check(given[0]) || !PyList_Check(given[1]) || !PyList_Check(given[2]))
        return PyErr_Format(PyExc_TypeError, "copies take three lists and a stream");
    length = PyList_Size(given[0]);
    if (length != PyList_Size(given[1]) || length != PyList_Size(given[2]))
        return PyErr_Format(PyExc_TypeError, "copies take three lists of one length");
    stream = PyLong_AsUnsignedLongLong(given[3]);
    if (PyErr_Occurred())
        return NULL;
    words = malloc((size_t)(3 * length + 1) * sizeof *words);
    if (!words)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < 3 * length && !PyErr_Occurred(); ++i)
        words[i] = PyLong_AsUnsignedLongLong(PyList_GetItem(given[i % 3], i / 3));
    if (PyErr_Occurred()) {
        free(words);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < length && !result; ++i)
        result = each->copy(words[3 * i], words[3 * i + 1], words[3 * i + 2], stream);
    Py_END_ALLOW_THREADS
    free(words);
    return PyLong_FromLong(result);
}
