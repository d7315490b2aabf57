/* What the C files of this folder and of `replay` know of one another: each file's head says what it is for. */

#ifndef XFERLIB_CALLS_H
#define XFERLIB_CALLS_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

typedef uint64_t word;

typedef struct {
    int (*copy)(word, word, size_t); /* destination, source, bytes */
    int (*current)(void **);         /* the thread's context */
    int (*query)(void *);            /* whether a stream is idle; NULL: not asked */
    int (*wait)(void *);             /* until a stream is; NULL: no copies on a stream of the program's own */
    int (*is_captured)(void *, int *); /* whether a graph records a stream, 0 if not; NULL: it never does */
    int (*attribute)(void *, unsigned, word); /* of an address; NULL: no memory is pinned */
    int (*enqueue)(word, word, size_t, void *); /* reads ordinary memory before it returns; NULL: not tried */
    int is_upward;
    unsigned in_vain; /* calls since a wait for the stream was in vain; 0: none was */
    unsigned behind_in_vain; /* the same of waits behind a copy */
} copier;

typedef struct {
    copier copier;
    union {
        void (*gather)(const void *, const char *, int64_t, int64_t, char *, int);
        void (*scatter)(const void *, char *, int64_t, int64_t, const char *, int);
    } c; /* of strided.c */
} spreader;

enum { NOT_ASKED = -1 };
enum { PINNED = 1 }; /* CUDA's CU_MEMORYTYPE_HOST */

typedef struct {
    int (*record)(word, word);           /* event, stream */
    int (*wait)(word, word, word);       /* stream, event, 0 */
    int (*copy)(word, word, word, word); /* destination, source, bytes, stream */
    int (*current)(void **);             /* the thread's context */
    int (*enter)(void *);                /* makes a context the thread's */
} courier;

typedef struct {
    int (*copy)(word dst, word src, word nbytes, word stream);
} CopyEach;

typedef struct {
    PyMethodDef method;
    PyObject *doc;        /* holds the memory of the method's docstring */
    PyObject *by_type;    /* dict: exact type -> backend, or None for what is no array */
    PyObject *namespaces; /* dict: exact type -> namespace, for some types of the other */
    PyObject *look_up;    /* does the same for any arguments, and fills the tables */
} dispatch;               /* the module's state; both live as long as the process */

/* --- the module's functions */

PyObject *xf_bind_alike(PyObject *module, PyObject *arguments);
PyObject *xf_bind_plain(PyObject *module, PyObject *arguments);
PyObject *xf_bind_launch(PyObject *module, PyObject *arguments);
PyObject *xf_bind_namespaces(PyObject *module, PyObject *arguments);
PyObject *xf_copied(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_copy_behind(PyObject *self, PyObject *const *given, Py_ssize_t count);
PyObject *xf_copy_each(PyObject *self, PyObject *const *given, Py_ssize_t count);
PyObject *xf_end_threads(PyObject *module, PyObject *ignored);
PyObject *xf_flat(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_guard_thread(PyObject *module, PyObject *ignored);
PyObject *xf_is_distinct(PyObject *module, PyObject *list);
PyObject *xf_lend(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_locate(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_rebuilt(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* --- for the other files */

int xf_add_lease(PyObject *module);
int xf_is_word(PyObject *given, word *found);
void *xf_leased_memory(PyObject *lease);
int xf_kind_of(const copier *c, const char *host);
int xf_copy(copier *c, word device, word memory, size_t nbytes, void *stream);
int xf_is_over(copier *c, void *stream);
int xf_fetch_through(copier *c, char *host, word device, size_t nbytes, word memory, void *stream);
int xf_spread(spreader *s, const void *layout, char *host, word count, word device, size_t nbytes, word memory, void *stream,
              int is_ordinary);

#endif
