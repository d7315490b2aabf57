/* Threads at the end of the interpreter: see ending.c. */

#ifndef XFERLIB_ENDING_H
#define XFERLIB_ENDING_H

#include "lease.h"

PyObject *xf_guard_thread(PyObject *module, PyObject *ignored);
PyObject *xf_end_threads(PyObject *module, PyObject *ignored);

#endif
