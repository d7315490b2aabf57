/* Whole transfers: see uploads.c, downloads.c and host_copies.c. */

#ifndef XFERLIB_TRANSFERS_H
#define XFERLIB_TRANSFERS_H

#include "tables.h"

PyObject *xf_sent(PyObject *x, PyObject *device, PyObject *backend, PyObject *out, PyObject *dtype, line *l);
PyObject *xf_fetched(PyObject *d, PyObject *out, int is_pinned, PyObject *dtype, line *on);
int xf_is_for_one_call(const description *src, const description *dst);
int xf_copy_on_host(const description *src, const description *dst);
PyObject *xf_copied_on_host(PyObject *x, const description *src, const description *arriving);

#endif
