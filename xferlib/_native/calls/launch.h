/* Repeated launches of kernels: see launch.c. */

#ifndef XFERLIB_LAUNCH_H
#define XFERLIB_LAUNCH_H

#include "lease.h"

PyObject *xf_bind_launch(PyObject *module, PyObject *arguments);

#endif
