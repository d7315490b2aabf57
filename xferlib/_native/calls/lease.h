/* The lease of a block of the pinned pool: see lease.c. */

#ifndef XFERLIB_LEASE_H
#define XFERLIB_LEASE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

int xf_add_lease(PyObject *module);
PyObject *xf_lend(PyObject *module, PyObject *const *given, Py_ssize_t count);
void *xf_leased_memory(PyObject *lease);

#endif
