/* Comparisons of arrays with earlier ones: see alike.c. */

#ifndef XFERLIB_ALIKE_H
#define XFERLIB_ALIKE_H

#include "lease.h"

PyObject *xf_bind_alike(PyObject *module, PyObject *arguments);
PyObject *xf_bind_plain(PyObject *module, PyObject *arguments);

#endif
