/* Which device a call means, and whether C may use it: see ends.c. */

#ifndef XFERLIB_ENDS_H
#define XFERLIB_ENDS_H

#include "tables.h"

unsigned long long xf_circumstances(void);
int xf_may_skip(void);
int xf_is_answered(PyObject *question, int if_none);
int xf_is_at_hand(const end *e, line *l);
int xf_read_line(PyObject *stream, line *l);
void xf_forget_line(const line *l);
int xf_follow(void);
end *xf_default_end(void);
end *xf_find_end(PyObject *device);
end *xf_resolved_end(PyObject *device, PyObject *backend);
const library *xf_find_library(PyObject *array);
end *xf_end_of(const library *l, const description *d);

#endif
