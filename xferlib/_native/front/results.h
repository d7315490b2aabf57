/* New arrays: see results.c. */

#ifndef XFERLIB_RESULTS_H
#define XFERLIB_RESULTS_H

#include "tables.h"

PyObject *xf_host_array(const description *d, void *memory, PyObject *base);
PyObject *xf_made_on_cpu(const end *e, const description *d);
PyObject *xf_made_on(const end *e, const line *l, const description *d, int is_between);
word xf_address_of(const end *e, PyObject *array);
PyObject *xf_pinned_array(const end *e, const description *d);
PyObject *xf_host_result(const end *e, const description *d, int *is_fresh);
int xf_note_write(const library *l, PyObject *array);

#endif
