/* The usual calls of to_device and to_host in one call of C: see front.c. */

#ifndef XFERLIB_FRONT_H
#define XFERLIB_FRONT_H

#include "../calls/lease.h"

PyObject *xf_bind_front(PyObject *module, PyObject *arguments);
PyObject *xf_add_library(PyObject *module, PyObject *arguments);
PyObject *xf_add_end(PyObject *module, PyObject *arguments);
int xf_is_mapped(PyObject *array);
PyObject *xf_small_copy(PyObject *object, Py_ssize_t most);
PyObject *xf_fetch_pinned(PyObject *module, PyObject *arrays);
PyObject *xf_forget_ends(PyObject *module, PyObject *ignored);

#endif
