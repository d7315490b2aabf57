/* The look-up of an array's namespace: see namespaces.c. */

#ifndef XFERLIB_NAMESPACES_H
#define XFERLIB_NAMESPACES_H

#include "lease.h"

typedef struct {
    PyMethodDef method;
    PyObject *doc;        /* holds the memory of the method's docstring */
    PyObject *by_type;    /* dict: exact type -> backend, or None for what is no array */
    PyObject *namespaces; /* dict: exact type -> namespace, for some types of the other */
    PyObject *look_up;    /* does the same for any arguments, and fills the tables */
} dispatch;               /* the module's state; both live as long as the process */

PyObject *xf_bind_namespaces(PyObject *module, PyObject *arguments);

#endif
