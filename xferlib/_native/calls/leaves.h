/* The leaves of a tree: see leaves.c. */

#ifndef XFERLIB_LEAVES_H
#define XFERLIB_LEAVES_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

typedef struct {
    int (*copy)(uint64_t dst, uint64_t src, uint64_t nbytes, uint64_t stream);
} CopyEach;

PyObject *xf_flat(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_rebuilt(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_is_distinct(PyObject *module, PyObject *list);
PyObject *xf_copied(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_locate(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_copy_each(PyObject *self, PyObject *const *given, Py_ssize_t count);

#endif
