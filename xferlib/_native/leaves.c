/* The leaves of a tree: where they lie on the host, and copies of many of them in one call.

   A tree of a thousand arrays pays for each step a thousand times: the address of an array costs Python half a
   microsecond, and a copy that is enqueued one and a half. Here they cost 50 ns, and what the driver takes. */

#include "leaves.h"

#include <stdlib.h>

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
