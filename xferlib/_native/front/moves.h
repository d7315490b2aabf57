/* Copies between an array in host memory and a device: see moves.c. */

#ifndef XFERLIB_MOVES_H
#define XFERLIB_MOVES_H

#include "tables.h"

int xf_move(end *e, spreader *s, const description *host, int wanted, word device, const line *l, int is_fresh);
int xf_choose_step(end *e, const description *host, int wanted, word device, int is_upward, kernel_step *found);
int xf_is_held(end *e, const line *l, PyObject *array, PyObject *source, Py_ssize_t nbytes);
int xf_send_as_is(end *e, const line *l, PyObject *x, const description *src, int wanted, word device, PyObject *array,
                      int is_new);
int xf_move_in_steps(end *e, PyObject *x, const description *host, word device, const line *l, int is_fresh,
                         const kernel_step *s);

#endif
