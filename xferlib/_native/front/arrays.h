/* Descriptions of arrays: see arrays.c. */

#ifndef XFERLIB_ARRAYS_H
#define XFERLIB_ARRAYS_H

#include "tables.h"

int xf_see_host(PyObject *array, description *d);
int xf_see_swapped(PyObject *array, description *d);
int xf_see(const library *l, PyObject *array, description *d);
int xf_is_lent(PyObject *array);
int xf_are_alike(const description *one, const description *other);
int xf_may_overlap_itself(const description *d);
void xf_describe_again(description *other, const description *d);
int xf_is_converted(const description *src, int number, description *arriving);
int xf_is_dense(const description *d);
int xf_element_of(PyObject *dtype);
void xf_lay_out(const description *d, int wanted, Layout *layout);

#endif
