/* A copy on one stream behind the work of another: see courier.c. */

#ifndef XFERLIB_COURIER_H
#define XFERLIB_COURIER_H

#include "copier.h"

typedef struct {
    int (*record)(word, word);           /* event, stream */
    int (*wait)(word, word, word);       /* stream, event, 0 */
    int (*copy)(word, word, word, word); /* destination, source, bytes, stream */
    int (*current)(void **);             /* the thread's context */
    int (*enter)(void *);                /* makes a context the thread's */
} courier;

PyObject *xf_copy_behind(PyObject *self, PyObject *const *given, Py_ssize_t count);

#endif
